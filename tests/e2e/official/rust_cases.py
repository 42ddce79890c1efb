"""RocketMQ's own client for Rust works as it is, on a broker as a user starts it.

Its build takes minutes, so that this is no part of the tests: scripts/torture/run official_rust.
"""

from pathlib import Path

from tests.e2e.daemon import Daemon
from tests.e2e.official.cases import CommonCases
from tests.e2e.official.programs import Official, Program


class TestRust(CommonCases):
    """The cases."""

    language = "rust"

    def test_sends_go_on_when_the_broker_comes_back(self, program: Program, tmp_path: Path) -> None:
        store = tmp_path / "store"
        with Daemon(store) as first:
            address = first.endpoint
            with Official(program, address, tmp_path / "client.log") as client:
                sending = client.begin("keep_sending", topic="restarted", pause_s=0.05)
                sending.until_count(5)
                assert first.stop() == 0
                with Daemon(store, "--listen", address):
                    before = len(sending.look())
                    sending.until(lambda rows: any("sent" in row for row in rows[before:]))
                    sending.stop()
                    told = sending.ended()
                    numbers = {str(row["sent"]) for row in told if "sent" in row}
                    asked = {"topic": "restarted", "group": "readers", "count": len(numbers)}
                    got = client.ask("receive", **asked)
                    assert numbers <= {row["body"] for row in got}
