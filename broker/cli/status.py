"""`pocketmq status`: what the store is doing, how far it has come, and what it was told."""

from typing import Final

import click

from broker.cli.connection import Connection, asks_broker
from broker.cli.options import repeat, watch_option
from broker.cli.output import Document, Output, amount, columns, moment
from broker.model.administration import StoreStatus

SETTING_COLUMNS: Final = columns(KEY="key", VALUE="value", ORIGIN="origin")


@asks_broker("pocketmq status", "pocketmq status --settings", "pocketmq status --watch 2")
@click.option("--settings", is_flag=True, help="The settings it runs with, and where they stood.")
@watch_option
def status(broker: Connection, out: Output, settings: bool, watch_s: float | None) -> None:
    """Tell what a broker's store is doing and how far it has come.

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
    """Return a status as people read it."""
    log_bytes = status.appended_offset - status.min_offset
    return {
        "broker": f"{status.broker} of {status.cluster}, version {status.version}",
        "state": f"{status.state} since {moment(status.state_since_ms)}",
        "store": status.directory,
        "log": f"{amount(log_bytes)}, from {status.min_offset} to {status.appended_offset}",
        "flush": f"{status.flush_mode}, {_behind(status, status.flushed_offset)}",
        "dispatch": _behind(status, status.dispatched_offset),
        "files": f"{status.queue_file_count} of queues, {status.index_file_count} of the index",
        "topics": f"{status.topic_count} with {status.queue_count} queues",
        "groups": status.group_count,
        "retention": status.retention_state,
        "disk": disk_text(status),
    }


def _behind(status: StoreStatus, reached: int) -> str:
    behind = max(status.appended_offset - reached, 0)
    return f"{amount(behind)} behind" if behind else "up to date"


def disk_text(status: StoreStatus) -> str:
    """Return what is free of the disk, as people read it."""
    free, total = status.disk_free_bytes, status.disk_total_bytes
    share = f" ({100 * free // total} %)" if total else ""
    return f"{amount(free)} free of {amount(total)}{share}"
