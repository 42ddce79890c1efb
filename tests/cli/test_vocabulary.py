"""One word means one thing in every command; older spellings are understood and not shown."""

import click
import pytest

from pocketmq.cli.program import program
from pocketmq.cli.vocabulary import CONNECTION, HeadedCommand, NamedOption
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker
from tests.cli.test_program import ALL

OLDER = {
    "consume orders --pull --from min --max 1": "consume orders --pull --from earliest --limit 1",
    "consume orders --pull --from max": "consume orders --pull --from latest",
    "consume orders --pull --tag-filter a||b": "consume orders --pull --tag a||b",
    "tail orders --since 10m --no-follow --max 2": "tail orders --from 10m --no-follow --limit 2",
    "tail orders --since 0 --no-follow": "tail orders --from earliest --no-follow",
    "tail orders -n 2 --no-follow": "tail orders --last 2 --no-follow",
    "produce orders b --group g": "produce orders b --message-group g",
    "txn ls --group payers --max 3": "txn ls --producer-group payers --limit 3",
    "group reset billing --topic orders --to-offset 1": "group reset billing --topic orders --to 1",
    "group reset billing --to min": "group reset billing --to earliest",
    "msg by-key orders k --max 1": "msg by-key orders k --limit 1",
    "delay ls --max 1": "delay ls --limit 1",
    "client stack g c --wait-ms 2000": "client stack g c --wait 2s",
}
"""An older spelling, and today's."""
RETIRED = ("min", "max", "--max", "--tag-filter", "--to-offset", "--wait-ms", "--queue-id")


def command_at(path: tuple[str, ...]) -> click.Command:
    """Returns a command by its words."""
    command: click.Command = program
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


COMMANDS = {path: command_at(path) for path in ALL}


@pytest.mark.parametrize(("old", "new"), OLDER.items())
def test_an_older_spelling_asks_the_same(broker: LocalBroker, old: str, new: str) -> None:
    broker.fill(3)
    broker.stand("billing", "orders", q0=1)
    asked = []
    for line in (new, old):
        broker.calls.clear()
        run(*line.split())
        asked.append([(path, self_made(request)) for path, request in broker.calls])
    assert asked[0] == asked[1]


def self_made(request: object) -> str:
    """Returns a request without what differs from call to call: ids and the time."""
    lines = str(request).splitlines()
    return "\n".join(line for line in lines if "time" not in line and "id" not in line)


def test_no_help_shows_an_older_spelling() -> None:
    for path, command in COMMANDS.items():
        shown = {
            name for option in command.params for name in (*option.opts, *option.secondary_opts)
        }
        hidden = {
            name
            for option in command.params
            if isinstance(option, click.Option) and option.hidden
            for name in option.opts
        }
        assert not (shown - hidden) & set(RETIRED), path
        for option in command.params:
            if isinstance(option, NamedOption):
                assert not set(option.aliases) & shown, path


def test_group_is_a_consumer_group_and_queue_a_number() -> None:
    for path, command in COMMANDS.items():
        names = {name for option in command.params for name in option.opts}
        if "--group" in names:
            assert path in (("consume",), ("bench", "consume"))
    (queue,) = [one for one in COMMANDS["store", "grep"].params if "--queue" in one.opts]
    assert isinstance(queue, NamedOption)
    assert queue.aliases == ("--queue-id",)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_has_a_help_and_a_connection_its_own_part(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{path} {option.opts}"
    if isinstance(command, HeadedCommand):
        own, _, connection = run(*path, "--help").out.partition(f"{CONNECTION} options:")
        assert "--context" in connection
        assert "POCKETMQ_ACCESS_KEY" not in own


def test_one_position_is_read_by_all() -> None:
    for line in ("consume orders --pull --from", "tail orders --from", "group reset b --to"):
        done = run(*line.split(), "first")
        assert done.code == 2
        assert "'first' is none of these: earliest, latest, a queue offset, a time" in done.err


def test_a_tail_begins_at_no_queue_offset() -> None:
    done = run("tail", "orders", "--from", "7")
    assert done.code == 2
    assert "pocketmq consume TOPIC --pull --queue N --from OFFSET" in done.err


@pytest.mark.parametrize("wait", ["0", "31s", "30001", "soon"])
def test_a_wait_for_a_client_has_a_limit(wait: str) -> None:
    assert run("client", "stack", "g", "c", "--wait", wait).code == 2
