"""The plan of calls for gRPC clients of several languages, and the check of their results.

A client reads a plan, a JSON list of calls, and prints a list of results. Requests and answers are
protobuf bytes in base64.

    call     name, method, requests, metadata, deadline_ms, gzip, stream (many answers), cancel_ms
             (time of a cancellation), cancel_after (answers before it), times (concurrent calls)
    result   name, codes (one for each concurrent call), text, answers, trailers (of one call)
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha import reflection_pb2

from pocketmq.rpc.pb import broker_pb2 as pb

BROKER: Final = "/pocketmq.v1.Broker/"
HEALTH: Final = "/grpc.health.v1.Health/"
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
TOPIC: Final = "foreign"
LARGE_BYTES: Final = 3 * 1024 * 1024
AT_ONCE: Final = 200
DEADLINE_MS: Final = 20_000
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, UNIMPLEMENTED = 0, 1, 3, 4, 12
REQUEST_ID: Final = "von-außen".encode().hex()
SERVING: Final = [HealthCheckResponse(status=HealthCheckResponse.SERVING).SerializeToString()]
BODIES: Final = (bytes(range(256)), "Grüße 取消 🚀".encode(), b"x")


class Call(NamedTuple):
    """One call of the plan, and the check of its last answers."""

    name: str
    method: str
    requests: tuple[bytes, ...]
    code: int = OK
    check: Callable[[list[bytes], Mapping[str, Any]], bool] = lambda answers, trailers: True
    metadata: Mapping[str, str] = {}
    deadline_ms: int = DEADLINE_MS
    gzip: bool = False
    stream: bool = False
    cancel_ms: int = 0
    cancel_after: int = 0
    times: int = 1

    def document(self) -> dict[str, Any]:
        """Returns the call as JSON for clients."""
        own = {key: value for key, value in self._asdict().items() if key not in ("code", "check")}
        return own | {"requests": [base64.b64encode(one).decode() for one in self.requests]}

    def verdict(self, result: Mapping[str, Any]) -> str:
        """Returns "ok", or the error in a result."""
        codes = set(result["codes"])
        if codes != {self.code}:
            return f"codes {sorted(codes)}, not {self.code}: {result['text']}"
        answers = [base64.b64decode(one) for one in result["answers"] or []]
        trailers = {name.lower(): value for name, value in (result["trailers"] or {}).items()}
        return "ok" if self.check(answers, trailers) else f"other answers: {str(answers)[:200]}"


def plan(topic: str) -> list[Call]:
    """Returns all calls; each client has its own `topic`, so that it finds its own messages."""
    return [*_messages(topic), *_endings(topic), *_probes(topic), _last_of_many(topic)]


def _messages(topic: str) -> Iterable[Call]:
    """Sends and pulls of equal messages: bytes, letters, large, compressed, many at once."""
    tag, keys = "Ünï", ["clé", "鍵"]
    sent = [pb.Message(topic=topic, queue_id=0, body=body, tag=tag, keys=keys) for body in BODIES]
    large = pb.Message(topic=topic, queue_id=1, body=bytes(LARGE_BYTES), tag="large")
    yield Call("send", f"{BROKER}SendMessage", (_sending(*sent),), check=_sent(len(sent)))
    yield Call("pull", f"{BROKER}PullMessage", (_pulling(topic, 0),), check=_pulled(sent))
    yield Call("send 3 MiB", f"{BROKER}SendMessage", (_sending(large),), check=_sent(1))
    yield Call("pull 3 MiB", f"{BROKER}PullMessage", (_pulling(topic, 1),), check=_pulled([large]))
    packed = [pb.Message(topic=topic, queue_id=2, body=b"again and " * 6_000)]
    yield Call(
        "send, gzip", f"{BROKER}SendMessage", (_sending(*packed),), check=_sent(1), gzip=True
    )  # fmt: skip
    yield Call(
        "pull what was gzip", f"{BROKER}PullMessage", (_pulling(topic, 2),), check=_pulled(packed)
    )
    yield Call(
        f"{AT_ONCE} sends at once",
        f"{BROKER}SendMessage",
        (_sending(_one_of_many(topic)),),
        times=AT_ONCE,
    )


def _endings(topic: str) -> Iterable[Call]:
    """Calls that end with an error."""
    yield Call(
        "refused, with details and request id", f"{BROKER}SendMessage", (_sending(),),
        INVALID_ARGUMENT, _is_refusal, {"x-request-id": REQUEST_ID},
    )  # fmt: skip
    yield Call("unknown method", f"{BROKER}NoSuchMethod", (b"",), UNIMPLEMENTED)
    yield Call("unknown service", "/no.such.Service/Method", (b"",), UNIMPLEMENTED)
    waiting = _pulling(topic, 7, wait_ms=20_000)
    yield Call(
        "poll, answered before its deadline", f"{BROKER}PullMessage", (waiting,),
        check=_is_empty, deadline_ms=600,
    )  # fmt: skip
    yield Call(
        "deadline", f"{HEALTH}Watch", (b"",), DEADLINE_EXCEEDED, _answers(SERVING),
        deadline_ms=300, stream=True,
    )  # fmt: skip
    yield Call("cancelled", f"{BROKER}PullMessage", (waiting,), CANCELLED, cancel_ms=200)


def _probes(topic: str) -> Iterable[Call]:
    """Health and reflection: streams, and binary metadata."""
    whole = HealthCheckRequest().SerializeToString()
    check = _answers(SERVING)
    yield Call("health", f"{HEALTH}Check", (whole,), check=check)
    yield Call(
        "binary metadata", f"{HEALTH}Check", (whole,), check=check,
        metadata={"x-own-bin": "\u0001\u007f", "x-own": "text"},
    )  # fmt: skip
    yield Call(
        "health watched, then cancelled", f"{HEALTH}Watch", (whole,), CANCELLED, check,
        stream=True, cancel_after=1,
    )  # fmt: skip
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services="*"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="pocketmq.v1.Broker"),
    ]
    yield Call(
        "reflection, a stream of questions", REFLECTION,
        tuple(one.SerializeToString() for one in asked),
        check=lambda answers, _: len(answers) == 2 and b"pocketmq.v1.Broker" in answers[0],
        stream=True,
    )  # fmt: skip


def _one_of_many(topic: str) -> pb.Message:
    return pb.Message(topic=topic, queue_id=3, body=b"one of many")


def _last_of_many(topic: str) -> Call:
    """The plan's last call, when dispatch has certainly reached the message."""
    asked = pb.PullMessageRequest(topic=topic, queue_id=3, offset=AT_ONCE - 1).SerializeToString()
    check = _pulled([_one_of_many(topic)])
    return Call("the last of them pulled", f"{BROKER}PullMessage", (asked,), check=check)


