"""Cases that hold for RocketMQ's own client of each language, on a broker as users start it.

A module of tests has a class that takes the cases over and names its client. The cases go on
side by side; what takes longest is begun first.
"""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pocketmq.cli.output import Exit
from pocketmq.client import AsyncClient
from pocketmq.model.administration import GroupSettings
from tests.e2e.daemon import Daemon, pocketmq
from tests.e2e.official.programs import PROGRAMS, Failed, Missing, Official, Program, Row, Talk
from tests.e2e.official.relay import Relay
from tests.e2e.official.side_by_side import SideBySide, beside

TOPICS: Final = {
    "whole": "", "mixed": "", "again": "", "left": "", "pushed-tag": "", "pushed-sql": "",
    "shared": "", "grouped": "", "dead": "", "shop%orders": "", "restarted": "", "cut": "",
    "asked": "", "plain": "normal",
    "ordered": "fifo", "ordered-push": "fifo", "later": "delay", "recalled": "delay",
    "decided": "transaction", "first": "priority",
}  # fmt: skip
"""Topic -> its type, "" for one that takes all."""
DELAY_MS: Final = 1_000
LETTERS: Final = "%DLQ%dying"
END_S: Final = 30
ONE_LOOP: Final = threading.Lock()
"""Held by a thread with an event loop: gRPC polls for one at a time."""
ATTEMPTS: Final = 2
"""Deliveries that group "dying" has in all."""


def official(language: str) -> Program:
    """Returns a client's program, or skip what needs it."""
    try:
        return PROGRAMS[language]()
    except Missing as why:
        pytest.skip(str(why))


def make_topics(endpoint: str) -> None:
    """Makes what the cases need, each its own."""

    async def make() -> None:
        async with AsyncClient(endpoint) as client:
            for name, kind in TOPICS.items():
                await client.admin.create_topic(name, type_name=kind, queue_count=4)
            await client.admin.create_group("dying", GroupSettings(max_attempts=ATTEMPTS))

    with ONE_LOOP:
        asyncio.run(make())


def attempts(rows: list[Row]) -> Counter[tuple[str, int]]:
    """Returns how often which body came as which attempt."""
    return Counter((row["body"], row["attempt"]) for row in rows if "body" in row)


def deliveries(talk: Talk, count: int) -> list[Row]:
    """Returns what push consumers got when that is so much, and have them end."""
    talk.until(lambda rows: len([row for row in rows if "body" in row]) >= count).stop()
    return [row for row in talk.rows if "body" in row]


def key(user: str, secret: str = "a-secret") -> dict[str, str]:
    """Returns what makes a client sign its calls."""
    return {"access_key": user, "secret_key": secret}


