"""The plugin as pytest meets it: what it shows, shares and imports, and the manual's test."""

import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

import pocketmq
from pocketmq.client import AsyncClient, ReceiveQuery
from pocketmq.testing.hanging import notice

SOURCE_ROOT: Final = Path(pocketmq.__file__).parents[1]
PLUGIN: Final = ("-p", "pocketmq.testing.plugin", "-p", "no:cacheprovider")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.setenv("PYTHONPATH", str(SOURCE_ROOT))
    return Run(pytester)


class Run:
    """Runs test modules by a pytest of their own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def __call__(self, source: str, *arguments: str) -> pytest.RunResult:
        """Runs a module; returns how it went."""
        self._pytester.makepyfile(source)
        return self._pytester.runpytest_subprocess(*PLUGIN, *arguments)


def test_the_log_stands_beside_what_failed_and_a_shared_brokers_is_the_tests(run: Run) -> None:
    result = run(
        """
        def test_first(rocketmq_session):
            rocketmq_session.restart()

        def test_second(rocketmq_session, rocketmq_module, rocketmq):
            endpoints = {one.endpoint for one in (rocketmq_session, rocketmq_module, rocketmq)}
            assert len(endpoints) == 3
            rocketmq.restart()
            assert False
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    shown = result.stdout.str()
    assert shown.count("Log of the broker at 127.0.0.1:") == 3
    assert shown.count("broker.stopped") == 1


