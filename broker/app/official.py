"""What official RocketMQ clients come to, on the services of a broker."""

from broker.config.live import LiveConfig
from broker.rpc.v2.messaging import OfficialMessaging, OfficialRules
from broker.services.administration.members import Members
from broker.services.consume.consume import Consume
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.sending.send import Send
from broker.services.sessions.sessions import Sessions
from broker.services.transaction.transactions import Transactions
from broker.store.message_store import MessageStore


def official_of(
    store: MessageStore,
    send: Send,
    pull: Pull,
    query: Query,
    consume: Consume,
    members: Members,
    transactions: Transactions,
    live: LiveConfig,
    advertised: str,
) -> tuple[Sessions, OfficialMessaging]:
    """Return who is connected, and the face.

    advertised   "address:port" for clients that do not say what they dialled
    """
    clients, clock = consume.clients, store.clock
    sessions = Sessions(
        lambda client_id: clients.touch(client_id, clock.monotonic_ms()), consume.leave
    )
    rules = OfficialRules(
        live.config.broker.name,
        advertised,
        lambda: live.config.limits.max_message_size_bytes,
        lambda: live.config.broker.auto_create_groups,
    )
    messaging = OfficialMessaging(
        store, send, pull, query, consume, sessions, members, transactions, rules
    )
    return sessions, messaging
