"""Files of an Iceberg table as objects of a lake: pyiceberg reads and writes through `Objects`.

So metadata is as durable as data files, and needs no second set of credentials.
"""

import re
from io import BytesIO
from typing import Any, Final

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from pocketmq.model.errors import NotAStore
from pocketmq.tools.archive.objects import Objects

_SPELLINGS: Final = (re.compile(r"^file:/*(?=/)"), re.compile(r"^s3[an](?=://)"))


def _plain(location: str) -> str:
    """Returns a location in one spelling: Hadoop has others for directories and S3."""
    of_file, of_s3 = _SPELLINGS
    return of_s3.sub("s3", of_file.sub("", location))


class TableFiles(FileIO):
    """The files below a table's location."""

    def __init__(self, objects: Objects, location: str) -> None:
        super().__init__({})
        self._objects, self.location = objects, location.rstrip("/")
        assert self.location, "a table has a location"

    def name(self, location: str) -> str:
        """Returns the name of the object at a location.

        Errors   NotAStore: it is not below the table's location
        """
        own, found = _plain(self.location), _plain(location)
        name = found.removeprefix(f"{own}/")
        if name == found:
            why = f"its table has a file at another place, {location}"
            raise NotAStore(path=self._objects.target, why=why)
        return name

    def new_input(self, location: str) -> InputFile:
        """Returns a file to read."""
        return _Input(location, self._objects, self.name(location))

    def new_output(self, location: str) -> OutputFile:
        """Returns a file to write."""
        return _Output(location, self._objects, self.name(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Deletes a file."""
        self._objects.delete(
            self.name(location if isinstance(location, str) else location.location)
        )


class _Input(InputFile):
    def __init__(self, location: str, objects: Objects, name: str) -> None:
        super().__init__(location)
        self._objects, self._name = objects, name

    def __len__(self) -> int:
        with self._objects.opened(self._name) as opened:
            opened.seek(0, 2)
            return int(opened.tell())

    def exists(self) -> bool:
        try:
            self._objects.opened(self._name).close()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        found: InputStream = self._objects.opened(self._name)
        return found


class _Output(OutputFile):
    def __init__(self, location: str, objects: Objects, name: str) -> None:
        super().__init__(location)
        self._objects, self._name = objects, name

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._objects, self._name)

    def create(self, overwrite: bool = False) -> OutputStream:
        if not overwrite and self.exists():
            raise FileExistsError(self.location)
        return _Sink(self._objects, self._name)


class _Sink(BytesIO):
    """Keeps the content of a file of metadata in memory until it is closed."""

    def __init__(self, objects: Objects, name: str) -> None:
        super().__init__()
        self._objects, self._name = objects, name

    def __exit__(self, kind: Any, *given: Any) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._objects.put(self._name, [content])
