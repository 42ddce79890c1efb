"""SendMessage of a plain request of an official client: from its bytes to those of the reply.

bytes ─► places of its parts        ─► rules, queue, log          ─► bytes of the reply
         rpc/codec/v2_send_request     services/produce/fast_send    rpc/codec/v2_send_reply
"""

from typing import Final

from pocketmq.format.send_records import SendRecords
from pocketmq.format.send_request import SendRequest
from pocketmq.native.machine import BytesWriter
from pocketmq.rpc.codec.v2_send_reply import encode_official_reply
from pocketmq.rpc.codec.v2_send_request import TopicName, V2SendRequest
from pocketmq.rpc.pending_reply import Late, PendingReply
from pocketmq.rpc.service import Metadata
from pocketmq.services.produce.fast_send import PlainSend

CLIENT_ID_KEY: Final = "x-mq-client-id"
NAMESPACE_KEY: Final = "x-mq-namespace"


class SendShortcutV2:
    """Serves plain requests.

    topic_name   as for `V2SendRequest`
    is_durable   the log is as durable as the flush mode promises
    late         where not `is_durable`: gives the replies to requests that wait
    """

    __slots__ = ("_is_durable", "_late", "_plain", "_reader", "_records", "_reply")

    def __init__(
        self, plain: PlainSend, topic_name: TopicName, *, is_durable: bool, late: Late
    ) -> None:
        self._plain = plain
        self._reader = V2SendRequest(SendRequest(), topic_name)
        self._records = SendRecords(self._reader.request)
        self._reply = BytesWriter()
        self._is_durable = is_durable
        self._late = late

    def serve(
        self, raw: bytes, peer_host: bytes, metadata: Metadata
    ) -> bytes | PendingReply | None:
        """Serves a plain request.

        peer_host   the client's address, packed
        metadata    of the call: its client, and the client's namespace
        Returns  the encoded SendMessageResponse, or an awaitable of it; None:
                 nothing has changed, the usual way serves the request or raises the error
        Errors   StoreBusy: nothing was stored; FsyncFailed: whether it survives is unknown
        """
        if not metadata(CLIENT_ID_KEY):
            return None
        reader, records = self._reader, self._records
        if not reader.read(raw, metadata(NAMESPACE_KEY) or ""):
            return None
        if not self._plain.send(records, peer_host):
            return None
        reply = encode_official_reply(records, self._reply)
        reader.request.raw = b""
        return reply if self._is_durable else self._late.reply(reply)
