"""pocketmq.v1.Admin: topics, groups, offsets and the store, for operators.

Each method converts its request, calls services/admin, and converts the result.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from pocketmq.model.access import Action
from pocketmq.model.administration import (
    GroupConfig,
    GroupSettings,
    GroupStats,
    MovedOffset,
    Page,
    PurgedQueue,
    ResetTarget,
    TopicChange,
    TopicCounts,
    TopicLag,
)
from pocketmq.model.errors import MessageNotFound, UnsupportedFeature
from pocketmq.model.listing import FoundRows, GroupOrder, ListPart, TopicOrder
from pocketmq.model.message import INT32_MAX
from pocketmq.model.names import check_number
from pocketmq.model.topic import TopicConfig, is_system_group, is_system_topic
from pocketmq.model.tracing import TracedRecord
from pocketmq.rpc.call import Call
from pocketmq.rpc.in_turns import in_turns
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.permissions import DELETE, FIND, GET, LIST, PUB, SEE, group_need, topic_need
from pocketmq.rpc.service import MalformedRequest, Service
from pocketmq.rpc.services import Services
from pocketmq.rpc.topic_access import check_may, check_operator_reads
from pocketmq.rpc.v1.ask_clients import AskClients
from pocketmq.rpc.v1.list_producers import ListProducers
from pocketmq.rpc.v1.list_transactions import ListTransactions
from pocketmq.rpc.v1.pull_message import PullMessage
from pocketmq.rpc.v1.query_messages import QueryMessages
from pocketmq.rpc.v1.service_table import ADMIN_TABLE
from pocketmq.services.admin import (
    dead_letters,
    groups,
    lag,
    positions,
    status,
    store_map,
    topic_counts,
    topics,
    tracing,
)
from pocketmq.services.admin.delayed import Delayed, not_waiting
from pocketmq.services.admin.finding import find_groups, find_topics
from pocketmq.services.admin.purge import purge_topic
from pocketmq.services.admin.redrive import Redrive
from pocketmq.store.message_store import MessageStore


# -- ListDelayed -------------------------------------------------------------------------------
class ListDelayed:
    """The method ListDelayed."""

    __slots__ = ("_delayed",)

    def __init__(self, store: MessageStore) -> None:
        self._delayed = Delayed(store)

    async def __call__(self, request: pb.ListDelayedRequest, call: Call) -> pb.ListDelayedResponse:
        """Returns a page of delayed messages, or the delayed messages with a message id.

        Errors   those of `Delayed.page` and `Delayed.of_id`
        """
        if request.message_id:
            found = await self._delayed.of_id(request.message_id)
            page = Page([one for one in found if request.topic in ("", one.topic)], "")
        else:
            page = await self._delayed.page(
                request.topic, page_size=request.page_size, page_token=request.page_token
            )
        shown = [one for one in page.items if call.may(topic_need(one.topic, (*GET, *LIST)))]
        if request.message_id and not shown:
            raise not_waiting(request.message_id)
        rows = [pb.DelayedMessage(**one._asdict()) for one in shown]
        return pb.ListDelayedResponse(messages=rows, next_page_token=page.next_page_token)


# -- Admin -------------------------------------------------------------------------------------
TYPE_NAMES: Final = frozenset(pb.TopicType.keys())


class AdminMethods:
    """The methods of pocketmq.v1.Admin."""

    __slots__ = (
        "_process", "_redrive", "_store", "ask_clients", "list_delayed", "list_producers",
        "list_transactions", "pull_message", "query_messages",
    )  # fmt: skip

    def __init__(self, backing: Services, process: status.Process) -> None:
        self._store = store = backing.store
        self._process = process
        self.list_transactions = ListTransactions(backing.transactions)
        self.ask_clients = AskClients(backing)
        self.list_producers = ListProducers(backing)
        self._redrive = Redrive(store, process.store_host)
        self.list_delayed = ListDelayed(store)
        self.query_messages = QueryMessages(backing.query, store.tables, check=check_operator_reads)
        self.pull_message = PullMessage(store, backing.pull, check=check_operator_reads)

    def service(self) -> Service:
        """Returns the service."""
        return ADMIN_TABLE.face(self, around=partial(in_turns, self._store.turns))

    # -- topics --------------------------------------------------------------------------------
    async def create_topic(
        self, request: pb.CreateTopicRequest, call: Call
    ) -> pb.CreateTopicResponse:
        """Creates a topic."""
        check_number("type", request.type, upper=pb.MIXED)
        kind = pb.TopicType.Name(request.type) if request.type else ""
        made = await topics.create_topic(
            self._store, request.name, queue_count=request.queue_count, type_name=kind,
            attributes=request.attributes,
        )  # fmt: skip
        return pb.CreateTopicResponse(topic=proto_topic(made))

    async def update_topic(
        self, request: pb.UpdateTopicRequest, call: Call
    ) -> pb.UpdateTopicResponse:
        """Changes the given settings of a topic."""
        names = ("read_queue_count", "write_queue_count", "permission", "order")
        change = TopicChange(
            **_given(request, names),
            set_attributes=dict(request.set_attributes),
            remove_attributes=tuple(request.remove_attributes),
        )
        changed = await topics.update_topic(self._store, request.name, change)
        return pb.UpdateTopicResponse(topic=proto_topic(changed))

    async def delete_topic(
        self, request: pb.DeleteTopicRequest, call: Call
    ) -> pb.DeleteTopicResponse:
        """Removes a topic."""
        removed = await topics.delete_topic(self._store, request.name, dry_run=request.dry_run)
        return pb.DeleteTopicResponse(removed_topics=_seen(removed, call, DELETE))

    async def purge_topic(self, request: pb.PurgeTopicRequest, call: Call) -> pb.PurgeTopicResponse:
        """Purges messages of a topic."""
        queues = await purge_topic(
            self._store, request.name, queue_ids=request.queue_ids,
            before_ms=request.before_ms, dry_run=request.dry_run,
            planned=[
                PurgedQueue(one.topic, one.queue_id, one.old_min_offset, one.new_min_offset)
                for one in request.planned
            ],
        )  # fmt: skip
        seen = {request.name, *_seen({queue.topic for queue in queues}, call, DELETE)}
        return pb.PurgeTopicResponse(queues=_messages(q for q in queues if q.topic in seen))

    async def list_topics(self, request: pb.ListTopicsRequest, call: Call) -> pb.ListTopicsResponse:
        """Returns a page of the topics, with their counts and sums if asked for."""
        order = TopicOrder(_order(request, pb.ListTopicsRequest.Order))
        found = await find_topics(
            self._store, _part(request), order, self._process.rate_of,
            include_system=request.include_system, with_sums=request.with_sums,
        )  # fmt: skip
        answer = pb.ListTopicsResponse(topics=map(proto_topic, found.items), **_found(found))
        if request.with_stats:
            counts = await topic_counts.summaries(self._store, found.items, self._process.rate_of)
            answer.stats.extend(map(_proto_counts, counts))
        return answer

    async def describe_topic(
        self, request: pb.DescribeTopicRequest, call: Call
    ) -> pb.DescribeTopicResponse:
        """Returns a topic and its queues."""
        config, queues = await topics.describe_topic(self._store, request.name)
        return pb.DescribeTopicResponse(topic=proto_topic(config), queues=_messages(queues))

    async def topic_stats(self, request: pb.TopicStatsRequest, call: Call) -> pb.TopicStatsResponse:
        """Returns the message counts of a topic, or a page of the counts of all topics."""
        store, rate_of, totals_only = self._store, self._process.rate_of, request.totals_only
        if request.name:
            counts = await topic_counts.topic_counts(
                store, request.name, totals_only=totals_only, rate_of=rate_of
            )
            return pb.TopicStatsResponse(topics=[_proto_counts(counts)])
        page = await topic_counts.all_topic_counts(
            store, **_paging(request), totals_only=totals_only, rate_of=rate_of
        )
        found = map(_proto_counts, page.items)
        return pb.TopicStatsResponse(topics=found, next_page_token=page.next_page_token)

    # -- groups --------------------------------------------------------------------------------
    async def create_group(
        self, request: pb.CreateGroupRequest, call: Call
    ) -> pb.CreateGroupResponse:
        """Creates a group."""
        made = await groups.create_group(self._store, request.name, _settings(request))
        return pb.CreateGroupResponse(group=_proto_group(made))

    async def update_group(
        self, request: pb.UpdateGroupRequest, call: Call
    ) -> pb.UpdateGroupResponse:
        """Changes the given settings of a group."""
        changed = await groups.update_group(self._store, request.name, _settings(request))
        return pb.UpdateGroupResponse(group=_proto_group(changed))

    async def delete_group(
        self, request: pb.DeleteGroupRequest, call: Call
    ) -> pb.DeleteGroupResponse:
        """Removes a group."""
        removed = await groups.delete_group(
            self._store, request.name, with_topics=request.with_topics, dry_run=request.dry_run
        )
        return pb.DeleteGroupResponse(removed_topics=_seen(removed, call, DELETE))

    async def list_groups(self, request: pb.ListGroupsRequest, call: Call) -> pb.ListGroupsResponse:
        """Returns a page of the groups, with their lag, members and sums if asked for."""
        process, order = self._process, GroupOrder(_order(request, pb.ListGroupsRequest.Order))
        found = await find_groups(
            self._store, _part(request), order, read_leased=process.read_leased,
            member_counts=process.member_counts, include_system=request.include_system,
            with_sums=request.with_sums,
        )  # fmt: skip
        answer = pb.ListGroupsResponse(groups=map(_proto_group, found.items), **_found(found))
        if request.with_stats:
            names = [config.name for config in found.items]
            lags = await lag.lag_sums(self._store, names, process.read_leased)
            members = process.member_counts()
            stats = [GroupStats(lags[name].lag_messages, members.get(name, 0)) for name in names]
            answer.stats.extend(pb.GroupStats(**one._asdict()) for one in stats)
        return answer

    def describe_group(
        self, request: pb.DescribeGroupRequest, call: Call
    ) -> pb.DescribeGroupResponse:
        """Returns a group and the topics in which it has offsets."""
        config, found = groups.describe_group(self._store, request.name)
        return pb.DescribeGroupResponse(group=_proto_group(config), topics=_seen(found, call))

    def list_members(self, request: pb.ListMembersRequest, call: Call) -> pb.ListMembersResponse:
        """Returns the members of a group."""
        self._store.tables.groups.existing(request.group)
        members = [
            one._replace(topics=_seen(one.topics, call))
            for one in self._process.members_of(request.group)
        ]
        return pb.ListMembersResponse(members=_messages(members))

    # -- offsets of groups ---------------------------------------------------------------------
    def list_offsets(self, request: pb.ListOffsetsRequest, call: Call) -> pb.ListOffsetsResponse:
        """Returns the offsets of a group."""
        found = [
            pb.GroupOffset(topic=row.topic, queue_id=row.queue_id, offset=row.queue_offset)
            for row in positions.list_offsets(self._store, request.group, request.topic)
            if call.may(topic_need(row.topic, SEE))
        ]
        return pb.ListOffsetsResponse(offsets=found)

    async def group_lag(self, request: pb.GroupLagRequest, call: Call) -> pb.GroupLagResponse:
        """Returns the lag of a group, or a page of the lags of all groups."""
        if request.group:
            lags = await lag.group_lag(
                self._store, request.group, request.topic, self._process.read_leased
            )
            seen = [one for one in lags if call.may(topic_need(one.topic, SEE))]
            return pb.GroupLagResponse(topics=map(_proto_lag, seen))
        page = await lag.all_lags(
            self._store,
            topic=request.topic,
            page_size=request.page_size,
            page_token=request.page_token,
            read_leased=self._process.read_leased,
        )
        found = map(_proto_lag, page.items)
        return pb.GroupLagResponse(topics=found, next_page_token=page.next_page_token)

    async def set_offsets(
        self, request: pb.SetOffsetsRequest, call: Call
    ) -> pb.MoveOffsetsResponse:
        """Sets a group's offsets in queues of a topic."""
        wanted = [(row.queue_id, row.offset) for row in request.offsets]
        return _moved(
            await positions.set_offsets(
                self._store, request.group, request.topic, wanted, dry_run=request.dry_run
            )
        )

    async def reset_offsets(
        self, request: pb.ResetOffsetsRequest, call: Call
    ) -> pb.MoveOffsetsResponse:
        """Resets a group's offsets to a time, to the min or max offset, or to a given offset.

        Errors   those of `positions.reset_offsets`; MalformedRequest: the request has no target
        """
        match request.WhichOneof("to"):
            case "time_ms":
                target = ResetTarget(time_ms=request.time_ms)
            case "offset":
                target = ResetTarget(queue_offset=request.offset)
            case "place":
                check_number("place", request.place, upper=pb.ResetOffsetsRequest.LATEST)
                target = ResetTarget(latest=request.place == pb.ResetOffsetsRequest.LATEST)
            case _:
                raise MalformedRequest(why="it names no target: set time_ms, offset or place")
        return _moved(
            await positions.reset_offsets(
                self._store,
                request.group,
                request.topic,
                target,
                queue_ids=request.queue_ids,
                dry_run=request.dry_run,
            )
        )

    async def clone_offsets(
        self, request: pb.CloneOffsetsRequest, call: Call
    ) -> pb.MoveOffsetsResponse:
        """Copies the offsets of one group to another."""
        source, target = request.source_group, request.target_group
        rows = await positions.clone_offsets(
            self._store, source, target, request.topic, dry_run=request.dry_run
        )
        return _moved([row for row in rows if call.may(topic_need(row.topic, SEE))])

    # -- history of messages --------------------------------------------------------------------
    async def trace_message(
        self, request: pb.TraceMessageRequest, call: Call
    ) -> pb.TraceMessageResponse:
        """Returns the records that a message has in the store."""
        key, found = await tracing.trace_message(self._store, request.id, request.topic)
        records = [_seen_record(one, call) for one in found if _may_see_record(one, call)]
        if not records:
            raise MessageNotFound(topic=request.topic or "*", message_id=request.id)
        rows = [{**row._asdict(), "step": row.step.value} for row in records]
        return pb.TraceMessageResponse(message_id=key, records=rows)

    async def list_dead_letters(
        self, request: pb.ListDeadLettersRequest, call: Call
    ) -> pb.ListDeadLettersResponse:
        """Returns the dead-letter counts of a group, or a page of the counts of all groups."""
        page = await dead_letters.list_dead_letters(
            self._store, request.group, page_size=request.page_size, page_token=request.page_token
        )
        found = _messages(page.items)
        return pb.ListDeadLettersResponse(groups=found, next_page_token=page.next_page_token)

    async def redrive_dead_letters(
        self, request: pb.RedriveDeadLettersRequest, call: Call
    ) -> pb.RedriveDeadLettersResponse:
        """Sends dead letters of a group to their original topics, or to a given topic."""
        group, count = request.group, request.max_messages
        check_number("max_messages", count, upper=INT32_MAX)
        for end in request.until.values():
            check_number("until", end)
        until = request.until or self._redrive.ends(group)
        done = await self._redrive.redrive(
            group,
            count,
            topic=request.topic,
            dry_run=request.dry_run,
            until=until,
            check=lambda topic: check_may(call, topic_need(topic, PUB)),
        )
        letters = await dead_letters.dead_letters(self._store, group)
        return pb.RedriveDeadLettersResponse(
            messages=_messages(done), waiting_count=letters.waiting_count, until=until
        )

    # -- the store and its process -------------------------------------------------------------
    async def store_status(
        self, request: pb.StoreStatusRequest, call: Call
    ) -> pb.StoreStatusResponse:
        """Returns the state and the progress of the store."""
        found = await status.store_status(self._store, self._process)
        return pb.StoreStatusResponse(**found._asdict())

    async def map_store(self, request: pb.MapStoreRequest, call: Call) -> pb.MapStoreResponse:
        """Returns a map of the log, with the names of topics that the caller may see.

        Errors   IllegalNumber, StorageError, DiskSlow
        """
        check_number("part_count", request.part_count, upper=store_map.PARTS_MAX)
        found = await store_map.map_store(
            self._store,
            request.part_count or store_map.PARTS,
            lambda topic: bool(_seen([topic], call)),
        )
        parts, topics = _messages(found.parts), _messages(found.topics)
        return pb.MapStoreResponse(**{**found._asdict(), "parts": parts, "topics": topics})

    async def flush(self, request: pb.FlushRequest, call: Call) -> pb.FlushResponse:
        """Flushes everything appended so far.

        Errors   FsyncFailed
        """
        return pb.FlushResponse(flushed_offset=await self._store.flush())

    async def report_archive(
        self, request: pb.ReportArchiveRequest, call: Call
    ) -> pb.ReportArchiveResponse:
        """Records the offset up to which an archive has the log, at most the flushed offset.

        Errors   DiskFull, TableUnreadable
        """
        upto = min(max(request.upto, 0), self._store.flushed)
        found = await self._store.tables.archive_mark.report(upto, request.target)
        return pb.ReportArchiveResponse(upto=found.upto)

    def effective_config(
        self, request: pb.EffectiveConfigRequest, call: Call
    ) -> pb.EffectiveConfigResponse:
        """Returns the effective value of every setting, and its origin."""
        rows = [
            pb.ConfigRow(key=key, value=value, origin=origin)
            for key, value, origin in self._process.read_settings()
        ]
        return pb.EffectiveConfigResponse(rows=rows)

    def drain(self, request: pb.DrainRequest, call: Call) -> pb.DrainResponse:
        """Starts an orderly stop of the broker, which accepts no new work from then on.

        Errors   UnsupportedFeature: the process cannot be stopped by request
        """
        if self._process.drain is None:
            raise UnsupportedFeature(feature="a stop by request")
        self._process.drain()
        return pb.DrainResponse()


