"""Valid bytes with random changes."""

from random import Random
from typing import Final

EDGES: Final = [b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\n\0", b"\x01", b"\x02", b'"']


def mutated(random: Random, raw: bytes) -> bytes:
    """Returns bytes with some changed, cut out, doubled or inserted."""
    found = bytearray(raw)
    for _ in range(random.randrange(1, 6)):
        place = random.randrange(len(found) + 1)
        size = random.choice((1, 1, 2, 4, 8, 40))
        match random.randrange(6):
            case 0:
                found[place : place + 1] = bytes([random.randrange(256)])
            case 1:
                del found[place : place + size]
            case 2:
                found[place:place] = found[place : place + size]
            case 3:
                found[place : place + size] = random.choice(EDGES)
            case 4:
                found[place:place] = random.randbytes(size)
            case _:
                del found[place:]
    return bytes(found)