def test_settings_of_a_run_stand_in_its_configuration(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_settings =\n    broker.auto_create_topics=false\n")
    result = run(
        """
        import pytest
        from pocketmq.client import Message, errors

        def test_strict(rocketmq):
            with pytest.raises(errors.TopicNotFound):
                rocketmq.client.send(Message("t", b"x"))
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=1)


def test_nothing_stays_of_a_broker_that_hangs_and_whose_tests_were_killed(run: Run) -> None:
    result = run(
        """
        import os, signal

        def test_pid(rocketmq):
            os.kill(rocketmq._process.pid, signal.SIGSTOP)
            print("pid", rocketmq._process.pid, flush=True)
            os._exit(9)
        """,
        "-s",
    )
    (line,) = [line for line in result.outlines if "pid " in line]
    status = Path("/proc", line.split("pid ")[1], "status")
    with suppress(OSError):  # It is gone, in between too.
        while "State:\tZ" not in status.read_text():
            pass


@pytest.mark.parametrize("page", ["howto/testing", "start/first-test"])
def test_the_first_test_of_the_manual_runs(run: Run, page: str) -> None:
    manual = (SOURCE_ROOT.parent / f"docs/{page}.md").read_text()
    text = dedent(manual.partition("```python\n")[2].partition("```")[0])
    assert len(text.splitlines()) in range(9, 20)
    run(text, "-W", "ignore::DeprecationWarning").assert_outcomes(passed=1)


def test_a_run_without_brokers_imports_nothing_of_one() -> None:
    heavy = ("grpc", "google", "numpy", "pocketmq.app", "pocketmq.client", "pocketmq.model")
    script = f"import sys, pocketmq.testing.plugin; print([*set({heavy}) & sys.modules.keys()])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=SOURCE_ROOT
    )
    assert done.stdout == "[]\n"


def test_a_project_may_have_a_package_called_broker(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SOURCE_ROOT))
    package = pytester.mkpydir("broker")
    package.joinpath("prices.py").write_text("LIMIT = 3\n")
    pytester.makepyfile(
        """
        from broker.prices import LIMIT

        def test_theirs_and_ours(rocketmq):
            rocketmq.create_topic("orders", queues=LIMIT)
            assert rocketmq.messages("orders") == []
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1)


def test_a_failure_reports_a_mistyped_topic(run: Run) -> None:
    result = run(
        """
        from pocketmq.client import Message

        def test_mistyped(rocketmq):
            rocketmq.client.send(Message("orders", b"x"))
            assert len(rocketmq.messages("ordesr", count=1, timeout=0)) == 1

        def test_never_used(rocketmq):
            assert rocketmq.messages("orders") == []

        def test_held_back(rocketmq):
            rocketmq.create_group("shippers")
            rocketmq.client.send(Message("orders", b"x", delay_ms=60_000))
            rocketmq.create_topic("pay", "transaction")
            rocketmq.client.send(Message("pay", b"x", transactional=True, producer_group="p"))
            found = [rocketmq.messages(one, count=1, timeout=0) for one in ("orders", "pay")]
            assert rocketmq.lag("shipers") or any(found)

        def test_empty(rocketmq):
            rocketmq.create_topic("orders")
            assert rocketmq.messages("orders")
        """
    )
    result.assert_outcomes(passed=1, failed=3)
    text = result.stdout.str()
    assert text.count("Notes of the fixture rocketmq") == 2
    for note in (
        "messages('orders'): not in the topic yet: 1 delayed; advance_clock makes them due",
        "messages('pay'): not in the topic yet: 1 of undecided transactions; advance_clock(60)",
        "lag('shipers'): there is no group 'shipers'; did you mean 'shippers'?",
    ):
        assert text.count(note) == 1, note
    assert "messages('ordesr'): there is no topic 'ordesr'; did you mean 'orders'?" in text


def test_a_setting_that_is_no_text_is_refused(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.rocketmq(auto_create_topics=False)
        def test_it(rocketmq):
            pass
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*settings of brokers are texts, as in @pytest.mark.rocketmq(*"])


def test_a_further_brokers_setting_that_is_no_text_is_refused(run: Run) -> None:
    result = run(
        """
        def test_it(rocketmq_factory):
            rocketmq_factory({"broker.name": "second"})
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*settings of brokers are texts, as in rocketmq_factory(*"])


@pytest.mark.parametrize(
    ("mark", "fixture", "failed"),
    [
        ("@pytest.mark.rocketmq(S)", "rocketmq_module", True),
        ("@pytest.mark.rocketmq(S)", "rocketmq_session", True),
        ("pytestmark = pytest.mark.rocketmq(S)", "rocketmq_session", True),
        ("pytestmark = pytest.mark.rocketmq(S)", "rocketmq_module", False),
        ("@pytest.mark.rocketmq(S)", "rocketmq, rocketmq_module", False),
    ],
)
def test_settings_that_no_broker_would_get_fail_the_test(
    run: Run, mark: str, fixture: str, failed: bool
) -> None:
    result = run(
        f"""
        import pytest

        S = "broker.name=other"
        {mark}
        def test_it({fixture}):
            assert "'other'" in str({fixture.partition(",")[0]}.client.admin.effective_config())
        """
    )
    result.assert_outcomes(passed=not failed, errors=failed)
    assert ("@pytest.mark.rocketmq has no effect on a broker" in result.stdout.str()) == failed


def test_a_broker_that_does_not_start_is_reported_in_a_line(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.rocketmq("broker.nmae=x")
        def test_it(rocketmq):
            pass
        """
    )
    result.assert_outcomes(errors=1)
    shown = result.stdout.str().partition("ERROR at setup")[2].partition("short test summary")[0]
    assert "the broker did not start: setting broker.nmae (of the test)" in shown
    assert len(shown.splitlines()) <= 3


def test_a_wrong_setting_is_reported_with_its_origin(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_settings = limits.max_msg=1MiB\n")
    source = """
        import pytest

        @pytest.mark.rocketmq("broker.nmae=x")
        def test_it(rocketmq):
            pass
        """
    shown = run(source).stdout.str()
    assert "setting limits.max_msg (rocketmq_settings in pytest's configuration): " in shown
    assert "did you mean limits.max_message_size_bytes?" in shown
    pytester.makeini("[pytest]\nrocketmq_settings = broker.name\n")
    shown = run(source).stdout.str()
    assert "setting broker.name (rocketmq_settings in pytest's configuration): write bro" in shown
    pytester.makeini("[pytest]\nrocketmq_settings = broker.name=shop\n")
    assert "setting broker.nmae (of the test): no setting has this name" in run(source).stdout.str()


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("rpc.listen=127.0.0.1:18961", "the fixture chooses the address, see rocketmq.endpoint"),
        ("http.listen = 127.0.0.1:0", "a broker of the fixture has no port for HTTP"),
    ],
)
def test_a_port_that_a_test_sets_is_refused(
    run: Run, pytester: pytest.Pytester, setting: str, wanted: str
) -> None:
    name = setting.partition("=")[0].strip()
    marked = run(f"""
        import pytest

        @pytest.mark.rocketmq("{setting}")
        def test_it(rocketmq):
            pass
        """)
    marked.assert_outcomes(errors=1)
    told = f"the broker did not start: setting {name} (of the test): {wanted}"
    assert told in marked.stdout.str()
    pytester.makeini(f"[pytest]\nrocketmq_settings = {setting}\n")
    shared = run("def test_it(rocketmq):\n    pass\n")
    shared.assert_outcomes(errors=1)
    assert f"setting {name} (rocketmq_settings in pytest's config" in shared.stdout.str()


def test_a_failure_reports_names_that_its_calls_mistyped(run: Run) -> None:
    result = run(
        """
        from pocketmq import Client, ReceiveQuery

        def test_receive(rocketmq):
            rocketmq.create_topic("orders")
            rocketmq.create_group("shippers")
            with Client(rocketmq.endpoint) as client:
                client.receive(ReceiveQuery("shipers", "orders"))

        def test_alone(rocketmq):
            rocketmq.create_topic("orders")
            rocketmq.client.receive(ReceiveQuery("shippers", "orders"))

        def test_dead(rocketmq):
            rocketmq.create_group("shippers")
            rocketmq.client.admin.create_topic("orders")
            rocketmq.client.receive(ReceiveQuery("shippers", "orders"))
            assert rocketmq.messages("%DLQ%shipers", count=1, timeout=0)

        def test_alive(rocketmq):
            rocketmq.create_group("shippers")
            assert rocketmq.messages("%DLQ%shippers", count=1, timeout=0)
        """
    )
    result.assert_outcomes(failed=4)
    text = result.stdout.str()
    assert "there is no group 'shippers': is create_group('shippers') missing?" in text
    asked = "did you mean 'shippers', or is create_group('shipers') missing?"
    assert f"there is no group 'shipers'; {asked}" in text
    assert "there is no topic '%DLQ%shipers'; did you mean '%DLQ%shippers'?" in text
    assert "the other messages of group 'shippers' are no dead letters yet: 0 unread" in text


def test_a_refused_connection_and_named_commands_have_a_note(run: Run) -> None:
    result = run(
        """
        from pocketmq import ReceiveQuery

        def fail(endpoint):
            raise OSError(f"connect to ipv4:{endpoint}: Connection refused")

        def test_killed(rocketmq):
            rocketmq.kill()
            fail(rocketmq.endpoint)

        def test_restarted(rocketmq):
            rocketmq.restart()
            fail(rocketmq.endpoint)

        def test_other(rocketmq):
            fail("127.0.0.1:1")

        def test_command(rocketmq):
            rocketmq.client.receive(ReceiveQuery("g", "orders"))
        """
    )
    result.assert_outcomes(failed=4)
    text = result.stdout.str()
    assert text.count("Notes of the fixture rocketmq") == 3
    assert text.count("the broker was killed or stopped: restart() starts it again") == 1
    assert text.count("until they connect again, up to a second after restart()") == 1
    assert "a test calls rocketmq.create_topic, create_group or client.admin in place of" in text
    assert "while the test waits, commands need --endpoint with the address in rocketmq." in text


def test_a_wait_without_an_end_is_told_while_it_lasts(run: Run) -> None:
    result = run(
        """
        from threading import Event, Thread
        from pocketmq import Client, Message, Resolution, TailQuery
        from pocketmq.testing import hanging

        hanging.NOTICE_S = 0.05
        armed, told, ended = Event(), Event(), Event()
        look = hanging.Notices._look
        MAIN = hanging.main_thread().ident

        def looking(notices, test):
            armed.wait()  # The wait for the first message ends by itself.
            while not hanging.notice(test, hanging.sys._current_frames()[MAIN]):
                ended.wait(0.01)
            look(notices, test)
            told.set()

        hanging.Notices._look = looking

        def then(act):
            told.clear()
            ended.clear()

            def work():
                told.wait()
                while not ended.wait(0.01):
                    act()

            Thread(target=work).start()
            armed.set()

        def test_tail(rocketmq):
            rocketmq.create_topic("orders", queues=1)
            client = Client(rocketmq.endpoint)
            client.send(Message("orders", b"before"))
            further = rocketmq.client.tail(TailQuery("orders", last_count=1))
            assert next(further).body == b"before"
            then(lambda: client.send(Message("orders", b"x")))
            assert next(further).body == b"x"
            ended.set()

        def test_answer(rocketmq):
            rocketmq.create_topic("pay", kind="transaction")
            half = Message("pay", b"x", transactional=True, producer_group="payers")
            rocketmq.client.send(half)
            then(lambda: rocketmq.advance_clock(60))
            rocketmq.client.answer_checks("payers", lambda _: Resolution.COMMIT, count_max=1)
            ended.set()
        """
    )
    result.assert_outcomes(passed=2)
    shown = result.stderr.str()
    assert "::test_tail has run for 0.05 s and waits in tail at test_a_wait" in shown
    assert "it waits for a further message; a tail without last_count or since_ms begins" in shown
    assert "TailQuery(topic, last_count=10, follow=False)" in shown
    assert "it waits for a further check, and ends only after count_max decisions" in shown
    assert "no message came" not in shown
    assert "::test_answer has run for 0.05 s and waits in answer_checks at test_a_wait" in shown


def test_a_test_that_waits_for_nothing_of_the_client_gets_no_notice() -> None:
    assert notice("test", sys._getframe()) == ""
    assert notice("test", None) == ""


def test_a_wait_of_a_task_gets_the_same_notice() -> None:
    async def main() -> str:
        async def consuming(client: AsyncClient) -> None:
            async for _ in client.consume(ReceiveQuery("g", "t")):
                raise AssertionError("there is no broker")

        async with AsyncClient("127.0.0.1:1") as client:
            waiting = asyncio.create_task(consuming(client))
            await asyncio.sleep(0)
            text = notice("test", sys._getframe())
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        return text

    async def idle() -> str:
        return notice("test", sys._getframe())

    text = asyncio.run(main())
    assert text.startswith("test has run for 10 s and waits in consume at ")
    assert Path(__file__).name in text
    assert "it waits for a further message, and ends only after count_max messages" in text
    assert "receive(ReceiveQuery(group, topic, wait_ms=1_000)) ends" in text
    assert asyncio.run(idle()) == ""


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("test_an_order_is_placed_with_the_third_attempt", 1),
        ("test_a_lost_producer_is_asked", 2),
        ("test_everything_is_shipped", 1),
        ("test_old_orders_are_deleted", 1),
        ("test_billing_may_not_send", 1),
    ],
)
def test_examples_of_the_manual_run(run: Run, name: str, count: int) -> None:
    manual = (SOURCE_ROOT.parent / "docs/howto/testing.md").read_text()
    (block,) = (text for text in manual.split("```python\n") if f"def {name}(" in text)
    asyncio_options = ("-p", "asyncio", "-o", "asyncio_mode=auto")
    run(block.partition("```")[0], *asyncio_options).assert_outcomes(passed=count)


def test_a_refused_call_shows_the_lines_of_the_test_and_no_inside(run: Run) -> None:
    source = """
        from pocketmq import Message

        def test_kind(rocketmq):
            rocketmq.create_topic("steps", kind="fifo")
            rocketmq.client.send(Message("steps", b"x"))
        """
    shown = run(source).stdout.str()
    assert "this is a 'NORMAL' message" in shown
    assert "rocketmq.client.send(Message" in shown
    assert "_InactiveRpcError" not in shown
    assert "async_client.py" not in shown
    assert "async_client.py" in run(source, "--full-trace").stdout.str()


def test_a_wait_in_an_event_loop_names_what_stood_still(run: Run) -> None:
    source = """
        import asyncio

        def test_wait(rocketmq):
            async def main():
                rocketmq.create_group("g")
                rocketmq.wait_for_lag_0("g", timeout=0)

            asyncio.run(main())
        """
    shown = run(source).stdout.str()
    assert "group g did not begin to consume within 0 s; the test's event loop stood still" in shown
    assert "await asyncio.to_thread(rocketmq.wait_for_lag_0, ...)" in shown
