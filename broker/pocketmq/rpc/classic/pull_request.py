"""Parses pulls: range, filter, wait, and the offset to commit.

Source: PullMessageRequestHeader, PullSysFlag.
"""

from typing import Final, NamedTuple

from pocketmq.filter.owned import owned_by
from pocketmq.filter.parsing import parse_filter
from pocketmq.model.errors import IllegalFilter
from pocketmq.model.message import INT32_MAX, OFFSET_MAX
from pocketmq.model.reading import ReadRange
from pocketmq.rpc.call import Call, reading_user
from pocketmq.rpc.classic.fields import number_field, text_field
from pocketmq.rpc.classic.heartbeat_body import SQL, TAG
from pocketmq.rpc.classic.status import (
    NO_PERMISSION,
    SUBSCRIPTION_NOT_EXIST,
    SUBSCRIPTION_NOT_LATEST,
)
from pocketmq.services.pull import PullRequest
from pocketmq.services.sessions.classic_groups import ClassicGroup
from pocketmq.wire.remoting import Command

COMMITS: Final = 1
WAITS: Final = 2
HAS_SUBSCRIPTION: Final = 4
"""Bits of sysFlag."""
MESSAGES_MAX: Final = 1_024
BYTES_MAX: Final = 4 * 1024 * 1024
"""Upper limit of an answer's bytes, unless its first message is larger."""
WAIT_MS_MAX: Final = 30_000
"""Upper limit of a wait in ms, as proxies close silent connections."""


class Wanted(NamedTuple):
    """Filter expression of a pull, and its language."""

    expression: str
    is_sql: bool


def wanted_of(
    request: Command, group: ClassicGroup | None, *, may_broadcast: bool
) -> Wanted | Command:
    """Returns the filter of a pull, or the answer that refuses a missing or stale subscription.

    group          the group, as its members' heartbeats describe it; None: it has no members
    may_broadcast  whether the group's settings allow broadcasting
    Errors   MalformedRequest, IllegalNumber, IllegalFilter
    """
    fields = request.fields
    if _flags_of(request) & HAS_SUBSCRIPTION:
        return _checked(fields.get("subscription", ""), fields.get("expressionType") or TAG)
    if group is None:
        return Command(SUBSCRIPTION_NOT_EXIST, remark="the consumer's group info not exist")
    if group.consumer.is_broadcast and not may_broadcast:
        name = group.consumer.group
        remark = f"the consumer group[{name}] can not consume by broadcast way"
        return Command(NO_PERMISSION, remark=remark)
    found = group.subscriptions.get(fields["topic"])
    if found is None:
        return Command(SUBSCRIPTION_NOT_EXIST, remark="the consumer's subscription not exist")
    if found.version < number_field(request, "subVersion", upper=OFFSET_MAX, absent=0):
        return Command(SUBSCRIPTION_NOT_LATEST, remark="the consumer's subscription not latest")
    return _checked(found.expression, found.expression_type)


def _checked(expression: str, kind: str) -> Wanted:
    if kind not in (TAG, SQL):
        raise IllegalFilter(expression=expression, why=f"type {kind} is neither {TAG} nor {SQL}")
    return Wanted(expression, kind == SQL)


def _flags_of(request: Command) -> int:
    return number_field(request, "sysFlag", absent=0)


def request_of(wanted: Wanted, request: Command, call: Call) -> PullRequest:
    """Returns a checked pull as `services/pull` expects it, with count, size and wait limited.

    Errors   MalformedRequest, IllegalNumber, IllegalFilter
    """
    topic, group = text_field(request, "topic"), text_field(request, "consumerGroup")
    wait_ms = number_field(request, "suspendTimeoutMillis", upper=OFFSET_MAX, absent=0)
    count = number_field(request, "maxMsgNums", lower=-INT32_MAX)
    size = number_field(request, "maxMsgBytes", lower=-INT32_MAX, absent=BYTES_MAX)
    return PullRequest(
        range=ReadRange(
            topic,
            number_field(request, "queueId"),
            number_field(request, "queueOffset", lower=-OFFSET_MAX, upper=OFFSET_MAX),
            min(max(count, 1), MESSAGES_MAX),
            min(size, BYTES_MAX) if size > 0 else BYTES_MAX,
        ),
        wanted=owned_by(group, topic, parse_filter(wanted.expression, is_sql=wanted.is_sql)),
        wait_ms=min(wait_ms, WAIT_MS_MAX) if _flags_of(request) & WAITS else 0,
        group=group,
        room=call.room,
        check_room=call.check_room,
        user=reading_user(call, is_heavy=wanted.is_sql),
    )


def commit_of(request: Command) -> int:
    """Returns the queue offset that a pull commits, -1 if it commits none.

    Errors   MalformedRequest, IllegalNumber
    """
    if not _flags_of(request) & COMMITS:
        return -1
    return number_field(request, "commitOffset", lower=-OFFSET_MAX, upper=OFFSET_MAX, absent=-1)
