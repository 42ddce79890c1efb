"""The services of a broker, from which each protocol version takes those it needs."""

from collections.abc import Callable
from typing import NamedTuple

from pocketmq.model.errors import GroupNotFound
from pocketmq.services.admin.members import Members
from pocketmq.services.admin.rates import Rates
from pocketmq.services.consume.consume import Consume
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull
from pocketmq.services.query import Query
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.message_store import MessageStore
from pocketmq.store.tables.groups import GroupTable


class Services(NamedTuple):
    """An open store and the services on it."""

    store: MessageStore
    send: Send
    pull: Pull
    query: Query
    consume: Consume
    members: Members
    sessions: Sessions
    transactions: Transactions
    rates: Rates


async def ensure_group(groups: GroupTable, group: str, is_allowed: Callable[[], bool]) -> None:
    """Creates a group, if it is missing and groups are created on demand.

    is_allowed   returns whether groups are created on demand
    Errors       IllegalGroup, GroupNotFound, LimitReached, DiskFull
    Source       SubscriptionGroupManager.findSubscriptionGroupConfig
    """
    if groups.find(group) is None:
        if not is_allowed():
            raise GroupNotFound(group=group)
        await groups.ensure(group)
