"""Whatever others wrote is shown by commands, and never obeyed by the terminal it is shown on."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pocketmq.cli.output import (
    FORMATS,
    STANDS_IN,
    Exit,
    Failure,
    Output,
    columns,
    escaped,
    safe,
    talk,
    talk_notes,
    yaml_document,
)
from pocketmq.cli.store.export import _line_of
from pocketmq.format.message_columns import MESSAGE_COLUMNS
from tests.cli.local_broker import stored

CLI = Path(__file__).parents[2] / "broker" / "pocketmq" / "cli"
HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07\x9b2J\x9d8;;http://x\x9c\r\x08\x00\x7f\u202edesrever\u2066\u200f"
    "\ufeff\u2028\ud800"
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800]")


def test_letters_of_all_scripts_line_feeds_and_tabs_stay() -> None:
    text = "Größe 価格 \N{GRINNING FACE}\n\tשלום |%_-"
    assert safe(text) == escaped(text) == text


@pytest.mark.parametrize("character", [chr(n) for n in [*range(32), *range(0x7F, 0xA0), 0x202E]])
def test_each_control_character_is_shown(character: str) -> None:
    kept = character if character in "\n\t" else STANDS_IN
    assert safe(f"a{character}b") == f"a{kept}b"


def test_what_json_does_not_escape_is_escaped_and_reads_as_it_was() -> None:
    written = escaped(json.dumps(HOSTILE, ensure_ascii=False))
    assert not OBEYED.search(written)
    assert json.loads(written) == HOSTILE


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("way", ["show", "table", "stream", "nested"])
def test_no_form_of_output_lets_it_through(
    form: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Output(form)
    document: dict[str, Any] = {"body": HOSTILE, f"key{HOSTILE}": "x"}
    if way == "nested":
        document = {"body": [{"properties": {HOSTILE: HOSTILE}}]}
    if way in ("show", "nested"):
        out.show(document)
    elif way == "table":
        out.table([document], columns("body"), columns(f"key{HOSTILE}"))
    else:
        out.stream([document], columns("body"))
    shown = capsys.readouterr().out
    assert shown
    assert not OBEYED.search(shown)
    if form == "json" and way == "show":
        assert json.loads(shown) == document


def test_lines_of_an_export_have_none() -> None:
    body = HOSTILE.rstrip("\ud800").encode()
    message = stored(0, body, properties={"own": HOSTILE})
    line = _line_of(list(MESSAGE_COLUMNS))(message)
    assert not OBEYED.search(line.decode())
    assert json.loads(line)["properties"]["own"] == HOSTILE


def test_yaml_has_none() -> None:
    assert not OBEYED.search(yaml_document({HOSTILE: [HOSTILE]}))


def test_talk_and_errors_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    talk(HOSTILE)
    talk_notes([HOSTILE])
    Failure(f"topic {HOSTILE!s} does not exist", Exit.NOT_FOUND, f"create {HOSTILE}").show()
    captured = capsys.readouterr()
    assert not OBEYED.search(captured.err)
    assert captured.err.count("red") == 4


def test_an_error_written_to_a_file_has_none() -> None:
    file = io.StringIO()
    Failure(HOSTILE, Exit.FAILED).show(file)
    assert not OBEYED.search(file.getvalue())


OWN_TEXT = {
    "output.py": "the sinks themselves", "completion.py": "click's scripts", "user.py": "a token",
    "config.py": "conf/broker.toml", "serve.py": "addresses of this process",
    "stats.py": "an empty line", "export.py": "records, to a file",
    "bench.py": "figures of its own", "program.py": "version and commit",
    "console.py": "its own address", "definitions.py": "YAML, escaped",
}  # fmt: skip
SINKS = re.compile(r"click\.s?echo\(|(?<!_)\bprint\(|sys\.(?:__)?std(?:out|err)\.(?:write|buffer)")


def test_nothing_is_printed_but_by_what_makes_it_safe() -> None:
    printing = {path.name for path in CLI.rglob("*.py") if SINKS.search(path.read_text("utf-8"))}
    assert printing == OWN_TEXT.keys()
