"""Generates the table of limits in SECURITY.md from constants and settings.

python scripts/limits_table.py             prints the table
python scripts/limits_table.py --write     writes it between the marks in SECURITY.md
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "SECURITY.md"
BEGIN, END = "<!-- limits: scripts/limits_table.py -->\n", "<!-- end of limits -->\n"
SETTINGS: Final = (
    "rpc.connections_max", "rpc.connection_idle_ms", "access.date_window_ms",
    "limits.max_message_size_bytes", "limits.delay_max_ms", "limits.in_flight_max",
    "limits.topics_max", "limits.groups_max", "limits.queues_max",
    "limits.user_creations_per_hour", "metrics.max_series",
)  # fmt: skip
CONSTANTS: Final = (
    ("bytes of a request without bodies", "rpc.service", "SMALL_REQUEST_MAX"),
    ("bytes of a request with bodies", "rpc.service", "SEND_SIZE_MAX"),
    ("elements of a request", "rpc.elements", "ELEMENTS_MAX"),
    ("elements within one of them", "rpc.elements", "INNER_MAX"),
    ("bytes of unfinished requests, of all connections", "rpc.own.memory", "HELD_MAX"),
    ("bytes set aside for answers, of all clients", "rpc.own.memory", "UNREAD_MAX"),
    ("bytes unread by a client that is served no more", "rpc.own.connection", "UNREAD_SOFT_MAX"),
    ("TLS handshakes at once", "rpc.own.listener", "HANDSHAKES_MAX"),
    ("resets of a connection", "wire.flow", "RESETS_MAX"),
    ("pings of a connection", "wire.flow", "PINGS_MAX"),
    ("settings of a connection", "wire.flow", "SETTINGS_MAX"),
    ("empty frames of a connection", "wire.flow", "EMPTY_MAX"),
    ("CONTINUATION frames of a header block", "wire.flow", "CONTINUATIONS_MAX"),
    ("bytes of a body that is decompressed", "format.body_codec", "PLAIN_SIZE_MAX"),
    ("bytes that a call showing messages decompresses", "format.body_codec", "SHOWN_SIZE_MAX"),
    ("bytes that a receive decompresses", "rpc.v2.receive_message", "DECOMPRESSED_MAX"),
    ("bytes of a message's properties", "format.properties", "PROPERTIES_SIZE_MAX"),
    ("signatures that are remembered", "services.access.access", "VERIFIED_MAX"),
    ("characters of an access key", "model.access", "KEY_LENGTH_MAX"),
    ("characters of a secret", "model.access", "SECRET_LENGTH_MAX"),
    ("characters of a topic's name", "model.names", "TOPIC_LENGTH_MAX"),
    ("characters of a group's name", "model.names", "GROUP_LENGTH_MAX"),
    ("bytes of a client's command on its stream", "rpc.v2.service_table", "COMMAND_SIZE_MAX"),
    ("topics that a client publishes to", "rpc.v2.client_stream", "TOPICS_MAX"),
    ("the same of all clients", "rpc.v2.client_stream", "ALL_TOPICS_MAX"),
    ("commands that a client has not read", "rpc.v2.client_stream", "UNREAD_MAX"),
    ("bytes of questions that clients have not read", "rpc.v2.client_stream", "UNREAD_BYTES_MAX"),
    ("questions to clients without an answer", "services.sessions.questions", "ASKED_MAX"),
    ("clients without a stream that are known", "services.sessions.sessions", "QUIET_MAX"),
    ("handles of one ack", "rpc.v2.ack", "HANDLES_MAX"),
    ("messages of one pull", "rpc.v1.pull_message", "MAX_MESSAGES_MAX"),
    ("bytes of one pull", "rpc.v1.pull_message", "MAX_BYTES_MAX"),
    ("ms that a poll waits", "rpc.v1.pull_message", "WAIT_MS_MAX"),
    ("messages of a look-up", "services.query", "MESSAGE_COUNT_MAX"),
    ("records of a trace", "services.admin.tracing", "RECORDS_MAX"),
    ("records of a page of what waits", "services.admin.delayed", "LOOKED_AT_MAX"),
    ("characters of a SQL filter", "filter.sql.grammar", "LENGTH_MAX"),
    ("terms of a SQL filter", "filter.sql.building", "TERMS_MAX"),
)  # fmt: skip
"""(Limited quantity, module in `broker`, name of the constant)."""


def table() -> str:
    """Returns the table, a row for each limit."""
    from pocketmq.config.sections import KNOBS

    rows = ["| limit | value | by |", "|---|---|---|"]
    for key in SETTINGS:
        knob = KNOBS[key]
        rows.append(
            f"| setting `{key}` | {knob.text_of(knob.default)} (default) | `conf/broker.toml` |"
        )
    for what, module, name in CONSTANTS:
        value = getattr(import_module(f"pocketmq.{module}"), name)
        rows.append(f"| {what} | {value:,} | `{module}.{name}` |")
    return "".join(f"{row}\n" for row in rows)


def page_with(made: str, page: str) -> str:
    """Returns a page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{made}{END}{after}"


def main() -> None:
    """Prints the table, or writes it."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page_with(table(), PAGE.read_text("utf-8")), "utf-8")
    else:
        sys.stdout.write(table())


if __name__ == "__main__":
    main()
