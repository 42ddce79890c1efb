"""Assembles, decodes and caches the header blocks of one connection.

The decoded fields depend on the dynamic table. So a block that changes the table is not cached; all
other blocks are cached only until the table changes.
"""

from typing import Final, final

from pocketmq.native.machine import BytesWriter, i64
from pocketmq.wire.fields import HeaderField
from pocketmq.wire.flow import CONTINUATIONS_MAX, Limits
from pocketmq.wire.frames import ENHANCE_YOUR_CALM, ConnectionFault
from pocketmq.wire.headers import Headers, check_trailers, request_headers
from pocketmq.wire.hpack import Decoder

CACHE_SIZE_MAX: Final[i64] = 65_536
"""Upper limit of bytes of blocks and fields cached for one connection."""


@final
class HeaderBlocks:
    """Header blocks of one connection, in order of arrival.

    stream_id   stream of the unfinished block; 0 if there is none
    flags       flags of the HEADERS frame that began the unfinished block
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.stream_id: i64 = 0
        self.flags: i64 = 0
        self._unfinished = BytesWriter()
        self._count: i64 = 0
        self._decoder = Decoder(limits.list_max)
        self._known: dict[bytes, Headers] = {}
        self._known_size: i64 = 0

    def begin(self, stream_id: i64, flags: i64, part: bytes) -> None:
        """Begins a block that CONTINUATION frames continue."""
        assert self.stream_id == 0, "another block is unfinished"
        self.stream_id = stream_id
        self.flags = flags
        self._count = 0
        self._unfinished.write(part)

    def extend(self, part: bytes) -> None:
        """Adds the part of a CONTINUATION frame.

        Errors   ConnectionFault ENHANCE_YOUR_CALM: the block is too large, or has too many frames
        """
        self._count += 1
        size: i64 = len(self._unfinished) + len(part)
        if size > self.limits.block_max or self._count > CONTINUATIONS_MAX:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "a header block that is too large")
        self._unfinished.write(part)

    def whole(self) -> bytes:
        """Ends the unfinished block, and returns all its bytes."""
        block = self._unfinished.getvalue()
        self._unfinished = BytesWriter()
        self.stream_id = 0
        return block

    def request(self, block: bytes) -> Headers:
        """Decodes the block that opens a stream.

        Errors   ConnectionFault: the block cannot be decoded; StreamFault: malformed request
        """
        headers = self._known.get(block)
        if headers is not None:
            return headers
        decoder = self._decoder
        generation = decoder.generation
        fields = decoder.decode(block)
        if decoder.generation != generation:
            self._forget()
        headers = request_headers(fields, decoder.is_over)
        headers.own_size = decoder.made_size
        if decoder.generation == generation and not decoder.is_over:
            self._remember(block, headers)
        return headers

    def trailers(self, block: bytes) -> None:
        """Checks the trailers of a request.

        Errors   ConnectionFault: the block cannot be decoded; StreamFault: malformed trailers
        """
        check_trailers(self._decode(block))

    def skip(self, block: bytes) -> None:
        """Decodes an unneeded block, to keep the dynamic table consistent with the peer's.

        Errors   ConnectionFault: the block cannot be decoded
        """
        self._decode(block)

    def _decode(self, block: bytes) -> list[HeaderField]:
        generation = self._decoder.generation
        fields = self._decoder.decode(block)
        if self._decoder.generation != generation:
            self._forget()
        return fields

    def _remember(self, block: bytes, headers: Headers) -> None:
        size: i64 = len(block)
        for field in headers.fields:
            size += field.size
        if self._known_size + size > CACHE_SIZE_MAX:
            self._forget()
        self._known[block] = headers
        self._known_size += size

    def _forget(self) -> None:
        if self._known_size:
            self._known.clear()
            self._known_size = 0
