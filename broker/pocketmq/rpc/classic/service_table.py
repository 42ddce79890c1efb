"""The request codes of classic clients, one row each (classic/method_table.py).

Codes of name server and broker do not overlap, so one port serves both roles.
Source: RequestCode.
"""

from typing import Final

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.classic.admin import group_request, topic_request
from pocketmq.rpc.classic.method_table import RequestTable, request
from pocketmq.rpc.classic.permissions import (
    acked,
    assigned,
    changes_group,
    consumed,
    decided,
    found,
    group_and_topic_seen,
    group_changed,
    group_cloned,
    group_reset,
    group_seen,
    joined,
    lists_groups,
    lists_topics,
    locked,
    looked_at,
    of_group,
    producers_seen,
    recalled,
    sent,
    topic_seen,
)
from pocketmq.rpc.classic.send_message import batch_names, long_names
from pocketmq.rpc.classic.status import refuse
from pocketmq.rpc.method_table import OnCluster
from pocketmq.rpc.permissions import FIND, GET, LOOK, UPDATE, AdminOnly, nothing
from pocketmq.rpc.service import ANY_CODE, SEND_SIZE_MAX

NAME: Final = "remoting"
HEARTBEAT_SIZE_MAX: Final = 1024 * 1024
"""Upper limit of a heartbeat's bytes; it contains all subscriptions of a client."""

