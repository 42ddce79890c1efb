"""EndTransaction of a plain request: served from its encoded bytes, without protobuf objects.

request bytes ─► half messages and decisions ─► open? ─► one put ─► reply bytes
                 rpc/codec/v1_end_request       services/transaction/fast_end
"""

from typing import Final

from pocketmq.format.end_request import EndRequest
from pocketmq.rpc.codec.v1_end_request import V1EndRequest
from pocketmq.rpc.pending_reply import Late, PendingReply
from pocketmq.rpc.service import Metadata
from pocketmq.services.transaction.fast_end import PlainEnd

ENDED: Final = b"\x0a\x02\x08\x01"
"""Encoded result with the status ENDED."""


class EndShortcut:
    """Serves plain requests.

    is_durable   whether replies can be sent at once, without waiting for a flush
    late         creates the pending replies if `is_durable` is false
    """

    __slots__ = ("_is_durable", "_late", "_plain", "_reader")

    def __init__(self, plain: PlainEnd, *, is_durable: bool, late: Late) -> None:
        self._plain = plain
        self._reader = V1EndRequest(EndRequest())
        self._is_durable = is_durable
        self._late = late

    def serve(
        self, raw: bytes, peer_host: bytes, metadata: Metadata
    ) -> bytes | PendingReply | None:
        """Serves a plain request.

        Returns  the encoded EndTransactionResponse, or a reply that waits for a flush; None:
                 nothing has changed, and the usual path serves the request or raises the error
        Errors   StoreBusy: nothing was stored; FsyncFailed: durability is unknown
        """
        request = self._reader.request
        if not self._reader.read(raw) or not self._plain.end(request):
            return None
        reply = ENDED * len(request.at)
        return reply if self._is_durable else self._late.reply(reply)
