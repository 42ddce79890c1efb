"""Records put again: as a real RocketMQ puts them, byte for byte, and whatever they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.addresses import offset_message_id
from pocketmq.format.properties import decode_properties, encode_properties
from pocketmq.format.record import decode_record, encode_records, record_sizes
from pocketmq.format.rewrite import put_again
from pocketmq.model.batch import Destination, Run
from pocketmq.model.message import (
    DELIVER_AT,
    FIRST_POP_TIME,
    FLAG_COMPRESSED,
    PROPERTY_CRC,
    TIMER_OUT,
    StoredMessage,
)
from pocketmq.model.system_topics import (
    TIMER_TOPIC,
    ParkedMessage,
    QueuePlace,
    dead,
    delayed,
    leased_topic,
    real_place,
    revived,
    sent_back,
    timed,
)
from pocketmq.model.topic import SCHEDULE_TOPIC
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import open_log
from tests.kit.records import BORN_HOST, HOST, record
from tests.kit.rows import Row, encoded

LEVEL_COUNT = 18
BACK_TOPIC = "%RETRY%retry-group"
LEASE_TOPIC = "%RETRY%pop-group_PopT"
DEAD_TOPIC = "%DLQ%retry-group"


class GoldenRecords:
    """The records of the store with retries, delays and leases, and what each was made of."""

    def __init__(self, golden: GoldenStores) -> None:
        log = open_log(golden, "semantics")
        self.bytes_at = {
            file.base + position: bytes(file.view[position : position + size])
            for _, file, position, size in log.scan(0)
        }
        log.close()
        self.messages = [decode_record(content) for content in self.bytes_at.values()]

    def of(self, topic: str) -> list[StoredMessage]:
        """Returns the messages of a topic, at least one."""
        found = [message for message in self.messages if message.topic == topic]
        assert found
        return found

    def before(self, message: StoredMessage, topic: str) -> StoredMessage | None:
        """Returns what the producer or another topic had of a message last, by its unique key."""
        return next(
            (
                other
                for other in reversed(self.messages)
                if other.unique_key == message.unique_key
                and other.topic == topic
                and other.physical_offset < message.physical_offset
            ),
            None,
        )

    def assert_made(self, after: StoredMessage, run: Run) -> None:
        """Asserts that a run becomes the very bytes of a record."""
        destination, batch = run
        made = encode_records(
            destination,
            batch,
            record_sizes(destination, batch),
            queue_offset=after.queue_offset,
            physical_offset=after.physical_offset,
            store_timestamp_ms=after.store_timestamp_ms,
        )
        assert made == self.bytes_at[after.physical_offset]


@pytest.fixture(scope="module")
def records(golden: GoldenStores) -> GoldenRecords:
    """The golden records, read once."""
    return GoldenRecords(golden)


def test_what_is_due_is_delivered_as_rocketmq_delivers_it(records: GoldenRecords) -> None:
    count = 0
    for topic in ("DelayT", BACK_TOPIC):
        for after in records.of(topic):
            waiting = records.before(after, SCHEDULE_TOPIC)
            assert waiting is not None
            place = real_place(waiting.properties)
            assert place == (after.topic, after.queue_id)
            run = put_again(
                records.bytes_at[waiting.physical_offset],
                topic=place.topic,
                queue_id=place.queue_id,
                store_host=after.store_host,
                changed={},
            )
            records.assert_made(after, run)
            count += 1
    assert count == 44


def test_what_is_sent_back_waits_as_rocketmq_lets_it_wait(records: GoldenRecords) -> None:
    count = 0
    for after in records.of(SCHEDULE_TOPIC):
        before = records.before(after, "RetryT")
        if before is None:
            continue
        back = sent_back(
            "retry-group", before.topic, before.properties, offset_id(before), after.queue_id + 1
        )
        assert back.place == (BACK_TOPIC, 0)
        wait = delayed(back.place, after.queue_id + 1, LEVEL_COUNT)
        run = put_again(
            records.bytes_at[before.physical_offset],
            topic=wait.place.topic,
            queue_id=wait.place.queue_id,
            store_host=after.store_host,
            changed=back.changed | wait.changed,
            dropped=wait.dropped,
            reconsume_times=before.reconsume_times + 1,
        )
        records.assert_made(after, run)
        count += 1
    assert count == 16


def test_what_is_given_up_is_a_dead_letter_as_rocketmqs(records: GoldenRecords) -> None:
    for after in records.of(DEAD_TOPIC):
        before = records.before(after, "RetryT")
        assert before is not None
        letter = dead("retry-group", before.topic, before.properties, offset_id(before))
        run = put_again(
            records.bytes_at[before.physical_offset],
            topic=letter.place.topic,
            queue_id=letter.place.queue_id,
            store_host=after.store_host,
            changed=letter.changed,
            reconsume_times=1,
        )
        records.assert_made(after, run)


def test_what_was_leased_too_long_comes_again_as_rocketmq_revives_it(
    records: GoldenRecords,
) -> None:
    for after in records.of(LEASE_TOPIC):
        before = records.before(after, "PopT")
        assert before is not None
        popped_at_ms = int(after.properties[FIRST_POP_TIME])
        again = revived("pop-group", "PopT", before.properties, popped_at_ms)
        assert leased_topic(again.place.topic, "pop-group") == "PopT"
        run = put_again(
            records.bytes_at[before.physical_offset],
            topic=again.place.topic,
            queue_id=again.place.queue_id,
            store_host=after.store_host,
            changed=again.changed,
            reconsume_times=before.reconsume_times + 1,
            born_host=after.store_host,
            is_copied=True,
        )
        records.assert_made(after, run)


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, TIMER_TOPIC])
def test_what_waits_in_a_real_store_is_disguised_as_ours_would_be(
    records: GoldenRecords, topic: str
) -> None:
    for message in records.of(topic):
        place = real_place(message.properties)
        assert place is not None
        if topic == SCHEDULE_TOPIC:
            disguise = delayed(place, message.queue_id + 1, LEVEL_COUNT)
        else:
            slot_ms = int(message.properties[TIMER_OUT])
            disguise = timed(place, int(message.properties.get(DELIVER_AT, slot_ms + 1)))
        assert disguise.applied(message.properties) == message.properties
        run = again(records.bytes_at[message.physical_offset], disguise, message.store_host)
        if message.properties.get("TAGS") not in ("ck", "ack"):
            records.assert_made(message, run)


def test_of_a_record_with_a_property_crc_the_next_one_gets_its_own(golden: GoldenStores) -> None:
    log = open_log(golden, "propcrc")
    _, file, position, size = next(iter(log.scan(0)))
    content = bytes(file.view[position : position + size])
    log.close()
    assert PROPERTY_CRC in decode_record(content).properties
    _, batch = put_again(content, topic="T", queue_id=0, store_host=HOST, changed={})
    assert PROPERTY_CRC not in decode_properties(batch.property_blocks[0])


def test_a_body_stays_compressed_and_bytes_that_are_no_text_stay() -> None:
    block = b"UNIQ_KEY\x01k\x02odd\x01\xff\xfe\x02x\x01\x02odd2\x011\x02odd2\x012"
    before = record(96, b"\x78\x9cnot zlib", properties=block, system_flag=FLAG_COMPRESSED)
    destination, batch = put_again(
        before, topic="T2", queue_id=3, store_host=HOST, changed={"a": "b"}, dropped=("gone",)
    )
    assert destination == Destination("T2", 3, HOST, FLAG_COMPRESSED)
    assert batch.bodies == [b"\x78\x9cnot zlib"]
    assert batch.born_hosts == [BORN_HOST]
    assert batch.unique_keys == ["k"]
    pairs = set(batch.property_blocks[0].split(b"\x02"))
    assert pairs == {b"UNIQ_KEY\x01k", b"odd\x01\xff\xfe", b"odd2\x012", b"a\x01b", b""}


NAMES = st.text(st.characters(exclude_characters="\0\x01\x02", codec="utf-8"), min_size=1)
PROPERTIES = st.dictionaries(NAMES, NAMES, max_size=20)


@given(PROPERTIES, PROPERTIES, st.integers(0, 2**31 - 1), st.binary(max_size=64))
def test_any_record_comes_out_with_its_changes_and_nothing_else(
    properties: dict[str, str], changed: dict[str, str], times: int, body: bytes
) -> None:
    row = Row(body, encode_properties(properties), 7, 1234, BORN_HOST, reconsume_times=times)
    before = encoded(Destination("T", 1, HOST), row, physical_offset=500)
    dropped = set(list(properties)[::2])
    run = put_again(
        before, topic="U", queue_id=2, store_host=HOST, changed=changed, dropped=dropped
    )
    message = decode_record(
        encode_records(
            *run, record_sizes(*run), queue_offset=0, physical_offset=0, store_timestamp_ms=0
        )
    )
    kept = {name: value for name, value in properties.items() if name not in dropped}
    assert message.properties == kept | changed
    assert (message.topic, message.queue_id, message.body) == ("U", 2, body)
    assert (message.reconsume_times, message.born_timestamp_ms) == (times, 1234)
    assert (message.flag, message.born_host) == (7, BORN_HOST)


def offset_id(message: StoredMessage) -> str:
    """Returns the id of where a message lies."""
    return offset_message_id(message.store_host, message.physical_offset)


def again(content: bytes, disguise: ParkedMessage, store_host: bytes) -> Run:
    """Puts a record again as a disguise says."""
    place: QueuePlace = disguise.place
    return put_again(
        content,
        topic=place.topic,
        queue_id=place.queue_id,
        store_host=store_host,
        changed=disguise.changed,
        dropped=disguise.dropped,
    )
