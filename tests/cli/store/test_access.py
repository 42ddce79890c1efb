"""Behaviour that all commands on a store directory share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from pocketmq.cli.options import QUEUE
from pocketmq.cli.output import FLUSH_COUNT, Output, columns
from pocketmq.cli.store import export, grep, ls, stats
from pocketmq.cli.store.access import accessible
from pocketmq.files.disk import Disk
from pocketmq.model.errors import StoreLocked
from pocketmq.tools import grep as tools_grep
from pocketmq.tools import listing, statistics
from pocketmq.tools.export import files
from pocketmq.tools.export import files as sinks
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import record_positions


@pytest.mark.parametrize(("text", "queue"), [("orders:0", ("orders", 0)), ("a:b:17", ("a:b", 17))])
def test_a_queue_is_read_from_its_last_colon(text: str, queue: tuple[str, int]) -> None:
    assert QUEUE.convert(text, None, None) == queue


@pytest.mark.parametrize("text", ["orders", ":1", "orders:", "orders:-1", "orders:x", "orders:²"])
def test_what_is_no_queue_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not TOPIC:QUEUE"):
        QUEUE.convert(text, None, None)


def test_a_store_in_use_is_looked_at_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog").mkdir()
    assert isinstance(accessible(tmp_path, read_only=False), Disk)
    monkeypatch.setattr("pocketmq.tools.store_access.held_by", lambda path: "process 7")
    with pytest.raises(StoreLocked, match="in use by process 7"):
        accessible(tmp_path, read_only=False)
    assert isinstance(accessible(tmp_path, read_only=True), Disk)


# -- every command ---------------------------------------------------------------------------------
READERS: Final = (
    ("dump",), ("grep", "."), ("stats",), ("export", "--to", "-", "--format", "jsonl", "--system"),
)  # fmt: skip
"""Commands that read messages."""
COMMANDS: Final = (*READERS, ("info",), ("ls",), ("verify",), ("repair",), ("rebuild",))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_directory_must_be_there_and_be_a_store(tmp_path: Path, command: tuple[str, ...]) -> None:
    missing = run("store", *command, str(tmp_path / "none"))
    assert missing.code == 3
    assert "none" in missing.err
    (tmp_path / "holiday.jpg").touch()
    other = run("store", *command, str(tmp_path))
    assert other.code == 4
    assert "holiday.jpg" in other.err


@pytest.mark.parametrize("command", READERS, ids=lambda words: words[0])
def test_damage_is_passed_over_told_and_exit_10(
    golden: GoldenStores, tmp_path: Path, command: tuple[str, ...]
) -> None:
    store = golden.copy("rebuild-base", tmp_path / "store")
    file = sorted((store / "commitlog").iterdir())[1]
    position, _ = record_positions(file)[2]
    content = bytearray(file.read_bytes())
    content[position + 90] ^= 1
    file.write_bytes(content)
    done = run("store", *command, str(store))
    assert done.code == 10
    assert f"Damage: {file} at {int(file.name) + position}" in done.err
    count = len(golden.manifest("rebuild-base")["records"]) - 1
    if command[0] == "stats":
        assert done.document["summary"]["messages"] == count
    else:
        assert len(done.rows if command[0] == "export" else done.document) == count
    if command[0] == "grep":
        assert run("store", "grep", "no such text", str(store)).code == 10
        assert run("store", "grep", ".", str(store), "--no-crc").code == 0


@pytest.mark.parametrize("command", READERS, ids=lambda words: words[0])
def test_a_torn_tail_is_noted_and_no_damage(golden: GoldenStores, command: tuple[str, ...]) -> None:
    done = run("store", *command, str(golden.store("crash-torn.before")))
    assert done.code == 0
    assert "Note: after the last record" in done.err


def test_the_words_of_options_are_those_of_the_tools() -> None:
    assert grep.PLACES == tools_grep.PLACES
    assert set(stats.LABELS) == set(statistics.DIMENSIONS)
    assert listing.KINDS == ls.KINDS
    assert set(export.FORMATS) == set(files.SUFFIXES.values())
    assert export.SPLITS == files.SPLITS
    assert (sinks.PARQUET, sinks.ARROW, sinks.JSONL) == export.FORMATS


def test_rows_are_seen_long_before_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    shown = columns("number")

    def rows() -> Iterator[dict[str, int]]:
        for number in range(FLUSH_COUNT + 1):
            if number == FLUSH_COUNT:
                seen.append(capsys.readouterr().out)
            yield {"number": number}

    Output("table").stream(rows(), shown)
    assert seen[0].splitlines()[0] == "NUMBER"
    assert len(seen[0].splitlines()) == FLUSH_COUNT + 1
    assert capsys.readouterr().out == f"{FLUSH_COUNT}\n"
