"""Store directories with arbitrary content, and every program that opens one.

    stock = made(tmp_path / "s")                  a store with queues, index, tables and journals
    outcome = tried(stock, tmp_path / "c", seed)  a copy, changed in some places, opened by all

A change is of bytes, of a length or of a kind: links to a victim beside the store, FIFOs,
directories, stray files. The broker and each tool open it or refuse it with a typed error, in
bounded time, and nothing outside the directory changes.
"""

import asyncio
import json
import os
import shutil
import signal
import struct
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

from pocketmq.cli.output import Failure
from pocketmq.cli.store.access import Given
from pocketmq.files.disk import Disk
from pocketmq.model.errors import BrokerError
from pocketmq.tools.dump import index_rows, queue_ids, queue_units
from pocketmq.tools.inspect import describe
from pocketmq.tools.lag import group_lags
from pocketmq.tools.listing import list_files
from pocketmq.tools.rebuild import plan_rebuild, rebuild_beside
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.verify.verification import verify
from tests.kit.golden_log import files_below
from tests.kit.store_language import store_at

VICTIM: Final = b"what lies beside the store"
HANG_SECONDS: Final = 20
NOW_MS: Final = 1_800_000_000_000
ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 2**31 - 1, 2**63 - 1, 2**64, 1e300, "", "x" * 300, [], [[]], {}, {"a": {}},
)  # fmt: skip
NAMES: Final = ("7" * 20, "0" * 20, "20261121003515660", "notes.txt", ".nfs0001", "%RETRY%g", "-1")


def made(directory: Path) -> Path:
    """Makes a store that has every kind of file."""
    asyncio.run(_fill(directory))
    (directory / "timerlog").mkdir()
    (directory / "timerlog" / ("0" * 20)).write_bytes(bytes(range(52)) * 10)
    (directory / "timerwheel").write_bytes(bytes(37))
    (directory / "config/timercheck").write_bytes(bytes(4096))
    (directory / "config/timermetrics").write_text('{"timingCount":{"T":{"count":1}}}')
    return directory


async def _fill(directory: Path) -> None:
    async with store_at(directory) as store:
        for number in range(30):
            await store.send("T", f"body {number}", key=f"k{number}")
        tables = store.store.tables
        await tables.topics.ensure("T", 1)
        await tables.commit("g", "T", 0, 3)
        await tables.delay_offsets.put({1: 2}, 5, {})
        await tables.removed.add("R", {0: 4})
        await tables.orders.folded()
        await store.settled()


# -- changes ---------------------------------------------------------------------------------------
def change(store: Path, victims: Path, rng: Random) -> str:
    """Changes one file of a store; returns which one, and how."""
    paths = sorted(path for path in store.rglob("*") if path.name != "lock")
    path = rng.choice(paths)
    how = rng.choice(_OF_FILES if path.is_file() and not path.is_symlink() else _OF_OTHERS)
    how(path, victims, rng)
    return f"{how.__name__.strip('_')} {path.relative_to(store)}"


def _flip(path: Path, victims: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 8) if content else 0):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _number(path: Path, victims: Path, rng: Random) -> None:
    content = bytearray(path.read_bytes())
    number = rng.choice((-(2**63), -1, 0, 2**31 - 1, 2**31, 2**62, 2**63 - 1))
    at = rng.randrange(max(len(content) // 4, 1)) * 4
    content[at : at + 8] = struct.pack(">q", number)
    path.write_bytes(content)


def _cut(path: Path, victims: Path, rng: Random) -> None:
    os.truncate(path, rng.randint(0, path.stat().st_size))


def _grow(path: Path, victims: Path, rng: Random) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice((1, 20, 4096))))


def _scramble(path: Path, victims: Path, rng: Random) -> None:
    path.write_bytes(rng.randbytes(path.stat().st_size))


def _value(path: Path, victims: Path, rng: Random) -> None:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError):
        return _flip(path, victims, rng)
    here = document
    while isinstance(here, dict) and here and rng.random() < 0.7:
        key = rng.choice(sorted(here))
        if rng.random() < 0.5 or not isinstance(here[key], dict):
            here[key] = deepcopy(rng.choice(ODD))  # Later changes are of this case alone.
        here = here[key]
    path.write_text(json.dumps(document))
    return None


def _swap(path: Path, victims: Path, rng: Random) -> None:
    others = [other for other in path.parent.iterdir() if other.is_file()]
    path.write_bytes(rng.choice(others).read_bytes() if others else b"")


def _remove(path: Path, victims: Path, rng: Random) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _link(path: Path, victims: Path, rng: Random) -> None:
    targets = sorted(victims.rglob("*"))
    _remove(path, victims, rng)
    path.symlink_to(rng.choice([*targets, victims, victims / "none", path]))