@pytest.mark.timeout(120, func_only=True)  # building the client has its own limit, the first time
class CommonCases(SideBySide):
    """Abilities of every client."""

    language = ""

    @pytest.fixture(scope="class")
    @classmethod
    def program(cls) -> Program:
        """How the client is run."""
        return official(cls.language)

    @pytest.fixture(scope="class")
    @classmethod
    def broker(cls, program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
        """A broker for all cases; each has a topic of its own."""
        store = tmp_path_factory.mktemp("official") / "store"
        with Daemon(store, "--set", "transactions.timeout_ms=1s") as daemon:
            make_topics(daemon.endpoint)
            yield daemon

    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, program: Program, broker: Daemon) -> Iterator[Official]:
        """The client's program."""
        log = broker.store.with_name("client.log")
        with Official(program, broker.endpoint, log) as client:
            yield client

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def decided(cls, client: Official) -> Talk:
        """Transactions, which take longest."""
        bodies = ["commit", "roll back", "asked: commit", "asked: roll back"]
        return client.begin("transact", topic="decided", bodies=bodies)

    @beside
    def test_what_is_sent_is_received_whole(self, client: Official) -> None:
        message = {"tag": "A", "keys": ["k1", "k2"], "properties": {"color": "blue", "größe": "1"}}
        messages = [{"body": body, **message} for body in ("one", "zwölf 取消", "x" * 100_000)]
        sent = client.ask("send", topic="whole", messages=messages)
        got = client.ask("receive", topic="whole", group="readers", count=3)
        assert {row["message_id"]: row["body"] for row in got} == {
            row["message_id"]: one["body"] for row, one in zip(sent, messages, strict=True)
        }
        for row in got:
            assert (row["topic"], row["tag"], row["keys"]) == ("whole", "A", ["k1", "k2"])
            assert (row["properties"], row["attempt"]) == (message["properties"], 1)
            assert not row["corrupted"]

    @beside
    def test_what_the_command_line_sends_comes_too(self, broker: Daemon, client: Official) -> None:
        assert broker.ask("produce", "mixed", "hello", "-t", "A").code == 0
        (got,) = client.ask("receive", topic="mixed", group="readers", count=1)
        assert (got["body"], got["tag"]) == ("hello", "A")

    @beside
    def test_what_is_left_comes_again_when_its_time_is_over(self, client: Official) -> None:
        client.ask("send", topic="left", messages=[{"body": "x"}])
        got = client.ask(
            "receive", topic="left", group="readers", count=2, invisible_s=1, then="nothing"
        )
        assert [row["attempt"] for row in got] == [1, 2]
        assert got[1]["at_ms"] - got[0]["at_ms"] >= 900

    @beside
    def test_order_is_kept_by_group(self, client: Official) -> None:
        pairs = [(group, f"{group}{number}") for number in range(6) for group in "ab"]
        messages = [{"body": body, "group": group} for group, body in pairs]
        client.ask("send", topic="ordered", messages=messages)
        got = client.ask("receive", topic="ordered", group="readers", count=12)
        for group in "ab":
            bodies = [row["body"] for row in got if row["group"] == group]
            assert bodies == [f"{group}{number}" for number in range(6)]

    @beside
    def test_a_message_for_later_comes_then(self, client: Official) -> None:
        deliver_at_ms = (time.time_ns() // 1_000_000 // 1_000 + 1) * 1_000 + DELAY_MS
        client.ask("send", topic="later", messages=[{"body": "x", "deliver_at_ms": deliver_at_ms}])
        (got,) = client.ask("receive", topic="later", group="readers", count=1)
        assert got["at_ms"] - deliver_at_ms >= -10

    @beside
    def test_each_group_gets_all(self, client: Official) -> None:
        client.ask("send", topic="grouped", messages=[{"body": str(n)} for n in range(5)])
        for group in ("g1", "g2"):
            got = client.ask("receive", topic="grouped", group=group, count=5)
            assert sorted(row["body"] for row in got) == list("01234")

    @pytest.mark.parametrize(
        "message", [{"body": "x", "times": (4 << 20) + 1}, {"body": "x", "group": "a"}],
        ids=["too large", "of another type"],
    )  # fmt: skip
    def test_what_is_not_allowed_is_an_error(self, client: Official, message: Row) -> None:
        with pytest.raises(Failed):
            client.ask("send", topic="plain", messages=[message])

    @beside
    def test_a_client_ends_whose_connection_has_just_broken(
        self, broker: Daemon, client: Official
    ) -> None:
        """The one for Node.js does with an error, as its goodbye was under way."""
        with Relay(broker.endpoint) as relay:
            own = {"topic": "cut", "pause_s": 0.05, "endpoint": relay.endpoint}
            sending = client.begin("keep_sending", **own)
            sending.until_count(5)
            relay.cut()
            sending.stop()
            with suppress(Failed):
                sending.ended()

    @beside
    def test_over_tls_too(self, program: Program, tmp_path: Path) -> None:
        certificate = tmp_path / "store" / "pocketmq" / "tls" / "certificate.pem"
        roots = ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "SSL_CERT_FILE")
        trusts = {"OFFICIAL_TLS": "1", **dict.fromkeys(roots, str(certificate))}
        with (
            Daemon(tmp_path / "store") as broker,
            Official(program, broker.endpoint, tmp_path / "client.log", **trusts) as client,
        ):
            (sent,) = client.ask("send", topic="safe", messages=[{"body": "x"}])
            (got,) = client.ask("receive", topic="safe", group="readers", count=1)
            assert got["message_id"] == sent["message_id"]

    @beside
    def test_keys_open_and_others_do_not(self, program: Program, tmp_path: Path) -> None:
        store, secret = tmp_path / "store", tmp_path / "secret"
        secret.write_text("a-secret")
        for user in (("app", "--admin"), ("stranger",)):
            words = ("--secret-file", str(secret), "--store", str(store))
            assert pocketmq("user", "add", *user, *words).code == 0
        with (
            Daemon(store, "--set", "access.check=on") as broker,
            Official(program, broker.endpoint, tmp_path / "client.log") as client,
        ):
            (sent,) = client.ask("send", topic="orders", messages=[{"body": "x"}], **key("app"))
            got = client.ask("receive", topic="orders", group="g", count=1, **key("app"))
            assert [row["message_id"] for row in got] == [sent["message_id"]]
            refused = [
                client.begin("send", topic="orders", messages=[{"body": "x"}], **own)
                for own in (key("app", "wrong"), key("nobody"), key("stranger"))
            ]
            for talk in refused:
                with pytest.raises(Failed):
                    talk.ended()

    @beside
    def test_transactions_are_decided_by_the_client_or_when_it_is_asked(
        self, client: Official, decided: Talk
    ) -> None:
        rows = decided.until(lambda rows: sum("checked" in row for row in rows) >= 2).rows
        ids = {row["sent"]: row["message_id"] for row in rows if "sent" in row}
        asked = {row["checked"]: row["message_id"] for row in rows if "checked" in row}
        assert asked == {body: ids[body] for body in ("asked: commit", "asked: roll back")}
        got = client.ask("receive", topic="decided", group="readers", count=2)
        assert {row["body"]: row["message_id"] for row in got} == {
            body: ids[body] for body in ("commit", "asked: commit")
        }
        decided.stop()


