"""Compares the replies of equal brokers, byte by byte, to valid and damaged requests.

sends   two equal brokers, of which one uses the shortcut where possible. Lives with requests of
        pocketmq.v1 and of RocketMQ's protocol alternate. Replies, errors, records, queues and
        index files must be equal
forms   three processes with equal brokers behind a socket: compiled on PocketMQ's transport,
        uncompiled on it, and compiled on grpcio. Each prints a digest of every reply

python -m torture.forms own|grpcio SEED      runs one form; each line is KIND ok|refused DIGEST
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import IO, Any, Final

import grpc

from harness.budget import Budget, NotHere
from harness.process import environment, module
from pocketmq.native import PURE_VARIABLE, is_compiled, why_not_compiled
from pocketmq.rpc.grpcio.server import GrpcioServer
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import DETAILS_KEY
from tests.kit.official_requests import OfficialMaker, official_twin
from tests.kit.pull_requests import PullMaker
from tests.kit.send_requests import RequestMaker, hold_alike, own_twin, served_alike, twins
from tests.kit.store_broker import connected, running

LIFE: Final = 400
"""Requests of a life, after which the files of both stores are compared."""
SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"flush": "async"},
    {"flush": "sync", "index_style": "5.3"},
    {"flush": "async", "index_slot_count": 40, "index_entry_count_max": 100},
    {
        "flush": "async",
        "consume_queue_extension": True,
        "consume_queue_extension_file_size_bytes": 1 << 12,
    },
)
FORMS: Final = {
    "compiled": ("own", "0"), "sources": ("own", "1"), "on grpcio": ("grpcio", "0"),
}  # fmt: skip
SENDS, PULLS, REFUSED = "sends", "pulls", "refused"
SERVERS: Final = {"own": OwnServer, "grpcio": GrpcioServer}
BROKER: Final = "/pocketmq.v1.Broker/"
METHODS: Final = {SENDS: BROKER + "SendMessage", PULLS: BROKER + "PullMessage"}
PULL_SHARE: Final = 0.5
PACKED: Final = re.compile(rb"\x7f\0\0\x01\0\0..", re.DOTALL)
WRITTEN: Final = re.compile(rb"127\.0\.0\.1:\d{5}")
"""A client's address in records and messages; its port differs from run to run."""


def sends(place: Path, budget: Budget) -> dict[str, Any]:
    """Serves requests until `budget.cases` are done or the time is over.

    Errors   AssertionError: a difference, with the request in hexadecimal
    """
    count = taken = life = 0
    while count < budget.cases and (life == 0 or budget.left()):
        settings = SETTINGS[life // 2 % len(SETTINGS)]
        taken += asyncio.run(_life(Random(f"{budget.seed} {life}"), settings, life % 2 > 0))
        count, life = count + LIFE, life + 1
        budget.progress(f"{count} requests, {taken} by the shortcut")
    assert taken > count / 2, "most requests are plain"
    return {"requests": count, "by the shortcut": taken, "compiled": is_compiled()}


async def _life(random: Random, settings: dict[str, Any], is_official: bool) -> int:
    """Serves one life; returns the number of requests that took the shortcut."""
    maker = OfficialMaker(random) if is_official else RequestMaker(random)
    make = official_twin if is_official else own_twin
    async with twins(make, **settings) as (quick, usual):
        for number in range(LIFE):
            await served_alike(quick, usual, maker.some())
            if not number % 50:
                passed_ms = random.choice((0, 1, 999))
                for twin in (quick, usual):
                    await twin.broker.talking.settled()  # Names of index files depend on the clock.
                    twin.broker.clock.advance(passed_ms)
        await hold_alike(quick, usual)
        return quick.shortcut_count


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Serves requests until `budget.cases` are done or the time is over.

    Errors   AssertionError: a difference; NotHere: nothing runs compiled
    """
    if why_not_compiled():
        raise NotHere(f"nothing runs compiled: {why_not_compiled()}")
    counts = {SENDS: 0, PULLS: 0, REFUSED: 0}
    with ExitStack() as stack:
        told = [_answers(stack, place, budget.seed, *form) for form in FORMS.values()]
        for lines in zip(*told, strict=True):
            number = sum(counts.values())
            assert len(set(lines)) == 1, f"request {number}: {dict(zip(FORMS, lines, strict=True))}"
            kind, verdict, _ = lines[0].split()
            counts[kind if verdict == "ok" else REFUSED] += 1
            budget.progress(f"{counts}")
            if number + 1 >= budget.cases or not budget.left():
                break
    return {"requests": sum(counts.values()), **counts, "bytes that differ": 0}


def _answers(stack: ExitStack, place: Path, seed: int, transport: str, pure: str) -> Iterator[str]:
    """Starts a form; yields a line for each reply."""
    command = module("torture.forms", transport, seed)
    said = stack.enter_context((place / f"{transport}-{pure}").open("w+", encoding="utf-8"))
    process = subprocess.Popen(
        command, env=environment(more={PURE_VARIABLE: pure}), stdout=subprocess.PIPE, stderr=said,
        text=True,
    )  # fmt: skip
    stack.callback(_end, process)
    return _lines(process, said)


def _lines(process: subprocess.Popen[str], said: IO[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout
    said.seek(0)
    raise AssertionError(f"a form ended\n{said.read()[-4_000:]}")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


# -- one of the forms ------------------------------------------------------------------------------
async def _serve_lives(transport: str, seed: int) -> None:
    life = 0
    while True:
        random = Random(f"{seed} {life}")
        settings = SETTINGS[life % len(SETTINGS)]
        async with twins(**settings) as (_, twin):
            server = SERVERS[transport](twin.broker.services())
            async with running(server) as address, connected(address) as channel:
                server.show_ready(writable=True)
                await _live(random, channel, twin.broker.talking.settled)
        life += 1


async def _live(random: Random, channel: grpc.aio.Channel, settled: object) -> None:
    sends, pulls = RequestMaker(random), PullMaker(random)
    assert callable(settled)
    for number in range(LIFE):
        kind = PULLS if random.random() < PULL_SHARE else SENDS
        raw = pulls.some(number) if kind == PULLS else sends.some()
        verdict, answer = await _answered(channel, METHODS[kind], raw)
        await settled()  # Waits until all sent messages can be pulled.
        print(kind, verdict, sha256(answer).hexdigest()[:16], flush=number % 32 == 0)


async def _answered(channel: grpc.aio.Channel, method: str, raw: bytes) -> tuple[str, bytes]:
    """Returns a call's outcome and its reply, without the client's port."""
    call = channel.unary_unary(method)(raw)
    try:
        answer: bytes = await call
    except grpc.aio.AioRpcError as error:
        details = dict(error.trailing_metadata() or ()).get(DETAILS_KEY, b"")
        shown = details if isinstance(details, bytes) else details.encode()
        told = bytes(sorted(shown))  # The order of a map in it is arbitrary.
        return "refused", f"{error.code()} {error.details()} ".encode() + told
    if method == METHODS[PULLS]:  # Properties are also a map.
        found = pb.PullMessageResponse.FromString(answer)
        answer = b"%d " % len(answer) + found.SerializeToString(deterministic=True)
    return "ok", PACKED.sub(b"", WRITTEN.sub(b"", answer))


def main() -> None:
    """Serves until the reader of standard output has ended."""
    transport, seed = sys.argv[1:]
    asyncio.run(_serve_lives(transport, int(seed)))


if __name__ == "__main__":
    main()
