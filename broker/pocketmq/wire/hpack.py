"""HPACK decoder (RFC 7541): header blocks to fields, with the dynamic table."""

from typing import Final, final

from pocketmq.native.machine import BytesWriter, i64
from pocketmq.wire.fields import HeaderField, kind_of
from pocketmq.wire.frames import COMPRESSION_ERROR, TABLE_SIZE_DEFAULT, ConnectionFault
from pocketmq.wire.huffman import decode as huffman_decode

INTEGER_BITS_MAX: Final[i64] = 28
"""Largest shift of an integer's last byte: integers have at most five bytes after the first."""
STATIC_COUNT: Final[i64] = 61
EVICTED_COUNT_MAX: Final[i64] = 64
"""Upper limit of evicted entries at the front of the table's list."""

_STATIC: Final = (
    ":authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|"
    ":status=200|:status=204|:status=206|:status=304|:status=400|:status=404|:status=500|"
    "accept-charset|accept-encoding=gzip, deflate|accept-language|accept-ranges|accept|"
    "access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|"
    "content-encoding|content-language|content-length|content-location|content-range|"
    "content-type|cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|"
    "if-none-match|if-range|if-unmodified-since|last-modified|link|location|max-forwards|"
    "proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie|"
    "strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"
)


def _static_table() -> list[HeaderField]:
    """Returns the static table (RFC 7541, appendix A) with an empty entry at index 0."""
    nothing = HeaderField(b"", b"", kind_of(b""))
    table = [nothing]
    for entry in _STATIC.encode().split(b"|"):
        name, _, value = entry.partition(b"=")
        table.append(HeaderField(name, value, kind_of(name)))
    assert len(table) == STATIC_COUNT + 1, "the static table has not 61 entries"
    return table


STATIC_TABLE: Final = _static_table()


def integer(block: bytes, p: i64, mask: i64) -> tuple[i64, i64]:
    """Returns the integer at `p`, and its end (RFC 7541, section 5.1).

    mask     bits of the first byte that belong to the integer
    Errors   ConnectionFault: the integer is incomplete or too long
    """
    end: i64 = len(block)
    if p >= end:
        raise ConnectionFault(COMPRESSION_ERROR, "a header block ends within a field")
    first: i64 = block[p]
    value = first & mask
    p += 1
    if value < mask:
        return value, p
    shift: i64 = 0
    while p < end:
        byte: i64 = block[p]
        p += 1
        value += (byte & 127) << shift
        if byte < 128:
            return value, p
        shift += 7
        if shift > INTEGER_BITS_MAX:
            raise ConnectionFault(COMPRESSION_ERROR, "a number has more than five bytes")
    raise ConnectionFault(COMPRESSION_ERROR, "a header block ends within a number")


@final
class Decoder:
    """Decoder of header blocks, with the dynamic table of a connection.

    generation   rises with each change of the table
    made_size    bytes of the last block's fields that came from no table
    is_over      whether the last block's fields exceeded `list_max` bytes; further fields are
                 decoded for the table, but not returned
    """

    def __init__(self, list_max: i64, table_max: i64 = TABLE_SIZE_DEFAULT) -> None:
        """Begins with an empty table of at most `table_max` bytes.

        list_max    upper limit of the bytes of a block's fields, each plus ENTRY_OVERHEAD
        """
        self.list_max: i64 = list_max
        self.table_max: i64 = table_max
        self.limit: i64 = table_max
        self.size: i64 = 0
        self.generation: i64 = 0
        self.made_size: i64 = 0
        self.is_over = False
        self._entries: list[HeaderField] = []  # oldest first; those before _oldest are evicted
        self._oldest: i64 = 0
        self._text = BytesWriter()

    def decode(self, block: bytes) -> list[HeaderField]:
        """Returns the fields of a complete block.

        Errors   ConnectionFault: the block is invalid; the table may then differ from the peer's
        """
        fields: list[HeaderField] = []
        self.is_over = False
        self.made_size = 0
        total: i64 = 0
        p: i64 = 0
        end: i64 = len(block)
        while p < end:
            first: i64 = block[p]
            if first >= 128:
                index = first & 127
                if index == 127:
                    index, p = integer(block, p, 127)
                else:
                    p += 1
                field = self.entry(index)
            elif first >> 5 == 1:
                size, p = integer(block, p, 31)
                if fields or self.is_over:
                    raise ConnectionFault(COMPRESSION_ERROR, "a size update inside a header block")
                self._resize(size)
                continue
            else:
                field, p = self._literal(block, p, first)
            total += field.size
            if total <= self.list_max:
                fields.append(field)
            else:
                self.is_over = True
        assert self.size <= self.limit, "the table exceeds its limit"
        return fields

    def entry(self, index: i64) -> HeaderField:
        """Returns the field of an index; the newest dynamic entry is at 62.

        Errors   ConnectionFault: there is no such entry
        """
        if 0 < index <= STATIC_COUNT:
            return STATIC_TABLE[index]
        place = len(self._entries) - (index - STATIC_COUNT)
        if index == 0 or place < self._oldest:
            raise ConnectionFault(COMPRESSION_ERROR, "an invalid table index")
        return self._entries[place]

    def _literal(self, block: bytes, p: i64, first: i64) -> tuple[HeaderField, i64]:
        mask: i64 = 63 if first >= 64 else 15
        index = first & mask
        if index == mask:
            index, p = integer(block, p, mask)
        else:
            p += 1
        if index:
            named = self.entry(index)
            name = named.name
            kind = named.name_kind
        else:
            name, p = self._string(block, p)
            kind = kind_of(name)
        value, p = self._string(block, p)
        field = HeaderField(name, value, kind)
        self.made_size += field.size
        if first >= 64:
            self._insert(field)
        return field, p

    def _string(self, block: bytes, p: i64) -> tuple[bytes, i64]:
        if p >= len(block):
            raise ConnectionFault(COMPRESSION_ERROR, "a header block ends within a field")
        first: i64 = block[p]
        size = first & 127
        begin = p + 1
        if size == 127:
            size, begin = integer(block, p, 127)
        if size > len(block) - begin:
            raise ConnectionFault(COMPRESSION_ERROR, "a header block ends within a string")
        end = begin + size
        if first >= 128:
            return huffman_decode(block, begin, end, self._text), end
        return block[begin:end], end

    def _insert(self, field: HeaderField) -> None:
        """A field that is larger than the table empties the table (RFC 7541, section 4.4)."""
        self.generation += 1
        self._entries.append(field)
        self.size += field.size
        if self.size > self.limit:
            self._evict()

    def _resize(self, limit: i64) -> None:
        if limit > self.table_max:
            raise ConnectionFault(COMPRESSION_ERROR, "a dynamic table above the maximum size")
        self.generation += 1
        self.limit = limit
        self._evict()

    def _evict(self) -> None:
        while self.size > self.limit:
            self.size -= self._entries[self._oldest].size
            self._entries[self._oldest] = STATIC_TABLE[0]
            self._oldest += 1
        if self._oldest > EVICTED_COUNT_MAX:
            del self._entries[: self._oldest]
            self._oldest = 0
