"""Files of one length as one address space (RocketMQ's mapped file queue).

    base of first                                        begin of last     + wrote
    |------- file --------|------- file --------| … |------- file ----.....|
    min_offset                                                   max_offset

The name of a file is the offset of its first byte. A file of another length, or a missing file in
the middle, is an error that names the file. A last file of length zero was never used and is left
out. A power cut may leave an empty file in the middle of a view: this file and all later files are
removed and rebuilt.
Source: MappedFileQueue.
"""

from collections.abc import Iterator
from pathlib import Path

from pocketmq.files.disk import Disk
from pocketmq.files.disk_errors import close_all
from pocketmq.files.mapped_file import Keeper, MappedFile
from pocketmq.format.names import files_from, is_junk, offset_file_name, offset_from_file_name
from pocketmq.model.errors import StoreGap, StrayFile, WrongFileSize


class MappedFileQueue:
    """The files of one directory, oldest first."""

    __slots__ = (
        "_disk", "_is_mapped", "_is_view", "_keeper", "_place", "file_size", "files", "key_names",
        "read_only",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: Path | str,
        file_size: int,
        key_names: str,
        keeper: Keeper | None = None,
        *,
        is_mapped: bool = True,
        is_view: bool = False,
    ) -> None:
        self._disk = disk
        self._is_view = is_view
        self._is_mapped = is_mapped
        self._keeper = keeper
        self._place = directory
        self.file_size = file_size
        self.key_names = key_names
        """Settings that determine the file size, for error messages."""
        self.read_only = False
        self.files: list[MappedFile] = []

    @property
    def directory(self) -> Path:
        """Directory of the files."""
        return Path(self._place)

    @property
    def min_offset(self) -> int:
        """Offset of the first file; 0 without files."""
        return self.files[0].base if self.files else 0

    @property
    def max_offset(self) -> int:
        """Offset after the last written byte; 0 without files."""
        return self.files[-1].base + self.files[-1].wrote if self.files else 0

    def load(self, *, read_only: bool = False) -> None:
        """Finds the files; opens none, and counts each one as full.

        Effects  in a view, unless `read_only`, removes the first file of length zero and all later
                 files
        Errors   StrayFile, WrongFileSize, StoreGap, ReadFailed
        """
        self.read_only = read_only
        directory = self.directory
        names = [name for name in self._disk.names(directory) if not is_junk(name)]
        for name in names:
            path = directory / name
            base = offset_from_file_name(name)
            if base is None and self._disk.is_directory(path):
                continue
            if base is None:
                raise StrayFile(path=str(path), why="its name is not an offset of 20 digits")
            size = self._disk.file_size(path)
            if size == 0 and (self._is_view or name == names[-1]):
                if self._is_view and not self.read_only:  # Neither it nor later files were durable.
                    self.unlink_from(base)
                return
            self._add_found(path, base, size)

    def probe(self) -> Iterator[None]:
        """Opens each file once as a use would, and reads its first byte; yields after each.

        Cost     a read from the disk for each file that is not in memory
        Errors   ReadFailed: a file has another owner, or its disk fails
        """
        for file in self.files:
            descriptor = self._disk.open(file.path, read_only=self.read_only)
            try:
                self._disk.read_at(descriptor, 0, 1)
            finally:
                self._disk.close(descriptor)
            yield

    def remove_empty(self) -> None:
        """Removes files of length zero, which `load` left out."""
        for name in self._disk.names(self.directory):
            path = self.directory / name
            if offset_from_file_name(name) is not None and not self._disk.file_size(path):
                self._disk.unlink(path)

    def unlink_from(self, position: int) -> bool:
        """Removes the directory's files that begin at or after a position.

        Shape    none of these files is in `files`
        Returns  whether any existed
        """
        directory = self.directory
        gone = files_from(self._disk.names(directory), position)
        for name in gone:
            self._disk.unlink(directory / name)
        return bool(gone)

    def _add_found(self, path: Path, base: int, size: int) -> None:
        if size != self.file_size:
            raise WrongFileSize(
                path=str(path),
                expected_bytes=self.file_size,
                found_bytes=size,
                key_names=self.key_names,
            )
        if self.files and base != self.files[-1].base + self.file_size:
            expected = self.files[-1].base + self.file_size
            raise StoreGap(path=str(path), expected=expected, found=base)
        file = self._file(path, base)
        file.wrote = size
        self.files.append(file)

    def adopt(self, begin: int, end: int) -> bool:
        """Adopts the files of [begin, end), the last one partly written, without reading them.

        Returns  False if the last file is missing or has another length; for a range of several
                 files, also if the first names in the directory are not those of the range
        """
        bases = range(begin, end, self.file_size)
        names = [offset_file_name(base) for base in bases]
        if len(names) != 1 and self._disk.names(self.directory)[: len(names)] != names:
            return False
        places = [f"{self._place}/{name}" for name in names]
        if not places or not self._has_length(places[-1]):
            return False
        files = [self._file(place, base) for place, base in zip(places, bases, strict=True)]
        for file in files:
            file.wrote = min(end - file.base, self.file_size)
        self.files = files
        return True

    def _has_length(self, place: str) -> bool:
        try:
            return self._disk.file_size(place) == self.file_size
        except (FileNotFoundError, NotADirectoryError):
            return False

    def file_at(self, position: int) -> MappedFile | None:
        """Returns the open file that contains a position; None if there is no such file."""
        if not self.files:
            return None
        number = (position - self.files[0].base) // self.file_size
        if not 0 <= number < len(self.files):
            return None
        file = self.files[number]
        file.was_used = True
        return file if file.is_open else file.open(read_only=self.read_only)

    def make_file(self, base: int) -> MappedFile:
        """Creates the next file, sparse and open; its name is durable once the file is synced.

        Errors   DiskFull, AllocationFailed
        """
        names = self._disk.add_directory(self.directory)
        path = self.directory / offset_file_name(base)
        try:
            descriptor = self._disk.make_sparse_file(path, self.file_size, is_named=False)
        except BaseException:
            self._disk.sync_directories(names)  # The next attempt finds them, and syncs none.
            raise
        file = self._file(path, base).adopt(descriptor)
        file.unsynced_names = [*names, self.directory]
        self.files.append(file)
        return file

    def _file(self, path: Path | str, base: int) -> MappedFile:
        return MappedFile(
            self._disk, path, base, self.file_size, self._keeper, is_mapped=self._is_mapped
        )

    def append_file(self, file: MappedFile) -> None:
        """Adds a file that the caller created; it must follow the last one."""
        if self.files:
            assert file.base == self.files[-1].base + self.file_size
        file.join(self._keeper)
        self.files.append(file)

    def drop_first(self) -> MappedFile:
        """Drops the oldest file, which must not be the last; the caller must remove it."""
        assert len(self.files) > 1
        return self.files.pop(0)

    def cut(self, position: int) -> None:
        """Truncates at a position: removes later files, except the file at 0; changes no bytes."""
        while self.files and self.files[-1].base >= position and self.files[-1].base > 0:
            self.files.pop().remove()
            if not self._is_view:  # A power cut must not restore a file after a missing one.
                self._disk.sync_directory(self.directory)
        if self.files and position - self.files[-1].base < self.files[-1].wrote:
            self.files[-1].wrote = max(position - self.files[-1].base, 0)

    def close(self) -> None:
        """Closes all files."""
        close_all(file.close for file in self.files)
