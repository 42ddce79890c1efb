"""The follower's side of replication in a broker: which leader it has, and how it reaches that."""

import asyncio
import os
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pocketmq.config.sections import Config
from pocketmq.format.signature import AUTHORIZATION_KEY, DATE_KEY, authorization_of, date_from_ms
from pocketmq.model.endpoint import TLS
from pocketmq.model.errors import IllegalConfig
from pocketmq.model.replication import FOLLOWER
from pocketmq.model.step import Clock
from pocketmq.rpc.replication.following import Dial, FollowerLink, Streams
from pocketmq.services.replication.handshake import token_of
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import TermTable

ROOTS: Final = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""Environment variable with the file of root certificates, as of gRPC's clients."""


def leader_of(config: Config, terms: TermTable) -> str:
    """Returns the endpoint of the broker's leader; "" if the broker leads.

    A role that an operator chose replaces the setting. A fenced broker follows only once an
    operator says so.
    """
    if terms.fence is not None:
        return terms.fence.leader or "another broker"
    if terms.role:
        return terms.leader if terms.role == FOLLOWER else ""
    return config.replication.leader


def following_of(
    store: MessageStore,
    config: Config,
    clock: Clock,
    identity: StoreIdentity,
    terms: TermTable,
    cut: Callable[[int], None],
    reload: Callable[[str], None],
) -> FollowerLink:
    """Returns the follower's side of an open store.

    cut      called with the physical offset at which the log must be cut
    clock    real time, for signatures
    reload   reads the table of a file again
    Errors   IllegalConfig: the secret cannot be read
    """
    tables = TableCopy(store.tables.files, reload, store.drop_removed)
    dial = dial_of(store.settings.leader, config, clock)
    return FollowerLink(store, dial, identity, terms, tables, cut)


def dial_of(leader: str, config: Config, clock: Clock) -> Dial:
    """Returns how a broker reaches another one.

    clock    real time, for signatures
    Errors   IllegalConfig: the secret cannot be read
    """
    user = config.replication.user
    secret = _secret(config) if user else ""

    def token() -> str:
        if not user:
            return ""
        date = date_from_ms(clock.wall_ms())
        signed = authorization_of(user, secret, date)
        return token_of(((DATE_KEY, date), (AUTHORIZATION_KEY, signed)))

    return Dial(leader, partial(_dial, leader), token)


def _secret(config: Config) -> str:
    path = config.replication.secret_path
    try:
        return Path(path).expanduser().read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        why = f"{path} cannot be read: {error}"
        raise IllegalConfig(field="replication.secret_path", why=why) from error


async def _dial(leader: str) -> Streams:
    host, _, port = leader.removeprefix(TLS).rpartition(":")
    context = None
    if leader.startswith(TLS):
        context = ssl.create_default_context(cafile=os.environ.get(ROOTS) or None)
    host = host.removeprefix("[").removesuffix("]")
    return await asyncio.open_connection(host, int(port), ssl=context)
