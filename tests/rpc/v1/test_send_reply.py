"""The reply to a send reads as what the generated classes would have written."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import host_from_text, offset_message_id
from pocketmq.model.batch import Destination, PutResult, PutStatus
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.v1.send_reply import SEND_STATUSES, encode_sent, varint, wide_varint
from pocketmq.services.produce.send import Sent

HOSTS = st.sampled_from([host_from_text("10.0.0.9:80"), host_from_text("[::1]:8081")])
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)


@st.composite
def sends(draw: st.DrawFn) -> Sent:
    ids = draw(st.lists(TEXT, min_size=1, max_size=5))
    places = st.integers(0, draw(st.sampled_from([2**20, 2**35, 2**63 - 1])))
    queue_offsets = st.integers(0, draw(st.sampled_from([1_000, 2**62])))
    texts = st.lists(st.just("") | TEXT, min_size=len(ids), max_size=len(ids))
    handles = draw(st.just(()) | texts)
    return Sent(
        Destination(draw(TEXT), draw(st.integers(0, 2**31 - 1)), draw(HOSTS)),
        ids,
        PutResult(
            draw(st.sampled_from(PutStatus)),
            sorted(draw(st.lists(places, min_size=len(ids), max_size=len(ids)))),
            draw(st.integers(0, 2**62) | st.integers(0, 1_000)),
            draw(st.integers(0, 2**62)),
            end=0,
        ),
        draw(st.just(()) | st.lists(queue_offsets, min_size=len(ids), max_size=len(ids))),
        handles,
        () if any(handles) else draw(st.just(()) | texts),
    )


def plain(sent: Sent) -> pb.SendMessageResponse:
    """Returns the reply made by the generated classes: the oracle."""
    destination, message_ids, result, queue_offsets, handles, transactions = sent
    first = result.queue_offset
    ordinals = queue_offsets or range(first, first + len(message_ids))
    handles = handles or [""] * len(message_ids)
    transactions = transactions or [""] * len(message_ids)
    places = zip(message_ids, result.physical_offsets, ordinals, handles, transactions, strict=True)
    return pb.SendMessageResponse(
        results=[
            pb.SendResult(
                topic=destination.topic,
                message_id=message_id,
                offset_message_id=offset_message_id(destination.store_host, place),
                queue_id=destination.queue_id,
                queue_offset=queue_offset,
                physical_offset=place,
                store_timestamp_ms=result.store_timestamp_ms,
                status=SEND_STATUSES[result.status],
                recall_handle=handle,
                transaction_id=transaction,
            )
            for message_id, place, queue_offset, handle, transaction in places
        ]
    )


@given(sends())
def test_the_reply_reads_as_what_the_generated_classes_write(sent: Sent) -> None:
    assert pb.SendMessageResponse.FromString(encode_sent(sent)) == plain(sent)


@given(st.integers(0, 2**35 - 1))
def test_both_varints_are_read_back(value: int) -> None:
    for encoded in (varint(value), wide_varint(value)):
        assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded)) == value
        assert [byte >> 7 for byte in encoded] == [1] * (len(encoded) - 1) + [0]
    assert len(wide_varint(value)) == 5


def test_every_status_has_its_number() -> None:
    assert set(SEND_STATUSES) == set(PutStatus)
