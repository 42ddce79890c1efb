"""Makes the calls of a plan (calls.py) with grpc-python, and prints their results.

python -m torture.foreign.client HOST:PORT < PLAN > RESULTS
"""

import base64
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Timer
from typing import Any

import grpc

SIZE_MAX = 16 << 20


def made(channel: Any, one: dict[str, Any]) -> dict[str, Any]:
    """Makes one call."""
    requests = [base64.b64decode(text) for text in one["requests"]]
    options: dict[str, Any] = {
        "metadata": [
            (name, value.encode() if name.endswith("-bin") else value)
            for name, value in one["metadata"].items()
        ],
        "timeout": one["deadline_ms"] / 1000,
        "compression": grpc.Compression.Gzip if one["gzip"] else None,
    }
    answers: list[bytes] = []
    if one["stream"]:
        call: Any = channel.stream_stream(one["method"])(iter(requests), **options)
    else:
        call = channel.unary_unary(one["method"]).future(requests[0], **options)
    if one["cancel_ms"]:
        Timer(one["cancel_ms"] / 1000, call.cancel).start()
    failed: Any = (grpc.RpcError, grpc.FutureCancelledError)  # type: ignore[attr-defined]
    try:
        for answer in call if one["stream"] else [call.result()]:
            answers.append(answer)
            if len(answers) == one["cancel_after"]:
                call.cancel()
    except failed:
        pass  # The status code is the result.
    return {
        "code": call.code().value[0],
        "text": call.details() or "",
        "answers": [base64.b64encode(answer).decode() for answer in answers],
        "trailers": {name: [str(value)] for name, value in call.trailing_metadata() or ()},
    }


def main(target: str) -> None:
    """Makes all calls, concurrent ones concurrently."""
    sizes = ("grpc.max_receive_message_length", "grpc.max_send_message_length")
    results = []
    with grpc.insecure_channel(target, options=[(name, SIZE_MAX) for name in sizes]) as channel:
        for one in json.load(sys.stdin):
            with ThreadPoolExecutor(one["times"]) as pool:
                found = [*pool.map(lambda each: made(channel, each), [one] * one["times"])]
            codes = [each["code"] for each in found]
            results.append({**found[-1], "name": one["name"], "codes": codes})
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
