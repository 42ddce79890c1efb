"""`pocketmq topic`: creating, changing, listing, counting, purging and removing topics."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import click

from pocketmq.cli.broker_names import topic_argument
from pocketmq.cli.charts import with_bars
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.creation import exists, report_unchanged
from pocketmq.cli.documents import counts_document, purged_document, topic_document
from pocketmq.cli.options import (
    DURATION,
    MOMENT,
    PAIR,
    SIZE_OR_0,
    examples,
    takes,
    watch_option,
    yes_option,
)
from pocketmq.cli.output import Column, Output, amount, at, columns, counted, only_planned, talk
from pocketmq.cli.watching import repeat
from pocketmq.client import TopicState
from pocketmq.config.units import text_from_duration, text_from_size
from pocketmq.model.administration import TopicChange
from pocketmq.model.topic import (
    RETENTION_BYTES_ATTRIBUTE,
    RETENTION_MS_ATTRIBUTE,
    TYPE_ATTRIBUTE,
    TYPE_NAMES,
)

PAGE_COUNT: Final = 500
WAITING_COUNT_MAX: Final = 10_000
"""Upper limit of delayed messages, and of open transactions, that the plan of `topic rm` counts."""
PERMISSIONS: Final = {"none": 0, "w": 2, "r": 4, "rw": 6}

COLUMNS: Final = columns(
    "name", "type", "read_queue_count", "write_queue_count",
    Column("permission", lambda row: permission_text(row["permission"])),
    "message_count",
    Column("size_bytes", lambda row: size_text(row)),
    "in_per_s", at("last_store_timestamp_ms"),
)  # fmt: skip
MORE_COLUMNS: Final = columns(
    "system", "order", "attributes", "retention_ms", "retention_bytes", "size_estimated"
)  # fmt: skip
QUEUE_COLUMNS: Final = columns(
    "queue_id", "min_offset", "max_offset",
    at("min_store_timestamp_ms"), at("max_store_timestamp_ms"),
)  # fmt: skip
PURGED_COLUMNS: Final = columns(
    "topic", "queue_id", "old_min_offset", "new_min_offset", "message_count",
)  # fmt: skip
PRODUCER_COLUMNS: Final = columns(
    "address", "client_id", "groups", "language", "version", at("sent_ms")
)  # fmt: skip
COUNT_COLUMNS: Final = columns(
    "name", "queue_count", "message_count", "stored_count",
    at("first_store_timestamp_ms"), at("last_store_timestamp_ms"),
)  # fmt: skip

TYPE: Final = click.Choice(TYPE_NAMES, case_sensitive=False)


def permission_text(permission: int) -> str:
    """Returns permissions as `edit` accepts them; other combinations as a number."""
    names = {number: name for name, number in PERMISSIONS.items()}
    return names.get(permission, str(permission))


def type_text(topic: TopicState) -> str:
    """Returns a topic's type, and for a topic without a declared type which clients check it."""
    if topic.system or TYPE_ATTRIBUTE in topic.attributes:
        return topic.type
    return f"{topic.type}, undeclared: checked only for RocketMQ 5 clients (gRPC)"


def size_text(row: Mapping[str, Any]) -> str:
    """Returns a topic's size for people, with ~ if it is estimated; "" if it is not known."""
    if "size_bytes" not in row:
        return ""
    return f"{'~' if row.get('size_estimated') else ''}{amount(row['size_bytes'])}"


def _shown(topic: TopicState, out: Output) -> dict[str, Any]:
    """Returns the document of a topic; in a table, readable texts replace some numbers."""
    if not out.is_table:
        return topic_document(topic)
    shown = {
        "type": type_text(topic),
        "permission": permission_text(topic.permission),
        "retention_ms": text_from_duration(topic.retention_ms),
        "retention_bytes": text_from_size(topic.retention_bytes),
    }
    return topic_document(topic) | shown


@click.group(
    cls=ConnectedGroup,
    epilog=examples("pocketmq topic ls", "pocketmq topic create orders --queues 4"),
)
def topic() -> None:
    """Create, change, list, count, purge and remove topics."""


