"""SendMessage of a plain v2 request (`V2SendRequest`), served from its encoded bytes.

request bytes ─► positions of its fields ─► checks, queue, log        ─► reply bytes
                 rpc/codec/v2_send_request  services/produce/fast_send   rpc/codec/v2_send_reply
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
    """Serves plain requests without protobuf objects.

    topic_name   as for `V2SendRequest`
    is_durable   whether replies can be sent at once, without waiting for a flush
    late         creates the pending replies if `is_durable` is false
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
        metadata    metadata of the call, with client id and namespace
        Returns     the encoded SendMessageResponse, or a reply that waits for a flush; None:
                    nothing has changed, and the usual path serves the request or raises the error
        Errors      StoreBusy: nothing was stored; FsyncFailed: durability is unknown
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
