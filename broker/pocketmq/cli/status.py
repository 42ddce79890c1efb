"""`pocketmq status`: state of the store, and `pocketmq top`: messages in and out of topics.

Rates are differences of counts that normally grow: messages ever stored, and sums of committed
offsets. If a count shrinks, as by a reset of a group, the rate of that interval is 0.
"""

import sys
from collections import deque
from collections.abc import Iterator
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from pocketmq.cli.charts import SPARK_COUNT, can_draw_blocks, sparkline
from pocketmq.cli.connection import BrokerConnection, asks_broker
from pocketmq.cli.group import all_lags
from pocketmq.cli.options import PAUSE, watch_option
from pocketmq.cli.output import Document, Output, amount, columns, moment, talk
from pocketmq.cli.watching import repeat
from pocketmq.client import ClientError
from pocketmq.client.following import BrokerWait
from pocketmq.model.administration import StoreStatus
from pocketmq.native.commit import SHORT, UNKNOWN

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

SETTING_COLUMNS: Final = columns("key", "value", "origin")
COLUMNS: Final = columns(
    "name", "in_per_s", "out_per_s", "lag_messages", "message_count", "group_count",
)  # fmt: skip
DISK_FULL: Final = "disk_full"
REFUSING: Final = (DISK_FULL, "read_only")
"""States that do not count as a change of state in `state_since_ms`."""
LINES_KEPT: Final = 8
"""Lines of a terminal that are reserved for the head of the table."""


@asks_broker("pocketmq status", "pocketmq status --settings", "pocketmq status --watch 2s")
@click.option("--settings", is_flag=True, help="Show the broker's settings and their origins.")
@watch_option
def status(broker: BrokerConnection, out: Output, settings: bool, watch_s: float | None) -> None:
    """Show the state and the progress of a broker's store.

    Offsets are bytes from the start of the commit log.
    """

    def show() -> None:
        if settings:
            rows = broker.ask(broker.admin.effective_config())
            out.table((row._asdict() for row in rows), SETTING_COLUMNS)
            return
        found = broker.ask(broker.admin.store_status())
        out.show(readable_status(found) if out.form == "table" else found._asdict())

    repeat(watch_s, show)


def readable_status(status: StoreStatus) -> Document:
    """Returns a status formatted for people."""
    log_size = amount(status.appended_offset - status.min_offset)
    return {
        "broker": f"{status.broker} of {status.cluster}, version {_version(status)}",
        "modules": status.modules,
        "state": _state(status),
        "directory": status.directory,
        "appended_offset": f"{status.appended_offset}, {log_size} from {status.min_offset}",
        "flushed_offset": f"{status.flushed_offset}, {_behind(status, status.flushed_offset)}",
        "dispatched_offset": (
            f"{status.dispatched_offset}, {_behind(status, status.dispatched_offset)}"
        ),
        "flush_mode": status.flush_mode,
        "queue_file_count": status.queue_file_count,
        "index_file_count": status.index_file_count,
        "topic_count": f"{status.topic_count} with {status.queue_count} queues",
        "group_count": status.group_count,
        "retention_state": status.retention_state,
        "disk_free_bytes": disk_text(status),
    }


def _state(status: StoreStatus) -> str:
    """Returns the state and its begin; the begin of a refusal of sends is not known."""
    since = moment(status.state_since_ms)
    if status.state in REFUSING:
        why = "sends are refused"
        if status.state == DISK_FULL:
            why = "sends that need a new file are refused"
        if status.send_refusal:
            why = "sends are refused as the disk has too little room; they resume by themselves"
        return f"{status.state}: {why}; the broker serves since {since}"
    return f"{status.state} since {since}"


def _version(status: StoreStatus) -> str:
    commit = status.commit or UNKNOWN  # the broker does not report a commit
    return f"{status.version} (commit {commit[:SHORT]})"


def _behind(status: StoreStatus, reached: int) -> str:
    behind = max(status.appended_offset - reached, 0)
    return f"{amount(behind)} behind" if behind else "up to date"


def disk_text(status: StoreStatus) -> str:
    """Returns the free space of the disk, formatted for people."""
    free, total = status.disk_free_bytes, status.disk_total_bytes
    share = f" ({100 * free // total} %)" if total else ""
    return f"{amount(free)} free of {amount(total)}{share}"


class TopicMoment(NamedTuple):
    """A topic's counts; committed_count and lag_messages are sums over all groups."""

    message_count: int
    stored_count: int
    committed_count: int
    lag_messages: int
    group_count: int


class Snapshot(NamedTuple):
    """Counts of all topics and of the store; `taken_s` is monotonic time."""

    taken_s: float
    status: StoreStatus
    topics: dict[str, TopicMoment]


@asks_broker("pocketmq top", "pocketmq top --interval 5s -o json")
@click.option(
    "--interval", "interval_s", type=PAUSE, default="1s", show_default=True,
    help="Time over which rates are measured.",
)  # fmt: skip
@click.option(
    "--count", "count_max", type=click.IntRange(1),
    help="Number of tables [default: 1, on a terminal until Ctrl-C].",
)  # fmt: skip
def top(broker: BrokerConnection, out: Output, interval_s: float, count_max: int | None) -> None:
    """Show topics by messages stored and consumed a second, with lag and the store's state.

    IN_PER_S counts messages stored, OUT_PER_S offsets committed by groups. On a terminal the table
    is redrawn at every interval, with IN_PER_S of the last intervals as a line in RECENT_IN;
    elsewhere it is printed once.
    """
    if out.form == "table" and sys.stdout.isatty():
        _draw(broker, interval_s, count_max)
        return
    for document in _moments(broker, interval_s, count_max or 1, BrokerWait(talk)):
        if out.is_table or out.form == "csv":
            out.table(document["topics"], COLUMNS)
        else:
            out.show(document)


