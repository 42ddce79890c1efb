"""SendMessage of a plain request: served from its encoded bytes, without protobuf objects.

request bytes ─► positions of its fields ─► checks, queue, log        ─► reply bytes
                 rpc/codec/v1_send_request  services/produce/fast_send   rpc/codec/send_reply
"""

from pocketmq.format.send_records import SendRecords
from pocketmq.format.send_request import SendRequest
from pocketmq.native.machine import BytesWriter
from pocketmq.rpc.codec.send_reply import encode_reply
from pocketmq.rpc.codec.v1_send_request import V1SendRequest
from pocketmq.rpc.pending_reply import Late, PendingReply
from pocketmq.rpc.service import Metadata
from pocketmq.services.produce.fast_send import PlainSend


class SendShortcutV1:
    """Serves plain requests.

    messages_max   upper limit of messages of a plain request
    is_durable     whether replies can be sent at once, without waiting for a flush
    late           creates the pending replies if `is_durable` is false
    """

    __slots__ = ("_is_durable", "_late", "_plain", "_reader", "_records", "_reply")

    def __init__(
        self, plain: PlainSend, messages_max: int, *, is_durable: bool, late: Late
    ) -> None:
        assert messages_max > 0
        self._plain = plain
        self._reader = V1SendRequest(SendRequest(messages_max))
        self._records = SendRecords(self._reader.request)
        self._reply = BytesWriter()
        self._is_durable = is_durable
        self._late = late

    def serve(
        self, raw: bytes, peer_host: bytes, metadata: Metadata
    ) -> bytes | PendingReply | None:
        """Hot: serves a plain request from its encoded bytes.

        peer_host   the client's address, packed
        metadata    unused
        Returns     the encoded SendMessageResponse, or a reply that waits for a flush; None:
                    nothing has changed, and the usual path serves the request or raises the error
        Errors      StoreBusy: nothing was stored; FsyncFailed: durability is unknown
        """
        request, records = self._reader.request, self._records
        if not self._reader.read(raw) or not self._plain.send(records, peer_host):
            return None
        reply = encode_reply(records, self._reply)
        request.raw = b""
        if self._is_durable or not request.waits:
            return reply
        return self._late.reply(reply)
