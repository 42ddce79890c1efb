"""The root: quick help, an example in each command's help, and exit codes."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pocketmq import __version__, native
from pocketmq.cli import main
from pocketmq.cli.collecting import COLLECT_AT, USUAL, collect_as_usual, collect_rarely
from pocketmq.cli.groups import WORDS, CommandModule, LazyGroup
from pocketmq.cli.program import PLACES, program
from pocketmq.client import Unreachable
from pocketmq.model.errors import StoreFailed, TopicNotFound
from pocketmq.native.commit import commit, short_commit
from pocketmq.testing.broker_process import THREAD_COUNTS
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker, shown
from tests.golden_stores import GoldenStores

HEAVY = (
    "grpc", "google", "numpy", "h11", "prometheus_client", "asyncio", "pocketmq.model.errors",
    "pocketmq.config.sections", "csv", "json", "difflib", "hashlib", "pocketmq.model.decimal",
)  # fmt: skip

LATER = (
    "prometheus_client", "http.server", "email", "h11", "pocketmq.metrics.http1",
    "pocketmq.app.following", "pocketmq.app.dialling",
    "pocketmq.rpc.replication.following", "pocketmq.rpc.replication.following_master",
)  # fmt: skip
"""Modules that a broker imports with its first HTTP connection, at a scrape, or as a follower."""


def commands(
    group: click.Group, ctx: click.Context, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, ctx, (*path, name))


ALL = list(commands(program, click.Context(program)))


def test_help_loads_neither_grpc_nor_numpy_nor_a_web_server() -> None:
    code = "import sys; sys.argv[1:] = ['--help']\nfrom pocketmq.cli import main\ntry: main()\n"
    code += "finally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: pocketmq" in done.stdout
    assert set(done.stderr.split()) & set(HEAVY) == set()


def test_a_broker_loads_only_what_every_start_needs() -> None:
    code = "import sys, pocketmq.app.serve\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pocketmq.rpc.own.server" in (loaded := set(done.stdout.split()))
    assert loaded & set(LATER) == set()


def test_numpy_starts_no_threads_for_linear_algebra() -> None:
    code = "import sys, os; sys.argv[1:] = ['--help']\nfrom pocketmq.cli import main\ntry: main()\n"
    code += "finally: import numpy; print(*os.listdir('/proc/self/task'), file=sys.stderr)"
    without = {name: v for name, v in os.environ.items() if name not in THREAD_COUNTS}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=without
    )
    assert len(done.stderr.split()) == 1


def test_the_version_is_told() -> None:
    assert run("--version").out == f"pocketmq, version {__version__} (commit {short_commit()})\n"


def test_the_version_command_names_what_runs_compiled() -> None:
    shown = json.loads(run("version", "-o", "json").out)
    assert shown["version"] == __version__
    assert shown["commit"] == commit()
    assert shown["modules"] == native.form()
    assert shown["compiled"] == list(native.running())


def test_python_m_broker_is_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pocketmq", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"pocketmq, version {__version__} (commit {short_commit()})\n"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_shows_an_example_that_names_it(path: tuple[str, ...]) -> None:
    text = run(*path, "--help").out
    assert f"pocketmq {' '.join(path)}" in text.partition("Example")[2]


def test_every_command_says_in_the_list_what_it_says_itself() -> None:
    ctx = click.Context(program)
    for name, place in PLACES.items():
        command = program.get_command(ctx, name)
        assert command is not None
        assert command.help is not None
        assert place.about.endswith(".")


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "produce",
        "consume orders",
        "consume orders --pull --output xml",
        "consume orders --pull --from -1",
        "consume orders --pull --from first",
        "tail orders --since 1m -n 1",
        "topic create x --type odd",
        "topic create x --queues 0",
        "topic edit orders",
        "topic edit orders --queues 0",
        "topic edit orders --attribute x",
        "topic edit orders --permission all",
        "group edit billing",
        "group edit billing --max-attempts 0",
        "group edit billing --fifo perhaps",
        "group lag --watch 0",
        "group lag --watch 2",
        "top --interval 5",
    ],
)
def test_wrong_use_is_exit_2_without_asking(broker: LocalBroker, line: str) -> None:
    broker.stand("billing", "orders")
    assert run(*line.split()).code == 2
    assert broker.calls == []


@pytest.mark.parametrize(
    "line",
    [
        "topic info none",
        "topic rm none",
        "topic rm none --yes",
        "group info none",
        "group lag none",
        "group rm none --yes",
        "group edit none --fifo true",
        "group reset none --topic orders --to earliest",
        "group clone none other",
        "consume none --pull",
        "tail none --no-follow",
    ],
)
def test_what_is_not_there_is_exit_3(broker: LocalBroker, line: str) -> None:
    assert run(*line.split()).code == 3


def test_an_answer_that_is_an_error_has_no_trace(broker: LocalBroker) -> None:
    broker.error = Unreachable("Unreachable", "no broker answers at x")
    done = run("topic", "ls")
    assert done.code == 5
    assert done.out == ""
    assert done.err.startswith("Error: no broker answers at x\nNext:  pocketmq serve")


def test_an_error_of_the_store_is_told_the_same_way(broker: LocalBroker) -> None:
    broker.error = StoreFailed(why="of a test")
    done = run("topic", "info", "orders")
    assert done.code == 1
    assert done.err == "Error: the store has stopped: of a test\n"


def test_a_file_of_another_user_is_no_bug(broker: LocalBroker) -> None:
    broker.error = PermissionError(13, "Permission denied", "/s/index/1")
    done = run("topic", "info", "orders")
    assert done.code == 4
    assert done.err.startswith("Error: /s/index/1: Permission denied\nNext:  check its owner")


def test_a_bug_is_not_hidden(broker: LocalBroker) -> None:
    broker.error = TypeError()
    with pytest.raises(TypeError):
        run("topic", "info", "orders")


def test_an_interrupt_ends_with_130_and_no_word(broker: LocalBroker) -> None:
    broker.error = KeyboardInterrupt()
    done = run("topic", "ls")
    assert done.code == 130
    assert done.err == ""


def test_a_reader_that_has_gone_is_no_error_to_tell(golden: GoldenStores) -> None:
    command = [sys.executable, "-m", "pocketmq", "store", "dump", str(golden.store("basic"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        words = process.stderr.read()
    assert words == b""


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("topic list", "pocketmq topic ls"),
        ("topic delete orders", "pocketmq topic rm"),
        ("topics", "pocketmq topic ls"),
        ("topic sttas", "pocketmq topic stats"),
        ("updateTopic -n b", "pocketmq topic create"),
        ("config import", "pocketmq config --help"),
        ("store verifi", "pocketmq store verify"),
        ("backup ./store", "pocketmq store backup"),
        ("dump", "pocketmq store dump"),
        ("config set store.flush", "pocketmq config init"),
        ("qqq", "pocketmq --help"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(line: str, right: str) -> None:
    done = run(*line.split())
    assert done.code == 2
    assert done.err.rstrip().endswith(f": {right}")


def test_every_word_of_others_leads_to_a_command() -> None:
    for right in WORDS.values():
        places = [path for path in ALL if right.split(" --")[0] in (" ".join(path), path[-1])]
        assert places, right


def test_an_argument_that_is_not_utf8_is_wrong_use() -> None:
    done = run("topic", "info", os.fsdecode(b"or\xff"))
    assert done.code == 2
    assert "argument 3 is not UTF-8: b'or\\xff'" in done.err
    done = run("topic", "ls", POCKETMQ_ENDPOINT=os.fsdecode(b"a\xff"))
    assert done.code == 2
    done = run("config", "show", POCKETMQ__BROKER__NAME=os.fsdecode(b"a\xff"))
    assert (done.code, done.out) == (2, "")
    assert "POCKETMQ__BROKER__NAME: its value is not UTF-8" in done.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("produce o x --priority high", "'high' is not a whole number from 0 to 2147483647; mess"),
        ("produce o x --delay-level high", "'high' is not a whole number of 1 or more; pocketmq"),
        ("consume o --pull --limit one", "'--limit': 'one' is not a whole number of 1 or more\n"),
        ("store verify x --sample all", "'--sample': 'all' is not a number from 0 to 100\n"),
        ("produce o x --delay soon", "'soon' is not a number with one of the units"),
    ],
)
def test_a_word_for_a_number_is_told_the_numbers(line: str, told: str) -> None:
    done = run(*line.split())
    assert done.code == 2
    assert told in done.err


@pytest.mark.parametrize("line", ["topic rm", "topic info", "topic edit --order", "group rm"])
def test_who_removes_or_changes_is_not_told_to_create(broker: LocalBroker, line: str) -> None:
    done = run(*line.split(), "none")
    assert done.code == 3
    assert "create" not in done.err
    assert f"Next:  pocketmq {line.split()[0]} ls" in done.err


def test_who_sends_is_told_to_create(broker: LocalBroker) -> None:
    broker.error = shown(TopicNotFound(topic="none"))
    done = run("produce", "none", "hello")
    assert done.code == 3
    assert "Next:  pocketmq topic create 'none'" in done.err


def test_a_list_of_commands_has_their_order_and_loads_none() -> None:
    missing = "tests.cli.a_module_that_is_not_there"
    places = {
        "topic": CommandModule("pocketmq.cli.topic", "Tells of topics."),
        "a": CommandModule(missing, "No."),
    }
    done = CliRunner().invoke(LazyGroup("tool", places=places), ["--help"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()[-2:]] == ["topic", "a"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("--endpoint h:1 topic ls", "follow its name, as in pocketmq COMMAND --endpoint …"),
        ("topic --endpoint h:1 ls", "as in pocketmq topic COMMAND --endpoint …"),
        ("produce orders --topic x", "the topic is an argument, as in pocketmq produce TOPIC"),
        ("consume orders --topic x", "the topic is an argument, as in pocketmq consume TOPIC"),
        ("topic create --name x", "the name is an argument, as in pocketmq topic create NAME"),
        ("topic info --topic x", "the topic is an argument, as in pocketmq topic info NAME"),
        ("topic create x --partitions 3", "No such option '--partitions': use --queues"),
        ("serve --data ./x", "No such option '--data': use --store"),
        ("serve -n 127.0.0.1:9876", "the broker is its own name server"),
        ("serve --topics a,b", "pocketmq topic create NAME creates a topic"),
        ("help topic", "there is no command 'help'; see: pocketmq topic --help"),
        ("group help lag", "there is no command 'help'; see: pocketmq group lag --help"),
        ("help nothing", "there is no command 'help'; see: pocketmq --help"),
        ("consume orders --pull --sql a=1", "No such option '--sql': use --filter"),
        ("cluster list", "there is no command 'cluster'; use: pocketmq status"),
        ("broker start", "there is no command 'broker'; use: pocketmq serve"),
        ("queue ls", "there is no command 'queue'; use: pocketmq topic info"),
        ("subscribe orders", "there is no command 'subscribe'; use: pocketmq consume"),
        ("produce orders --message hi", "the body is an argument, as in pocketmq produce TOPIC"),
        ("produce orders hi --tags a", "No such option '--tags': use --tag\n"),
        ("serve --flush async", "No such option '--flush': use --set store.flush=async"),
        ("dev --store x", "its store is temporary; pocketmq serve --store DIR keeps one"),
        ("dev --seed x", "No such option '--seed'.\n"),
        ("produce orders hi --propert a=b", "Did you mean one of: '--priority', '--property'?"),
        ("group offsets billing", "there is no command 'offsets'; use: pocketmq group lag"),
        ("produce orders -f lines.txt", "No such option '-f': use --file"),
        ("consume orders --follow", "pocketmq tail TOPIC prints new messages"),
        ("serve --port 9000", "No such option '--port': use --listen 127.0.0.1:PORT"),
        ("store dump s --limit 2", "pocketmq store grep . DIR --limit … prints some messages"),
        ("store dump s --topic a", "pocketmq store grep . DIR --topic … prints some messages"),
        ("config show --endpoint h:1", "pocketmq definitions export --only settings shows"),
        ("config show store.flush", "store.flush is a setting, not a file: pocketmq config show"),
        ("consume orders --pull -n 1", "use --limit"),
        ("consume orders --from-beginning", "use --from earliest"),
        ("produce orders one two three", "takes TOPIC [BODY]; a value with spaces"),
        ("group reset billing orders", "takes NAME; a topic is named by --topic"),
        ("topic ls orders", "pocketmq topic ls takes options only"),
        ("serve ./store", "takes options only; the directory of a store is named by --store"),
    ],
)
def test_a_wrong_line_is_told_the_right_one(line: str, hint: str) -> None:
    done = run(*line.split(" "))
    assert (done.code, done.out) == (2, "")
    assert hint in done.err


def test_an_option_without_a_counterpart_gets_no_advice() -> None:
    assert run("topic", "ls", "--partition", "1").err.endswith("No such option '--partition'.\n")


def test_a_command_collects_rarely_and_a_broker_as_usual() -> None:
    usual = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.get_threshold()[0] == COLLECT_AT > usual[0]
        collect_as_usual()
        assert gc.get_threshold() == usual == USUAL
    finally:
        gc.set_threshold(*usual)


def test_a_command_ends_without_a_last_collection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pocketmq", "--version"])
    try:
        with pytest.raises(SystemExit):
            main()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        collect_as_usual()
    assert "version" in capsys.readouterr().out
