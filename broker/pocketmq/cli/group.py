"""`pocketmq group`: consumer groups, and their offsets."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import click

from pocketmq.cli.broker_names import group_argument, topics
from pocketmq.cli.charts import barred, with_bars
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.creation import exists, report_unchanged
from pocketmq.cli.documents import group_document, lag_documents, moved_document
from pocketmq.cli.options import (
    BEGIN,
    POSITION,
    Position,
    examples,
    takes,
    watch_option,
    yes_option,
)
from pocketmq.cli.output import (
    Column,
    Exit,
    Failure,
    Output,
    at,
    columns,
    counted,
    duration,
    only_planned,
    talk,
)
from pocketmq.cli.watching import repeat
from pocketmq.client import ClientError, errors
from pocketmq.model.administration import GroupSettings, MovedOffset, ResetTarget, TopicLag
from pocketmq.model.replication import FOLLOWER
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX

Command = Callable[..., Any]
"""The function of a command."""
FIRST: Final = "min"
"""Begin of a group that consumes from the first message (model/begin.py)."""
COLUMNS: Final = columns(
    "name", "enabled", "fifo", "max_attempts",
    "retry_queue_count",
)  # fmt: skip
MORE_COLUMNS: Final = columns(
    "broadcast_enabled", "begins_at_min", "begin",
    "consume_timeout_minutes", "system", "attributes",
)  # fmt: skip
LAG_COLUMNS: Final = columns(
    "topic", "queue_id", "committed_offset", "max_offset",
    "lag_messages", Column("lag_ms", lambda row: duration(row["lag_ms"])),
    "in_flight_count",
)  # fmt: skip
MORE_LAG_COLUMNS: Final = columns("group", "min_offset")
SUM_COLUMNS: Final = columns("group", "topic", "lag_messages")
MORE_SUM_COLUMNS: Final = columns("committed_sum")
MEMBER_COLUMNS: Final = columns("client_id", "address", "mode", "topics", at("seen_ms"))
MORE_MEMBER_COLUMNS: Final = columns(at("since_ms"), "language", "version", "group")
MOVED_COLUMNS: Final = columns("topic", "queue_id", "old_offset", "new_offset")
MORE_MOVED_COLUMNS: Final = columns("group")


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq group ls",
        "pocketmq group lag billing --watch 2s",
        "pocketmq group reset billing --topic orders --to -1h --yes",
    ),
)
def group() -> None:
    """Create, change, list and remove consumer groups, and reset their offsets."""


takes_settings: Final = takes(
    "settings",
    GroupSettings,
    click.option("--fifo", type=click.BOOL, help="Consume in order: true or false."),
    click.option(
        "--max-attempts", type=click.IntRange(1), help="Maximum deliveries, including the first."
    ),
    click.option(
        "--retry-queues", "retry_queue_count", type=click.IntRange(1),
        help="Queues of its retry topic.",
    ),
    click.option("--enabled", type=click.BOOL, help="Whether it may consume: true or false."),
    click.option(
        "--begin", type=BEGIN,
        help="Where it begins in queues without its offset: an end, or messages from a time on.",
    ),
)  # fmt: skip


@group.asks(
    "Create a group.",
    "pocketmq group create billing",
    "pocketmq group create billing --fifo true --max-attempts 5",
    "pocketmq group create audit --begin latest",
    "pocketmq group create replay --begin 2026-11-21T02:30:00Z",
)
@click.argument("name")
@takes_settings
def create(broker: BrokerConnection, out: Output, name: str, settings: GroupSettings) -> None:
    """Create a group; an existing one with the same settings is unchanged.

    Omitted settings get RocketMQ's defaults: 17 attempts, not in order, 1 retry queue. Without
    --begin the broker's `broker.group_begin` applies.
    """
    is_old = exists(broker, broker.admin.describe_group(name))
    out.show(group_document(broker.ask(broker.admin.create_group(name, settings))))
    if is_old:
        report_unchanged("group", name)


@group.asks("List groups by name.", "pocketmq group ls -o jsonl")
@click.option("--system", is_flag=True, help="Include the broker's own groups.")
def ls(broker: BrokerConnection, out: Output, system: bool) -> None:
    """List groups by name, with their lag in all topics and their active consumers."""
    ask = partial(broker.admin.list_groups, with_stats=True)
    rows = [group_document(one) for one in broker.all(ask, include_system=system)]
    shown = columns("member_count", barred("lag_messages", rows))
    out.table(rows, [*COLUMNS, *shown], MORE_COLUMNS, none="no groups")


@group.asks("Describe a group.", "pocketmq group info billing")
@group_argument("name")
def info(broker: BrokerConnection, out: Output, name: str) -> None:
    """Describe a group: its settings, and the topics in which it has offsets."""
    out.show(group_document(broker.ask(broker.admin.describe_group(name))))


@group.asks(
    "List the consumers of a group.",
    "pocketmq group members billing",
    "pocketmq group members billing --watch 2s",
)
@group_argument("name")
@watch_option
def members(broker: BrokerConnection, out: Output, name: str, watch_s: float | None) -> None:
    """List the clients that received or pulled for a group in the last two minutes, latest first.

    A client without an id is listed by its address.
    """

    def show() -> None:
        found = broker.ask(broker.admin.list_members(name))
        if not found and watch_s is None:
            talk(f"no client has consumed for {name} in the last two minutes")
        rows = (member._asdict() for member in found)
        out.table(rows, MEMBER_COLUMNS, MORE_MEMBER_COLUMNS)

    repeat(watch_s, show)


@group.asks(
    "Print the lag of groups.",
    "pocketmq group lag",
    "pocketmq group lag billing --topic orders --watch 2s",
)
@group_argument("name", required=False)
@click.option("--topic", shell_complete=topics, default="", help="Only this topic.")
@watch_option
def lag(
    broker: BrokerConnection, out: Output, name: str | None, topic: str, watch_s: float | None
) -> None:
    """Print a group's lag: the number of unconsumed messages, and the age of the first.

    Without NAME all groups are listed, by topic. In a queue without a committed offset, messages
    count from where the group would begin. Messages that expired unread count as consumed.
    Messages that wait for a redelivery are the lag of the group's retry topics. IN_FLIGHT_COUNT are
    messages that consumers have and did not acknowledge yet; a group in order gets no later ones
    meanwhile.
    """

    if name is not None:
        _note_follower(broker)

    def show() -> None:
        if name is None:
            lags, shown, more = all_lags(broker, topic), SUM_COLUMNS, MORE_SUM_COLUMNS
        else:
            found = broker.ask(broker.admin.group_lag(name, topic))
            if not found:
                talk(f"{name} has no offset{f' in {topic}' if topic else ''} yet")
            lags = iter(found)
            shown, more = LAG_COLUMNS, MORE_LAG_COLUMNS
        rows = [row for lag in lags for row in lag_documents(lag)]
        out.table(rows, with_bars(shown, "lag_messages", rows), more)

    repeat(watch_s, show)


def _note_follower(broker: BrokerConnection) -> None:
    """Notes at a follower that it counts no messages in flight, as their leases are at its leader.

    A user who may not ask for the role gets no note.
    """
    try:
        found = broker.ask(broker.admin.replication.status())
    except ClientError:
        return
    if found.role == FOLLOWER:
        talk(
            f"this broker follows {found.leader}: messages in flight are counted at the leader only"
        )


def all_lags(broker: BrokerConnection, topic: str = "") -> Iterator[TopicLag]:
    """Yields the lag of every group, in one topic or in all."""
    return broker.all(broker.admin.all_lags, topic=topic)


@group.asks(
    "Change a group's settings.",
    "pocketmq group edit billing --max-attempts 5",
    "pocketmq group edit billing --enabled false",
)
@group_argument("name")
@takes_settings
def edit(broker: BrokerConnection, out: Output, name: str, settings: GroupSettings) -> None:
    """Change the given settings of a group; its offsets stay."""
    if settings == GroupSettings():
        raise click.UsageError("nothing to change: add an option, for example --max-attempts 5")
    out.show(group_document(broker.ask(broker.admin.update_group(name, settings))))


def _only_topic(whose: str) -> Callable[[Command], Command]:
    """Returns the option that restricts a change of offsets to one topic."""
    text = f"Only in this topic [default: all of {whose}]."
    return click.option("--topic", shell_complete=topics, default="", help=text)


@group.asks(
    "Reset a group's offsets to a time or an offset.",
    "pocketmq group reset billing --topic orders --to -1h              show the new offsets",
    "pocketmq group reset billing --topic orders --to -1h --yes        reset them",
    "pocketmq group reset billing --topic orders --to 1200 --queue 0 --yes",
)
@group_argument("name")
@_only_topic("the group's")
@click.option(
    "--to", "where", type=POSITION,
    help="An end of each queue, a queue offset, or its first message of this time or later.",
)  # fmt: skip
@click.option("--to-offset", type=click.IntRange(0), hidden=True)
@click.option(
    "--queue", "queue_ids", type=click.IntRange(0), multiple=True,
    help="Only this queue; may be repeated [default: all].",
)  # fmt: skip
@yes_option
def reset(
    broker: BrokerConnection,
    out: Output,
    name: str,
    topic: str,
    where: Position | None,
    to_offset: int | None,
    queue_ids: tuple[int, ...],
    yes: bool,
) -> None:
    """Reset the offsets of a group to a time, an end or an offset of its topics' queues.

    Without --topic all its topics are reset, except its retry and dead-letter topics. Stop
    running consumers first: they keep messages that they have already received.
    """
    if (where is None) == (to_offset is None):
        raise click.UsageError("add --to earliest|latest|OFFSET|TIME")
    place = where or Position(queue_offset=to_offset)
    if not topic and (place.queue_offset is not None or queue_ids):
        raise click.UsageError("an offset and --queue are for one topic: add --topic")
    target = ResetTarget(
        latest=bool(place.is_latest), queue_offset=place.queue_offset, time_ms=place.time_ms
    )
    moved = [
        row
        for each in _topics(broker, name, topic)
        if topic or not each.startswith(RETRY_PREFIX)  # Has only redeliveries to this group.
        for row in _reset(broker, name, each, target, queue_ids=queue_ids, dry_run=not yes)
    ]
    show_moved(name, moved, out, is_done=yes, unread=0 if yes else _unread(broker, name, moved))


def _reset(
    broker: BrokerConnection, name: str, topic: str, target: ResetTarget, **how: Any
) -> Sequence[MovedOffset]:
    try:
        return broker.ask(broker.admin.reset_offsets(name, topic, target, **how))
    except errors.OffsetOutOfRange as error:
        text, step = f"not every queue of {topic} has this offset", "one queue: --queue N; "
        if how.get("queue_ids"):
            text, step = f"a queue of {topic} that --queue names lacks this offset", ""
        text += f": {error.message}; nothing was changed"
        step += f"the ends of all: pocketmq topic info {topic}"
        raise Failure(text, Exit.REFUSED, step) from error


def _skipped(
    broker: BrokerConnection, name: str, topic: str, *, is_done: bool
) -> Sequence[MovedOffset]:
    end = ResetTarget(latest=True)
    try:
        return broker.ask(broker.admin.reset_offsets(name, topic, end, dry_run=not is_done))
    except errors.TopicNotFound:
        if not topic.startswith(RETRY_PREFIX):
            raise
        return []  # The group has an offset in it, but no message was retried yet.


def _topics(broker: BrokerConnection, name: str, topic: str) -> list[str]:
    """Returns the given topic, or all topics of a group except its dead-letter topic."""
    if topic:
        return [topic]
    found = broker.ask(broker.admin.describe_group(name)).topics
    return [each for each in found if not each.startswith(DLQ_PREFIX)]


@group.asks(
    "Skip the unconsumed messages of a group.",
    "pocketmq group skip billing                        what would be skipped",
    "pocketmq group skip billing --topic orders --yes",
)
@group_argument("name")
@_only_topic("the group's")
@yes_option
def skip(broker: BrokerConnection, out: Output, name: str, topic: str, yes: bool) -> None:
    """Move a group's offsets to the ends of its queues, past unconsumed messages.

    This includes its retry topics, but not its dead letters: see `pocketmq dlq purge`.
    """
    moved = [
        row
        for each in _topics(broker, name, topic)
        for row in _skipped(broker, name, each, is_done=yes)
    ]
    show_moved(name, moved, out, is_done=yes, unread=0 if yes else _unread(broker, name, moved))


def _unread(broker: BrokerConnection, name: str, moved: Sequence[MovedOffset]) -> int:
    """Returns the number of messages that would be skipped in queues without an offset.

    There the group would begin where it has a lag from, which only the broker computes. In topics
    without a lag it begins as its settings state; a begin at a time is not counted.
    """
    new = {(row.topic, row.queue_id): row.new_offset for row in moved if row.old_offset is None}
    if not new:
        return 0
    found = broker.ask(broker.admin.group_lag(name))
    lags = [(new.get((each.topic, one.queue_id)), one) for each in found for one in each.queues]
    # From the new offset on there are still `max_offset - at` messages to be delivered.
    left = (one.lag_messages - (one.max_offset - at) for at, one in lags if at is not None)
    count = sum(max(0, count) for count in left)
    unbegun = {topic for topic, _ in new} - {each.topic for each in found}
    if not unbegun or broker.ask(broker.admin.describe_group(name)).settings.begin != FIRST:
        return count
    for topic in unbegun:
        for queue in broker.ask(broker.admin.describe_topic(topic)).queues:
            end = new.get((topic, queue.queue_id), queue.min_offset)
            count += max(0, end - queue.min_offset)
    return count


@group.asks(
    "Copy a group's offsets to another group.",
    "pocketmq group clone billing billing-2                      show the new offsets",
    "pocketmq group clone billing billing-2 --topic orders --yes",
)
@group_argument("source")
@group_argument("target")
@_only_topic("SOURCE's")
@yes_option
def clone(
    broker: BrokerConnection, out: Output, source: str, target: str, topic: str, yes: bool
) -> None:
    """Copy the offsets of group SOURCE to group TARGET.

    TARGET is created if it does not exist; its offsets in these topics are replaced.
    """
    moved = broker.ask(broker.admin.clone_offsets(source, target, topic, dry_run=not yes))
    none = f"{source} has no offset{f' in {topic}' if topic else ''}: there is nothing to clone"
    show_moved(target, moved, out, is_done=yes, none=none)


def show_moved(
    group: str,
    moved: Sequence[MovedOffset],
    out: Output,
    *,
    is_done: bool,
    unread: int = 0,
    none: str = "",
) -> None:
    """Prints old and new offsets; raises Failure if a change is only planned.

    unread   messages that the change would skip in queues where the group has no offset
    none     note if there is no queue
    """
    rows = (moved_document(group, row) for row in moved)
    out.table(rows, MOVED_COLUMNS, MORE_MOVED_COLUMNS)
    count = sum(row.old_offset != row.new_offset for row in moved)
    if not moved:
        talk(none or f"{group} has no offset yet: nothing to change; name a topic: --topic TOPIC")
    elif not count:
        talk(f"{group} has these offsets already: nothing to change")
    elif is_done:
        talk(f"Changed: offsets of {group} in {counted(count, 'queue')}")
    else:
        steps = [row.new_offset - row.old_offset for row in moved if row.old_offset is not None]
        amounts = (
            (sum(step for step in steps if step > 0) + unread, "skipped"),
            (-sum(step for step in steps if step < 0), "delivered again"),
        )
        effects = [f"{counted(amount, 'message')} {what}" for amount, what in amounts if amount]
        effect = f": {', '.join(effects)}" if effects else ""
        raise only_planned(f"offsets of {group} in {counted(count, 'queue')} would change{effect}")


@group.asks(
    "Remove a group.",
    "pocketmq group rm billing            what would be removed",
    "pocketmq group rm billing --yes      remove it",
)
@group_argument("name")
@click.option("--with-topics", is_flag=True, help="Also remove its retry and dead-letter topics.")
@yes_option
def rm(broker: BrokerConnection, out: Output, name: str, with_topics: bool, yes: bool) -> None:
    """Remove a group and its offsets; its messages stay.

    A consumer that reconnects under this name creates the group again, without offsets.
    """
    if not yes:
        found = broker.ask(broker.admin.describe_group(name))
        plan: dict[str, Any] = {"group": name, "offsets_in": found.topics}
        plan["with_topics"] = with_topics
        if with_topics:
            would = broker.admin.delete_group(name, with_topics=True, dry_run=True)
            plan["removed_topics"] = broker.ask(would)
        out.show(plan)
        also = "".join(f", and topic {topic}" for topic in plan.get("removed_topics", ()))
        amount = counted(len(found.topics), "topic")
        raise only_planned(f"the group would be removed, with its offsets in {amount}{also}")
    removed = broker.ask(broker.admin.delete_group(name, with_topics=with_topics))
    out.show({"group": name, "removed_topics": removed})
