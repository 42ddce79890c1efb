"""Pulls of classic consumers, with long polling (11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE).

The filter comes from the request, or else from the subscription in the group's heartbeats. The
answer's body contains the records as they are stored. At a damaged message, the answer makes the
client skip it, as the client would otherwise request it forever.
After a reset, a consumer gets the offset at which it continues.
Source: PullMessageProcessor.
"""

from collections.abc import Awaitable
from functools import partial

from pocketmq.model.errors import GroupDisabled, MessageDamaged
from pocketmq.model.reading import PullResult, PullStatus
from pocketmq.rpc.call import turn_user
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.pull_answer import answer_of, reset_answer
from pocketmq.rpc.classic.pull_request import Wanted, commit_of, request_of, wanted_of
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_client_reads, find_readable
from pocketmq.services.pull import PullRequest
from pocketmq.wire.remoting import Command


class ClassicPull:
    """The requests that pull messages; most take the shortcut (classic/pull_shortcut.py)."""

    __slots__ = ("_clients", "_groups", "_pull", "_store")

    def __init__(self, backing: Services, clients: ClassicClients) -> None:
        self._store = backing.store
        self._pull = backing.pull
        self._groups = backing.sessions.classic.groups
        self._clients = clients

    def pull(self, request: Command, call: ClassicCall) -> Command | Awaitable[Command]:
        """Returns records of a queue: at once, when one arrives, or none after the wait.

        Errors   MalformedRequest, IllegalNumber, GroupDisabled, GroupInUse, those of
                 `find_readable` and `ClassicClients.ensure`, QueueOutOfRange, IllegalFilter,
                 TooManyRequests, Corruption
        """
        group = text_field(request, "consumerGroup")
        if self._store.tables.groups.find(group) is None:
            return self._ensured(group, request, call)
        return self._started(group, request, call)

    async def _ensured(self, group: str, request: Command, call: ClassicCall) -> Command:
        await self._clients.ensure(group)
        found = self._started(group, request, call)
        return found if isinstance(found, Command) else await found

    def _started(
        self, group: str, request: Command, call: ClassicCall
    ) -> Command | Awaitable[Command]:
        tables = self._store.tables
        config = tables.groups.existing(group)
        if config.settings.enabled is False:
            raise GroupDisabled(group=group)
        topic = find_readable(
            tables.topics, text_field(request, "topic"), group, check_client_reads
        )
        topic.check_queue(number_field(request, "queueId"))
        wanted = wanted_of(
            request,
            self._groups.group(group),
            may_broadcast=config.settings.broadcast_enabled is not False,
        )
        if isinstance(wanted, Command):
            return wanted
        self._clients.check_free(group)
        work = partial(self._pulled, wanted, request, call)
        if wanted.is_sql:
            found: Command | Awaitable[Command] = self._store.turns.run(turn_user(call), work)
            return found
        return work()

    def _pulled(
        self, wanted: Wanted, request: Command, call: ClassicCall
    ) -> Command | Awaitable[Command]:
        asked = request_of(wanted, request, call)
        committed = commit_of(request)
        moved = self._reset_to(asked)
        if moved is not None:
            return self._moved(asked, moved)
        self._commit(asked, committed)
        if asked.range.queue_offset < 0:
            return self._skipped(asked, PullStatus.OFFSET_TOO_SMALL, -1)
        try:
            found = self._pull.pull(asked, joined=True)
        except MessageDamaged as damage:
            return self._skipped(asked, PullStatus.EXPIRED, damage.next_begin_offset)
        if not isinstance(found, PullResult):
            return self._later(asked, found)
        if self._pull.should_wait(asked, found):
            return self._pull.park(asked, found, partial(self._finished, asked), joined=True)
        return answer_of(found)

    async def _later(self, asked: PullRequest, found: Awaitable[PullResult]) -> Command:
        try:
            result = await self._pull.wait(asked, await found, joined=True)
        except MessageDamaged as damage:
            return self._skipped(asked, PullStatus.EXPIRED, damage.next_begin_offset)
        return self._finished(asked, result)

    def _finished(self, asked: PullRequest, result: PullResult) -> Command:
        """Returns the answer to a pull that waited, during which its group may have been reset.

        Errors   GroupDisabled: the group was turned off, and there are messages
        """
        group = self._store.tables.groups.find(asked.group)
        if result.records and group is not None and group.settings.enabled is False:
            raise GroupDisabled(group=asked.group)
        moved = self._reset_to(asked)
        return answer_of(result) if moved is None else self._moved(asked, moved)

    def _reset_to(self, asked: PullRequest) -> int | None:
        return self._store.tables.offsets.resets.take(asked.group, *asked.range[:2])

    def _moved(self, asked: PullRequest, queue_offset: int) -> Command:
        lower, upper = self._store.reading.queue_range(*asked.range[:2])
        return reset_answer(
            PullResult(PullStatus.NO_NEW_MESSAGE, queue_offset, lower, upper, [], 0)
        )

    def _skipped(self, asked: PullRequest, status: PullStatus, following: int) -> Command:
        """Returns an answer without messages, after which the client continues at `following`."""
        lower, upper = self._store.reading.queue_range(*asked.range[:2])
        following = max(following, lower)
        return answer_of(PullResult(status, following, lower, upper, [], 0))

    def _commit(self, asked: PullRequest, queue_offset: int) -> None:
        """Advances the group's offset, if the pull commits one; a later write persists it."""
        topic, queue_id = asked.range[:2]
        _, upper = self._store.reading.queue_range(topic, queue_id)
        if 0 <= queue_offset <= upper:
            self._store.tables.offsets.advance(asked.group, topic, queue_id, queue_offset)
