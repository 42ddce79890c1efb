"""No method lets a user with all rights on `mine` read, change or delete `other`.

The requests are made from the table of methods and the descriptors of their messages: each field
that names something, in turn what is mine, what is the other one's, and nothing. A field of text
that this page does not know fails `test_every_field_is_known`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from pocketmq.model.errors import BrokerError
from pocketmq.rpc.v1.service_table import ACCESS, ADMIN, BROKER
from pocketmq.rpc.v2.service_table import MESSAGING
from tests.kit.two_tenants import OTHER, TwoTenants, two_tenants

Path = tuple[str, ...]
NAMES: Final = {
    "topic": "topic", "topics": "topic", "group": "group", "source_group": "group",
    "target_group": "group", "producer_group": "group",
    "client_id": "client", "message_id": "message", "id": "message",
    "receipt_handle": "handle", "receipt_handles": "handle", "recall_handle": "recall",
    "transaction_id": "transaction",
}  # fmt: skip
"""What fields of these names name."""
TOPICS: Final = ("CreateTopicRequest", "DescribeTopicRequest", "UpdateTopicRequest",
                 "DeleteTopicRequest", "TopicStatsRequest", "PurgeTopicRequest")  # fmt: skip
GROUPS: Final = ("CreateGroupRequest", "DescribeGroupRequest", "UpdateGroupRequest",
                 "DeleteGroupRequest")  # fmt: skip
"""Messages whose field `name` names one."""
PLAIN: Final = frozenset(
    """
    access_key action actions attempt_id begin body born_host checksum expression host hostname key
    keys lite_topic lite_topic_set message message_group name_part nonce page_token platform
    remove_attributes resource secret source sources store_host tag thread_stack_trace trace_context
    user value version
    """.split()
)
"""Text that names nothing of a tenant's; of users and rules it is for admins alone."""
PLAIN_NAMES: Final = frozenset({"Broker.name", "ReportArchiveRequest.target"})
GIVEN: Final[dict[str, Any]] = {
    "Message.body": b"x", "QueryByKeyRequest.key": "k", "ReceiveRequest.max_messages": 32,
    "ReceiveMessageRequest.batch_size": 32, "PullMessageRequest.batch_size": 32,
    "ReceiveMessageRequest.invisible_duration": {"seconds": 30},
    "ChangeInvisibleDurationRequest.invisible_duration": {"seconds": 30},
    "PullMessageRequest.commit_offset": 2, "Decision.resolution": 1,
    "EndTransactionRequest.resolution": 1, "ResetOffsetsRequest.place": 1,
    "SetOffsetsRequest.offsets": [{"queue_id": 0, "offset": 2}],
    "CommitOffsetRequest.offset": 2, "UpdateOffsetRequest.offset": 2,
    "PrintClientStackRequest.wait_ms": 1, "VerifyMessageRequest.wait_ms": 1,
    "DeleteGroupRequest.with_topics": True, "UpdateTopicRequest.permission": 2,
    "ListTopicsRequest.include_system": True, "ListGroupsRequest.include_system": True,
    "TopicStatsRequest.include_system": True,
}  # fmt: skip
"""Fields that name nothing but without which a request does nothing."""
FIELDS_TOGETHER: Final = 4
"""Of more naming fields one is changed at a time, or all."""
OWN: Final = {"Admin/RedriveDeadLetters": [OTHER.topic]}
"""What is told of the caller's own group: where a dead letter of it came from."""
SENDS: Final = frozenset({"Broker/SendMessage", f"{MESSAGING.name}/SendMessage"})
"""Answers of these have numbers of their own topic, which grow."""
METHODS: Final = {
    f"{face.name}/{method.name}": method.input_type
    for face in (BROKER, ADMIN, ACCESS, MESSAGING)
    for method in face.methods
}


def owner_of(field: FieldDescriptor) -> str:
    assert field.containing_type is not None
    return field.containing_type.name


def kind_of(field: FieldDescriptor) -> str | None:
    """Returns the kind of object that a field names; "" for none, None: unknown."""
    owner = owner_of(field)
    if f"{owner}.{field.name}" in PLAIN_NAMES or field.name in PLAIN:
        return ""
    if field.name == "name":
        return "topic" if owner in TOPICS else "group" if owner in GROUPS else None
    return NAMES.get(field.name)


def is_resource(field: Any) -> bool:
    return field.message_type is not None and field.message_type.name == "Resource"


def is_repeated(message: type[Message], name: str) -> bool:
    return not isinstance(getattr(message(), name), Message | str | bytes)


def is_text(field: FieldDescriptor) -> bool:
    return field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def all_fields(descriptor: Descriptor) -> Iterator[FieldDescriptor]:
    """Yields the fields of a message and of those in it, but the parts of resources."""
    for field in descriptor.fields:
        yield field
        if field.message_type is not None and not is_resource(field):
            yield from all_fields(field.message_type)


