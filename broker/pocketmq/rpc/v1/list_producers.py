"""ListProducers: the clients that send to a topic, and the senders of its last messages."""

from typing import Final

from pocketmq.format.addresses import text_from_host
from pocketmq.model.administration import TopicProducer
from pocketmq.rpc.call import Call, host_from_peer
from pocketmq.rpc.channel import RemotingChannel
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.permissions import SEE, group_need
from pocketmq.rpc.services import Services
from pocketmq.services.admin.senders import last_senders
from pocketmq.services.sessions.sessions import Sessions

ROWS_MAX: Final = 1_000
"""Upper limit of producers in an answer; the newest senders are kept."""


class ListProducers:
    """The method ListProducers."""

    __slots__ = ("_sessions", "_store")

    def __init__(self, backing: Services) -> None:
        self._sessions = backing.sessions
        self._store = backing.store

    async def __call__(
        self, request: pb.ListProducersRequest, call: Call
    ) -> pb.ListProducersResponse:
        """Returns the producers of a topic, the last sender first.

        Classic clients do not report the topics that they send to; one is listed if it is among the
        last senders. A sender that is no connected client uses v1, or has disconnected.

        Errors   those of `last_senders`
        Cost     linear in the number of connected clients
        """
        sent = await last_senders(self._store, request.topic)
        found = [
            TopicProducer(
                text_from_host(host_from_peer(one.peer)), client_id, (), one.language, one.version,
                sent.get(host_from_peer(one.peer), 0),
            )
            for client_id, one in self._sessions.publishing(request.topic)
        ]  # fmt: skip
        found += _classic_producers(self._sessions, sent, call)
        known = {one.address for one in found}
        rest = {text_from_host(host): time_ms for host, time_ms in sent.items()}
        found += [
            TopicProducer(address, sent_ms=time_ms)
            for address, time_ms in rest.items()
            if address not in known
        ]
        found.sort(key=lambda one: (-one.sent_ms, one.address))
        rows = [pb.Producer(**one._asdict()) for one in found[:ROWS_MAX]]
        return pb.ListProducersResponse(producers=rows)


def _classic_producers(
    sessions: Sessions, sent: dict[bytes, int], call: Call
) -> list[TopicProducer]:
    """Returns the classic clients among the senders, with the groups that the caller may see."""
    groups, found = sessions.classic.groups, dict[bytes, TopicProducer]()
    for name in groups.producer_groups:
        for connection, one in groups.producers(name).items():
            assert isinstance(connection, RemotingChannel), "a member without a connection"
            host = host_from_peer(connection.peer)
            if host not in sent:
                continue
            known = found.get(host) or TopicProducer(
                text_from_host(host), one.client_id, (), one.language, str(one.version), sent[host]
            )
            seen = (name,) if call.may(group_need(name, SEE)) else ()
            found[host] = known._replace(groups=(*known.groups, *seen))
    return [*found.values()]
