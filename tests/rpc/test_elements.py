"""Elements of repeated fields are counted along a request's bytes, as a parser would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.errors import TooManyElements
from pocketmq.rpc.elements import ELEMENTS_MAX, Elements, Malformed
from pocketmq.rpc.pb import admin_pb2 as admin
from pocketmq.rpc.pb import messaging_pb2 as v2
from pocketmq.rpc.service import MalformedRequest, Method
from tests.kit.store_broker import StoreBroker

LIMIT = 8


def settings(count: int) -> v2.TelemetryCommand:
    entries = [v2.SubscriptionEntry(topic=v2.Resource(name="t"))] * count
    return v2.TelemetryCommand(
        settings=v2.Settings(subscription=v2.Subscription(subscriptions=entries))
    )


def test_as_many_elements_as_may_be_pass_and_one_more_does_not() -> None:
    elements = Elements(v2.TelemetryCommand, LIMIT)
    elements.check(settings(LIMIT).SerializeToString())
    with pytest.raises(TooManyElements) as caught:
        elements.check(settings(LIMIT + 1).SerializeToString())
    assert caught.value.field == "settings.subscription.subscriptions"
    assert caught.value.limit == LIMIT


def test_a_field_that_comes_in_pieces_is_counted_as_it_is_merged() -> None:
    raw = b"".join(settings(1).SerializeToString() for _ in range(LIMIT + 1))
    assert len(v2.TelemetryCommand.FromString(raw).settings.subscription.subscriptions) == LIMIT + 1
    with pytest.raises(TooManyElements):
        Elements(v2.TelemetryCommand, LIMIT).check(raw)


@pytest.mark.parametrize("number", [1, 300])
def test_numbers_that_stand_together_are_elements_each(number: int) -> None:
    elements = Elements(admin.ResetOffsetsRequest, LIMIT)
    elements.check(admin.ResetOffsetsRequest(queue_ids=[number] * LIMIT).SerializeToString())
    with pytest.raises(TooManyElements, match="queue_ids"):
        elements.check(
            admin.ResetOffsetsRequest(queue_ids=[number] * (LIMIT + 1)).SerializeToString()
        )


def test_keys_of_all_messages_are_counted_together() -> None:
    properties = v2.SystemProperties(keys=["k"] * 100)
    messages = [v2.Message(system_properties=properties)] * 700
    with pytest.raises(TooManyElements, match="system_properties"):
        Elements(v2.SendMessageRequest).check(
            v2.SendMessageRequest(messages=messages).SerializeToString()
        )


@pytest.mark.parametrize(
    "raw", [b"\x0b" * 10, b"\x0a\x7f" + bytes(9), b"\xff" * 12, b"\x09" + bytes(8) + b"\x0d"]
)
def test_bytes_that_are_no_message_are_told(raw: bytes) -> None:
    with pytest.raises(Malformed):
        Elements(v2.TelemetryCommand, LIMIT).check(raw)


@given(st.binary(max_size=300), st.integers(0, 40))
def test_a_request_with_fewer_elements_than_may_be_is_parsed_as_ever(
    raw: bytes, count: int
) -> None:
    whole = settings(count).SerializeToString() + raw
    try:
        parsed = v2.TelemetryCommand.FromString(whole)
    except Exception:  # noqa: BLE001 - what is no message to a parser may be any to the count
        return
    found = len(parsed.settings.subscription.subscriptions)
    try:
        Elements(v2.TelemetryCommand, 30).check(whole)
    except (TooManyElements, Malformed):
        return
    assert found <= 30


def test_every_method_bounds_the_elements_of_its_requests(broker: StoreBroker) -> None:
    refused = 0
    for service in broker.services():
        for row in service.methods:
            refused += _refuses(row)
    assert refused >= 12


def _refuses(row: Method) -> int:
    """Returns how many repeated fields of a request are refused with as many as its bytes hold."""
    count = 0
    for field in row.request.DESCRIPTOR.fields:
        if not field.is_repeated or row.parse is not None:
            continue
        one = bytes((field.number << 3 | 2, 0))
        if field.type not in (field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE):
            one = bytes((field.number << 3 | 2, 1, 1))
        raw = one * (ELEMENTS_MAX + 1)
        if len(raw) > row.request_size_max:
            continue
        with pytest.raises(TooManyElements):
            row.reader()(raw)
        count += 1
    return count


def test_a_malformed_request_is_the_clients_mistake(broker: StoreBroker) -> None:
    row = next(
        row for one in broker.services() for row in one.methods if row.name == "ResetOffsets"
    )
    with pytest.raises(MalformedRequest):
        row.reader()(b"\x0b" * 5_000)
