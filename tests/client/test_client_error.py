"""A client raises the error that its broker raised: one tree of errors, sent over the wire."""

import re
from typing import Any

import pytest

from pocketmq.client import ClientError, DeadlineExceeded, Unreachable, errors
from pocketmq.client.channel import client_error
from pocketmq.client.client_error import told_error
from pocketmq.model.errors import BrokerError
from pocketmq.rpc.v1.status import HIDDEN_FIELDS, KINDS, wire_status

TREE = [
    kind for kinds in KINDS.values() for kind in kinds if hasattr(errors, kind.__name__)
]  # fmt: skip


def sample(kind: type[BrokerError]) -> BrokerError:
    """Returns an error with a value in each field."""
    values: dict[str, Any] = {
        name: 7 if of is int else f"a {name}" for name, of in kind.field_types.items()
    }
    return kind(**values)


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_is_of_the_class_the_broker_raised(kind: type[BrokerError]) -> None:
    raised = sample(kind)
    _, message, details = wire_status(raised)
    told = client_error("ABORTED", message, details)
    assert isinstance(told, kind)
    assert (told.reason, told.message) == (kind.__name__, message)
    assert (told.retryable, told.is_uncertain, told.status) == (kind.retryable, False, "ABORTED")
    for name, of in kind.field_types.items():
        hidden = 0 if of is int else ""
        value = hidden if name in HIDDEN_FIELDS else getattr(raised, name)
        assert getattr(told, name) == value
    told.endpoint = "127.0.0.1:8081"
    assert str(told).startswith(f"127.0.0.1:8081: {message}")
    assert repr(told) == f"{kind.__name__}({message!r})"


@pytest.mark.parametrize(
    ("status", "retryable", "kind"),
    [
        ("NOT_FOUND", False, errors.RequestError),
        ("UNAVAILABLE", True, errors.Unavailable),
        ("INTERNAL", False, ClientError),
    ],
)
def test_a_reason_of_a_later_broker_is_of_the_nearest_class(
    status: str, retryable: bool, kind: type[Exception]
) -> None:
    for reason in ("LeaseLost", "Final"):
        told = told_error(reason, "text", status, retryable=retryable, fields={})
        assert isinstance(told, kind)
        assert told.reason == reason


def test_numbers_that_are_none_are_left_out() -> None:
    fields = {"topic": "orders", "queue_id": "many"}
    told = told_error("QueueOutOfRange", "text", "OUT_OF_RANGE", retryable=False, fields=fields)
    assert isinstance(told, errors.QueueOutOfRange)
    assert (told.topic, told.queue_id, told.count) == ("orders", 0, 0)


def test_what_to_do_is_said_behind_what_happened() -> None:
    late = DeadlineExceeded("DeadlineExceeded", "h:1 did not answer in time", endpoint="h:1")
    assert str(late).startswith("h:1 did not answer in time; next: read the broker's log")
    late.is_uncertain = True
    assert "unknown" in late.next_step
    late.message_ids = ("7F",)
    assert "message_ids" in late.next_step
    gone = Unreachable("Unreachable", "no broker answers at h:1", endpoint="h:1")
    assert "pocketmq serve" in str(gone)
    plain = ClientError("IllegalTopic", "no topic", endpoint="h:1")
    assert str(plain) == "h:1: no topic"
    busy = ClientError("StoreBusy", "busy", retryable=True)
    assert str(busy) == "busy; next: try again"


def test_a_message_of_the_wrong_type_is_told_the_field_that_makes_it() -> None:
    step = ClientError("KindConflict", "no", fields={"type": "FIFO"}).next_step
    assert step == "set message_group; it makes a FIFO message"
    assert ClientError("KindConflict", "no", fields={"type": "NORMAL"}).next_step == ""


@pytest.mark.parametrize(
    ("type_", "kind", "step"),
    [
        ("FIFO", "NORMAL", "set message_group; it makes a FIFO message"),
        ("FIFO", "DELAY", "leave out the delay, and set message_group; it makes a FIFO message"),
        ("NORMAL", "FIFO", "leave out message_group"),
        ("TRANSACTION", "PRIORITY", "leave out priority, and set transactional, or call .*"),
    ],
)
def test_a_message_of_another_kind_is_told_the_field_to_leave_out(
    type_: str, kind: str, step: str
) -> None:
    fields = {"type": type_, "kind": kind}
    assert re.fullmatch(step, ClientError("KindConflict", "no", fields=fields).next_step)
