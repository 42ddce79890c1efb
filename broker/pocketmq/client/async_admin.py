"""Calls of pocketmq.v1.Admin: topics, groups, offsets, the store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeVar

from pocketmq.client.async_access import AsyncAccess
from pocketmq.client.async_replication import AsyncReplication
from pocketmq.client.channel import Channel, Stub, Value, value_of
from pocketmq.client.client_error import told_error
from pocketmq.client.messages import find_by_id, find_by_key, pull, stored_message
from pocketmq.client.values import (
    GroupState,
    KeyQuery,
    OpenTransaction,
    PullPage,
    PullQuery,
    TopicState,
    check_argument,
)
from pocketmq.model.administration import (
    ClientAnswer,
    DeadLetters,
    DelayedMessage,
    GroupOffset,
    GroupSettings,
    GroupStats,
    MapPart,
    MapTopic,
    Member,
    MovedOffset,
    Page,
    PurgedQueue,
    QueueLag,
    QueueState,
    Redriven,
    RedriveResult,
    ResetTarget,
    SettingRow,
    StoreMap,
    StoreStatus,
    TopicChange,
    TopicCounts,
    TopicLag,
    TopicProducer,
)
from pocketmq.model.listing import FoundRows, GroupOrder, GroupTotals, TopicOrder, TopicTotals
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import QueryResult
from pocketmq.model.tracing import TracedRecord, TraceStep
from pocketmq.rpc.pb import admin_pb2

PAGE_SIZE: Final = 1_000
ANSWER_MS: Final = 5_000
"""Default time within which an official client must answer."""
DEFAULTS: Final = GroupSettings()
NO_ATTRIBUTES: Final[Mapping[str, str]] = {}
Row = TypeVar("Row")


class AsyncAdmin:
    """Administration of a broker, for operators: `AsyncClient.admin`.

    Errors   raised by every method: ClientError and its subclasses
    """

    __slots__ = ("_ask", "_read", "_stub", "access", "replication")

    def __init__(self, channel: Channel) -> None:
        self._stub = Stub(channel, admin_pb2.DESCRIPTOR.services_by_name["Admin"])
        self._ask, self._read = self._stub.ask, self._stub.read
        self.access = AsyncAccess(channel)
        self.replication = AsyncReplication(channel)

    # --- topics -----------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, *, queue_count: int = 0, type_name: str = "",
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> TopicState:  # fmt: skip
        """Creates a topic.

        type_name   name of the proto's TopicType, in any case; the topic then accepts only messages
                    of this type. "": it accepts all types
        attributes  further attributes, such as {"pocketmq.retention.ms": "86400000"}
        Errors      ValueError: unknown type, in addition to the errors of all methods
        """
        check_argument("type_name", type_name, str)
        kind = type_name.upper() or None
        _, *kinds = admin_pb2.TopicType.keys()  # The first is the unspecified type.
        if kind is not None and kind not in kinds:
            names = ", ".join(kinds).lower()
            raise ValueError(f"unknown topic type {type_name!r}; the types are {names}")
        answer = await self._ask(
            "CreateTopic", is_repeatable=True, name=name, queue_count=queue_count, type=kind,
            attributes=attributes,
        )  # fmt: skip
        return _topic_state(answer.topic)

    async def list_topics(
        self,
        *,
        page_size: int = 0,
        page_token: str = "",
        include_system: bool = False,
        with_stats: bool = False,
    ) -> Page[TopicState]:
        """Returns a page of the topics, ordered by name, without their queues.

        with_stats   sets `counts` of each topic, without the counts of queues
        """
        answer = await self._read(
            "ListTopics", page_size=page_size, page_token=page_token,
            include_system=include_system, with_stats=with_stats,
        )  # fmt: skip
        page = _page(answer, answer.topics, _topic_state)
        pairs = zip_longest(page.items, map(_topic_counts, answer.stats))
        return page._replace(items=[topic._replace(counts=counts) for topic, counts in pairs])

    async def find_topics(
        self,
        name_part: str = "",
        *,
        order: TopicOrder = TopicOrder.NAME,
        skip: int = 0,
        page_size: int = 0,
        with_stats: bool = False,
        with_sums: bool = False,
    ) -> FoundRows[TopicState, TopicTotals]:
        """Returns a page of the topics whose names contain a part, in any case.

        order        by size and last message: of at most 1000 found topics
        skip         found topics left out before the page
        with_stats   sets `counts` of each topic, without the counts of queues
        with_sums    sums over all topics
        Errors       UnsupportedFeature also if the broker is too old
        """
        answer = await self._read(
            "ListTopics", name_part=name_part, order=order.name, skip=skip, page_size=page_size,
            with_stats=with_stats, with_sums=with_sums,
        )  # fmt: skip
        pairs = zip_longest(map(_topic_state, answer.topics), map(_topic_counts, answer.stats))
        rows = [topic._replace(counts=counts) for topic, counts in pairs]
        return _found(answer, rows, TopicTotals)

    async def describe_topic(self, name: str) -> TopicState:
        """Returns a topic with its queues."""
        answer = await self._read("DescribeTopic", name=name)
        return _topic_state(answer.topic)._replace(queues=_values(QueueState, answer.queues))

    async def update_topic(self, name: str, change: TopicChange) -> TopicState:
        """Changes the settings of a topic that are not None in `change`."""
        return _topic_state((await self._ask("UpdateTopic", name=name, **change._asdict())).topic)

    async def delete_topic(self, name: str, *, dry_run: bool = False) -> list[str]:
        """Deletes a topic and its retry topics; returns their names.

        dry_run   only returns the names
        """
        answer = await self._ask("DeleteTopic", name=name, dry_run=dry_run)
        return list(answer.removed_topics)

    async def purge_topic(
        self,
        name: str,
        *,
        queue_ids: Sequence[int] = (),
        before_ms: int = 0,
        dry_run: bool = False,
        planned: Sequence[PurgedQueue] = (),
    ) -> list[PurgedQueue]:
        """Makes messages of a topic unreachable; returns the changed queues.

        queue_ids   queues to purge; empty: all queues, and the topic's retries
        before_ms   purges only messages stored before this time; 0: all
        dry_run     only returns the queues that would change
        planned     the answer of a dry run: purges only what it shows; empty: all
        """
        answer = await self._ask(
            "PurgeTopic", name=name, queue_ids=queue_ids, before_ms=before_ms, dry_run=dry_run,
            planned=[queue._asdict() for queue in planned],
        )  # fmt: skip
        return [value_of(PurgedQueue, row) for row in answer.queues]

    async def topic_counts(self, name: str) -> TopicCounts:
        """Returns the message count of each queue of a topic."""
        return _topic_counts((await self._read("TopicStats", name=name)).topics[0])

    async def all_topic_counts(
        self,
        *,
        page_size: int = PAGE_SIZE,
        page_token: str = "",
        include_system: bool = False,
        totals_only: bool = True,
    ) -> Page[TopicCounts]:
        """Returns a page of topics and their message counts.

        totals_only   omits the counts of each queue; a page then has up to page_size topics, else
                      up to the broker's default
        """
        answer = await self._read(
            "TopicStats",
            page_size=page_size if totals_only else 0,
            page_token=page_token,
            include_system=include_system,
            totals_only=totals_only,
        )
        return _page(answer, answer.topics, _topic_counts)

    # --- groups -----------------------------------------------------------------------------------

    async def create_group(self, name: str, settings: GroupSettings = DEFAULTS) -> GroupState:
        """Creates a group."""
        answer = await self._ask(
            "CreateGroup", is_repeatable=True, name=name, settings=settings._asdict()
        )
        return _group_state(answer.group)

    async def update_group(self, name: str, settings: GroupSettings) -> GroupState:
        """Changes the settings of a group that are not None in `settings`."""
        answer = await self._ask("UpdateGroup", name=name, settings=settings._asdict())
        return _group_state(answer.group)

    async def delete_group(
        self, name: str, *, with_topics: bool = False, dry_run: bool = False
    ) -> list[str]:
        """Deletes a group and its offsets; returns the names of the deleted topics.

        with_topics   deletes the group's retry and dead-letter topics
        dry_run       only returns the names
        """
        answer = await self._ask("DeleteGroup", name=name, with_topics=with_topics, dry_run=dry_run)
        return list(answer.removed_topics)

    async def list_groups(
        self,
        *,
        page_size: int = PAGE_SIZE,
        page_token: str = "",
        include_system: bool = False,
        with_stats: bool = False,
    ) -> Page[GroupState]:
        """Returns a page of groups, ordered by name.

        with_stats   sets `stats` of each group
        """
        answer = await self._read(
            "ListGroups", page_size=page_size, page_token=page_token,
            include_system=include_system, with_stats=with_stats,
        )  # fmt: skip
        page = _page(answer, answer.groups, _group_state)
        pairs = zip_longest(page.items, _values(GroupStats, answer.stats))
        return page._replace(items=[group._replace(stats=stats) for group, stats in pairs])

    async def find_groups(
        self,
        name_part: str = "",
        *,
        order: GroupOrder = GroupOrder.NAME,
        skip: int = 0,
        page_size: int = 0,
        with_stats: bool = False,
        with_sums: bool = False,
    ) -> FoundRows[GroupState, GroupTotals]:
        """Returns a page of the groups whose names contain a part, in any case.

        skip         found groups left out before the page
        with_stats   sets `stats` of each group
        with_sums    sums over all groups
        Errors       UnsupportedFeature also if the broker is too old
        """
        answer = await self._read(
            "ListGroups", name_part=name_part, order=order.name, skip=skip, page_size=page_size,
            with_stats=with_stats, with_sums=with_sums,
        )  # fmt: skip
        pairs = zip_longest(map(_group_state, answer.groups), _values(GroupStats, answer.stats))
        rows = [group._replace(stats=stats) for group, stats in pairs]
        return _found(answer, rows, GroupTotals)

    async def describe_group(self, name: str) -> GroupState:
        """Returns a group with the topics in which it has offsets."""
        answer = await self._read("DescribeGroup", name=name)
        return _group_state(answer.group)._replace(topics=list(answer.topics))

    async def list_members(self, group: str) -> list[Member]:
        """Returns the clients active in a group in the last two minutes, the latest first."""
        answer = await self._read("ListMembers", group=group)
        return [value_of(Member, row, topics=list(row.topics)) for row in answer.members]

    async def list_producers(self, topic: str) -> list[TopicProducer]:
        """Returns the clients that send to a topic, the last sender first.

        These are clients whose settings name the topic, and senders of the last messages of its
        queues.
        """
        answer = await self._read("ListProducers", topic=topic)
        return [value_of(TopicProducer, row, groups=tuple(row.groups)) for row in answer.producers]

    async def print_client_stack(
        self, group: str, client_id: str, *, wait_ms: int = ANSWER_MS
    ) -> ClientAnswer:
        """Returns the thread dump that an official consumer reports."""
        answer = await self._ask(
            "PrintClientStack",
            group=group,
            client_id=client_id,
            wait_ms=wait_ms,
            wait_for_ms=wait_ms,
        )
        return value_of(ClientAnswer, answer)

    async def verify_message(
        self, group: str, client_id: str, topic: str, message_id: str, *, wait_ms: int = ANSWER_MS
    ) -> ClientAnswer:
        """Asks an official push consumer to consume a message; returns the consumer's result."""
        answer = await self._ask(
            "VerifyMessage", group=group, client_id=client_id, topic=topic,
            message_id=message_id, wait_ms=wait_ms, wait_for_ms=wait_ms,
        )  # fmt: skip
        return value_of(ClientAnswer, answer)

    # --- offsets of groups -----------------------------------------------------------------------

    async def list_offsets(self, group: str, topic: str = "") -> list[GroupOffset]:
        """Returns the offsets of a group; topic "": in all topics."""
        answer = await self._read("ListOffsets", group=group, topic=topic)
        return [value_of(GroupOffset, row, queue_offset=row.offset) for row in answer.offsets]

    async def group_lag(self, group: str, topic: str = "") -> list[TopicLag]:
        """Returns the lag of a group by topic and queue; topic "": in all topics."""
        answer = await self._read("GroupLag", group=group, topic=topic)
        return [_topic_lag(row) for row in answer.topics]

    async def all_lags(
        self, *, topic: str = "", page_size: int = PAGE_SIZE, page_token: str = ""
    ) -> Page[TopicLag]:
        """Returns a page of the lags of all groups; topic "": in all topics."""
        answer = await self._read(
            "GroupLag", topic=topic, page_size=page_size, page_token=page_token
        )
        return _page(answer, answer.topics, _topic_lag)

    async def set_offsets(
        self, group: str, topic: str, queue_offsets: Mapping[int, int], *, dry_run: bool = False
    ) -> list[MovedOffset]:
        """Sets a group's offsets in queues of a topic."""
        pairs = [{"queue_id": q, "offset": at} for q, at in queue_offsets.items()]
        return await self._move(
            "SetOffsets", group=group, topic=topic, offsets=pairs, dry_run=dry_run
        )

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        target: ResetTarget,
        *,
        queue_ids: tuple[int, ...] = (),
        dry_run: bool = False,
    ) -> list[MovedOffset]:
        """Sets a group's offsets to a target, in all or some queues of a topic."""
        to: dict[str, Any] = {"place": "LATEST" if target.latest else "EARLIEST"}
        if target.time_ms is not None:
            to = {"time_ms": target.time_ms}
        elif target.queue_offset is not None:
            to = {"offset": target.queue_offset}
        return await self._move(
            "ResetOffsets", group=group, topic=topic, queue_ids=queue_ids, dry_run=dry_run, **to
        )

    async def clone_offsets(
        self, source: str, target: str, topic: str = "", *, dry_run: bool = False
    ) -> list[MovedOffset]:
        """Copies the offsets of one group to another, in one topic or in all."""
        return await self._move(
            "CloneOffsets", source_group=source, target_group=target, topic=topic, dry_run=dry_run
        )

    async def _move(self, method: str, **fields: Any) -> list[MovedOffset]:
        return _values(MovedOffset, (await self._ask(method, **fields)).offsets)

    # --- reads, also of system topics -------------------------------------------------------------

    async def pull(self, query: PullQuery) -> PullPage:
        """Pulls messages of one queue."""
        return await pull(self._stub, query)

    async def query_by_key(self, query: KeyQuery) -> QueryResult:
        """Returns a page of the messages with a key, newest first."""
        return await find_by_key(self._stub, "QueryByKey", query)

    async def query_by_tag(self, query: KeyQuery) -> QueryResult:
        """Returns a page of the messages whose tag is the query's key, newest first."""
        return await find_by_key(self._stub, "QueryByTag", query)

    async def query_by_id(self, topic: str, message_id: str) -> StoredMessage:
        """Returns the message with a unique key or offset id."""
        return await find_by_id(self._stub, topic, message_id)

    # --- history of messages ----------------------------------------------------------------------

    async def trace_message(
        self, message_id: str, topic: str = ""
    ) -> tuple[str, list[TracedRecord]]:
        """Returns a message's unique key, and its records in log order.

        topic   topic to which the message was sent; "": all topics are searched
        """
        answer = await self._read("TraceMessage", id=message_id, topic=topic)
        return answer.message_id, [_traced_record(row) for row in answer.records]

    async def list_delayed(
        self, topic: str = "", *, message_id: str = "", page_token: str = ""
    ) -> Page[DelayedMessage]:
        """Returns a page of delayed messages, or all delayed messages with an id."""
        answer = await self._read(
            "ListDelayed", topic=topic, message_id=message_id, page_size=PAGE_SIZE,
            page_token=page_token,
        )  # fmt: skip
        rows = [value_of(DelayedMessage, row, keys=list(row.keys)) for row in answer.messages]
        return Page(rows, answer.next_page_token)

    async def list_dead_letters(
        self, group: str = "", *, page_token: str = ""
    ) -> Page[DeadLetters]:
        """Returns the dead-letter count of a group, or a page of all groups with dead letters."""
        answer = await self._read(
            "ListDeadLetters", group=group, page_size=PAGE_SIZE, page_token=page_token
        )
        return Page(_values(DeadLetters, answer.groups), answer.next_page_token)

    async def redrive_dead_letters(
        self,
        group: str,
        count_max: int = 0,
        *,
        topic: str = "",
        dry_run: bool = False,
        until: Mapping[int, int] | None = None,
    ) -> RedriveResult:
        """Sends dead letters of a group again, the oldest first.

        count_max   upper limit of dead letters; 0: the broker's limit, 1,024
        topic       target topic; "": the original topic of each dead letter
        until       `until` of an earlier result: later dead letters stay pending; None: all
        """
        answer = await self._ask(
            "RedriveDeadLetters", group=group, max_messages=count_max, topic=topic,
            dry_run=dry_run, until=dict(until or {}),
        )  # fmt: skip
        found = _values(Redriven, answer.messages)
        return RedriveResult(found, answer.waiting_count, dict(answer.until))

    # --- transactions -----------------------------------------------------------------------------

    async def list_transactions(
        self, *, group: str = "", topic: str = "", count_max: int = PAGE_SIZE
    ) -> list[OpenTransaction]:
        """Returns up to `count_max` undecided transactions, the oldest first.

        group, topic   restrict the result; "": all
        """
        found: list[OpenTransaction] = []
        at = 0
        while len(found) < count_max:
            left = min(count_max - len(found), PAGE_SIZE)
            answer = await self._read(
                "ListTransactions", group=group, topic=topic, max=left, offset=at
            )
            found += [value_of(OpenTransaction, row) for row in answer.transactions]
            at = answer.next_offset
            if not at:
                break
        return found

    async def describe_transaction(
        self, transaction_id: str
    ) -> tuple[OpenTransaction, StoredMessage]:
        """Returns a transaction by its id, and its message as consumers get it."""
        answer = await self._read("DescribeTransaction", transaction_id=transaction_id)
        return value_of(OpenTransaction, answer.transaction), stored_message(answer.message)

    async def resume_transaction(self, transaction_id: str) -> str:
        """Reopens a transaction that expired undecided; returns its new id."""
        answer = await self._ask(
            "ResumeTransaction", transaction_id=transaction_id, is_repeatable=True
        )
        return str(answer.transaction_id)

    # --- the store and its process ----------------------------------------------------------------

    async def store_status(self) -> StoreStatus:
        """Returns the state of the store and its offsets."""
        return value_of(StoreStatus, await self._read("StoreStatus"))

    async def map_store(self, part_count: int = 0) -> StoreMap:
        """Returns a map of the log, and the fill of queues and index.

        part_count   wanted number of parts, at most 1000; 0: 480
        """
        answer = await self._read("MapStore", part_count=part_count)
        return value_of(
            StoreMap, answer, parts=_values(MapPart, answer.parts),
            topics=_values(MapTopic, answer.topics),
        )  # fmt: skip

    async def flush(self) -> int:
        """Flushes everything appended so far; returns the flushed physical offset."""
        return int((await self._ask("Flush", is_repeatable=True)).flushed_offset)

    async def report_archive(self, upto: int, target: str) -> int:
        """Reports to the broker how much of its log an archive has, for `retention.archive_hold`.

        upto     physical offset below which the archive has all messages
        Returns  the lowest `upto` of all archives
        """
        answer = await self._ask("ReportArchive", is_repeatable=True, upto=upto, target=target)
        return int(answer.upto)

    async def effective_config(self) -> list[SettingRow]:
        """Returns every setting of the broker."""
        return _values(SettingRow, (await self._read("EffectiveConfig")).rows)

    async def drain(self) -> None:
        """Asks the broker to drain and stop."""
        await self._ask("Drain")