class TopicLimits(NamedTuple):
    """Limits of a topic's retention; None: not given, 0: no limit."""

    age_ms: int | None
    size_bytes: int | None

    @property
    def given(self) -> dict[str, int]:
        """The given limits by attribute."""
        pairs = (
            (RETENTION_MS_ATTRIBUTE, self.age_ms),
            (RETENTION_BYTES_ATTRIBUTE, self.size_bytes),
        )
        return {name: limit for name, limit in pairs if limit is not None}

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes to set."""
        return {name: str(limit) for name, limit in self.given.items() if limit}


takes_retention: Final = takes(
    "limits",
    TopicLimits,
    click.option(
        "--retention-age", "age_ms", type=DURATION,
        help="Messages older than this cannot be read; 0: no limit.",
    ),
    click.option(
        "--retention-size", "size_bytes", type=SIZE_OR_0,
        help="Only the newest messages, up to this total size, can be read; 0: no limit.",
    ),
)  # fmt: skip


@topic.asks(
    "Create a topic.",
    "pocketmq topic create orders --queues 4",
    "pocketmq topic create logs --retention-age 1d --retention-size 1GiB",
)
@click.argument("name")
@click.option(
    "--type", "type_name", type=TYPE,
    help="Message type that the topic accepts [default: normal from RocketMQ 5 clients, all from "
    "others].",
)  # fmt: skip
@click.option(
    "--queues", "queue_count", metavar="N", type=click.IntRange(1), default=8, show_default=True,
    help="Queues to read from and to write to; messages keep their order within a queue.",
)  # fmt: skip
@takes_retention
def create(
    broker: BrokerConnection,
    out: Output,
    name: str,
    type_name: str | None,
    queue_count: int,
    limits: TopicLimits,
) -> None:
    """Create a topic; an existing one with the same settings is unchanged."""
    is_old = exists(broker, broker.admin.describe_topic(name))
    made = broker.admin.create_topic(
        name, queue_count=queue_count, type_name=type_name or "", attributes=limits.attributes
    )
    out.show(_shown(broker.ask(made), out))
    if is_old:
        report_unchanged("topic", name)


@topic.asks("List topics by name.", "pocketmq topic ls -o jsonl")
@click.option("--system", is_flag=True, help="Include the broker's own topics.")
def ls(broker: BrokerConnection, out: Output, system: bool) -> None:
    """List topics by name, with their readable messages, their size and their rate.

    MESSAGE_COUNT counts queue offsets from the first readable message on, also of messages that a
    repair replaced.
    SIZE is that of the records of readable messages; in a queue with more than 256 of them it is
    estimated from a sample, and marked by ~. IN_PER_S counts messages sent a second, over the
    last minute.
    """
    ask = partial(broker.admin.list_topics, page_size=PAGE_COUNT, with_stats=True)
    found = broker.all(ask, include_system=system)
    out.table(map(topic_document, found), COLUMNS, MORE_COLUMNS, none="no topics")


@topic.asks("Describe a topic and its queues.", "pocketmq topic info orders")
@topic_argument("name")
def info(broker: BrokerConnection, out: Output, name: str) -> None:
    """Describe a topic: its settings, and the offsets of each of its queues."""
    described = broker.ask(broker.admin.describe_topic(name))
    document = _shown(described, out)
    queues = document.pop("queues", []) if out.is_table else []
    out.show(document)
    if out.is_table:
        out.table(queues, QUEUE_COLUMNS)
    _say_hidden(described, described.read_queue_count)


@topic.asks(
    "Count the messages of topics.",
    "pocketmq topic stats",
    "pocketmq topic stats orders --watch 2s",
)
@topic_argument("name", required=False)
@click.option("--system", is_flag=True, help="Without NAME: include the broker's own topics.")
@watch_option
def stats(
    broker: BrokerConnection, out: Output, name: str | None, system: bool, watch_s: float | None
) -> None:
    """Count the messages of a topic, queue by queue, or of all topics.

    MESSAGE_COUNT counts queue offsets from the first readable message on, STORED_COUNT also those
    of expired ones. Both include messages that a repair replaced, as LAG_MESSAGES of a group does.
    """

    def show() -> None:
        if name is None:
            ask = broker.admin.all_topic_counts
            found = broker.all(ask, include_system=system, totals_only=False)
            rows = [counts_document(one) for one in found]
            out.table(rows, with_bars(COUNT_COLUMNS, "message_count", rows))
            return
        document = counts_document(broker.ask(broker.admin.topic_counts(name)))
        if not out.is_table:
            out.show(document)
            return
        queues = document.pop("queues", [])
        out.table([document], COUNT_COLUMNS)
        out.table(queues, QUEUE_COLUMNS)

    repeat(watch_s, show)


@topic.asks(
    "List the producers of a topic.",
    "pocketmq topic producers orders",
    "pocketmq topic producers orders --watch 2s",
)
@topic_argument("name")
@watch_option
def producers(broker: BrokerConnection, out: Output, name: str, watch_s: float | None) -> None:
    """List the clients that send to a topic, the last sender first.

    These are clients whose settings name the topic, and the senders of the last 16 messages of each
    queue. A sender without a client id uses this command line or the client for Python, or is gone.
    """

    def show() -> None:
        found = broker.ask(broker.admin.list_producers(name))
        if not found and watch_s is None:
            talk(f"no client has sent to {name}, or names it in its settings")
        out.table((one._asdict() for one in found), PRODUCER_COLUMNS)

    repeat(watch_s, show)


@topic.asks(
    "Change a topic's settings.",
    "pocketmq topic edit orders --queues 16",
    "pocketmq topic edit orders --write-queues 4        stop sends to queues from 4 on",
    "pocketmq topic edit orders --read-queues 4 --yes   hide these queues from consumers",
    "pocketmq topic edit orders --permission r",
    "pocketmq topic edit logs --retention-age 7d --retention-size 0",
)
@topic_argument("name")
@click.option(
    "--queues", metavar="N", type=click.IntRange(1), help="Queues to read from and to write to."
)
@click.option(
    "--read-queues", metavar="N", type=click.IntRange(1), help="Queues consumers may read from."
)
@click.option(
    "--write-queues", metavar="N", type=click.IntRange(1), help="Queues producers may send to."
)
@click.option(
    "--permission",
    type=click.Choice(list(PERMISSIONS)),
    help="Permissions of clients: read, write.",
)
@click.option("--order/--no-order", default=None, help="RocketMQ's flag of an ordered topic.")
@click.option(
    "--type", "type_name", type=TYPE,
    help="Message type that the topic accepts from now on; stored messages stay.",
)  # fmt: skip
@click.option(
    "--attribute", "attributes", type=PAIR, multiple=True, help="Set an attribute; may be repeated."
)
@click.option(
    "--remove-attribute",
    "removed",
    metavar="NAME",
    multiple=True,
    help="Remove an attribute; may be repeated.",
)
@takes_retention
@yes_option
def edit(
    broker: BrokerConnection,
    out: Output,
    name: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    permission: str | None,
    order: bool | None,
    type_name: str | None,
    attributes: tuple[tuple[str, str], ...],
    removed: tuple[str, ...],
    limits: TopicLimits,
    yes: bool,
) -> None:
    """Change the given settings of a topic; messages stay in their queues.

    Fewer read queues hide the messages of the other queues until the number is raised again. Keep
    producers from these queues first, with --write-queues. Fewer read queues need --yes if a queue
    beyond them contains messages, or if producers may send to it. All other changes are made at
    once, even those that hide messages: --permission, a shorter retention, more write queues.
    """
    given = dict(attributes) | limits.attributes
    unlimited = [attribute for attribute, limit in limits.given.items() if not limit]
    if type_name is not None:
        given[TYPE_ATTRIBUTE] = type_name.upper()
    change = TopicChange(
        read_queue_count=queues if read_queues is None else read_queues,
        write_queue_count=queues if write_queues is None else write_queues,
        permission=None if permission is None else PERMISSIONS[permission],
        order=order,
        set_attributes=given,
        remove_attributes=removed,
    )
    if change == TopicChange(set_attributes={}) and not unlimited:
        raise click.UsageError("nothing to change: add an option, for example --queues 16")
    before = broker.ask(broker.admin.describe_topic(name))
    gone = [attribute for attribute in unlimited if attribute in before.attributes]
    change = change._replace(remove_attributes=(*removed, *gone))
    wanted = before.read_queue_count if change.read_queue_count is None else change.read_queue_count
    _, hidden_count = _hidden(before, wanted)
    write_count = change.write_queue_count or before.write_queue_count
    is_written = write_count > wanted
    if wanted < before.read_queue_count and (hidden_count or is_written) and not yes:
        plan = {
            "topic": name,
            "read_queue_count": wanted,
            "read_queue_count_before": before.read_queue_count,
            "hidden_message_count": hidden_count,
        }
        out.show(plan)
        text = (
            f"{counted(hidden_count, 'message')} in queues from {wanted} on could no longer be read"
        )
        more = "; producers would continue to send to these queues" if is_written else ""
        raise only_planned(text + more)
    changed = broker.ask(broker.admin.update_topic(name, change))
    out.show(_shown(changed, out))
    _say_hidden(before, changed.read_queue_count)


def _hidden(topic: TopicState, read_queue_count: int) -> tuple[int, int]:
    """Returns the last hidden queue with messages, and the number of all hidden messages."""
    beyond = [
        (queue.queue_id, queue.max_offset - queue.min_offset)
        for queue in topic.queues
        if queue.queue_id >= read_queue_count and queue.max_offset > queue.min_offset
    ]
    return max(beyond, default=(0, 0))[0], sum(count for _, count in beyond)


def _say_hidden(topic: TopicState, read_queue_count: int) -> None:
    """Reports how many messages are in queues that cannot be read."""
    last_id, count = _hidden(topic, read_queue_count)
    if count:
        talk(
            f"Note: {count} messages are in queues from {read_queue_count} on and cannot be read "
            f"now; to reach them: pocketmq topic edit {topic.name} --read-queues "
            f"{last_id + 1}"
        )


@topic.asks(
    "Make a topic's messages unreachable.",
    "pocketmq topic purge orders                       what would be purged",
    "pocketmq topic purge orders --yes                 purge all messages",
    "pocketmq topic purge orders --queue 0 --yes",
    "pocketmq topic purge orders --before -1d --yes    older than a day",
)
@topic_argument("name")
@click.option(
    "--queue",
    "queue_ids",
    type=click.IntRange(0),
    multiple=True,
    help="Only this queue; may be given several times [default: all].",
)
@click.option(
    "--before",
    "before_ms",
    type=MOMENT,
    default=0,
    show_default=False,
    help="Only messages stored before this time [default: all].",
)
@yes_option
def purge(
    broker: BrokerConnection,
    out: Output,
    name: str,
    queue_ids: tuple[int, ...],
    before_ms: int,
    yes: bool,
) -> None:
    """Make a topic's messages unreachable; the topic, its groups and their settings stay.

    Consumers, queries and expired leases ignore purged messages, also after a restart or a rebuild
    of the queues. Their bytes stay in the commit log until its files expire, so offline tools still
    read them. Without --queue, retries in %RETRY%GROUP_TOPIC are also purged. Delayed messages and
    open transactions are not in the topic yet, and stay.
    """
    ask = partial(broker.admin.purge_topic, name, queue_ids=queue_ids, before_ms=before_ms)
    purged = broker.ask(ask(dry_run=not yes))
    out.table(map(purged_document, purged), PURGED_COLUMNS)
    if not yes:
        count = sum(queue.message_count for queue in purged)
        raise only_planned(f"{counted(count, 'message')} could no longer be read")


@topic.asks(
    "Remove a topic and its queues.",
    "pocketmq topic rm orders            what would be removed",
    "pocketmq topic rm orders --yes      remove it",
)
@topic_argument("name")
@yes_option
def rm(broker: BrokerConnection, out: Output, name: str, yes: bool) -> None:
    """Remove a topic, its queues, groups' offsets in it, and groups' retry topics for it.

    Its messages can no longer be read; their bytes stay in the commit log until its files expire.
    Its delayed messages and open transactions are discarded when they are due; the plan counts up
    to 10,000 of each.
    """
    if not yes:
        counts = broker.ask(broker.admin.topic_counts(name))
        lags = broker.all(broker.admin.all_lags, topic=name)
        delayed = broker.all(broker.admin.list_delayed, topic=name)
        waiting = sum(1 for _ in islice(delayed, WAITING_COUNT_MAX))
        ask = broker.admin.list_transactions(topic=name, count_max=WAITING_COUNT_MAX)
        transactions = len(broker.ask(ask))
        plan = {
            "topic": name,
            "queue_count": counts.queue_count,
            "message_count": counts.message_count,
            "groups": [lag.group for lag in lags],
            "removed_topics": broker.ask(broker.admin.delete_topic(name, dry_run=True)),
            "delayed_messages": waiting,
            "open_transactions": transactions,
        }
        out.show(plan)
        text = f"the topic would be removed, with {counted(counts.message_count, 'message')}"
        if waiting or transactions:
            text += f", and {waiting + transactions} delayed or undecided ones would be discarded"
        raise only_planned(text)
    removed = broker.ask(broker.admin.delete_topic(name))
    out.show({"topic": name, "removed_topics": removed})