def _fifo(path: Path, victims: Path, rng: Random) -> None:
    _remove(path, victims, rng)
    os.mkfifo(path)


def _directory(path: Path, victims: Path, rng: Random) -> None:
    _remove(path, victims, rng)
    path.mkdir()


def _file(path: Path, victims: Path, rng: Random) -> None:
    _remove(path, victims, rng)
    path.write_bytes(rng.randbytes(rng.choice((0, 20, 200, 4096))))


def _stray(path: Path, victims: Path, rng: Random) -> None:
    folder = path if path.is_dir() and not path.is_symlink() else path.parent
    other = folder / rng.choice(NAMES)
    if not other.exists() and not other.is_symlink():
        rng.choice((_file_at, _link_at, _folder_at))(other, victims, rng)


def _file_at(path: Path, victims: Path, rng: Random) -> None:
    path.write_bytes(rng.randbytes(rng.choice((0, 200, 4096))))


def _link_at(path: Path, victims: Path, rng: Random) -> None:
    path.symlink_to(rng.choice(sorted(victims.rglob("*"))))


def _folder_at(path: Path, victims: Path, rng: Random) -> None:
    path.mkdir()


_Change = Callable[[Path, Path, Random], None]
_OF_FILES: Final[tuple[_Change, ...]] = (
    _flip, _number, _number, _cut, _grow, _scramble, _value, _value, _value, _swap, _remove, _link,
    _fifo, _directory, _stray,
)  # fmt: skip
_OF_OTHERS: Final[tuple[_Change, ...]] = (_remove, _link, _fifo, _file, _stray, _directory)


# -- all that opens one ----------------------------------------------------------------------------
def _verify(store: Path) -> object:
    return verify(*_opened(store))


def _info(store: Path) -> object:
    return describe(*_opened(store))


def _ls(store: Path) -> object:
    disk, directory, sizes = _opened(store)
    return list(list_files(disk, directory, sizes))


def _plan_of_repair(store: Path) -> object:
    return plan_repair(*_opened(store), now_ms=NOW_MS)


def _rebuild(store: Path) -> object:
    disk, directory, sizes = _opened(store)
    out = store.with_name("rebuilt")
    shutil.rmtree(out, ignore_errors=True)
    return rebuild_beside(disk, plan_rebuild(disk, directory, sizes, out=out), accept_holes=True)


def _dump(store: Path) -> object:
    disk, directory, sizes = _opened(store)
    units = [list(queue_units(disk, directory, sizes, "T", i)) for i in queue_ids(disk, store, "T")]
    return units, list(index_rows(disk, directory, sizes)), group_lags(disk, directory, {})


def _opened(store: Path) -> Any:
    return Given(store, True, ()).opened(with_index=True)


def _serve(store: Path) -> object:
    return asyncio.run(_served(store))


async def _served(store: Path) -> None:
    async with store_at(store, disk=Disk()) as opened:
        if opened.store.damage is None:
            await opened.store.tables.commit("g", "T", 0, 0)
            await opened.send("T", "one more")
            await opened.settled()


OPENERS: Final = (_verify, _info, _ls, _plan_of_repair, _rebuild, _dump, _serve, _serve)


class Wrong(Exception):
    """An outcome that must not happen to any directory."""


def tried(stock: Path, scratch: Path, seed: int) -> Counter[str]:
    """Changes a copy of a store and opens it with all programs; returns the outcome.

    Errors   Wrong
    """
    rng = Random(seed)
    shutil.rmtree(scratch, ignore_errors=True)
    store, victims = scratch / "s", scratch / "victims"
    shutil.copytree(stock, store)
    for name in ("file", "directory/00000000000000000000", "directory/topics.json"):
        (victims / name).parent.mkdir(parents=True, exist_ok=True)
        (victims / name).write_bytes(VICTIM)
    before = files_below(victims)
    changes = [change(store, victims, rng) for _ in range(rng.choice((1, 1, 2, 4)))]
    ends: Counter[str] = Counter()
    for opener in OPENERS:
        try:
            ends[_end_of(opener, store)] += 1
        except Exception as error:
            raise Wrong(f"seed {seed}, {opener.__name__}: {changes}: {error!r}") from error
        if files_below(victims) != before:
            raise Wrong(f"seed {seed}, {opener.__name__}: {changes}: wrote beside the store")
    return ends


def _end_of(opener: Callable[[Path], object], store: Path) -> str:
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(HANG_SECONDS)
    try:
        opener(store)
    except (BrokerError, Failure) as refused:
        return type(refused).__name__
    finally:
        signal.alarm(0)
    return "opened"


def _hangs(number: int, frame: object) -> None:
    raise TimeoutError(f"it hangs for {HANG_SECONDS} s")
