"""A bounded number of open files: the ones not used for longest make room."""

from pathlib import Path

import pytest

from broker.files.mapped_file import MappedFile
from broker.files.open_files import OpenFiles
from tests.fakes.quick_disk import QuickDisk

SIZE = 4096


class Shelf:
    """Files a, b, c … of which three may be open.

    shelf.use("a", "b"); assert shelf.open == "ab"
    """

    def __init__(self, directory: Path) -> None:
        self.keeper = OpenFiles(3)
        self.files: dict[str, MappedFile] = {}
        for name in "abcde":
            (directory / name).write_bytes(bytes(SIZE))
            self.files[name] = MappedFile(QuickDisk(), directory / name, 0, SIZE, self.keeper)

    def use(self, *names: str) -> None:
        for name in names:
            file = self.files[name].open()
            file.was_used = True

    @property
    def open(self) -> str:
        return "".join(name for name, file in self.files.items() if file.is_open)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_up_to_the_bound_everything_stays_open(shelf: Shelf) -> None:
    shelf.use("a", "b", "c")
    assert shelf.open == "abc"
    assert (shelf.keeper.count, shelf.keeper.size_bytes) == (3, 3 * SIZE)


def test_the_one_opened_first_makes_room(shelf: Shelf) -> None:
    shelf.use("a", "b", "c", "d")
    assert shelf.open == "bcd"


def test_one_used_since_it_was_looked_at_outlives_others(shelf: Shelf) -> None:
    shelf.use("a", "b", "c", "d")
    shelf.use("b")
    shelf.use("e")
    assert shelf.open == "bde"


def test_a_held_file_stays_whoever_comes(shelf: Shelf) -> None:
    shelf.files["a"].hold()
    shelf.use("b", "c", "d", "e")
    assert "a" in shelf.open
    assert shelf.keeper.count == 3
    shelf.files["a"].let_go()


def test_when_all_others_are_held_the_bound_gives_way(shelf: Shelf) -> None:
    for name in "abc":
        shelf.files[name].hold()
    shelf.use("d")
    assert shelf.open == "abcd"


def test_a_file_closed_by_others_is_forgotten(shelf: Shelf) -> None:
    shelf.use("a", "b", "c")
    shelf.files["b"].close()
    shelf.use("d")
    assert shelf.open == "acd"
