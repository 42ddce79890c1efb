"""Deduplicates sends: a repeat within the window returns the first result and stores nothing.

A repeat has the topic, message ids and delivery options of an earlier request. Results are kept
only in memory: a restart drops them, and each result is dropped after 100,000 later messages.
"""

from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pocketmq.model.errors import BrokerError
from pocketmq.model.stats import Counter
from pocketmq.model.step import Clock
from pocketmq.store.job import Job

MESSAGES_KEPT_MAX: Final = 100_000
"""Upper limit of messages in the requests that are kept: about 40 MB."""

Answer = TypeVar("Answer")
RequestKey = tuple[str, tuple[str, ...], tuple[Hashable, ...]]
"""(topic, message ids, delivery options)."""


class _Kept(NamedTuple, Generic[Answer]):
    """A request in progress or finished.

    number     tells requests with the same key apart
    since_ms   monotonic time of its start
    """

    number: int
    since_ms: int
    job: Job[Answer | BrokerError]


class SendDedup(Generic[Answer]):
    """The requests within the deduplication window."""

    __slots__ = ("_clock", "_kept", "_message_count", "_number", "answered")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[RequestKey, _Kept[Answer]] = {}
        self._message_count = 0
        self._number = 0
        self.answered = Counter(
            "pocketmq_repeated_sends_total",
            "Repeated sends, answered with the first result and not stored.",
        )

    async def once(
        self,
        key: RequestKey,
        window_ms: int,
        store: Callable[[], Coroutine[Any, Any, Answer]],
        is_gone: Callable[[Answer], bool] = lambda _: False,
    ) -> tuple[Answer, bool]:
        """Returns the answer to a request, and whether it is a repeat.

        store    serves the first request; continues if the caller of `once` is cancelled
        is_gone  returns whether messages of an answer no longer exist: a repeat stores them again
        Errors   errors of `store`; after an error a repeat is served as a first request
        """
        now_ms = self._clock.monotonic_ms()
        self._forget(now_ms - window_ms)
        found = self._kept.get(key)
        if found is not None and found.job.is_done:
            answer = found.job.result()
            if not isinstance(answer, BrokerError) and is_gone(answer):
                self._drop(key)
                found = None
        is_repeated = found is not None
        if found is None:
            self._number += 1
            job = Job(self._outcome(key, self._number, store))
            found = self._kept[key] = _Kept(self._number, now_ms, job)
            self._message_count += len(key[1])
        outcome = await found.job
        if isinstance(outcome, BrokerError):
            raise outcome
        self.answered.value += is_repeated
        return outcome, is_repeated

    async def _outcome(
        self, key: RequestKey, number: int, store: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer | BrokerError:
        try:
            return await store()
        except BrokerError as error:
            # Returned, not raised: if all callers were cancelled, none would receive the error.
            kept = self._kept.get(key)
            if kept is not None and kept.number == number:  # Else a later request replaced it.
                self._drop(key)
            return error

    def _forget(self, before_ms: int) -> None:
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            if oldest.since_ms > before_ms and self._message_count <= MESSAGES_KEPT_MAX:
                return
            self._drop(key)

    def _drop(self, key: RequestKey) -> None:
        if self._kept.pop(key, None) is not None:
            self._message_count -= len(key[1])
        assert self._message_count >= 0