def _page(answer: Any, rows: Iterable[Any], make: Callable[[Any], Value]) -> Page[Value]:
    return Page([make(row) for row in rows], answer.next_page_token)


def _found(answer: Any, rows: list[Row], kind: type[Value]) -> FoundRows[Row, Value]:
    """Returns a page of found rows.

    Errors   UnsupportedFeature: a broker that does not search ignored the wish
    """
    if rows and not answer.found_count:
        text = "this broker is too old to search its topics and groups: update it"
        raise told_error(
            "UnsupportedFeature", text, "UNIMPLEMENTED", retryable=False,
            fields={"feature": "search of topics and groups"},
        )  # fmt: skip
    sums = value_of(kind, answer.sums) if answer.HasField("sums") else None
    return FoundRows(rows, answer.next_page_token, answer.found_count, answer.total_count, sums)


def _values(kind: type[Value], rows: Iterable[Any]) -> list[Value]:
    return [value_of(kind, row) for row in rows]


def _topic_state(topic: admin_pb2.Topic) -> TopicState:
    kind, attributes = admin_pb2.TopicType.Name(topic.type), dict(topic.attributes)
    return value_of(TopicState, topic, type=kind, attributes=attributes, queues=[], counts=None)


def _topic_counts(counts: admin_pb2.TopicStats) -> TopicCounts:
    return value_of(TopicCounts, counts, queues=_values(QueueState, counts.queues))


def _group_state(group: admin_pb2.Group) -> GroupState:
    settings = value_of(GroupSettings, group.settings)
    attributes = dict(group.attributes)
    return value_of(
        GroupState, group, settings=settings, attributes=attributes, topics=[], stats=None
    )


def _topic_lag(lag: admin_pb2.TopicLag) -> TopicLag:
    return value_of(TopicLag, lag, queues=_values(QueueLag, lag.queues))


def _traced_record(row: admin_pb2.TracedRecord) -> TracedRecord:
    groups = {"passed_by": list(row.passed_by), "awaited_by": list(row.awaited_by)}
    return value_of(TracedRecord, row, step=TraceStep(row.step), **groups)
