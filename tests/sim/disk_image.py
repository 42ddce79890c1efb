"""Contents of a simulated disk: live, durable, and the states after a power cut.

    live      file contents and names that programs see
    durable   synced contents and names
    pending   between the two: versions of 512-byte sectors, lengths, blocks, directory operations

A power cut keeps any subset of the pending changes (see tests/sim/disk.py for the fault model).
Images share unchanged files: the cost of a cut depends on dirty bytes, not on stored ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

SECTOR: Final = 512
BLOCK: Final = 4096
TORN: Final = frozenset({"commitlog"})
"""Folders whose files have checksums, so that a sector may be torn."""


class LiveBytes(bytearray):
    """The content of an open file, shared with its maps, whose writes change it."""

    def close(self) -> None:
        """Does nothing: unmapping has no effect here."""


class File:
    """A file: its content as programs see it, and its durable part."""

    __slots__ = (
        "blocks", "dirty", "durable", "durable_blocks", "live", "lost", "opens", "seen", "sizes"
    )  # fmt: skip

    def __init__(self, content: bytes = b"", blocks: int = 0) -> None:
        self.durable = content
        self.durable_blocks = blocks
        self.blocks = blocks
        """Bit n: block n is allocated."""
        self.live: bytearray | None = None
        """None until the file is opened: its content is the durable one."""
        self.seen = content
        """Live content at the last look; differences are writes through a map."""
        self.dirty: dict[int, list[bytes]] = {}
        """Versions of each sector since the last sync, oldest first."""
        self.sizes: list[int] = []
        """Lengths since the last sync, oldest first."""
        self.lost: set[int] = set()
        """Sectors that a failed sync lost: visible, counted as clean, never written."""
        self.opens = 0
        """Number of open descriptors."""

    def opened(self) -> bytearray:
        """Returns the live content."""
        if self.live is None:
            self.live = LiveBytes(self.durable)
        return self.live

    @property
    def content(self) -> bytes:
        """The bytes that a reader sees."""
        return self.durable if self.live is None else bytes(self.live)

    @property
    def size(self) -> int:
        """Length that programs see."""
        return len(self.durable) if self.live is None else len(self.live)

    def resize(self, size_bytes: int) -> None:
        """Truncates the file, or extends it with zeros."""
        live = self.opened()
        if size_bytes == len(live):
            return
        self.look()
        if size_bytes < len(live):
            del live[size_bytes:]
        else:
            live.extend(bytes(size_bytes - len(live)))
        self.sizes.append(size_bytes)
        self.seen = bytes(live)

    def look(self) -> None:
        """Adds writes since the last look as versions of sectors.

        Errors   AssertionError: stored where there is no block, which kills a process when the disk
                 is full (SIGBUS)
        """
        live, seen = self.live, self.seen
        if live is None or live == seen:
            return
        self.seen = now = bytes(live)
        for begin in range(0, len(now), SECTOR):
            version = now[begin : begin + SECTOR]
            if version != seen[begin : begin + SECTOR]:
                number = begin // SECTOR
                assert self.blocks >> (begin // BLOCK) & 1, f"no block behind byte {begin}"
                self.dirty.setdefault(number, []).append(version)
                self.lost.discard(number)

    def sync(self) -> None:
        """Makes the file durable, except sectors that an earlier sync lost."""
        self.look()
        if self.lost:
            self.durable = self._with({n: versions[-1] for n, versions in self.dirty.items()})
        else:
            self.durable = self.seen
        self.durable_blocks = self.blocks
        self.dirty.clear()
        self.sizes.clear()

    def lose(self, rng: Random) -> None:
        """Fails a sync: some sectors are written, the others count as clean from now on."""
        self.look()
        kept = {n: rng.choice(v) for n, v in self.dirty.items() if rng.random() < 0.5}
        self.lost |= self.dirty.keys() - kept.keys()
        self.durable = self._with(kept)
        self.dirty.clear()
        self.sizes.clear()

    def _with(self, sectors: dict[int, bytes]) -> bytes:
        content = bytearray(self.durable[: self.size].ljust(self.size, b"\0"))
        for number, version in sectors.items():
            content[number * SECTOR : number * SECTOR + len(version)] = version
        return bytes(content)

    @property
    def is_clean(self) -> bool:
        """Whether a power cut cannot change the file."""
        return not (self.dirty or self.sizes or self.blocks != self.durable_blocks)

    def cut(self, rng: Random, *, torn: bool) -> "File":
        """Returns the file as a power cut leaves it."""
        if self.is_clean:
            return File(self.durable, self.durable_blocks)
        size = rng.choice([len(self.durable), *self.sizes])
        share = rng.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
        content = bytearray(self.durable[:size].ljust(size, b"\0"))
        blocks = self.blocks if rng.random() < 0.7 else self.durable_blocks
        for number, versions in self.dirty.items():
            begin = number * SECTOR
            if begin >= size or rng.random() >= share:
                continue
            version = versions[-1] if rng.random() < 0.7 else rng.choice(versions)
            if torn and rng.random() < 0.05:
                middle = rng.randrange(len(version))
                version = version[:middle] + bytes(content[begin + middle : begin + len(version)])
            content[begin : begin + SECTOR] = version[: size - begin]
            blocks |= 1 << begin // BLOCK
        return File(bytes(content), blocks)


class Folder:
    """A directory: its names as programs see them, and its durable names."""

    __slots__ = ("durable", "live")

    def __init__(self) -> None:
        self.live: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = File | Folder


@dataclass(frozen=True, slots=True)
class NameChange:
    """One change of names, kept or lost as a whole: rows of (folder, name, new target)."""

    changes: tuple[tuple[Folder, str, Node | None], ...]


class Image:
    """A tree of folders and files."""

    __slots__ = ("open_files", "pending", "root")

    def __init__(self) -> None:
        self.root = Folder()
        self.pending: list[NameChange] = []
        self.open_files: dict[int, File] = {}
        """Mapped files by id: they change without a call of the disk."""

    # -- names ---------------------------------------------------------------------------------
    def find(self, path: Path) -> Node | None:
        """Returns the file or folder of a name."""
        node: Node | None = self.root
        for name in str(path).split("/"):
            if not name:
                continue
            if not isinstance(node, Folder):
                return None
            node = node.live.get(name)
        return node

    def change(self, *changes: tuple[Folder, str, Node | None]) -> None:
        """Changes names in one step."""
        for folder, name, node in changes:
            if node is None:
                folder.live.pop(name, None)
            else:
                folder.live[name] = node
        self.pending.append(NameChange(changes))

    def sync_folder(self, folder: Folder) -> None:
        """Makes a folder's names durable, with the other names of the same steps."""
        left: list[NameChange] = []
        for pending in self.pending:
            if any(changed[0] is folder for changed in pending.changes):
                _apply(pending, lambda one: one.durable)
            else:
                left.append(pending)
        self.pending = left

    def sync_all(self) -> None:
        """Makes everything durable."""
        for pending in self.pending:
            _apply(pending, lambda one: one.durable)
        self.pending = []
        for _, file in self.files():
            file.sync()

    def look(self) -> None:
        """Adds writes through maps since the last look."""
        for file in list(self.open_files.values()):  # threads of a store open and close some
            live = file.live
            if live is not None and live != file.seen:
                file.look()

    def files(self) -> Iterator[tuple[str, File]]:
        """Yields (path, file) of every file that programs see."""
        folders: list[tuple[str, Folder]] = [("", self.root)]
        while folders:
            above, folder = folders.pop()
            for name, node in list(folder.live.items()):
                if isinstance(node, Folder):
                    folders.append((f"{above}/{name}", node))
                else:
                    yield f"{above}/{name}", node

    def key(self) -> int:
        """Returns a digest of the image as programs see it."""
        return hash(frozenset((path, file.content) for path, file in self.files()))

    # -- losing power --------------------------------------------------------------------------
    def cut(self, rng: Random, *, torn: frozenset[str] = TORN) -> "Image":
        """Returns a state that a power cut may leave now: any subset of the pending changes.

        torn     folders in whose files a sector may be half old, half new
        """
        self.look()
        names: dict[int, dict[str, Node]] = {}

        def names_of(folder: Folder) -> dict[str, Node]:
            if id(folder) not in names:
                names[id(folder)] = dict(folder.durable)
            return names[id(folder)]

        for pending in _subset(self.pending, rng):
            _apply(pending, names_of)
        left = Image()
        copies: dict[int, File] = {}

        def copy(source: Folder, target: Folder, is_torn: bool) -> None:
            for name, node in names.get(id(source), source.durable).items():
                made: Node
                if isinstance(node, Folder):
                    made = Folder()
                    copy(node, made, name in torn)
                else:
                    made = copies.setdefault(id(node), node.cut(rng, torn=is_torn))
                target.live[name] = target.durable[name] = made

        copy(self.root, left.root, False)
        return left

    def copy(self, *, behind: str = "") -> "Image":
        """Returns an image of what programs see, all of it durable, as kill -9 leaves it.

        behind   a folder whose files hold what is durable alone: the power cut that leaves all
                 other files ahead of these
        """
        self.look()
        left = Image()

        def copy(source: Folder, target: Folder, is_behind: bool) -> None:
            for name, node in source.live.items():
                made: Node
                if isinstance(node, Folder):
                    made = Folder()
                    copy(node, made, name == behind)
                elif is_behind:
                    made = File(node.durable[: node.size].ljust(node.size, b"\0"), node.blocks)
                else:
                    made = File(node.content, node.blocks)
                target.live[name] = target.durable[name] = made

        copy(self.root, left.root, False)
        return left


def _subset(pending: list[NameChange], rng: Random) -> list[NameChange]:
    """Returns some of the changes, in order: all, none, the first ones, or any."""
    way = rng.random()
    if way < 0.3:
        return pending
    if way < 0.4:
        return []
    if way < 0.65:
        return pending[: rng.randint(0, len(pending))]
    return [change for change in pending if rng.random() < 0.5]


def _apply(pending: NameChange, names_of: Callable[[Folder], dict[str, Node]]) -> None:
    for folder, name, node in pending.changes:
        names = names_of(folder)
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