def proto_topic(config: TopicConfig) -> pb.Topic:
    """Returns a topic as a protobuf message, without the type if the enum TopicType lacks it."""
    return pb.Topic(
        name=config.name,
        read_queue_count=config.read_queue_count,
        write_queue_count=config.write_queue_count,
        permission=config.permission,
        type=config.type_name if config.type_name in TYPE_NAMES else None,
        system=is_system_topic(config.name),
        order=config.order,
        attributes=config.attributes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
    )


def _proto_group(config: GroupConfig) -> pb.Group:
    return pb.Group(
        name=config.name,
        settings=pb.GroupSettings(**config.settings._asdict()),
        system=is_system_group(config.name),
        attributes=config.attributes,
    )


def _proto_counts(counts: TopicCounts) -> pb.TopicStats:
    return pb.TopicStats(**{**counts._asdict(), "queues": _messages(counts.queues)})


def _proto_lag(lag: TopicLag) -> pb.TopicLag:
    return pb.TopicLag(**{**lag._asdict(), "queues": _messages(lag.queues)})


def _moved(rows: Iterable[MovedOffset]) -> pb.MoveOffsetsResponse:
    return pb.MoveOffsetsResponse(offsets=_messages(rows))


def _seen(
    topics: Iterable[str], call: Call, actions: tuple[Action, ...] = (*FIND, *LIST)
) -> list[str]:
    """Returns the topics whose names the caller may see."""
    return [name for name in topics if call.may(topic_need(name, (*SEE, *actions)))]


