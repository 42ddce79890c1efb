"""Tables for people, JSON for programs, each row as soon as it is there."""

import csv
import io
import sys

import pytest

from pocketmq.cli.output import Column, Output, PrintedRows, at, columns, moment
from tests.kit.terminal import Terminal

COLUMNS = columns("name", "size")


def test_a_terminal_gets_a_table_and_a_pipe_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert Output(None).form == "table"
    assert Output("jsonl").form == "jsonl"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert Output(None).form == "json"


LONG = "c" * 100
ROWS = [{"name": "a", "size": 2**53 + 1}, {"name": "\u00fc"}]


@pytest.mark.parametrize(
    ("form", "rows", "text"),
    [
        ("json", [], "[]\n"),
        ("jsonl", [], ""),
        ("table", [], ""),
        ("csv", [], "name,size\n"),
        ("yaml", [], "[]\n"),
        ("yaml", ROWS, '- name: a\n  size: 9007199254740993\n- name: "\u00fc"\n'),
        ("json", ROWS, '[\n{"name":"a","size":9007199254740993},\n{"name":"\u00fc"}\n]\n'),
        ("table", [{"name": 1, "size": 2}], "NAME\n1\n"),
        ("wide", [{"name": LONG, "size": 1}], f"{'NAME':100}  SIZE\n{LONG}  1\n"),
    ],
)
def test_rows_as_they_are_printed(
    capsys: pytest.CaptureFixture[str], form: str, rows: list[dict[str, object]], text: str
) -> None:
    Output(form).table(rows, columns("name"), columns("size"))
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("form", "document", "text"),
    [
        ("json", {"a": 1}, '{\n  "a": 1\n}\n'),
        ("jsonl", {"a": 1}, '{"a":1}\n'),
        ("wide", {"a": 1}, "a  1\n"),
        ("yaml", {"a": 1, "b": ["x"]}, "a: 1\nb:\n- x\n"),
        ("csv", {"a": 1, "b": ["x", "y"]}, 'a,b\n1,"[""x"",""y""]"\n'),
        (
            "table",
            {"keys": ["a", "b"], "on": True, "map": {"k": 1}, "none": None},
            "keys  a, b\non    yes\nmap   k=1\nnone  \n",
        ),
    ],
)
def test_one_document_as_it_is_printed(
    capsys: pytest.CaptureFixture[str], form: str, document: dict[str, object], text: str
) -> None:
    Output(form).show(document)
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(("names", "text"), [([], ""), (["a"], '[\n{"name":"a"}\n]\n')])
def test_an_error_closes_an_array_that_was_begun(
    capsys: pytest.CaptureFixture[str], names: list[str], text: str
) -> None:
    with pytest.raises(ValueError), PrintedRows("json", COLUMNS) as rows:
        for name in names:
            rows.add({"name": name})
        raise ValueError
    assert capsys.readouterr().out == text


def test_rows_as_jsonl_are_a_line_each_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with PrintedRows("jsonl", COLUMNS) as rows:
        rows.add({"name": "a\nb", "size": 1})
        rows.flush()
        assert capsys.readouterr().out == '{"name":"a\\nb","size":1}\n'
        rows.add({"name": "c", "size": 2})
    assert capsys.readouterr().out == '{"name":"c","size":2}\n'


def test_a_table_has_its_titles_once_and_columns_that_line_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with PrintedRows("table", COLUMNS) as rows:
        rows.add({"name": "orders", "size": 1})
        rows.add({"name": "b", "size": 20})
        rows.flush()
        rows.add({"name": "c", "size": None})
    assert capsys.readouterr().out == "NAME    SIZE\norders  1\nb       20\nc\n"


def test_a_cell_is_one_short_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    with PrintedRows("table", columns("x")) as rows:
        rows.add({"x": "a\nb\x1b[31m" + "c" * 100})
    _, cell = capsys.readouterr().out.splitlines()
    assert len(cell) == 60
    assert cell.startswith("a⏎b�[31mccc")
    assert cell.endswith("…")


def test_a_moment_names_its_zone_and_0_is_none() -> None:
    assert moment(0) == ""
    assert moment(1_795_228_200_250)[-10:-6] == ".250"


def test_csv_has_titles_once_and_quotes_what_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    with PrintedRows("csv", columns("a"), columns("b")) as rows:
        rows.add({"a": 'say "x", y', "b": {"k": [1]}})
        rows.flush()
        rows.add({"a": "line\nbreak", "b": True})
        rows.add({"a": None})
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["a", "b"],
        ['say "x", y', '{"k":[1]}'],
        ["line\nbreak", "true"],
        ["", ""],
    ]


def test_a_field_has_one_name_and_csv_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    body = Column("body_text", lambda row: row.get("body_text", "(…)"), also=("body",))
    row = {"lag_ms": 0, "stored_ms": 1_795_228_200_250, "body": "/w=="}
    Output("table").table([row], columns("lag_ms", at("stored_ms"), body))
    titles, cells = capsys.readouterr().out.splitlines()
    assert titles.split() == ["LAG_MS", "STORED", "BODY_TEXT"]
    assert cells.startswith("0       2026-11-21")
    Output("csv").table([row], columns("lag_ms", at("stored_ms"), body))
    assert capsys.readouterr().out == "lag_ms,stored_ms,body_text,body\n0,1795228200250,,/w==\n"


def test_a_list_without_rows_is_told_to_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    Output("table").table([], columns("name"), none="no topics")
    Output("json").table([], columns("name"), none="no topics")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("[]\n", "no topics\n")
