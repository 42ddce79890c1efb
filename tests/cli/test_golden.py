"""Each command prints what tests/cli/golden holds, as a table and as JSON."""

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pocketmq import native
from pocketmq.cli import version
from pocketmq.client import async_client
from pocketmq.rpc.pb import admin_pb2 as pb
from tests.cli.command_line import run
from tests.cli.golden_lines import GOLDEN, OPTIONAL, WITHOUT, filled, leaves, names_of, shown
from tests.cli.local_broker import STATUS, LocalBroker
from tests.golden_stores import GoldenStores

FOLDER = Path(__file__).with_name("golden")
WRITES = "POCKETMQ_WRITE_GOLDEN"
FORMS = ("table", "json")
OFFLINE = ("archive", "config", "version", "store")
"""First words of commands that call no broker."""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the files that lines name, in the time zone UTC."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.0")
    monkeypatch.setattr(native, "form", lambda: "interpreted")
    monkeypatch.setattr(native, "running", lambda: ())
    monkeypatch.setattr(version, "commit", lambda: "abcdef123456")
    monkeypatch.setattr(async_client, "gethostname", lambda: "host")
    monkeypatch.setattr(async_client, "token_hex", lambda size: "0" * 2 * size)
    monkeypatch.setattr(async_client, "os", SimpleNamespace(getpid=lambda: 1))
    time.tzset()
    Path("secret").write_text("a-secret\n")
    Path("broker.toml").write_text('[store]\nflush = "async"\n')
    Path("other.toml").write_text('[retention]\nage_ms = "24h"\n')
    yield
    monkeypatch.undo()
    time.tzset()


def answered(broker: LocalBroker) -> None:
    """Answers for what a simulated broker has not: a connected client, and a disk."""
    asked = pb.AskClientResponse(status="OK", stack="main:\n  waits")
    broker.answers["Admin/PrintClientStack"] = lambda request: asked
    broker.answers["Admin/VerifyMessage"] = lambda request: pb.AskClientResponse(status="OK")
    again = pb.ResumeTransactionResponse(transaction_id="0.1.again")
    broker.answers["Admin/ResumeTransaction"] = lambda request: again
    broker.answers["Admin/StoreStatus"] = lambda request: pb.StoreStatusResponse(**STATUS._asdict())


def golden_file(command: str, form: str) -> Path:
    return FOLDER / form / f"{command.replace(' ', '_')}.txt"


def test_each_command_is_listed_once_and_has_its_outputs() -> None:
    assert not GOLDEN.keys() & WITHOUT.keys()
    assert GOLDEN.keys() | WITHOUT.keys() == leaves()
    files = {path.relative_to(FOLDER) for path in FOLDER.rglob("*.txt")}
    wanted = {golden_file(command, form) for command in GOLDEN for form in FORMS}
    assert files == {file.relative_to(FOLDER) for file in wanted}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", GOLDEN)
def test_a_command_prints_what_it_printed(
    command: str, form: str, request: pytest.FixtureRequest, golden: GoldenStores
) -> None:
    typed = {}
    if command.split()[0] not in OFFLINE:
        broker = request.getfixturevalue("broker")
        typed = filled(broker)
        answered(broker)
    elif command.startswith(("store", "archive")):
        golden.copy("basic", Path("store"))
    if command == "store restore":
        run("store", "backup", "store", "backup")
    if command == "archive ls":
        run("archive", "ship", "store", "archive", "--once")
    if command == "archive compact":
        run("archive", "run", "store", "lake")
    found = shown(command, form, typed)
    file = golden_file(command, form)
    if os.environ.get(WRITES):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(found)
    assert found == file.read_text()


@pytest.mark.parametrize("command", GOLDEN)
def test_a_table_names_fields_as_json_does(command: str) -> None:
    table, json = (names_of(golden_file(command, form).read_text()) for form in FORMS)
    known = json | {name.removesuffix("_ms").removesuffix("_bytes") for name in json} | OPTIONAL
    assert table <= known
