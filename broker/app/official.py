"""What official RocketMQ clients come to, on the services of a broker."""

from broker.config.live import LiveConfig
from broker.model.delivered import Delivered
from broker.rpc.v2.messaging import OfficialMessaging, OfficialRules
from broker.services.consume.consume import Consume
from broker.services.sending.send import Send
from broker.services.sessions.sessions import Sessions
from broker.services.transaction.transactions import Transactions
from broker.store.message_store import MessageStore


def official_of(
    store: MessageStore,
    send: Send,
    consume: Consume,
    transactions: Transactions,
    delivered: Delivered,
    live: LiveConfig,
    advertised: str,
) -> tuple[Sessions, OfficialMessaging]:
    """Return who is connected, and the face.

    advertised   "address:port" for clients that do not say what they dialled
    """
    clients, clock = consume.clients, store.clock
    sessions = Sessions(
        clock, lambda client_id: clients.touch(client_id, clock.monotonic_ms()), clients.forget
    )
    rules = OfficialRules(
        live.config.broker.name,
        advertised,
        lambda: live.config.limits.max_message_size_bytes,
        lambda: live.config.broker.auto_create_groups,
    )
    messaging = OfficialMessaging(store, send, consume, sessions, transactions, delivered, rules)
    return sessions, messaging
