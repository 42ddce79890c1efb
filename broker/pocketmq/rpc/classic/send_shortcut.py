"""Serves plain sends of classic clients (classic/plain_send.py) from the bytes of their frames.

frame ─► header, properties ─► checks, queue, log          ─► frame of the answer
         classic/plain_send    services/produce/fast_send     classic/plain_send_answer
"""

from functools import partial

from pocketmq.format.send_records import SendRecords
from pocketmq.format.send_request import SendRequest
from pocketmq.native.machine import BytesWriter
from pocketmq.rpc.classic.plain_send import ClassicSendRequest
from pocketmq.rpc.classic.plain_send_answer import encode_answer
from pocketmq.rpc.classic.status import OF_PUT
from pocketmq.rpc.pending_reply import Late, PendingReply
from pocketmq.rpc.service import Metadata, Shortcut
from pocketmq.services.produce.fast_send import PlainSend
from pocketmq.services.produce.send import Send
from pocketmq.wire.remoting import decode, encode


class ClassicSendShortcut:
    """Serves plain sends without a command object.

    is_durable   whether answers can be sent at once, without waiting for a flush
    late         makes answers wait for a flush if `is_durable` is false
    """

    __slots__ = ("_is_durable", "_late", "_plain", "_reader", "_records", "_reply")

    def __init__(self, plain: PlainSend, *, is_durable: bool, late: Late) -> None:
        self._plain = plain
        self._reader = ClassicSendRequest(SendRequest())
        self._records = SendRecords(self._reader.request)
        self._reply = BytesWriter()
        self._is_durable = is_durable
        self._late = late

    def serve(
        self, raw: bytes, peer_host: bytes, metadata: Metadata
    ) -> bytes | PendingReply | None:
        """Serves a plain send.

        raw         the whole frame
        peer_host   the client's address, packed
        metadata    is not used
        Returns     the frame of the answer, or an answer that waits for a flush; None: nothing has
                    changed, and `ClassicSend.send` serves the request or raises the error
        Errors      StoreBusy: nothing was stored; FsyncFailed: durability is unknown
        """
        reader, records = self._reader, self._records
        if not reader.read(raw) or not self._plain.send(records, peer_host):
            reader.request.raw = b""
            return None
        reply = encode_answer(reader, records, self._reply)
        is_durable = self._is_durable or not reader.request.waits
        reader.request.raw = b""
        return reply if is_durable else self._late.reply(reply)


def send_shortcut(send: Send) -> Shortcut:
    """Returns the shortcut of a send pipeline."""
    late = Late(send.flush_group, partial(_with_late_code, send))
    return ClassicSendShortcut(send.plain, is_durable=send.is_durable, late=late).serve


def _with_late_code(send: Send, frame: bytes) -> bytes:
    """Returns an answer's frame with the code of a late acknowledgement."""
    return encode(decode(frame)._replace(code=OF_PUT[send.late_status]))