def _moments(
    broker: BrokerConnection, interval_s: float, count_max: int | None, patience: BrokerWait
) -> Iterator[Document]:
    """Yields the changes of each interval; yields nothing while the broker is unreachable."""
    before, count = take_snapshot(broker), 0
    patience.answered()
    while count_max is None or count < count_max:
        sleep(interval_s)
        try:
            after = take_snapshot(broker)
            patience.answered()
        except ClientError as error:
            patience.failed(error)
            continue
        yield difference(before, after)
        before, count = after, count + 1


def take_snapshot(broker: BrokerConnection) -> Snapshot:
    """Queries a broker for its store, topics and groups.

    Errors   ClientError
    """
    status = broker.ask(broker.admin.store_status())
    lags: dict[str, list[tuple[int, int]]] = {}
    for lag in all_lags(broker):
        lags.setdefault(lag.topic, []).append((lag.committed_sum, lag.lag_messages))
    topics = {}
    for counts in broker.all(broker.admin.all_topic_counts):
        found = lags.get(counts.name, [])
        committed, left = (sum(column) for column in zip(*found, strict=True)) if found else (0, 0)
        topics[counts.name] = TopicMoment(
            counts.message_count, counts.stored_count, committed, left, len(found)
        )
    return Snapshot(monotonic(), status, topics)


def difference(before: Snapshot, after: Snapshot) -> Document:
    """Returns the changes between two snapshots as one JSON document, the busiest topic first.

    Units   rates: per second
    """
    seconds = max(after.taken_s - before.taken_s, 1e-3)
    written = max(after.status.appended_offset - before.status.appended_offset, 0)
    topics: list[dict[str, Any]] = []
    for name, now in after.topics.items():
        then = before.topics.get(name, now)
        topics.append(
            {
                "name": name,
                "in_per_s": round(max(now.stored_count - then.stored_count, 0) / seconds, 1),
                "out_per_s": round(max(now.committed_count - then.committed_count, 0) / seconds, 1),
                "lag_messages": now.lag_messages,
                "message_count": now.message_count,
                "group_count": now.group_count,
            }
        )
    return {
        "interval_s": round(seconds, 3),
        "in_per_s": round(sum(row["in_per_s"] for row in topics), 1),
        "out_per_s": round(sum(row["out_per_s"] for row in topics), 1),
        "log_bytes_per_s": round(written / seconds),
        "lag_messages": sum(row["lag_messages"] for row in topics),
        "store": after.status._asdict(),
        "topics": sorted(topics, key=_rank),
    }


def _rank(row: Document) -> tuple[float, int, str]:
    return -row["in_per_s"] - row["out_per_s"], -row["lag_messages"], row["name"]


class RecentRates:
    """IN_PER_S of each topic in the last intervals, as sparklines."""

    def __init__(self) -> None:
        self._by_topic: dict[str, deque[float]] = {}
        self._blocks = can_draw_blocks()

    def add(self, document: Document) -> None:
        """Adds the rates of an interval, and drops topics that `document` does not list."""
        known = self._by_topic
        self._by_topic = {
            row["name"]: known.get(row["name"], deque(maxlen=SPARK_COUNT))
            for row in document["topics"]
        }
        for row in document["topics"]:
            assert row["in_per_s"] >= 0, "negative rate"
            self._by_topic[row["name"]].append(row["in_per_s"])

    def line(self, topic: str) -> str:
        """Returns the sparkline of a listed topic, scaled to the topic's largest rate."""
        return sparkline(tuple(self._by_topic[topic]), blocks=self._blocks)


def _draw(broker: BrokerConnection, interval_s: float, count_max: int | None) -> None:
    """Draws `count_max` tables, each over the previous one; ends earlier at Ctrl-C."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console, recent = Console(), RecentRates()
    try:
        with Live("Measuring…", console=console, screen=True, auto_refresh=False) as live:
            patience = BrokerWait(lambda text: live.update(Text(text), refresh=True))
            for document in _moments(broker, interval_s, count_max, patience):
                recent.add(document)
                picture = _picture(document, recent, max(console.height - LINES_KEPT, 1))
                live.update(picture, refresh=True)
    except KeyboardInterrupt:
        return


def _picture(document: Document, recent: RecentRates, line_count: int) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        side: JustifyMethod = "left" if column.name == "name" else "right"
        table.add_column(column.title, justify=side, no_wrap=True)
    table.add_column("RECENT_IN", no_wrap=True)
    for row in document["topics"][:line_count]:
        cells = (Text(str(column.cell(row))) for column in COLUMNS)
        table.add_row(*cells, recent.line(row["name"]))
    *lines, counts = head_lines(document)
    return Group(*map(Text, [*lines, f"{counts}   Ctrl-C ends"]), table)


def head_lines(document: Document) -> list[str]:
    """Returns the lines above the topics."""
    status = StoreStatus(**document["store"])
    log_bytes = amount(status.appended_offset - status.min_offset)
    rates = f"in {document['in_per_s']}/s   out {document['out_per_s']}/s"
    log = f"log {log_bytes}, {amount(document['log_bytes_per_s'])}/s"
    modes = f"flush {status.flush_mode}   retention {status.retention_state}"
    return [
        f"{status.broker} of {status.cluster}   {status.state}   disk {disk_text(status)}",
        f"{rates}   lag {document['lag_messages']}   {log}   {modes}",
        f"{status.topic_count} topics, {status.queue_count} queues, {status.group_count} groups",
        "",
    ]
