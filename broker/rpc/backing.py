"""The services that faces ask, all together: each face takes those it needs."""

from typing import NamedTuple

from broker.services.administration.members import Members
from broker.services.consume.consume import Consume
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.sending.send import Send
from broker.services.sessions.sessions import Sessions
from broker.services.transaction.transactions import Transactions
from broker.store.message_store import MessageStore


class Backing(NamedTuple):
    """An open store and what serves messages on it."""

    store: MessageStore
    send: Send
    pull: Pull
    query: Query
    consume: Consume
    members: Members
    sessions: Sessions
    transactions: Transactions
