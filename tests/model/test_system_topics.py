"""Messages in the broker's own topics are decoded as they were encoded."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.message import DELAY, DELIVER_AT, INT32_MAX, RETRY_TOPIC
from pocketmq.model.system_topics import (
    DELIVERY_TIMES,
    QueuePlace,
    back_level,
    dead,
    delayed,
    half,
    lease_retry_topic,
    lease_retry_topic_v2,
    leased_topic,
    real_place,
    restored,
    revived,
    sent_back,
    timed,
)
from tests.kit.origins import origin_of

TOPICS = st.text("abcT_-%|0", min_size=1, max_size=20)
PLACES = st.builds(QueuePlace, TOPICS, st.integers(0, INT32_MAX))
PROPERTIES = st.dictionaries(
    st.sampled_from(["KEYS", "TAGS", "DELAY", "REAL_TOPIC", "TIMER_DELIVER_MS", "WAIT", "mine"]),
    st.text("ab1 ", min_size=1),
)


@given(PLACES, PROPERTIES, st.integers(1, 40), st.integers(1, 30))
def test_a_delayed_message_finds_its_place_again(
    place: QueuePlace, properties: dict[str, str], level: int, level_count: int
) -> None:
    disguise = delayed(place, level, level_count)
    waiting = disguise.applied(properties)
    assert real_place(waiting) == place
    assert disguise.place.queue_id == int(waiting[DELAY]) - 1 < level_count
    assert not DELIVERY_TIMES & set(waiting)
    own = {"DELAY", "REAL_TOPIC", "REAL_QID", *DELIVERY_TIMES}
    assert {k: v for k, v in waiting.items() if k not in own} == {
        k: v for k, v in properties.items() if k not in own
    }


@given(PLACES, PROPERTIES, st.integers(1, 10**15))
def test_a_timed_message_finds_its_place_again(
    place: QueuePlace, properties: dict[str, str], deliver_at_ms: int
) -> None:
    disguise = timed(place, deliver_at_ms)
    waiting = disguise.applied(properties)
    assert real_place(waiting) == place
    assert waiting.get(DELIVER_AT) == properties.get(DELIVER_AT)
    slot_ms = int(waiting["TIMER_OUT_MS"])
    assert slot_ms % 1_000 == 0
    assert 0 < deliver_at_ms - slot_ms <= 1_000


SENT = st.dictionaries(
    st.sampled_from(["KEYS", "TAGS", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "WAIT", "mine"]),
    st.text("ab1 ", min_size=1),
)
"""What producers and the broker say of a message that does not wait."""


@given(PLACES, SENT, st.integers(1, 18), st.integers(1, 10**15), st.text("AB12", min_size=1))
def test_what_waits_is_revealed_as_it_was_sent(
    place: QueuePlace, sent: dict[str, str], level: int, deliver_at_ms: int, unique_key: str
) -> None:
    by_level = {k: v for k, v in sent.items() if k not in DELIVERY_TIMES} | {DELAY: str(level)}
    assert restored(delayed(place, level, 18).applied(by_level)) == (place, by_level)
    assert restored(timed(place, deliver_at_ms).applied(sent)) == (place, sent)
    half_sent = sent | {"TRAN_MSG": "true"}
    assert restored(half(place, unique_key).applied(half_sent)) == (place, half_sent)
    assert restored(sent) is None


@given(TOPICS, TOPICS, st.integers(1, 18))
def test_of_what_is_sent_back_or_given_up_the_first_place_stays_known(
    group: str, topic: str, level: int
) -> None:
    back = sent_back(group, topic, {}, "ID1", level)
    once = back.applied({"mine": "1"})
    assert origin_of(once) == (topic, "ID1")
    twice = sent_back(group, back.place.topic, once, "ID2", level).applied(once)
    assert origin_of(twice) == (topic, "ID1")
    letter = dead(group, back.place.topic, twice, "ID3")
    assert letter.place == (f"%DLQ%{group}", 0)
    assert origin_of(letter.applied(twice)) == (topic, "ID1")
    assert letter.applied(twice)[DELAY] == "0"


@given(TOPICS, TOPICS)
def test_the_topic_of_a_lease_retry_topic_is_found_in_its_name(group: str, topic: str) -> None:
    assert leased_topic(lease_retry_topic(group, topic), group) == topic
    assert leased_topic(lease_retry_topic_v2(group, topic), group) == topic
    assert leased_topic(topic, group + "x") == topic or topic.startswith("%RETRY%")


def test_a_message_leased_again_and_again_stays_in_one_retry_topic() -> None:
    first = revived("G", "T", {}, 1_000)
    assert first.place == ("%RETRY%G_T", 0)
    properties = first.applied({})
    assert properties == {"ORIGIN_GROUP": "G", "1ST_POP_TIME": "1000"}
    second = revived("G", first.place.topic, properties, 2_000)
    assert second.place == first.place
    assert second.applied(properties) == properties


def test_each_further_time_a_message_is_sent_back_it_waits_longer() -> None:
    assert [back_level(0, times) for times in range(3)] == [3, 4, 5]
    assert back_level(7, 2) == 7


def test_properties_that_name_no_place_are_none() -> None:
    assert origin_of({RETRY_TOPIC: "T"}) is None
    for number in ("", "-1", "1x", "99999999999", str(INT32_MAX + 1), "²"):
        assert real_place({"REAL_TOPIC": "T", "REAL_QID": number}) is None
    assert real_place({"REAL_QID": "1"}) is None
