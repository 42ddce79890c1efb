"""Tables for people, JSON for programs, each row as soon as it is there."""

import csv
import io
import json
import sys

import pytest

from broker.cli.output import Output, Rows, column, moment

COLUMNS = {"NAME": column("name"), "SIZE": column("size")}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_table_and_a_pipe_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert Output(None).form == "table"
    assert Output("jsonl").form == "jsonl"
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert Output(None).form == "json"


def test_rows_as_json_are_one_array(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("json", COLUMNS) as rows:
        rows.add({"name": "a", "size": 2**53 + 1})
        rows.add({"name": "ü"})
    text = capsys.readouterr().out
    assert json.loads(text) == [{"name": "a", "size": 2**53 + 1}, {"name": "ü"}]
    assert "ü" in text


def test_no_rows_as_json_are_an_empty_array(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("json", COLUMNS):
        pass
    assert capsys.readouterr().out == "[]\n"


def test_an_error_before_the_first_row_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), Rows("json", COLUMNS):
        raise ValueError
    assert capsys.readouterr().out == ""


def test_an_error_behind_rows_closes_the_array(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), Rows("json", COLUMNS) as rows:
        rows.add({"name": "a"})
        raise ValueError
    assert json.loads(capsys.readouterr().out) == [{"name": "a"}]


def test_rows_as_jsonl_are_a_line_each_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("jsonl", COLUMNS) as rows:
        rows.add({"name": "a\nb", "size": 1})
        rows.flush()
        assert capsys.readouterr().out == '{"name":"a\\nb","size":1}\n'
        rows.add({"name": "c", "size": 2})
    assert capsys.readouterr().out == '{"name":"c","size":2}\n'


def test_a_table_has_its_titles_once_and_columns_that_line_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Rows("table", COLUMNS) as rows:
        rows.add({"name": "orders", "size": 1})
        rows.add({"name": "b", "size": 20})
        rows.flush()
        rows.add({"name": "c", "size": None})
    assert capsys.readouterr().out == "NAME    SIZE\norders  1\nb       20\nc\n"


def test_a_table_without_rows_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("table", COLUMNS):
        pass
    assert capsys.readouterr().out == ""


def test_a_cell_is_one_short_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("table", {"X": column("x")}) as rows:
        rows.add({"x": "a\nb\x1b[31m" + "c" * 100})
    _, cell = capsys.readouterr().out.splitlines()
    assert len(cell) == 60
    assert cell.startswith("a⏎b�[31mccc")
    assert cell.endswith("…")


def test_lists_and_truths_read_as_words(capsys: pytest.CaptureFixture[str]) -> None:
    Output("table").show({"keys": ["a", "b"], "on": True, "map": {"k": 1}, "none": None})
    assert capsys.readouterr().out.splitlines() == [
        "keys  a, b",
        "on    yes",
        "map   k=1",
        "none  ",
    ]


def test_one_document_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    Output("json").show({"a": 1})
    Output("jsonl").show({"a": 1})
    assert capsys.readouterr().out == '{\n  "a": 1\n}\n{"a":1}\n'


def test_a_moment_names_its_zone_and_0_is_none() -> None:
    assert moment(0) == ""
    assert moment(1_795_228_200_250)[-10:-6] == ".250"


def test_wide_has_more_columns_and_whole_cells(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("wide", {"X": column("x")}, {"Y": column("y")}) as rows:
        rows.add({"x": "c" * 100, "y": 1})
    titles, cells = capsys.readouterr().out.splitlines()
    assert titles.split() == ["X", "Y"]
    assert cells.split() == ["c" * 100, "1"]


def test_a_table_leaves_the_wide_columns_out(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("table", {"X": column("x")}, {"Y": column("y")}) as rows:
        rows.add({"x": 1, "y": 2})
    assert capsys.readouterr().out == "X\n1\n"


def test_csv_has_titles_once_and_quotes_what_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("csv", {"FIRST NAME": column("a")}, {"B": column("b")}) as rows:
        rows.add({"a": 'say "x", y', "b": {"k": [1]}})
        rows.flush()
        rows.add({"a": "line\nbreak", "b": True})
        rows.add({"a": None})
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["first_name", "b"],
        ['say "x", y', '{"k":[1]}'],
        ["line\nbreak", "true"],
        ["", ""],
    ]


def test_csv_without_rows_still_has_its_titles(capsys: pytest.CaptureFixture[str]) -> None:
    with Rows("csv", COLUMNS):
        pass
    assert capsys.readouterr().out == "name,size\n"


def test_one_document_as_csv_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    Output("csv").show({"a": 1, "b": ["x", "y"]})
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["a", "b"],
        ["1", '["x","y"]'],
    ]


def test_one_document_is_as_wide_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output("wide").show({"a": 1})
    assert capsys.readouterr().out == "a  1\n"
