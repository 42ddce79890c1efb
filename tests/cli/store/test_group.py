"""`pocketmq store` shows its commands without loading any of them."""

import subprocess
import sys

from pocketmq.cli.store import PLACES
from tests.cli.command_line import run

LOADED_LATE = ("numpy", "grpc", "pyarrow", "pocketmq.tools", "pocketmq.cli.store.dump")


def test_help_loads_neither_numpy_nor_the_tools() -> None:
    code = "import sys; sys.argv[1:] = ['store', '--help']\nfrom pocketmq.cli import main\n"
    code += "try: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: pocketmq store" in done.stdout
    assert set(done.stderr.split()) & set(LOADED_LATE) == set()


def test_help_lists_every_command_with_a_line_about_it() -> None:
    lines = run("store", "--help").out.splitlines()
    for name, place in PLACES.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line.endswith(place.about)


def test_an_unknown_command_is_a_usage_error() -> None:
    assert run("store", "polish").code == 2