def _may_see_record(record: TracedRecord, call: Call) -> bool:
    """Returns whether a caller may see a record: its origin and target topic, and its group."""
    topics = {record.origin_topic or record.target_topic or record.topic}
    if not record.group:
        topics.add(record.target_topic or record.topic)
    elif not call.may(group_need(record.group, SEE)):
        return False
    return all(call.may(topic_need(name, SEE)) for name in topics)


def _seen_record(record: TracedRecord, call: Call) -> TracedRecord:
    def seen(groups: list[str]) -> list[str]:
        return [name for name in groups if call.may(group_need(name, SEE))]

    return record._replace(passed_by=seen(record.passed_by), awaited_by=seen(record.awaited_by))


def _messages(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Returns named tuples as dicts for protobuf fields of the same names; None stays unset."""
    return [row._asdict() for row in rows]


def _settings(request: pb.CreateGroupRequest | pb.UpdateGroupRequest) -> GroupSettings:
    return GroupSettings(**_given(request.settings, GroupSettings._fields))


def _given(message: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(message, name) for name in names if message.HasField(name)}


def _paging(request: Any) -> dict[str, Any]:
    names = ("page_size", "page_token", "include_system")
    return {name: getattr(request, name) for name in names}


def _part(request: Any) -> ListPart:
    return ListPart(**{name: getattr(request, name) for name in ListPart._fields})


def _order(request: Any, orders: Any) -> str:
    """Returns the name of a list's order in lower case, as its class in model/listing has it."""
    check_number("order", request.order, upper=max(orders.values()))
    return str(orders.Name(request.order)).lower()


def _found(found: FoundRows[Any, Any]) -> dict[str, Any]:
    """Returns the fields of an answer other than its rows."""
    fields = found._asdict()
    del fields["items"]
    return {**fields, "sums": found.sums and found.sums._asdict()}
