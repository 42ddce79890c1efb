"""`pocketmq client`: queries to connected official clients."""

from typing import Any, Final

import click

from pocketmq.cli.broker_names import group_argument, topic_argument
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.options import ReadBy, duration_from_text, examples
from pocketmq.cli.output import Exit, Failure, Output, talk, write
from pocketmq.cli.vocabulary import option
from pocketmq.config.units import is_bare, text_from_duration
from pocketmq.model.administration import ClientAnswer

OK: Final = "OK"
NOT_CONSUMED: Final = "FAILED_TO_CONSUME_MESSAGE"

WAIT_MS: Final = 5_000
WAIT_MAX_MS: Final = 30_000


def _wait_ms(text: str) -> int:
    wait_ms = int(text) if is_bare(text) else duration_from_text(text)
    if not 1 <= wait_ms <= WAIT_MAX_MS:
        raise ValueError(f"{text!r} is outside 1ms to {text_from_duration(WAIT_MAX_MS)}")
    return wait_ms


wait_option: Final = option(
    "--wait", "wait_ms", type=ReadBy("DURATION", _wait_ms), aliases=("--wait-ms",),
    default=WAIT_MS, show_default=text_from_duration(WAIT_MS),
    help="Wait this long for the answer; at most 30s.",
)  # fmt: skip


@click.group(
    cls=ConnectedGroup,
    epilog=examples(
        "pocketmq group members billing                     their ids",
        "pocketmq client stack billing CLIENT_ID",
        "pocketmq client verify billing CLIENT_ID orders MESSAGE_ID",
    ),
)
def client() -> None:
    """Query consumers that connect with an official client."""


@client.asks("Print the stacks of a client's threads.", "pocketmq client stack billing CLIENT_ID")
@group_argument()
@click.argument("client_id")
@wait_option
def stack(broker: BrokerConnection, out: Output, group: str, client_id: str, wait_ms: int) -> None:
    """Print the stack of each thread of a consumer, as its client reports it.

    The clients for Java and Go answer; the client for Python does not, so the command times out.
    """
    answer = broker.ask(broker.admin.print_client_stack(group, client_id, wait_ms=wait_ms))
    if out.is_table and answer.status == OK:
        write(answer.stack + "\n")
        return
    _show(answer, out, {"client_id": client_id, "stack": answer.stack})


@client.asks(
    "Run a client's listener on a message.",
    "pocketmq client verify billing CLIENT_ID orders MESSAGE_ID",
)
@group_argument()
@click.argument("client_id")
@topic_argument()
@click.argument("message_id")
@wait_option
def verify(
    broker: BrokerConnection,
    out: Output,
    group: str,
    client_id: str,
    topic: str,
    message_id: str,
    wait_ms: int,
) -> None:
    """Send a message to the listener of a push consumer, and print its result.

    The listener really runs: an order that it bills is billed again. The message is not leased, and
    the group's offsets do not change. The client for Java supports this; others refuse it or
    do not answer.
    """
    answer = broker.ask(
        broker.admin.verify_message(group, client_id, topic, message_id, wait_ms=wait_ms)
    )
    _show(answer, out, {"client_id": client_id, "message_id": message_id})


def _show(answer: ClientAnswer, out: Output, document: dict[str, Any]) -> None:
    """Prints an answer; raises Failure if it is not OK."""
    if answer.status in (OK, NOT_CONSUMED):
        out.show({**document, "status": answer.status})
        if answer.text:
            talk(f"the client reports: {answer.text}")
    if answer.status != OK:
        code = Exit.FAILED if answer.status == NOT_CONSUMED else Exit.REFUSED
        raise Failure(f"the client answers {answer.status} {answer.text}".rstrip(), code)
