"""Java's `String.hashCode`, which determines tags codes and index slots.

h = 31 * h + unit over UTF-16 code units, wrapped to signed 32 bits.

numpy hashes many strings at once. 31 is odd, so it has an inverse modulo 2**32: with running sums S
of unit[j] * 31**-j over the joined text, the hash of [begin, end) is
(S[end] - S[begin]) * 31**(end - 1), all modulo 2**32.
"""

from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Final

import numpy as np
from numpy.typing import NDArray

WRAP: Final = 0xFFFFFFFF
PIECE_MAX: Final = 256
"""Longest text that is hashed with cached powers; each shorter length has a table."""


def java_hash(text: str) -> int:
    """Returns the text's String.hashCode, in [-2**31, 2**31).

    Cost     about 40 ns a character; `java_hashes` is faster for many texts
    Source   java.lang.String.hashCode
    """
    value = java_hash_behind(0, text)
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def java_hash_behind(prefix: int, text: str) -> int:
    """Returns the unsigned hash of a prefix and a text; `prefix` is the prefix's unsigned hash."""
    units: bytes | memoryview
    if text.isascii():
        units = text.encode()
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    if len(units) > PIECE_MAX:  # Tables for all lengths that clients send would fill memory.
        return int(java_hashes([text], prefix)[0])
    powers = powers_down(len(units) + 1)
    value: int = (prefix * powers[0] + sum(map(mul, units, powers[1:]))) & WRAP
    return value


@lru_cache(maxsize=PIECE_MAX + 2)
def powers_down(count: int) -> tuple[int, ...]:
    """Returns 31 ** (count - 1) down to 31 ** 0, modulo 2**32."""
    return tuple(pow(31, exponent, WRAP + 1) for exponent in range(count - 1, -1, -1))


def tags_code(tag: str) -> int:
    """Returns the tags code of a consume unit: the tag's hash, sign-extended; 0 without a tag.

    Source   MessageExtBrokerInner.tagsString2tagsCode
    """
    return _known_hash(tag) if len(tag) <= PIECE_MAX else java_hash(tag)


@lru_cache(maxsize=4096)
def _known_hash(tag: str) -> int:
    return java_hash(tag)


_POWER_COUNT: Final = 16_384
"""Upper limit of characters that are hashed in one pass; longer texts are split. Four times as many
would be 10 % faster for thousands of keys, but the tables would take 512 KiB in every process."""


def _powers(base: int) -> NDArray[np.uint32]:
    table = np.full(_POWER_COUNT, base, dtype=np.uint32)
    table[0] = 1
    return np.multiply.accumulate(table, dtype=np.uint32)


_POWERS: Final = _powers(31)
_INVERSES: Final = _powers(pow(31, -1, 1 << 32))


def java_hashes(texts: list[str], prefixes: int | NDArray[np.uint32] = 0) -> NDArray[np.uint32]:
    """Hot: returns String.hashCode of every text as unsigned 32-bit numbers.

    prefixes   unsigned hash of the prefix of all texts, or of each text
    Cost       about 5 ns a character from 100 keys on, against 40 ns one by one
    """
    if not texts:
        return np.zeros(0, dtype=np.uint32)
    joined = "".join(texts)
    lengths = list(map(len, texts))
    if joined.isascii():
        units = np.frombuffer(joined.encode(), dtype=np.uint8)
    else:
        units = np.frombuffer(joined.encode("utf-16-le", "surrogatepass"), dtype="<u2")
        if len(units) != len(joined):
            lengths = [len(text.encode("utf-16-le", "surrogatepass")) // 2 for text in texts]
    ends = np.fromiter(accumulate(lengths), dtype=np.int64, count=len(lengths))
    whole = len(units) < _POWER_COUNT
    hashes = _hash_ranges(units, ends) if whole else _hash_in_goes(units, ends)
    if isinstance(prefixes, int) and not prefixes:
        return hashes
    return hashes + np.asarray(prefixes, dtype=np.uint32) * _powers_of(lengths)


def _powers_of(lengths: list[int]) -> NDArray[np.uint32]:
    if max(lengths) < _POWER_COUNT:
        return _POWERS[lengths]
    return np.array([pow(31, length, 1 << 32) for length in lengths], dtype=np.uint32)


def _hash_ranges(
    units: NDArray[np.uint8 | np.uint16], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    sums = np.zeros(len(units) + 1, dtype=np.uint32)
    np.cumsum(units * _INVERSES[: len(units)], dtype=np.uint32, out=sums[1:])
    upper = sums[ends]
    differences = upper.copy()
    differences[1:] -= upper[:-1]
    return differences * _POWERS[np.maximum(ends - 1, 0)]


def _hash_in_goes(
    units: NDArray[np.uint8 | np.uint16], ends: NDArray[np.int64]
) -> NDArray[np.uint32]:
    hashes = np.zeros(len(ends), dtype=np.uint32)
    first, begin = 0, 0
    while first < len(ends):
        last = int(np.searchsorted(ends, begin + _POWER_COUNT - 1, side="right"))
        if last == first:  # One text is longer than the tables: Horner's method over its pieces.
            hashes[first] = _hash_long(units[begin : int(ends[first])])
            last = first + 1
        else:
            upper = int(ends[last - 1])
            hashes[first:last] = _hash_ranges(units[begin:upper], ends[first:last] - begin)
        begin = int(ends[last - 1])
        first = last
    return hashes


def _hash_long(units: NDArray[np.uint8 | np.uint16]) -> int:
    value = 0
    piece_count = _POWER_COUNT - 1
    for begin in range(0, len(units), piece_count):
        piece = units[begin : begin + piece_count]
        ends = np.array([len(piece)], dtype=np.int64)
        shifted = value * pow(31, len(piece), 1 << 32)
        value = (shifted + int(_hash_ranges(piece, ends)[0])) & 0xFFFFFFFF
    return value