class Cases(CommonCases):
    """The cases of one with push consumers, recalls, priorities, namespaces, changed times.

    stack     a word of what it prints of its threads, "" where it answers nothing
    verifies  the exit code of having it take a message once more
    """

    stack = ""
    verifies: int = Exit.TIMEOUT

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def dead(cls, client: Official) -> Talk:
        """A consumer that fails as long as it may, which takes long."""
        client.ask("send", topic="dead", messages=[{"body": "x", "keys": ["k"]}])
        return client.begin("push", topic="dead", group="dying", fails=ATTEMPTS)

    @beside
    def test_what_is_given_back_comes_again(self, client: Official) -> None:
        client.ask("send", topic="again", messages=[{"body": "x"}])
        got = client.ask("receive", topic="again", group="readers", count=3, then="back")
        assert [row["attempt"] for row in got] == [1, 2, 3]
        assert got[2]["at_ms"] - got[0]["at_ms"] >= 1_800

    @beside
    def test_order_is_kept_over_failures(self, client: Official) -> None:
        pairs = [(group, f"{group}{number}") for number in range(2) for group in "ab"]
        messages = [{"body": body, "group": group} for group, body in pairs]
        client.ask("send", topic="ordered-push", messages=messages)
        talk = client.begin("push", topic="ordered-push", group="pushed", consumers=2, fails=1)
        got = deliveries(talk, 8)
        for group in "ab":
            bodies = [row["body"] for row in got if row["group"] == group]
            assert bodies == [f"{group}0"] * 2 + [f"{group}1"] * 2

    @beside
    def test_a_message_for_later_is_taken_back(self, broker: Daemon, client: Official) -> None:
        deliver_at_ms = time.time_ns() // 1_000_000 + 3_600_000
        (row,) = client.ask(
            "send", topic="recalled", messages=[{"body": "x", "deliver_at_ms": deliver_at_ms}]
        )
        (found,) = client.ask("recall", topic="recalled", recall_handle=row["recall_handle"])
        assert found["message_id"] == row["message_id"]
        assert not broker.ask("delay", "ls", "--topic", "recalled", "-o", "jsonl").rows

    @beside
    def test_what_matters_most_comes_first(self, client: Official) -> None:
        messages = [{"body": str(priority), "priority": priority} for priority in (1, 3, 2)]
        client.ask("send", topic="first", messages=messages)
        got = client.ask("receive", topic="first", group="readers", count=3, at_once=1)
        assert [row["body"] for row in got] == ["3", "2", "1"]

    @beside
    def test_a_push_consumer_gets_what_it_wants_by_tag_and_again_what_failed(
        self, client: Official
    ) -> None:
        self._push(client, "tag", "A || B", ["A:1", "B:2"])

    @beside
    def test_a_push_consumer_gets_what_it_wants_by_sql_and_again_what_failed(
        self, client: Official
    ) -> None:
        self._push(client, "sql", "price > 1 AND TAGS <> 'C'", ["B:2"])

    def _push(self, client: Official, kind: str, expression: str, wanted: list[str]) -> None:
        topic = f"pushed-{kind}"
        messages = [
            {"body": f"{tag}:{price}", "tag": tag, "properties": {"price": price}}
            for tag, price in ("A1", "B2", "C3")
        ]
        client.ask("send", topic=topic, messages=messages)
        talk = client.begin(
            "push", topic=topic, group="pushed", kind=kind, expression=expression, fails=1
        )
        assert attempts(deliveries(talk, 2 * len(wanted))) == Counter(
            (body, attempt) for body in wanted for attempt in (1, 2)
        )

    @beside
    def test_operators_ask_it_and_settings_come_again(
        self, broker: Daemon, client: Official
    ) -> None:
        pushed = client.begin("push", topic="asked", group="asked")
        client.ask("send", topic="asked", messages=[{"body": "first"}])
        pushed.until_count(2)
        (member,) = broker.ask("group", "members", "asked", "-o", "jsonl").rows
        who = ("asked", member["client_id"])
        wait = ("--wait-ms", "20000" if self.stack else "500")
        printed = broker.ask("client", "stack", *who, *wait, "-o", "jsonl")
        assert printed.code == (0 if self.stack else Exit.TIMEOUT)
        assert self.stack in printed.out
        (first,) = [row for row in pushed.look() if "body" in row]
        verified = broker.ask("client", "verify", *who, "asked", first["message_id"], *wait)
        assert verified.code == self.verifies
        assert broker.ask("group", "edit", "asked", "--max-attempts", "5").code == 0
        client.ask("send", topic="asked", messages=[{"body": "second"}])
        first_count = 2 if self.verifies == 0 else 1
        got = Counter(row["body"] for row in deliveries(pushed, first_count + 1))
        assert got == {"first": first_count, "second": 1}

    @beside
    def test_two_consumers_of_a_group_share_its_messages(self, client: Official) -> None:
        talk = client.begin("push", topic="shared", group="sharers", consumers=2)
        talk.until(lambda rows: any("started" in row for row in rows))
        client.ask("send", topic="shared", messages=[{"body": str(n)} for n in range(40)])
        got = deliveries(talk, 40)
        assert attempts(got) == Counter((str(number), 1) for number in range(40))

    @beside
    def test_a_namespace_is_part_of_names(self, broker: Daemon, client: Official) -> None:
        own = {"topic": "orders", "namespace": "shop"}
        client.ask("send", messages=[{"body": "x"}], **own)
        (got,) = client.ask("receive", group="readers", count=1, **own)
        assert (got["topic"], got["body"]) == ("orders", "x")
        groups = {row["name"] for row in broker.ask("group", "ls", "-o", "jsonl").rows}
        assert "shop%readers" in groups

    @beside
    def test_clients_go_on_when_the_broker_comes_back(
        self, program: Program, tmp_path: Path
    ) -> None:
        store, log = tmp_path / "store", tmp_path / "client.log"
        with Daemon(store) as first:
            address = first.endpoint
            with Official(program, address, log) as client:
                make_topics(address)
                pushed = client.begin("push", topic="restarted", group="readers")
                sending = client.begin("keep_sending", topic="restarted", pause_s=0.05)
                pushed.until_count(5)
                assert first.stop() == 0
                with Daemon(store, "--listen", address) as second:
                    sent, got = len(sending.look()), len(pushed.look())
                    sending.until(lambda rows: any("sent" in row for row in rows[sent:]))
                    pushed.until_count(got + 5)
                    sending.stop()
                    told = sending.ended()
                    numbers = {str(row["sent"]) for row in told if "sent" in row}
                    pushed.until(lambda rows: numbers <= {row.get("body") for row in rows})
                    assert second.stop() == 0

    @beside
    def test_clients_hear_nothing_of_a_restart_on_a_socket_that_stays(
        self, program: Program, tmp_path: Path
    ) -> None:
        store, log = tmp_path / "store", tmp_path / "client.log"
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            with Official(program, address, log) as client:
                with Daemon(store, listening=listening) as first:
                    assert first.endpoint == address
                    make_topics(address)
                    pushed = client.begin("push", topic="restarted", group="readers")
                    sending = client.begin("keep_sending", topic="restarted", pause_s=0.05)
                    pushed.until_count(5)
                    assert first.stop() == 0
                with Daemon(store, listening=listening):
                    pushed.until_count(len(pushed.look()) + 5)
                    sending.stop()
                    told = sending.ended()
                    numbers = {str(row["sent"]) for row in told if "sent" in row}
                    pushed.until(lambda rows: numbers <= {row.get("body") for row in rows})
        assert [row for row in told if "failed" in row] == []

    @beside
    def test_what_fails_too_often_is_a_dead_letter(
        self, broker: Daemon, client: Official, dead: Talk
    ) -> None:
        end = time.monotonic() + END_S
        while broker.ask("topic", "info", LETTERS).code:
            assert time.monotonic() < end, "a dead letter makes its topic"
        (letter,) = client.ask("receive", topic=LETTERS, group="undertaker", count=1)
        assert (letter["body"], letter["keys"]) == ("x", ["k"])
        got = dead.look()
        assert attempts(got) == Counter([("x", 1), ("x", 2)])
        dead.stop()
