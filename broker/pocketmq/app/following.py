"""Builds a broker's connection to its leader, or to the former leader that it fences."""

from collections.abc import Awaitable, Callable

from pocketmq.app.dialling import dial_of, is_master, master_dial_of
from pocketmq.config.sections import Config
from pocketmq.model.step import Clock
from pocketmq.rpc.replication.fencing import Claim, Fencer
from pocketmq.rpc.replication.following import FollowerLink
from pocketmq.rpc.replication.following_master import MasterLink
from pocketmq.services.replication.followers import Greeting
from pocketmq.services.replication.table_copy import TableCopy
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.copied_files import ACCESS
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import Fence, TermTable


def following_of(
    store: MessageStore,
    config: Config,
    clock: Clock,
    identity: StoreIdentity,
    terms: TermTable,
    cut: Callable[[int], None],
    reload_users: Callable[[], None],
) -> FollowerLink:
    """Returns the connection through which an open store copies its leader.

    clock          real time, for signatures
    cut            called with the physical offset at which the log must be cut, if it has diverged
    reload_users   applies the users of the leader
    Errors   IllegalConfig: the secret cannot be read
    """

    def reload(name: str) -> None:
        if name == ACCESS:
            reload_users()
        else:
            store.reload(name)

    tables = TableCopy(store.tables.files, reload, store.drop_removed)
    leader = store.settings.leader
    if is_master(leader):
        return MasterLink(store, master_dial_of(leader, config), identity, terms, tables, cut)
    return FollowerLink(store, dial_of(leader, config, clock), identity, terms, tables, cut)


def fencer_of(
    config: Config,
    clock: Clock,
    identity: StoreIdentity,
    terms: TermTable,
    greeting: Greeting,
    give_up: Callable[[Fence], Awaitable[None]],
) -> Fencer | None:
    """Returns a task that reports a promoted broker's term to its former leader.

    clock    real time, for signatures
    give_up  called with a later term of the former leader
    Returns  None: the former leader is a master of RocketMQ
    Errors   IllegalConfig: the secret cannot be read
    """
    assert terms.leader, "the broker followed no leader"
    if is_master(terms.leader):
        return None
    size_bytes = config.store.commit_log_file_size_bytes
    claim = Claim(identity, terms, size_bytes, greeting.address, give_up)
    return Fencer(dial_of(terms.leader, config, clock), claim)
