"""One form of the battery `forms`: serves requests to itself and tells a digest of every answer.

python -m torture.forms_served own|grpcio SEED      KIND ok|refused DIGEST, a line each, for ever
"""

import asyncio
import re
import sys
from hashlib import sha256
from random import Random
from typing import Final

import grpc

from pocketmq.rpc.grpcio.server import GrpcioServer
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import DETAILS_KEY
from tests.kit.pull_requests import PullMaker
from tests.kit.send_requests import RequestMaker, twins
from tests.kit.store_broker import connected, running
from torture.forms import PULLS, SENDS
from torture.sends import LIFE, SETTINGS

SERVERS: Final = {"own": OwnServer, "grpcio": GrpcioServer}
BROKER: Final = "/pocketmq.v1.Broker/"
METHODS: Final = {SENDS: BROKER + "SendMessage", PULLS: BROKER + "PullMessage"}
PULL_SHARE: Final = 0.5
PACKED: Final = re.compile(rb"\x7f\0\0\x01\0\0..", re.DOTALL)
WRITTEN: Final = re.compile(rb"127\.0\.0\.1:\d{5}")
"""A client's address, as records and as messages have it: its port is another each time."""


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
        await settled()  # What can be pulled is what was sent.
        print(kind, verdict, sha256(answer).hexdigest()[:16], flush=number % 32 == 0)


async def _answered(channel: grpc.aio.Channel, method: str, raw: bytes) -> tuple[str, bytes]:
    """Returns how a call ended, and what it told but for the client's port."""
    call = channel.unary_unary(method)(raw)
    try:
        answer: bytes = await call
    except grpc.aio.AioRpcError as error:
        details = dict(error.trailing_metadata() or ()).get(DETAILS_KEY, b"")
        shown = details if isinstance(details, bytes) else details.encode()
        told = bytes(sorted(shown))  # The order of a map in it is arbitrary.
        return "refused", f"{error.code()} {error.details()} ".encode() + told
    if method == METHODS[PULLS]:  # Properties are a map as well.
        found = pb.PullMessageResponse.FromString(answer)
        answer = b"%d " % len(answer) + found.SerializeToString(deterministic=True)
    return "ok", PACKED.sub(b"", WRITTEN.sub(b"", answer))


def main() -> None:
    """Serves until the reader of standard output is gone."""
    transport, seed = sys.argv[1:]
    asyncio.run(_serve_lives(transport, int(seed)))


if __name__ == "__main__":
    main()
