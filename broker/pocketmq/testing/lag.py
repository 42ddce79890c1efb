"""The lag of a group as a test sees it, and texts about an unfinished group.

unread ─► leased ─► acknowledged
             └─► waiting for a retry ─► leased again
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pocketmq.client import Admin
    from pocketmq.model.administration import Page, TopicLag

Value = TypeVar("Value")

GROUP: Final = "group"
TOPIC: Final = "topic"


class SeenLag(NamedTuple):
    """The messages that a group has not consumed.

    retried     messages that wait for a retry
    has_begun   whether the group has an offset: in the topic, or without a topic in any
    missing     GROUP or TOPIC if it does not exist
    """

    unread: int = 0
    leased: int = 0
    retried: int = 0
    has_begun: bool = False
    missing: str = ""

    @property
    def left(self) -> int:
        """Number of all messages that are not consumed."""
        return self.unread + self.leased + self.retried

    @property
    def is_done(self) -> bool:
        """Whether the group has begun to consume and nothing is left."""
        return self.has_begun and not self.left


def look_at_lag(admin: "Admin", group: str, topic: str) -> SeenLag:
    """Returns the lag of a group in a topic and its retries; topic "": in all its topics.

    A group that does not exist has consumed nothing of the topic.
    Errors   errors.TopicNotFound
    """
    from pocketmq.client import errors

    try:
        lags = [*_lags(admin, group, topic)]
    except errors.GroupNotFound:
        queues = admin.describe_topic(topic).queues if topic else ()
        return SeenLag(sum(int(one.max_offset - one.min_offset) for one in queues), missing=GROUP)
    retries = [lag for lag in lags if _is_retry(lag.topic, group)]
    others = [lag for lag in lags if not _is_retry(lag.topic, group)]
    return SeenLag(
        sum(map(_waiting, others)),
        sum(map(_leased, lags)),
        sum(map(_waiting, retries)) + (_delayed_retry_count(admin, group) if lags else 0),
        any(_has_begun(lag) for lag in lags if topic in ("", lag.topic)),
    )


def _lags(admin: "Admin", group: str, topic: str) -> "Iterator[TopicLag]":
    found = {lag.topic: lag for lag in admin.group_lag(group, topic)}
    yield from found.values()
    for name in topic_names(admin):
        if name not in found and _is_retry(name, group):
            yield from admin.group_lag(group, name)


def _is_retry(topic: str, group: str) -> bool:
    from pocketmq.model.topic import RETRY_PREFIX

    own = RETRY_PREFIX + group
    return topic == own or topic.startswith((own + "_", own + "+"))


def _has_begun(lag: "TopicLag") -> bool:
    return any(queue.committed_offset is not None for queue in lag.queues)


def _leased(lag: "TopicLag") -> int:
    return sum(queue.in_flight_count for queue in lag.queues)


def _waiting(lag: "TopicLag") -> int:
    """Returns the messages that no client has: all, if the group has no offset in the topic."""
    if _has_begun(lag):
        return max(lag.lag_messages - _leased(lag), 0)
    return sum(queue.max_offset - queue.min_offset for queue in lag.queues)


def _delayed_retry_count(admin: "Admin", group: str) -> int:
    """Returns the number of a group's messages that wait for the delay of their retry.

    They are in no topic of the group until the delay has passed.
    """
    from pocketmq.model.topic import RETRY_PREFIX

    list_delayed, topic = admin.list_delayed, RETRY_PREFIX + group
    return sum(1 for _ in all_of(lambda token: list_delayed(topic, page_token=token)))


def topic_names(admin: "Admin") -> Iterator[str]:
    """Yields the names of all topics, also of those of groups."""
    list_topics = admin.list_topics
    found = all_of(lambda token: list_topics(page_token=token, include_system=True))
    return (topic.name for topic in found)


def all_of(ask: "Callable[[str], Page[Value]]") -> Iterator[Value]:
    """Yields the items of all pages of a list; `ask` returns the page of a token."""
    token = ""
    while True:
        page = ask(token)
        yield from page.items
        token = page.next_page_token
        if not token:
            return


# -- texts -------------------------------------------------------------------------------------


def hint_of(name: str, names: Iterable[str]) -> str:
    """Returns a question for the known name that the caller may have meant; "" without one."""
    from pocketmq.model.nearness import NEAR, nearest

    near = nearest(name, names, NEAR)
    return f"; did you mean {near!r}?" if near else ""


def remains(group: str, topic: str, seen: SeenLag, timeout: float) -> str:
    """Returns the text about a group that exists and is not done after `timeout` seconds."""
    where = f" topic {topic}" if topic else ""
    count = f"{seen.left} message" if seen.left == 1 else f"{seen.left} messages"
    if not seen.has_begun:
        waits = "waits" if seen.left == 1 else "wait"
        text = f"group {group} did not begin to consume{where} within {timeout:g} s"
        return f"{text}; {count} {waits} for it" if seen.left else text
    kinds = (
        (seen.unread, "unread"),
        (seen.leased, "leased and not acknowledged"),
        (seen.retried, "waiting for a retry"),
    )
    parts = ", ".join(f"{number} {kind}" for number, kind in kinds if number)
    within = f" in{where}" if where else ""
    return f"group {group} had {count} to consume{within} after {timeout:g} s: {parts}"


def blocked_loop() -> str:
    """Returns advice for a caller whose event loop could run no consumer during the wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ""
    return (
        "; the test's event loop stood still meanwhile: "
        "await asyncio.to_thread(rocketmq.wait_for_lag_0, ...)"
    )
