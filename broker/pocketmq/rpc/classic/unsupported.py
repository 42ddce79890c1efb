"""Request codes that are not served, and what to use in their place.

Source: RequestCode.
"""

from collections.abc import Mapping
from typing import Final

_CONFIG: Final = "pocketmq config, or the file of settings and SIGHUP"
_STATUS: Final = "pocketmq status, or GET /metrics on this port"
_USERS: Final = "pocketmq user and pocketmq acl"
_TOPICS: Final = "pocketmq topic"
_GROUPS: Final = "pocketmq group"
_MESSAGES: Final = "pocketmq message"
_NO_CLUSTER: Final = "this broker is its own cluster and name server"

NAMES: Final[Mapping[int, tuple[str, str]]] = {
    17: ("UPDATE_AND_CREATE_TOPIC", _TOPICS),
    18: ("UPDATE_AND_CREATE_TOPIC_LIST", _TOPICS),
    21: ("GET_ALL_TOPIC_CONFIG", _TOPICS),
    25: ("UPDATE_BROKER_CONFIG", _CONFIG),
    26: ("GET_BROKER_CONFIG", _CONFIG),
    28: ("GET_BROKER_RUNTIME_INFO", _STATUS),
    100: ("PUT_KV_CONFIG", "pocketmq topic update, for queues in order"),
    102: ("DELETE_KV_CONFIG", "pocketmq topic update, for queues in order"),
    103: ("REGISTER_BROKER", _NO_CLUSTER),
    104: ("UNREGISTER_BROKER", _NO_CLUSTER),
    200: ("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", _GROUPS),
    201: ("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", _GROUPS),
    202: ("GET_TOPIC_STATS_INFO", _TOPICS),
    203: ("GET_CONSUMER_CONNECTION_LIST", "pocketmq group members"),
    204: ("GET_PRODUCER_CONNECTION_LIST", _STATUS),
    207: ("DELETE_SUBSCRIPTIONGROUP", _GROUPS),
    208: ("GET_CONSUME_STATS", "pocketmq group lag"),
    215: ("DELETE_TOPIC_IN_BROKER", _TOPICS),
    216: ("DELETE_TOPIC_IN_NAMESRV", _TOPICS),
    222: ("INVOKE_BROKER_TO_RESET_OFFSET", "pocketmq group reset"),
    225: ("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", _GROUPS),
    300: ("QUERY_TOPIC_CONSUME_BY_WHO", _GROUPS),
    307: ("GET_CONSUMER_RUNNING_INFO", "pocketmq client"),
    315: ("VIEW_BROKER_STATS_DATA", _STATUS),
    318: ("UPDATE_NAMESRV_CONFIG", _CONFIG),
    319: ("GET_NAMESRV_CONFIG", _CONFIG),
    324: ("SEND_REPLY_MESSAGE", "a topic for replies"),
    325: ("SEND_REPLY_MESSAGE_V2", "a topic for replies"),
    513: ("UPDATE_AND_CREATE_STATIC_TOPIC", _TOPICS),
    200050: ("POP_MESSAGE", "a client of RocketMQ 5, which receives under leases"),
    **dict.fromkeys(range(3001, 3011), ("AUTH_*", _USERS)),
}
"""Code -> (RocketMQ's name of it, what to use in its place)."""


def remedy_of(code: int) -> str:
    """Returns what is not served, and what to use in its place."""
    found = NAMES.get(code)
    if found is None:
        return f"request code {code}; docs/howto/clients.md lists those of classic clients"
    return f"request code {code} ({found[0]}); use {found[1]}"
