"""The services of a broker, from which each protocol version takes those it needs."""

from typing import NamedTuple

from pocketmq.services.admin.members import Members
from pocketmq.services.admin.rates import Rates
from pocketmq.services.consume.consume import Consume
from pocketmq.services.produce.send import Send
from pocketmq.services.pull import Pull
from pocketmq.services.query import Query
from pocketmq.services.sessions.sessions import Sessions
from pocketmq.services.transaction.transactions import Transactions
from pocketmq.store.message_store import MessageStore


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
