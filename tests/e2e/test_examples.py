"""The examples run, against a broker of this checkout."""

import re
import sys
from pathlib import Path

import pytest

from tests.e2e.daemon import Daemon, ended

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *arguments: str) -> list[str]:
    """Return the lines that an example prints."""
    done = ended([sys.executable, str(ROOT / "examples" / name), *arguments], cwd=ROOT, env=ENV)
    assert done.code == 0, done.err
    return done.out.splitlines()


ENV = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}


def test_the_examples_run(tmp_path: Path) -> None:
    with Daemon(tmp_path / "store") as broker:
        stored, pulled, by_key, by_id = run("blocking.py", broker.endpoint)
        assert re.fullmatch(r"stored: \w{32} and \w{32}", stored)
        assert pulled == "pulled: order 42 paid"
        assert by_key == "by key: ['order 42 shipped', 'order 42 paid']"
        assert by_id == "by id: order 42 shipped"
        assert run("tasks.py", broker.endpoint) == [f"{n} step {n}" for n in range(10)]
        told = run("tail.py", "example-tasks", broker.endpoint, "3")
        assert told == ["0 0 None step 0", "0 1 None step 1", "0 2 None step 2"]
        worked = run("consuming.py", broker.endpoint)
        assert worked == [
            *(f"invoice {n} attempt 1" for n in range(3)),
            "nonsense attempt 1",
            "given up: this one cannot be worked off",
            "dead letter: nonsense",
        ]
        placed = run("transactions.py", broker.endpoint)
        assert placed == ["order 1: COMMIT", "asked about 1 order", "open: 0"]
        *waits, taken_back, first, second = run("delays.py", broker.endpoint)
        assert [line.split()[0] for line in [*waits, taken_back]] == ["waits:"] * 3 + ["taken"]
        assert {first, second} == {"due: in two seconds", "due: when level 2 is over"}
        assert broker.stop() == 0


PAGES = ["README.md", "docs/client.md", "docs/consuming.md", "docs/delays.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_first_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text().partition("```python\n")[2].partition("```")[0]
    assert text
    script = tmp_path / "script.py"
    with Daemon(tmp_path / "store") as broker:
        script.write_text(text.replace("127.0.0.1:8081", broker.endpoint))
        done = ended([sys.executable, str(script)], cwd=tmp_path, env=ENV)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[0].startswith("order 42 paid")
        assert broker.stop() == 0
