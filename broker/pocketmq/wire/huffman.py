"""Huffman-coded strings of HPACK (RFC 7541, section 5.2 and appendix B), eight bits at a time.

The code is canonical, so the code lengths define it. A state is an inner node of the code's tree.
A state's row contains, for each next byte, the next state and the decoded symbols: at most two, as
the shortest code has five bits. Rows are built at first use, as few of the 256 are needed.
"""

from typing import Final

from pocketmq.native.machine import BytesWriter, i32, i64, read_i32_be, u8, write_i32_be
from pocketmq.wire.frames import COMPRESSION_ERROR, ConnectionFault

LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "1416141416161617161717171717181718181617181717171715161716171718"
    "1615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
    "1e"
)
"""Code length in bits of each byte value, and of EOS, which is illegal in strings."""
EOS: Final = 256

# Entry of a row: bits 0-7 next state, 8-9 number of symbols, 10-17 and 18-25 the symbols, 26 EOS.
MET_EOS: Final[i64] = 1 << 26


def _tree() -> list[int]:
    """Returns the code's tree: index 2 * node + bit has the next node, or -1 - symbol."""
    tree = [0, 0]
    code = 0
    last = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(LENGTHS)):
        code <<= length - last
        last = length
        node = 0
        for shift in range(length - 1, 0, -1):
            branch = 2 * node + (code >> shift & 1)
            if not tree[branch]:
                tree[branch] = len(tree) // 2
                tree.extend((0, 0))
            node = tree[branch]
        tree[2 * node + (code & 1)] = -1 - symbol
        code += 1
    assert len(tree) == 2 * EOS, "the tree has not 256 inner nodes"
    return tree


def _padding_states(tree: list[int]) -> bytes:
    """Marks the states in which a string may end: after at most 7 bits, all ones."""
    padding = bytearray(256)
    node = 0
    for _ in range(8):
        padding[node] = 1
        node = tree[2 * node + 1]
    return bytes(padding)


_TREE: Final = _tree()
_PADDING: Final = _padding_states(_TREE)
_ROWS: Final[list[bytes]] = [b""] * 256


def _row(state: i64) -> bytes:
    """Returns a state's entries, four bytes for each next byte."""
    row = BytesWriter()
    for byte in range(256):
        node: int = state
        entry = 0
        count = 0
        for shift in range(7, -1, -1):
            node = _TREE[2 * node + (byte >> shift & 1)]
            if node < 0:
                symbol = -1 - node
                entry |= MET_EOS if symbol == EOS else symbol << (10 + 8 * count)
                count += symbol != EOS
                node = 0
        write_i32_be(row, i32(entry | count << 8 | node))
    return row.getvalue()


def decode(block: bytes, p: i64, end: i64, out: BytesWriter) -> bytes:
    """Decodes the string at [p, end).

    out      scratch writer, whose content is overwritten
    Errors   ConnectionFault COMPRESSION_ERROR: EOS, or invalid padding
    """
    out.truncate(0)
    rows = _ROWS
    state: i64 = 0
    while p < end:
        row = rows[state]
        if not row:
            row = _row(state)
            rows[state] = row
        byte: i64 = block[p]
        p += 1
        entry: i64 = i64(read_i32_be(row, byte << 2))
        if entry >= MET_EOS:
            raise ConnectionFault(COMPRESSION_ERROR, "a string contains the end-of-string symbol")
        state = entry & 255
        count = entry >> 8 & 3
        if count:
            out.append(u8(entry >> 10 & 255))
            if count > 1:
                out.append(u8(entry >> 18 & 255))
    if not _PADDING[state]:
        raise ConnectionFault(COMPRESSION_ERROR, "a string ends within a code")
    return out.getvalue()
