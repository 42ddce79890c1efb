"""What the commands on a store directory share."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.cli.options import directory_argument, queue_option, read_only_option, yes_option
from broker.cli.output import FLUSH_COUNT, Exit, Failure, Output, column
from broker.cli.store.access import accessible
from broker.files.disk import Disk
from broker.model.errors import NotAStore, StoreLocked


@click.command()
@directory_argument
@queue_option("A queue.")
@read_only_option
@yes_option
def command(directory: Path, queue: tuple[str, int] | None, read_only: bool, yes: bool) -> None:
    """Print what was given."""
    click.echo(repr((str(directory), queue, read_only, yes)))


def given(*arguments: str) -> str:
    done = CliRunner().invoke(command, arguments)
    return done.output


def test_without_options_nothing_is_chosen() -> None:
    assert given("s") == "('s', None, False, False)\n"


def test_options_are_read() -> None:
    assert given("s", "--read-only", "--yes") == "('s', None, True, True)\n"


@pytest.mark.parametrize(("text", "queue"), [("orders:0", ("orders", 0)), ("a:b:17", ("a:b", 17))])
def test_a_queue_is_read_from_its_last_colon(text: str, queue: tuple[str, int]) -> None:
    assert given("s", "--queue", text) == f"{('s', queue, False, False)!r}\n"


@pytest.mark.parametrize("text", ["orders", ":1", "orders:", "orders:-1", "orders:x", "orders:²"])
def test_what_is_no_queue_is_a_usage_error(text: str) -> None:
    assert "is not TOPIC:QUEUE" in given("s", "--queue", text)


def test_a_directory_must_be_there_and_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(Failure) as failure:
        accessible(tmp_path / "none", read_only=False)
    assert failure.value.exit_code == Exit.NOT_FOUND
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(NotAStore):
        accessible(tmp_path, read_only=True)


def test_a_store_in_use_is_looked_at_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog").mkdir()
    assert isinstance(accessible(tmp_path, read_only=False), Disk)
    monkeypatch.setattr("broker.tools.store_access.is_locked", lambda path: True)
    with pytest.raises(StoreLocked):
        accessible(tmp_path, read_only=False)
    assert isinstance(accessible(tmp_path, read_only=True), Disk)


def test_rows_are_seen_long_before_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    columns = {"NUMBER": column("number")}

    def rows() -> Iterator[dict[str, int]]:
        for number in range(FLUSH_COUNT + 1):
            if number == FLUSH_COUNT:
                seen.append(capsys.readouterr().out)
            yield {"number": number}

    Output("table").stream(rows(), columns)
    assert seen[0].splitlines()[0] == "NUMBER"
    assert len(seen[0].splitlines()) == FLUSH_COUNT + 1
    assert capsys.readouterr().out == f"{FLUSH_COUNT}\n"