def shapes(descriptor: Descriptor, before: Path = ()) -> list[dict[Path, FieldDescriptor]]:
    """Returns the naming fields of a message by their paths, for each way to fill its choices."""
    found: list[dict[Path, FieldDescriptor]] = [{}]
    choices: dict[str, list[list[dict[Path, FieldDescriptor]]]] = {}
    for field in descriptor.fields:
        path = (*before, field.name)
        if is_resource(field) or is_text(field):
            parts: list[dict[Path, FieldDescriptor]] = [{path: field}] if kind_of(field) else [{}]
        elif field.message_type is not None:
            parts = shapes(field.message_type, path)
        else:
            continue
        one_of = field.containing_oneof
        if one_of is None or len(one_of.fields) == 1:
            found = [{**left, **right} for left in found for right in parts]
        else:
            choices.setdefault(one_of.name, []).append(parts)
    for options in choices.values():
        flat = [one for parts in options for one in parts]
        found = [{**left, **right} for left in found for right in flat]
    return [shape for number, shape in enumerate(found) if shape not in found[:number]]


def request_of(message: type[Message], values: Mapping[Path, str], before: Path = ()) -> Any:
    """Returns the fields of a request that names these."""
    made: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        path = (*before, field.name)
        given = GIVEN.get(f"{message.DESCRIPTOR.name}.{field.name}")
        if path in values:
            text = values[path]
            value: Any = {"name": text} if is_resource(field) else text
            made[field.name] = [value] if is_repeated(message, field.name) else value
        elif any(named[: len(path)] == path for named in values):
            inner = request_of(_class_of(field.message_type), values, path)
            made[field.name] = [inner] if is_repeated(message, field.name) else inner
        elif given is not None:
            made[field.name] = given
    return made


def _class_of(descriptor: Any) -> type[Message]:
    return GetMessageClass(descriptor)


def cases(world: TwoTenants, descriptor: Descriptor) -> list[tuple[dict[str, Any], list[str]]]:
    """Returns requests, and what they name; those that name what is mine alone come last."""
    found = []
    for shape in shapes(descriptor):
        kinds = [kind_of(field) or "" for field in shape.values()]
        options = [[*world.values[kind][1], "", world.values[kind][0]] for kind in kinds]
        mine = [one[-1] for one in options]
        for chosen in product(*options):
            changed = sum(one != own for one, own in zip(chosen, mine, strict=True))
            is_all = all(one == others[0] for one, others in zip(chosen, options, strict=True))
            if len(mine) > FIELDS_TOGETHER and changed > 1 and not is_all:
                continue
            values = dict(zip(shape, chosen, strict=True))
            found.append((request_of(GetMessageClass(descriptor), values), [*chosen]))
    return found


@pytest.mark.parametrize("name", METHODS)
def test_every_field_is_known(name: str) -> None:
    for field in all_fields(METHODS[name]):
        if is_text(field) or is_resource(field):
            assert kind_of(field) is not None, f"{owner_of(field)}.{field.name} has no rule"


async def tried(
    world: TwoTenants, name: str, fields: dict[str, Any], user: str, client: str
) -> Any:
    """Returns what a call answers, or its error."""
    desk = world.desk
    method = desk.methods[name]
    if name == "Broker/CheckTransactions":
        asyncio.get_running_loop().call_soon(desk.broker._wait_is_over)
    call = desk.call(user, client_id=client)
    try:
        return await desk.serve(method, method.request(**fields), call)
    except BrokerError as error:
        return str(error)


@pytest.mark.parametrize("name", METHODS)
async def test_nothing_of_the_other_one_is_told_changed_or_ended(name: str) -> None:
    async with two_tenants() as world:
        before = await world.standing()
        clients = ("c@1", OTHER.client) if name.startswith(MESSAGING.name) else ("c@1",)
        for fields, given in cases(world, METHODS[name]):
            for client in clients:
                answer = await tried(world, name, fields, "app", client)
                leaked = world.leaks(answer, [*given, client, *OWN.get(name, [])])
                if name in SENDS:
                    leaked = [one for one in leaked if not one.isdigit()]
                assert not leaked, f"{fields} is told {leaked}"
            assert await world.standing() == before, fields


TOLD: Final = frozenset(
    """
    Broker/PullMessage Broker/QueryById Admin/ListDelayed Admin/TraceMessage Admin/ListMembers
    Admin/ListTransactions Admin/DescribeTransaction Admin/ListOffsets Admin/GroupLag
    Admin/DescribeGroup Admin/ListDeadLetters Admin/QueryByKey Admin/TopicStats
    """.split()
)


@pytest.mark.parametrize("name", sorted(TOLD))
async def test_an_admin_is_told_it_by_the_same_requests(name: str) -> None:
    async with two_tenants() as world:
        for fields, given in cases(world, METHODS[name]):
            answer = await tried(world, name, fields, "admin", "c@1")
            if not isinstance(answer, str) and world.leaks(answer, [*given, "c@1"]):
                return
    pytest.fail("what is told of the other one is not seen")
