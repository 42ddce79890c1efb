"""Clients that are connected are asked from the command line."""

import pytest

from pocketmq.client.client_error import told_error
from pocketmq.rpc.pb import admin_pb2 as pb
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker

STACK = ("client", "stack", "billing", "host@1")
VERIFY = ("client", "verify", "billing", "host@1", "orders", "K")


def test_a_stack_is_printed(broker: LocalBroker) -> None:
    broker.answers["Admin/PrintClientStack"] = lambda request: pb.AskClientResponse(
        status="OK", stack="main:\n  waits"
    )
    done = run(*STACK, "--wait-ms", "7", "-o", "json")
    assert done.code == 0
    assert done.document == {"client_id": "host@1", "stack": "main:\n  waits", "status": "OK"}
    assert run(*STACK, "-o", "table").out == "main:\n  waits\n"
    asked = broker.requests("PrintClientStack")[0]
    assert (asked.group, asked.client_id, asked.wait_ms) == ("billing", "host@1", 7)


@pytest.mark.parametrize(
    ("status", "code"),
    [("OK", 0), ("FAILED_TO_CONSUME_MESSAGE", 1), ("UNSUPPORTED", 4), ("MESSAGE_CORRUPTED", 4)],
)
def test_what_a_client_says_of_a_message_decides_the_exit_code(
    broker: LocalBroker, status: str, code: int
) -> None:
    broker.answers["Admin/VerifyMessage"] = lambda request: pb.AskClientResponse(
        status=status, text="says why"
    )
    done = run(*VERIFY, "-o", "json")
    assert done.code == code
    assert "says why" in done.err
    assert (status in done.err) == (status != "OK")
    (asked,) = broker.requests("VerifyMessage")
    assert (asked.topic, asked.message_id, asked.wait_ms) == ("orders", "K", 5_000)


def test_who_is_not_there_or_gives_no_answer(broker: LocalBroker) -> None:
    broker.do(broker.store.tables.groups.ensure("billing"))
    done = run(*STACK)
    assert done.code == 3
    assert "group members" in done.err
    text = "client 'host@1' does not answer: it did not answer within 5s"
    broker.error = told_error("ClientSilent", text, "DEADLINE_EXCEEDED", retryable=False, fields={})
    done = run(*VERIFY)
    assert done.code == 6
    assert "within 5s" in done.err
    assert "--wait 30s" in done.err
