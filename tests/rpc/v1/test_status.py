"""Every error has a status, and details that say what happened without giving away too much."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2

from pocketmq.model import errors
from pocketmq.model.errors import BrokerError, RequestError
from pocketmq.rpc.service import Internal, WireStatus
from pocketmq.rpc.v1.status import STATUSES, wire_status

ELSEWHERE = ("pocketmq.client", "pocketmq.testing")


def tree(root: type[BrokerError]) -> Iterator[type[BrokerError]]:
    """Walks the broker's classes; clients and tests in this process make some of their own."""
    yield root
    for branch in root.__subclasses__():
        place = branch.__module__
        if place.startswith("pocketmq.") and not place.startswith(ELSEWHERE):
            yield from tree(branch)


def example(kind: type[BrokerError]) -> BrokerError:
    values: dict[str, Any] = {
        name: 7 if of is int else "/x" for name, of in kind.field_types.items()
    }
    return kind(**values)


def details(status: WireStatus) -> dict[str, bytes]:
    packed = status_pb2.Status.FromString(status.details)
    assert (packed.code, packed.message) == (status.code, status.message)
    return {part.type_url.rpartition(".")[2]: part.value for part in packed.details}


def info(status: WireStatus) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo.FromString(details(status)["ErrorInfo"])


@pytest.mark.parametrize("kind", list(tree(BrokerError)), ids=lambda kind: kind.__name__)
def test_every_error_has_a_row_and_details(kind: type[BrokerError]) -> None:
    assert kind in STATUSES, "add it to broker/pocketmq/rpc/v1/status.py"
    status = wire_status(example(kind))
    assert (info(status).reason, info(status).domain) == (kind.__name__, "pocketmq")
    assert "/x" not in status.message or not issubclass(kind, errors.StorageError)
    assert "path" not in info(status).metadata
    assert ("RetryInfo" in details(status)) == kind.retryable


def test_no_row_is_left_of_an_error_that_is_gone() -> None:
    assert set(STATUSES) == set(tree(BrokerError))


def test_a_request_error_names_the_field_and_its_values() -> None:
    status = wire_status(errors.QueueOutOfRange(topic="orders", queue_id=9, count=2))
    assert status.code == code_pb2.OUT_OF_RANGE
    assert "queue 9" in status.message
    assert dict(info(status).metadata) == {"topic": "orders", "queue_id": "9", "count": "2"}
    request = error_details_pb2.BadRequest.FromString(details(status)["BadRequest"])
    (violation,) = request.field_violations
    assert (violation.field, violation.reason) == ("queue_id", "QueueOutOfRange")
    assert violation.description == status.message


def test_an_illegal_number_names_its_own_field() -> None:
    status = wire_status(errors.IllegalNumber(field="wait_ms", value=-1, lower=0, upper=9))
    request = error_details_pb2.BadRequest.FromString(details(status)["BadRequest"])
    assert request.field_violations[0].field == "wait_ms"


def test_what_may_be_tried_again_says_when() -> None:
    status = wire_status(errors.Draining())
    assert status.code == code_pb2.UNAVAILABLE
    retry = error_details_pb2.RetryInfo.FromString(details(status)["RetryInfo"])
    assert retry.retry_delay.nanos == 100_000_000
    assert "BadRequest" not in details(status)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.TopicNotFound, code_pb2.NOT_FOUND),
        (errors.MessageNotFound, code_pb2.NOT_FOUND),
        (errors.TopicExists, code_pb2.ALREADY_EXISTS),
        (errors.SystemTopic, code_pb2.PERMISSION_DENIED),
        (errors.UnsupportedFeature, code_pb2.UNIMPLEMENTED),
        (errors.TooManyRequests, code_pb2.RESOURCE_EXHAUSTED),
        (errors.Corruption, code_pb2.DATA_LOSS),
    ],
)
def test_codes_that_clients_act_on(kind: type[BrokerError], code: int) -> None:
    assert STATUSES[kind] == code


def test_the_disk_is_the_operators_business() -> None:
    status = wire_status(errors.DiskFull(path="/secret"))
    assert b"secret" not in status.details
    lost = wire_status(
        errors.Corruption(path="/secret", file_position=1, physical_offset=2, why="bad")
    )
    assert b"secret" not in lost.details
    assert info(lost).metadata["physical_offset"] == "2"


def test_a_status_fits_metadata_whatever_clients_send() -> None:
    for text in ("x" * 100_000, "\N{PILE OF POO}" * 10_000, "\x00" * 10_000):
        status = wire_status(errors.MixedTopics(topic=text, other=text))
        encoded = 3 * len(status.message.encode()) + 4 * len(status.details) / 3
        assert encoded < 8_000


def test_an_incident_tells_its_number_and_nothing_else() -> None:
    status = wire_status(Internal(incident="abc123"))
    assert status.code == code_pb2.INTERNAL
    assert status.message == "internal error; the broker's log has details under incident abc123"
    assert (info(status).reason, dict(info(status).metadata)) == (
        "Internal",
        {"incident": "abc123"},
    )


def test_request_errors_are_never_internal() -> None:
    for kind in tree(RequestError):
        assert STATUSES[kind] != code_pb2.INTERNAL