TABLE: Final = RequestTable(
    NAME, CallClass.SESSION, refuse,
    (
        # Requests to a name server.
        request(
            105, "GET_ROUTEINFO_BY_TOPIC", "routes.route", found, fields=("topic",)
        ),
        request(106, "GET_BROKER_CLUSTER_INFO", "routes.cluster", nothing),
        request(206, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "routes.topics", lists_topics),
        request(
            101, "GET_KV_CONFIG", "routes.settings.get", nothing, fields=("namespace", "key")
        ),
        request(
            219, "GET_KVLIST_BY_NAMESPACE", "routes.settings.all_of", OnCluster(GET),
            fields=("namespace",),
        ),
        request(
            100, "PUT_KV_CONFIG", "routes.settings.put", OnCluster(UPDATE),
            fields=("namespace", "key", "value"),
        ),
        request(
            102, "DELETE_KV_CONFIG", "routes.settings.delete", OnCluster(UPDATE),
            fields=("namespace", "key"),
        ),
        request(
            205, "WIPE_WRITE_PERM_OF_BROKER", "routes.wipe_write", OnCluster(UPDATE),
            fields=("brokerName",),
        ),
        request(
            327, "ADD_WRITE_PERM_OF_BROKER", "routes.add_write", OnCluster(UPDATE),
            fields=("brokerName",),
        ),
        # Requests of slave brokers.
        request(
            103, "REGISTER_BROKER", "routes.slaves.register", OnCluster(UPDATE),
            body_max=SEND_SIZE_MAX, fields=("brokerName", "clusterName", "brokerAddr"),
        ),
        request(
            104, "UNREGISTER_BROKER", "routes.slaves.unregister", OnCluster(UPDATE),
            fields=("brokerName", "clusterName", "brokerAddr"),
        ),
        request(
            322, "QUERY_DATA_VERSION", "routes.slaves.version", OnCluster(UPDATE),
            fields=("brokerName", "clusterName", "brokerAddr"),
        ),
        request(43, "GET_ALL_CONSUMER_OFFSET", "routes.slaves.copy.offsets", lists_groups),
        request(45, "GET_ALL_DELAY_OFFSET", "routes.slaves.copy.delay_offsets", lists_topics),
        request(60, "GET_TIMER_CHECK_POINT", "routes.slaves.copy.timer_check", lists_topics),
        request(61, "GET_TIMER_METRICS", "routes.slaves.copy.timer_counts", lists_topics),
        request(402, "GET_ALL_MESSAGE_REQUEST_MODE", "routes.slaves.copy.modes", lists_groups),
        # Requests of producers.
        request(
            310, "SEND_MESSAGE_V2", "sending.send", sent, parse=long_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND, creates=True,
            shortcut="sending.shortcut",
        ),
        request(
            10, "SEND_MESSAGE", "sending.send", sent, parse=long_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND, creates=True,
        ),
        request(
            320, "SEND_BATCH_MESSAGE", "sending.send", sent, parse=batch_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND, creates=True,
            shortcut="sending.shortcut",
        ),
        request(
            370, "RECALL_MESSAGE", "sending.recall", recalled, call_class=CallClass.SEND,
            fields=("topic", "recallHandle"),
        ),
        request(
            37, "END_TRANSACTION", "transactions.end", decided, call_class=CallClass.SETTLE,
            fields=("producerGroup",),
        ),
        request(
            325, "SEND_REPLY_MESSAGE_V2", "replies.reply", sent, parse=long_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND,
        ),
        request(
            324, "SEND_REPLY_MESSAGE", "replies.reply", sent, parse=long_names,
            body_max=SEND_SIZE_MAX, call_class=CallClass.SEND,
        ),
        # Sessions of clients.
        request(
            34, "HEART_BEAT", "consume.clients.heartbeat", joined, body_max=HEARTBEAT_SIZE_MAX,
            creates=True,
        ),
        request(
            35, "UNREGISTER_CLIENT", "consume.clients.unregister", nothing, fields=("clientID",)
        ),
        request(
            38, "GET_CONSUMER_LIST_BY_GROUP", "consume.clients.consumer_ids",
            of_group("consumerGroup"), fields=("consumerGroup",),
        ),
        request(
            46, "CHECK_CLIENT_CONFIG", "consume.locks.check_config", nothing,
            body_max=HEARTBEAT_SIZE_MAX,
        ),
        request(41, "LOCK_BATCH_MQ", "consume.locks.lock", locked, body_max=HEARTBEAT_SIZE_MAX),
        request(42, "UNLOCK_BATCH_MQ", "consume.locks.unlock", locked, body_max=HEARTBEAT_SIZE_MAX),
        # Requests of consumers.
        request(
            11, "PULL_MESSAGE", "consume.pulls.pull", consumed, call_class=CallClass.POLL,
            creates=True, fields=("consumerGroup", "topic"), shortcut="consume.pull_shortcut",
        ),
        request(
            361, "LITE_PULL_MESSAGE", "consume.pulls.pull", consumed, call_class=CallClass.POLL,
            creates=True, fields=("consumerGroup", "topic"), shortcut="consume.pull_shortcut",
        ),
        request(
            36, "CONSUMER_SEND_MSG_BACK", "consume.returns.send_back", of_group("group"),
            call_class=CallClass.SETTLE, creates=True, fields=("group",),
        ),
        request(
            14, "QUERY_CONSUMER_OFFSET", "consume.offsets.committed", consumed,
            fields=("consumerGroup", "topic"),
        ),
        request(
            15, "UPDATE_CONSUMER_OFFSET", "consume.offsets.commit", consumed,
            call_class=CallClass.SETTLE, creates=True, fields=("consumerGroup", "topic"),
        ),
        # Requests of consumers that pop.
        request(
            400, "QUERY_ASSIGNMENT", "consume.assignments.assigned", assigned,
            body_max=HEARTBEAT_SIZE_MAX,
        ),
        request(
            401, "SET_MESSAGE_REQUEST_MODE", "consume.assignments.set_mode", changes_group,
        ),
        request(
            200050, "POP_MESSAGE", "consume.pops.pop", consumed, call_class=CallClass.POLL,
            creates=True, fields=("consumerGroup", "topic"),
        ),
        request(
            200051, "ACK_MESSAGE", "consume.settled.ack", consumed, call_class=CallClass.SETTLE,
            fields=("consumerGroup", "topic", "extraInfo"),
        ),
        request(
            200151, "BATCH_ACK_MESSAGE", "consume.settled.ack_batch", acked,
            body_max=HEARTBEAT_SIZE_MAX, call_class=CallClass.SETTLE,
        ),
        request(
            200053, "CHANGE_MESSAGE_INVISIBLETIME", "consume.settled.change_invisible", consumed,
            call_class=CallClass.SETTLE, fields=("consumerGroup", "topic", "extraInfo"),
        ),
        request(
            200054, "NOTIFICATION", "consume.pops.notification", consumed,
            call_class=CallClass.POLL, fields=("consumerGroup", "topic"),
        ),
        request(
            200055, "POLLING_INFO", "consume.pops.polling", consumed,
            fields=("consumerGroup", "topic"),
        ),
        # Offsets and messages.
        request(
            29, "SEARCH_OFFSET_BY_TIMESTAMP", "consume.offsets.by_time", looked_at,
            call_class=CallClass.QUERY, fields=("topic",),
        ),
        request(30, "GET_MAX_OFFSET", "consume.offsets.largest", looked_at, fields=("topic",)),
        request(31, "GET_MIN_OFFSET", "consume.offsets.smallest", looked_at, fields=("topic",)),
        request(
            32, "GET_EARLIEST_MSG_STORETIME", "consume.offsets.earliest_time", looked_at,
            call_class=CallClass.QUERY, fields=("topic",),
        ),
        request(
            33, "VIEW_MESSAGE_BY_ID", "consume.messages.by_offset", nothing,
            call_class=CallClass.QUERY,
        ),
        request(
            12, "QUERY_MESSAGE", "consume.messages.by_key", looked_at, call_class=CallClass.QUERY,
            fields=("topic", "key"),
        ),
        # Requests of operators that change nothing.
        request(21, "GET_ALL_TOPIC_CONFIG", "admin.topics.all_configs", lists_topics),
        request(
            351, "GET_TOPIC_CONFIG", "admin.topics.config", topic_seen(FIND), fields=("topic",)
        ),
        request(
            202, "GET_TOPIC_STATS_INFO", "admin.topics.stats", topic_seen(LOOK), fields=("topic",)
        ),
        request(
            300, "QUERY_TOPIC_CONSUME_BY_WHO", "admin.topics.consumers", topic_seen(LOOK),
            fields=("topic",),
        ),
        request(224, "GET_TOPICS_BY_CLUSTER", "admin.topics.of_cluster", lists_topics),
        request(
            304, "GET_SYSTEM_TOPIC_LIST_FROM_NS", "admin.topics.system_of_cluster", lists_topics
        ),
        request(305, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", "admin.topics.system", lists_topics),
        request(311, "GET_UNIT_TOPIC_LIST", "admin.topics.units", nothing),
        request(312, "GET_HAS_UNIT_SUB_TOPIC_LIST", "admin.topics.units", nothing),
        request(313, "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", "admin.topics.units", nothing),
        request(
            201, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "admin.groups.all_configs", lists_groups
        ),
        request(352, "GET_SUBSCRIPTIONGROUP_CONFIG", "admin.groups.config", group_seen),
        request(343, "QUERY_TOPICS_BY_CONSUMER", "admin.groups.topics", group_seen),
        request(208, "GET_CONSUME_STATS", "admin.groups.stats", group_and_topic_seen),
        request(
            303, "QUERY_CONSUME_TIME_SPAN", "admin.consumption.time_span", group_and_topic_seen,
            fields=("group", "topic"),
        ),
        request(
            317, "GET_BROKER_CONSUME_STATS", "admin.consumption.of_all_groups", lists_groups,
            call_class=CallClass.QUERY,
        ),
        request(
            345, "QUERY_SUBSCRIPTION_BY_CONSUMER", "admin.consumption.subscription",
            group_and_topic_seen, fields=("group", "topic"),
        ),
        request(
            321, "QUERY_CONSUME_QUEUE", "admin.upkeep.queue_units", topic_seen(LOOK),
            call_class=CallClass.QUERY, fields=("topic",),
        ),
        request(203, "GET_CONSUMER_CONNECTION_LIST", "admin.clients.consumers", group_seen),
        request(
            204, "GET_PRODUCER_CONNECTION_LIST", "admin.clients.producers", producers_seen,
            fields=("producerGroup",),
        ),
        request(328, "GET_ALL_PRODUCER_INFO", "admin.clients.all_producers", lists_groups),
        request(
            307, "GET_CONSUMER_RUNNING_INFO", "admin.clients.running_info", group_seen,
            call_class=CallClass.QUESTION, fields=("consumerGroup", "clientId"),
        ),
        request(
            309, "CONSUME_MESSAGE_DIRECTLY", "admin.clients.consume_directly", group_changed,
            call_class=CallClass.QUESTION, fields=("consumerGroup", "clientId", "msgId"),
        ),
        request(26, "GET_BROKER_CONFIG", "admin.runtime.config", OnCluster(GET)),
        request(28, "GET_BROKER_RUNTIME_INFO", "admin.runtime.info", OnCluster(GET)),
        request(
            315, "VIEW_BROKER_STATS_DATA", "admin.runtime.rates.view", OnCluster(GET),
            fields=("statsName", "statsKey"),
        ),
        request(319, "GET_NAMESRV_CONFIG", "admin.runtime.name_server_config", OnCluster(GET)),
        request(907, "GET_BROKER_HA_STATUS", "admin.runtime.ha_status", OnCluster(GET)),
        # Requests of operators that change topics and groups.
        request(
            17, "UPDATE_AND_CREATE_TOPIC", "admin.changed_topics.update", topic_request.changed,
            fields=("topic",),
        ),
        request(
            18, "UPDATE_AND_CREATE_TOPIC_LIST", "admin.changed_topics.update_all",
            topic_request.all_changed, body_max=HEARTBEAT_SIZE_MAX,
        ),
        request(
            215, "DELETE_TOPIC_IN_BROKER", "admin.changed_topics.delete", topic_request.deleted,
            fields=("topic",),
        ),
        request(
            216, "DELETE_TOPIC_IN_NAMESRV", "admin.changed_topics.forget", topic_request.deleted,
            fields=("topic",),
        ),
        request(
            200, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "admin.changed_groups.update",
            group_request.changed,
        ),
        request(
            225, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", "admin.changed_groups.update_all",
            group_request.all_changed, body_max=HEARTBEAT_SIZE_MAX,
        ),
        request(
            207, "DELETE_SUBSCRIPTIONGROUP", "admin.changed_groups.delete",
            group_request.deleted, fields=("groupName",),
        ),
        request(
            222, "INVOKE_BROKER_TO_RESET_OFFSET", "admin.groups.resets.reset", group_reset,
            call_class=CallClass.QUERY, fields=("group", "topic"),
        ),
        request(
            314, "CLONE_GROUP_OFFSET", "admin.groups.resets.clone", group_cloned,
            fields=("srcGroup", "destGroup"),
        ),
        request(
            223, "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "admin.groups.resets.status",
            group_and_topic_seen, call_class=CallClass.QUESTION, fields=("group", "topic"),
        ),
        # Requests of operators for the store's files.
        request(
            306, "CLEAN_EXPIRED_CONSUMEQUEUE", "admin.upkeep.clean_queues", OnCluster(UPDATE)
        ),
        request(316, "CLEAN_UNUSED_TOPIC", "admin.upkeep.clean_topics", OnCluster(UPDATE)),
        request(329, "DELETE_EXPIRED_COMMITLOG", "admin.upkeep.expire", OnCluster(UPDATE)),
        # Requests of admins for settings.
        request(
            25, "UPDATE_BROKER_CONFIG", "admin.runtime.change_config", AdminOnly("change settings")
        ),
        # Requests of admins about users and rules.
        request(
            3001, "AUTH_CREATE_USER", "admin.users.create", AdminOnly("change users"),
            fields=("username",),
        ),
        request(
            3002, "AUTH_UPDATE_USER", "admin.users.update", AdminOnly("change users"),
            fields=("username",),
        ),
        request(
            3003, "AUTH_DELETE_USER", "admin.users.delete", AdminOnly("change users"),
            fields=("username",),
        ),
        request(
            3004, "AUTH_GET_USER", "admin.users.get", AdminOnly("see users"),
            fields=("username",),
        ),
        request(3005, "AUTH_LIST_USER", "admin.users.all_users", AdminOnly("see users")),
        request(
            3006, "AUTH_CREATE_ACL", "admin.users.create_rules", AdminOnly("change users"),
            fields=("subject",),
        ),
        request(
            3007, "AUTH_UPDATE_ACL", "admin.users.update_rules", AdminOnly("change users"),
            fields=("subject",),
        ),
        request(
            3008, "AUTH_DELETE_ACL", "admin.users.delete_rules", AdminOnly("change users"),
            fields=("subject",),
        ),
        request(
            3009, "AUTH_GET_ACL", "admin.users.rules", AdminOnly("see users"),
            fields=("subject",),
        ),
        request(3010, "AUTH_LIST_ACL", "admin.users.all_rules", AdminOnly("see users")),
        request(
            ANY_CODE, "UNSUPPORTED", "unsupported", nothing, body_max=HEARTBEAT_SIZE_MAX,
            call_class=CallClass.PROBE,
        ),
    ),
)  # fmt: skip
