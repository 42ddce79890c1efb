"""Invariants between the records of a log and the answers that producers had.

    once           C-once: what was acknowledged is delivered once, what had no answer at most as
                   often as it was sent, what was refused or taken back never
    transactions   C-tx: half messages are committed once or never, and by decisions of their own
    delays         C-delay: nothing is delivered before its time, or too late

Each returns what is wrong as texts, one for each violation. A key names a message for good: it is
the unique key that its producer gave it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pocketmq.model.message import (
    FLAG_TRANSACTION_MASK,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TRANSACTION_COMMIT,
    StoredMessage,
)
from pocketmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC

CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"


class Told(NamedTuple):
    """A producer's knowledge of its message in the end.

    is_stored     True: it was acknowledged; False: refused; None: there was no answer
    is_wanted     False: rolled back, recalled or never committed; None: there was no answer
    sends         how often it was sent under its key
    """

    topic: str
    is_stored: bool | None = True
    is_wanted: bool | None = True
    sends: int = 1

    @property
    def counts(self) -> range:
        """How often it may be delivered."""
        if self.is_stored is False or self.is_wanted is False:
            return range(1)
        is_sure = self.is_stored and self.is_wanted
        return range(1 if is_sure else 0, self.sends + 1)


class Verdict(NamedTuple):
    """A producer's decisions of its transaction: all that it asked for, and the one accepted.

    taken   COMMIT or ROLLBACK; "": it was told of nothing that it was taken
    """

    asked: frozenset[str]
    taken: str = ""


NOTHING: Final = Verdict(frozenset())


def once(records: Iterable[StoredMessage], told: Mapping[str, Told]) -> list[str]:
    """Compares how often messages stand in their topics with what producers know.

    Shape    told: by key, of all messages of the topics that it names; nothing is under way
    """
    topics = {one.topic for one in told.values()}
    found = Counter((r.topic, r.unique_key) for r in records if r.topic in topics)
    wrong = [
        f"{key} is {found[one.topic, key]} times in {one.topic}, told {one}"
        for key, one in told.items()
        if found[one.topic, key] not in one.counts
    ]
    strangers = {
        (topic, key) for topic, key in found if key not in told or told[key].topic != topic
    }
    return wrong + [f"nobody sent {key} to {topic}" for topic, key in sorted(strangers)]


def transactions(records: Sequence[StoredMessage], said: Mapping[str, Verdict]) -> list[str]:
    """Compares half messages, what was committed, and what is told to be done.

    said     decisions by key; a key without decisions is absent
    """
    halves = {r.queue_offset: r for r in records if r.topic == HALF_TOPIC}
    by_place = {r.physical_offset: r for r in halves.values()}
    committed = [r for r in records if _is_committed(r)]
    done = Counter(
        int(text)
        for r in records
        if r.topic == OP_HALF_TOPIC
        for text in r.body.decode().split(",")
        if text
    )
    wrong = [f"{at} is told to be done, and is no half message" for at in done if at not in halves]
    for record in committed:
        wrong += _strange(record, by_place.get(record.prepared_transaction_offset))
    keys = Counter(record.unique_key for record in committed)
    wrong += [f"{key} is committed {count} times" for key, count in keys.items() if count > 1]
    given_up = {r.unique_key for r in records if r.topic == GIVEN_UP_TOPIC}
    last = {half.unique_key: at for at, half in halves.items()}
    for at, half in halves.items():
        key = half.unique_key
        if at != last[key] and _checks(halves[last[key]]) > _checks(half):
            continue  # It was put again: what holds is told of that one.
        verdict = said.get(key, NOTHING)
        if done[at] and not (key in keys or key in given_up or ROLLBACK in verdict.asked):
            wrong.append(f"{key}, half message {at}, is done for no reason: {verdict}")
        # A power cut may take the end of what was not acknowledged: that it is done.
        if not done[at] and verdict.taken:
            wrong.append(f"{key}, half message {at}, is not told to be done: {verdict}")
    for key, verdict in said.items():
        if verdict.taken and (key in keys) != (verdict.taken == COMMIT):
            wrong.append(f"{key} is committed {keys[key]} times, said {verdict.taken}")
    unasked = [key for key in keys if COMMIT not in said.get(key, NOTHING).asked]
    return wrong + [f"{key} is committed, and nobody asked for it" for key in unasked]


def _is_committed(record: StoredMessage) -> bool:
    return record.system_flag & FLAG_TRANSACTION_MASK == TRANSACTION_COMMIT


def _checks(half: StoredMessage) -> int:
    return int(half.properties.get(CHECK_TIMES, "0"))


def _strange(record: StoredMessage, half: StoredMessage | None) -> list[str]:
    """Returns what a committed message has that its half message has not."""
    name = f"{record.unique_key}, committed at {record.physical_offset},"
    if half is None:
        return [f"{name} names {record.prepared_transaction_offset}, no half message"]
    pairs = {
        "key": (record.unique_key, half.unique_key),
        "body": (record.body, half.body),
        "group": (record.properties.get(PRODUCER_GROUP), half.properties.get(PRODUCER_GROUP)),
        "topic": (record.topic, half.properties.get(REAL_TOPIC)),
    }
    return [
        f"{name} has another {what}: {pair}" for what, pair in pairs.items() if pair[0] != pair[1]
    ]


def delays(
    records: Iterable[StoredMessage], due_ms: Mapping[str, int], *, early_ms: int, late_ms: int
) -> list[str]:
    """Compares when messages were stored in their topics with when they were due, by one clock.

    due_ms    by key, wall time; other records are not looked at
    """
    wrong = []
    for record in records:
        wanted = due_ms.get(record.unique_key)
        if wanted is None or record.topic.startswith(("rmq_sys_", "SCHEDULE_TOPIC_", "RMQ_SYS_")):
            continue
        ahead = wanted - record.store_timestamp_ms
        if ahead > early_ms:
            wrong.append(f"{record.unique_key} came {ahead} ms early, due {wanted}")
        if -ahead > late_ms:
            wrong.append(f"{record.unique_key} came {-ahead} ms late, due {wanted}")
    return wrong
