"""Maps a client's names and namespace to the names of topics and groups.

    {resource_namespace: "shop", name: "orders"}    shop%orders
    {resource_namespace: "shop", name: "%DLQ%g"}    %DLQ%shop%g

A resource without a namespace is in the namespace of the call's header, if any. Answers contain
names as the client sent them.

Source: NamespaceUtil.wrapNamespace, GrpcConverter.wrapResourceWithNamespace.
"""

from typing import Final

from pocketmq.model.errors import IllegalTopic, SystemTopic
from pocketmq.model.names import check_group, check_topic
from pocketmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.caller import namespace_of

SEPARATOR: Final = "%"
_PREFIXES: Final = (RETRY_PREFIX, DLQ_PREFIX)


def wrapped(name: str, namespace: str) -> str:
    """Returns a name with its namespace, inserted after a retry or dead-letter prefix."""
    if not namespace or not name:
        return name
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    rest = name[len(prefix) :]
    begin = namespace + SEPARATOR
    return name if rest.startswith(begin) else f"{prefix}{begin}{rest}"


def resource_of(name: str, namespace: str) -> pb.Resource:
    """Returns a client's name of a topic or group: the inverse of `wrapped`.

    namespace   the client's namespace, "" for none
    """
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    rest = name[len(prefix) :]
    if not namespace or not rest.startswith(namespace + SEPARATOR):
        return pb.Resource(name=name)
    own = prefix + rest[len(namespace) + len(SEPARATOR) :]
    return pb.Resource(resource_namespace=namespace, name=own)


def topic_of(resource: pb.Resource, call: Call) -> str:
    """Returns the name of a topic that clients may use.

    Errors   IllegalTopic, SystemTopic
    """
    name = wrapped(resource.name, resource.resource_namespace or namespace_of(call))
    if not name.strip():
        raise IllegalTopic(topic=name, why="it is blank")
    check_topic(name)
    if is_system_topic(name):
        raise SystemTopic(topic=name, why="use")
    return name


def group_of(resource: pb.Resource, call: Call) -> str:
    """Returns the name of a consumer group.

    Errors   IllegalGroup
    """
    name = wrapped(resource.name, resource.resource_namespace or namespace_of(call))
    check_group(name)
    return name
