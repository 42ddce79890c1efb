"""Parses the usual EndTransactionRequests of pocketmq.v1 in place, without generated classes.

    0A group │ 12 size │ decision: 0A transaction id │ 10 resolution

A request is plain if it has only these fields, in this order, meets the conditions of
format/end_request.py, and each decision is a commit or a rollback. The generated protobuf classes
parse all other requests, and would give the same result for a plain one.
"""

from typing import Final, final

from pocketmq.format.end_request import EndRequest
from pocketmq.format.plain_text import text_hash
from pocketmq.native.machine import i64
from pocketmq.rpc.codec.protobuf_scan import END, FieldScan, bits

_GROUP: Final = 1
_DECISION: Final = 2
_ID: Final = 1
_RESOLUTION: Final = 2
_COMMIT: Final = 1
_ROLLBACK: Final = 2


@final
class V1EndRequest:
    """Parses one request after another into `request`, which is reset each time."""

    __slots__ = ("_decision", "_fields", "request")

    def __init__(self, request: EndRequest) -> None:
        self.request = request
        self._fields = FieldScan(
            bits(_GROUP, _DECISION), repeated=bits(_DECISION), required=bits(_GROUP, _DECISION)
        )
        self._decision = FieldScan(bits(_ID), bits(_RESOLUTION), required=bits(_ID, _RESOLUTION))

    def read(self, raw: bytes) -> bool:
        """Parses a request; returns whether it is plain.

        Cost     about 0.4 µs a decision when compiled
        """
        request, fields = self.request, self._fields
        request.begin(b"")
        fields.enter(0, len(raw))
        while (number := fields.step(raw)) > 0:
            if number == _GROUP:
                request.group = raw[fields.begin : fields.end]
                if text_hash(raw, fields.begin, fields.end, 0) < 0:
                    return False
            elif not self._read_decision(raw, fields.begin, fields.end):
                return False
        return number == END

    def _read_decision(self, raw: bytes, begin: i64, end: i64) -> bool:
        decision, text = self._decision, b""
        decision.enter(begin, end)
        while (number := decision.step(raw)) > 0:
            if number == _ID:
                text = raw[decision.begin : decision.end]
        resolution = decision.value
        if number != END or (resolution != _COMMIT and resolution != _ROLLBACK):
            return False
        return self.request.take(text, is_commit=resolution == _COMMIT)
