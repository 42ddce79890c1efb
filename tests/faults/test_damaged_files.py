"""D2: every file of a store is damaged in every way, and the store is opened and read.

A store of 200 records in 64 KiB of log, with property CRC, in memory. Whatever is cut short,
flipped, zeroed, doubled, exchanged or taken from another time: no wrong byte is served, what is
lost is told, errors are typed, nothing takes longer than two seconds. Derived files are rebuilt or
healed.

Here a sample with a seed; every bit of the log is for `scripts/torture/run flips`.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.kit.damaged_image import Seen, Stock, cut, file_of, flip, stocked, write
from tests.sim.disk_image import SECTOR, Image

SEED = 20261121
LOG = "/commitlog/"
DERIVED = ("/consumequeue/", "/consumequeue_ext/", "/index/")
MARKS = ("/checkpoint", "/watermark")
TABLES = ("/store.json", "/config/")
KINDS: dict[str, tuple[str, ...]] = {
    "log": (LOG,),
    "derived": DERIVED,
    "marks": MARKS,
    "tables": TABLES,
}
LENGTHS_A_FILE = 12
"""`scripts/torture/run cuts` takes all 100,000 lengths of all files."""
FILE_SIZE = 16_384
UNSEEN_MAX = 0.02
"""Share of damages to queues and index after which a query by key may claim to be complete while it
is not: a slot that leads to an older entry of its own chain looks as it should."""
CASES = 54
"""Of each kind of file and each ending, some 8 ms a case: each way six times."""


@pytest.fixture(scope="module")
def stock() -> Stock:
    """As an orderly stop left it."""
    return asyncio.run(stocked(file_size=FILE_SIZE, count=200, consume_queue_extension=True))


@pytest.fixture(scope="module")
def killed() -> Stock:
    """As a kill left it."""
    return asyncio.run(
        stocked(file_size=FILE_SIZE, count=200, consume_queue_extension=True, killed=True)
    )


# -- ways to damage a file -------------------------------------------------------------------------
Way = Callable[[Image, str, int, random.Random], str]


def flipped(image: Image, path: str, length: int, chance: random.Random) -> str:
    bit = chance.randrange(8 * length)
    flip(image, path, bit)
    return f"bit {bit}"


def shorter(image: Image, path: str, length: int, chance: random.Random) -> str:
    end = chance.randrange(length)
    cut(image, path, end)
    return f"cut at {end}"


def empty_behind(image: Image, path: str, length: int, chance: random.Random) -> str:
    end = chance.randrange(length)
    write(image, path, end, bytes(length - end))
    return f"zeros from {end}"


def _sector(length: int, chance: random.Random) -> int:
    return chance.randrange(-(-length // SECTOR)) * SECTOR


def zeroed(image: Image, path: str, length: int, chance: random.Random) -> str:
    begin = _sector(length, chance)
    write(image, path, begin, bytes(min(SECTOR, length - begin)))
    return f"sector {begin} zero"


def doubled(image: Image, path: str, length: int, chance: random.Random) -> str:
    source, target = _sector(length, chance), _sector(length, chance)
    content = file_of(image, path).content[source : source + SECTOR]
    write(image, path, target, content[: length - target])
    return f"sector {source} at {target} too"


def exchanged(image: Image, path: str, length: int, chance: random.Random) -> str:
    one, other = sorted((_sector(length, chance), _sector(length, chance)))
    content = file_of(image, path).content
    size = min(SECTOR, length - other)
    write(image, path, one, content[other : other + size])
    write(image, path, other, content[one : one + size])
    return f"sectors {one} and {other} exchanged"


def noise(image: Image, path: str, length: int, chance: random.Random) -> str:
    begin = chance.randrange(length)
    size = min(chance.randrange(1, 64), length - begin)
    write(image, path, begin, chance.randbytes(size))
    return f"{size} bytes at {begin}"


WAYS: tuple[Way, ...] = (
    flipped, flipped, flipped, shorter, empty_behind, zeroed, doubled, exchanged, noise
)  # fmt: skip


def cases(stock: Stock, words: tuple[str, ...]) -> Iterator[Image]:
    """Yields damaged images, files and ways in turn."""
    files = {path: size for path, size in stock.files(*words).items() if size}
    assert files
    for number in range(CASES):
        chance = random.Random(SEED + number)
        image = stock.image()
        path = sorted(files)[number % len(files)]
        text = WAYS[(number + number // len(files)) % len(WAYS)](image, path, files[path], chance)
        print(f"repro: case {number}, seed {SEED}: {path}: {text}")
        yield image


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_whatever_is_damaged_is_told_or_healed(
    stock: Stock, killed: Stock, kind: str, ending: str
) -> None:
    chosen = killed if ending == "killed" else stock
    counts: Counter[str] = Counter()
    for image in cases(chosen, KINDS[kind]):
        seen = await chosen.opened(image)
        judged(chosen, seen, counts, is_log=kind == "log")
    print(f"{kind}, {ending}: {dict(counts)}")
    assert counts["cases"] == CASES
    assert kind != "derived" or not counts["refused"], "damage in derived files is made good"
    assert counts["unseen"] <= (counts["cases"] * UNSEEN_MAX if kind == "derived" else 0)


def judged(stock: Stock, seen: Seen, counts: Counter[str], *, is_log: bool) -> None:
    """Nothing wrong, nothing lost without a word; with a whole log nothing is lost at all.

    The index has no check of its own: a few damages leave a chain that looks whole.
    """
    complaints = [text for text in stock.complaints(seen) if "claims to be complete" not in text]
    counts["unseen"] += len(stock.complaints(seen)) > len(complaints)
    lost = stock.lost(seen)
    if not is_log and seen.refused is None and seen.damaged is None and lost:
        complaints.append(f"{len(lost)} messages of a whole log lost, first {min(lost)}")
    assert not complaints
    counts["cases"] += 1
    counts["refused"] += seen.refused is not None
    counts["damaged"] += seen.damaged is not None
    counts["reported"] += bool(seen.reported)
    counts["mended"] += seen.mended > 0
    counts["whole"] += not lost and seen.refused is None


@pytest.mark.parametrize("ending", ["stopped", "killed"])
@pytest.mark.parametrize("shift", [0, 100])
async def test_a_file_of_other_records_is_no_part_of_the_log(
    stock: Stock, killed: Stock, ending: str, shift: int
) -> None:
    """Any log file spliced in for any other, as it was or moved by some bytes."""
    chosen = killed if ending == "killed" else stock
    files = [path for path, size in chosen.files(LOG).items() if size]
    runs = 0
    for source in files:
        for target in files:
            if source == target:
                continue
            image = chosen.image()
            content = file_of(image, source).content
            length = file_of(image, target).size
            write(image, target, 0, (bytes(shift) + content)[:length])
            seen = await chosen.opened(image)
            assert not chosen.complaints(seen), f"repro: {source} for {target}"
            assert seen.damaged is None or seen.damaged.path == target
            base = files.index(target) * FILE_SIZE
            assert chosen.lost(seen) == chosen.hit(base, base + FILE_SIZE) or seen.refused
            runs += 1
    assert runs >= 2


@pytest.mark.parametrize("word", [LOG, *DERIVED, *MARKS, *TABLES])
async def test_a_file_cut_to_any_length_is_told_or_made_anew(stock: Stock, word: str) -> None:
    """Lengths a prime apart, so that every length of a structure is among them."""
    lengths = 0
    for path, size in stock.files(word).items():
        for end in range(0, size, max(size // LENGTHS_A_FILE, 1) | 1):
            image = stock.image()
            cut(image, path, end)
            seen = await stock.opened(image)
            assert not stock.complaints(seen), f"repro: {path} cut to {end}"
            lengths += 1
    assert lengths >= LENGTHS_A_FILE
