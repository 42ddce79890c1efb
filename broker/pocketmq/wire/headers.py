"""Checks and parses the headers of a call.

A malformed request (RFC 9113, section 8.1.1) raises StreamFault. A request that is not gRPC gets
an HTTP status, and a gRPC request that cannot be served gets a gRPC status.
"""

from typing import Final, final

from pocketmq.model.decimal import number_in
from pocketmq.native.machine import i64
from pocketmq.wire.fields import (
    AUTHORITY,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    ENCODING,
    ILLEGAL,
    METADATA,
    METHOD,
    PATH,
    PSEUDO_MAX,
    SCHEME,
    TIMEOUT,
    HeaderField,
)
from pocketmq.wire.frames import PROTOCOL_ERROR, StreamFault
from pocketmq.wire.messages import (
    GRPC,
    GZIP,
    IDENTITY,
    INTERNAL,
    OK,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
)
from pocketmq.wire.metadata import BINARY_SUFFIX, binary_values, timeout_ms

CONTENT_LENGTH_DIGITS_MAX: Final[i64] = 15


@final
class Headers:
    """Header fields of a call.

    Calls of one connection with equal header blocks share one object, so it must not change.

    path            b"/package.Service/Method"
    timeout_ms      time from the call's start to its deadline; -1: no deadline
    encoding        b"identity" or b"gzip": compression of the request's messages
    own_size        bytes of the fields that come from no header table
    content_length  bytes of the request's body; -1 if unknown
    status          gRPC status that refuses the call, with the text `why_refused`; 0: accepted
    http_status     HTTP status that refuses the call; 0: accepted
    """

    def __init__(self, fields: list[HeaderField]) -> None:
        self.fields = fields
        self.own_size: i64 = 0
        self.method: bytes = b""
        self.scheme: bytes = b""
        self.path: bytes = b""
        self.authority: bytes = b""
        self.content_type: bytes = b""
        self.encoding: bytes = IDENTITY
        self.timeout_ms: i64 = -1
        self.content_length: i64 = -1
        self.status: i64 = OK
        self.http_status: i64 = 0
        self.why_refused = ""
        self._metadata: list[tuple[bytes, bytes]] | None = None

    @property
    def metadata(self) -> list[tuple[bytes, bytes]]:
        """Custom metadata in order; `-bin` values are decoded, and omitted if invalid."""
        if self._metadata is None:
            self._metadata = _metadata(self.fields)
        return self._metadata

    def value(self, name: bytes) -> bytes | None:
        """Returns the first raw value of a field; None if the field is absent."""
        for field in self.fields:
            if field.name == name:
                return field.value
        return None

    def text(self, name: str) -> str | None:
        """Returns the first valid custom-metadata value of a name as text, None without one."""
        wanted = name.encode()
        if wanted.endswith(BINARY_SUFFIX):
            for key, value in self.metadata:
                if key == wanted:
                    return value.decode("utf-8", "replace")
            return None
        for field in self.fields:
            if field.kind == METADATA and field.name == wanted:
                return field.value.decode("utf-8", "replace")
        return None

    def refuse(self, status: i64, why: str) -> None:
        """Sets the status that refuses the call; a status that was set earlier is kept."""
        assert status != OK, "a refusal needs an error status"
        if self.status == OK:
            self.status = status
            self.why_refused = why


def _metadata(fields: list[HeaderField]) -> list[tuple[bytes, bytes]]:
    pairs: list[tuple[bytes, bytes]] = []
    for field in fields:
        if field.kind != METADATA:
            continue
        if not field.name.endswith(BINARY_SUFFIX):
            pairs.append((field.name, field.value))
            continue
        values = binary_values(field.value)
        if values is not None:
            pairs += [(field.name, value) for value in values]
    return pairs


def request_headers(fields: list[HeaderField], is_over: bool) -> Headers:
    """Decodes the fields of a request.

    is_over   whether the fields exceeded the limit, so that the rest is missing
    Errors    StreamFault PROTOCOL_ERROR: the request is malformed
    """
    headers = Headers(fields)
    seen: i64 = 0
    is_regular = False
    for field in fields:
        kind = field.kind
        if kind == METADATA:
            is_regular = True
            continue
        if kind >= ILLEGAL:
            raise StreamFault(PROTOCOL_ERROR, "a field that is illegal in requests")
        if kind <= PSEUDO_MAX:
            bit: i64 = 1 << kind
            if is_regular or seen & bit:
                raise StreamFault(PROTOCOL_ERROR, "a repeated or late pseudo-header")
            seen |= bit
            _take_pseudo(headers, kind, field.value)
        else:
            is_regular = True
            _take_known(headers, kind, field.value)
    if is_over:
        headers.refuse(RESOURCE_EXHAUSTED, "the call's metadata is larger than the limit")
        return headers
    if not headers.method or not headers.scheme or not headers.path:
        raise StreamFault(PROTOCOL_ERROR, "a request without method, scheme or path")
    if headers.method != b"POST":
        headers.http_status = 405
    elif not _is_grpc(headers.content_type):
        headers.http_status = 415
    return headers


def check_trailers(fields: list[HeaderField]) -> None:
    """Checks the trailers of a request, which are ignored.

    Errors   StreamFault PROTOCOL_ERROR: a field that is illegal in trailers
    """
    for field in fields:
        kind = field.kind
        if kind >= ILLEGAL or METADATA < kind <= PSEUDO_MAX:
            raise StreamFault(PROTOCOL_ERROR, "a field that is illegal in trailers")


def _take_pseudo(headers: Headers, kind: i64, value: bytes) -> None:
    if kind == PATH:
        headers.path = value
    elif kind == METHOD:
        headers.method = value
    elif kind == SCHEME:
        headers.scheme = value
    else:
        assert kind == AUTHORITY, "unknown pseudo-header"
        headers.authority = value


def _take_known(headers: Headers, kind: i64, value: bytes) -> None:
    if kind == CONTENT_TYPE:
        headers.content_type = value
    elif kind == TIMEOUT:
        headers.timeout_ms = timeout_ms(value)
        if headers.timeout_ms < 0:
            headers.refuse(INTERNAL, "the call's grpc-timeout is no time")
    elif kind == ENCODING:
        headers.encoding = value
        if value not in (IDENTITY, GZIP):
            why = "the request's grpc-encoding is neither identity nor gzip"
            headers.refuse(UNIMPLEMENTED, why)
    elif kind == CONTENT_LENGTH:
        headers.content_length = _content_length(headers, value)


def _content_length(headers: Headers, value: bytes) -> i64:
    length = number_in(value, 0, len(value))
    if length < 0 or len(value) > CONTENT_LENGTH_DIGITS_MAX:
        raise StreamFault(PROTOCOL_ERROR, "a content-length that is no number")
    if headers.content_length >= 0 and headers.content_length != length:
        raise StreamFault(PROTOCOL_ERROR, "two content-lengths that differ")
    return length


def _is_grpc(content_type: bytes) -> bool:
    if not content_type.startswith(GRPC):
        return False
    return len(content_type) == len(GRPC) or content_type[len(GRPC)] in b"+;"