def _sending(*messages: pb.Message) -> bytes:
    return pb.SendMessageRequest(messages=messages).SerializeToString()


def _pulling(topic: str, queue_id: int, wait_ms: int = 2_000) -> bytes:
    request = pb.PullMessageRequest(topic=topic, queue_id=queue_id, wait_ms=wait_ms)
    return request.SerializeToString()


def _sent(count: int) -> Callable[[list[bytes], Mapping[str, Any]], bool]:
    return lambda answers, _: len(pb.SendMessageResponse.FromString(answers[0]).results) == count


def _pulled(sent: list[pb.Message]) -> Callable[[list[bytes], Mapping[str, Any]], bool]:
    wanted = [(one.body, one.tag, [*one.keys]) for one in sent]

    def check(answers: list[bytes], _: Mapping[str, Any]) -> bool:
        found = pb.PullMessageResponse.FromString(answers[0]).messages
        return [(one.body, one.tag, [*one.keys]) for one in found] == wanted

    return check


def _answers(wanted: list[bytes]) -> Callable[[list[bytes], Mapping[str, Any]], bool]:
    return lambda answers, _: answers == wanted


def _is_empty(answers: list[bytes], _: Mapping[str, Any]) -> bool:
    return pb.PullMessageResponse.FromString(answers[0]).status == pb.NO_NEW_MESSAGE


def _is_refusal(answers: list[bytes], trailers: Mapping[str, Any]) -> bool:
    said = str(trailers.get("x-request-id"))
    return "grpc-status-details-bin" in trailers and REQUEST_ID in said
