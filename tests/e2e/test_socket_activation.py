"""The systemd units of conf/systemd: a broker reached from elsewhere has users."""

import json
import re
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.daemon import Daemon, pocketmq

UNITS = Path(__file__).parents[2] / "conf" / "systemd"
EVERYWHERE = "0.0.0.0"
"""Host of the socket once its operator has opened it."""


def in_unit(kind: str, key: str) -> str:
    """Returns the value of a key of a unit."""
    text = (UNITS / f"pocketmq.{kind}").read_text("utf-8")
    found = re.search(rf"^{key}=(.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1]


@contextmanager
def activated(store: Path, *more: str) -> Iterator[Daemon]:
    """Gives a daemon that is begun as the units do it, on any port of all addresses."""
    _, command, *arguments = shlex.split(in_unit("service", "ExecStart"))
    assert command == "serve"
    assert arguments[0] == "--store", "the daemon has the store's place itself"
    with socket.create_server((EVERYWHERE, 0)) as listening:
        daemon = Daemon(store, *arguments[2:], *more, listening=listening)
        daemon.begin()
        try:
            yield daemon
        finally:
            daemon.end()


def test_until_it_is_opened_the_socket_is_this_machines_own() -> None:
    assert in_unit("socket", "ListenStream") == "127.0.0.1:8081"


def test_without_users_it_does_not_start_and_says_both_ways_out(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with activated(store) as daemon:
        assert not daemon.becomes_ready()
        assert daemon.wait() == 2
        said = daemon.log.read_text()
    assert re.search(r"setting LISTEN_FDS: 0\.0\.0\.0:\d+ is reached from other machines", said)
    assert f"pocketmq user add admin --admin --store {store}" in said
    assert "--insecure" in said


def test_with_a_user_strangers_make_none(tmp_path: Path) -> None:
    store = tmp_path / "store"
    made = pocketmq("user", "add", "admin", "--admin", "--store", str(store))
    secret = json.loads(made.out)["secret"]
    with activated(store) as daemon:
        assert daemon.becomes_ready()
        refused = daemon.ask("user", "add", "mallory", "--admin")
        assert refused.code != 0
        assert "no signature" in refused.err
        keys = ("--access-key", "admin", "--secret-key", secret)
        listed = daemon.ask("user", "ls", "-o", "jsonl", *keys)
        assert [row["access_key"] for row in listed.rows] == ["admin"]


def test_insecure_lets_everybody(tmp_path: Path) -> None:
    with activated(tmp_path / "store", "--insecure") as daemon:
        assert daemon.becomes_ready()
        assert daemon.ask("topic", "create", "orders").code == 0
