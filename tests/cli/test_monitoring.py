"""`monitoring init` writes the files of conf/monitoring, and replaces no other file unasked."""

from pathlib import Path
from typing import Final

from tests.cli.command_line import run

SHIPPED: Final = Path(__file__).resolve().parents[2] / "conf" / "monitoring"


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in directory.iterdir()}


def written(to: Path) -> dict[str, str]:
    """Returns the shipped files as they are written to a directory: with its own path."""
    texts = contents(SHIPPED)
    return {name: text.replace("=conf/monitoring/", f"={to}/") for name, text in texts.items()}


def test_every_file_is_written(tmp_path: Path) -> None:
    made = tmp_path / "a" / "b"
    done = run("monitoring", "init", str(made), "-o", "json")
    assert done.code == 0, done.err
    assert contents(made) == written(made)
    assert done.document["files"] == sorted(contents(SHIPPED))
    assert f"prometheus --config.file={made}/prometheus.yml" in done.err


def test_the_target_is_the_brokers(tmp_path: Path) -> None:
    run("monitoring", "init", str(tmp_path), "--target", "broker:5557")
    text = (tmp_path / "prometheus.yml").read_text("utf-8")
    assert 'targets: ["broker:5557"]' in text
    assert "127.0.0.1:5557" not in text


def test_other_files_stay_without_yes(tmp_path: Path) -> None:
    mine = tmp_path / "alerts.yml"
    mine.write_text("mine")
    done = run("monitoring", "init", str(tmp_path))
    assert done.code == 4
    assert "alerts.yml; nothing was written" in done.err
    assert contents(tmp_path) == {"alerts.yml": "mine"}
    assert run("monitoring", "init", str(tmp_path), "--yes").code == 0
    assert contents(tmp_path) == written(tmp_path)
    assert run("monitoring", "init", str(tmp_path)).code == 0  # the same files are no others


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("monitoring", "init", str(tmp_path / "file" / "x"))
    assert done.code == 1
    assert f"{tmp_path}/file/x cannot be written: Not a directory" in done.err
