"""Java's `String.hashCode`, which decides tags codes and index slots.

h = 31 * h + unit over UTF-16 code units, wrapped to signed 32 bits.
"""

from functools import lru_cache
from operator import mul
from typing import Final

WRAP: Final = 0xFFFFFFFF
PIECE_MAX: Final = 256
"""Characters hashed at once; a table of powers is kept for every length up to here."""


def java_hash(text: str) -> int:
    """Return String.hashCode of the text, in [-2**31, 2**31).

    Cost     about 40 ns a character; `java_hashes` does many at once
    Source   java.lang.String.hashCode
    """
    value = java_hash_behind(0, text)
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def java_hash_behind(prefix: int, text: str) -> int:
    """Return the hash of a text, unsigned; `prefix` is the unsigned hash of what stands before."""
    units: bytes | memoryview
    if text.isascii():
        units = text.encode()
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    if len(units) > PIECE_MAX:
        return _hash_long(prefix, units)
    powers = powers_down(len(units) + 1)
    value: int = (prefix * powers[0] + sum(map(mul, units, powers[1:]))) & WRAP
    return value


def _hash_long(value: int, units: bytes | memoryview) -> int:
    """Hash piece by piece: tables as long as what a client sends would be a way to fill memory."""
    for begin in range(0, len(units), PIECE_MAX):
        piece = units[begin : begin + PIECE_MAX]
        powers = powers_down(len(piece))
        value = (value * 31 * powers[0] + sum(map(mul, piece, powers))) & WRAP
    return value


@lru_cache(maxsize=PIECE_MAX + 2)
def powers_down(count: int) -> tuple[int, ...]:
    """Return 31 ** (count - 1) down to 31 ** 0, modulo 2**32."""
    return tuple(pow(31, exponent, WRAP + 1) for exponent in range(count - 1, -1, -1))


def utf16_length(text: str) -> int:
    """Return the number of UTF-16 code units, Java's String.length()."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def tags_code(tag: str) -> int:
    """Return what a consume unit holds for a tag: its hash, sign-extended; 0 for no tag.

    Source   MessageExtBrokerInner.tagsString2tagsCode
    """
    return _known_hash(tag) if len(tag) <= PIECE_MAX else java_hash(tag)


@lru_cache(maxsize=4096)
def _known_hash(tag: str) -> int:
    return java_hash(tag)
