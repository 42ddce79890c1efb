"""Opens connections to other brokers: TLS with the system's certificates, and a signed hello."""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pocketmq.config.relations import unreadable
from pocketmq.config.sections import Config
from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY, authorization_of, date_from_ms
from pocketmq.model.endpoint import ROCKETMQ, ROOTS, TLS
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.step import Clock
from pocketmq.rpc.replication.following import READ_SIZE, Dial, Streams
from pocketmq.services.replication.handshake import token_of


def dial_of(leader: str, config: Config, clock: Clock) -> Dial:
    """Returns the functions that connect to a PocketMQ leader.

    clock    real time, for signatures
    Errors   IllegalConfig: the secret cannot be read
    """
    signer = _signer(config)

    def token() -> str:
        user, secret = signer()
        if not user:
            return ""
        date = date_from_ms(clock.wall_ms())
        signed = authorization_of(user, secret, date)
        return token_of(((DATE_KEY, date), (AUTHORIZATION_KEY, signed)))

    return Dial(leader, partial(_dial, leader), token)


def is_master(leader: str) -> bool:
    """Returns whether an endpoint is of a master of RocketMQ, which cannot be fenced."""
    return leader.startswith(ROCKETMQ)


def master_dial_of(leader: str, config: Config) -> Dial:
    """Returns the functions that connect to the ports of a master of RocketMQ.

    Errors   IllegalConfig: the secret cannot be read
    """
    address = leader.removeprefix(ROCKETMQ)
    host = address.rpartition(":")[0]

    def other(port: int) -> Awaitable[Streams]:
        return _dial(f"{host}:{port}")

    return Dial(leader, partial(_dial, address), open_port=other, signer=_signer(config))


def _signer(config: Config) -> Callable[[], tuple[str, str]]:
    """Returns a function that returns (access key, secret): ("", "") without a user.

    The secret is read at each call, so that a changed one needs no restart. If that fails, the
    last secret is used: the file may be replaced at that moment.
    Errors   IllegalConfig: the secret cannot be read now
    """
    user = config.replication.user
    if not user:
        return lambda: ("", "")
    secret = _secret(config)

    def signer() -> tuple[str, str]:
        nonlocal secret
        with suppress(IllegalConfig):
            secret = _secret(config)
        return user, secret

    return signer


def _secret(config: Config) -> str:
    path = config.replication.secret_path
    if not path:
        why = f"it is empty, and the user {config.replication.user!r} signs with the secret in it"
        raise IllegalConfig(field="replication.secret_path", why=why)
    try:
        return Path(path).expanduser().read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise unreadable(config, "replication.secret_path", error) from error


async def _dial(leader: str) -> Streams:
    host, _, port = leader.removeprefix(TLS).rpartition(":")
    context = None
    if leader.startswith(TLS):
        context = ssl.create_default_context(cafile=os.environ.get(ROOTS) or None)
    host = host.removeprefix("[").removesuffix("]")
    return await asyncio.open_connection(host, int(port), ssl=context, limit=READ_SIZE)
