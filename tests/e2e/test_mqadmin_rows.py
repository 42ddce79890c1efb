"""mqadmin prints of the broker what it prints of a real RocketMQ 5.5.0 with the same store.

Rows are compared cell by cell; those that differ are listed here with the reason.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Final

from tests.e2e.daemon import Daemon
from tests.e2e.mqadmin_rows import COMMANDS, RECORDED, rows, stock, tables

OWN_TOPICS: Final = (
    "(BenchmarkTest|DefaultCluster|DefaultCluster_REPLY_TOPIC|OFFSET_MOVED_EVENT|SELF_TEST_TOPIC"
    "|RMQ_SYS_(ROCKSDB_)?TRANS_(OP_)?HALF_TOPIC|SCHEDULE_TOPIC_XXXX|TBW102|broker-a"
    "|rmq_sys_REVIVE_LOG_DefaultCluster|rmq_sys_SYNC_BROKER_MEMBER_broker-a|rmq_sys_wheel_timer)"
)
STATUS: Final = "brokerStatus -b {at}"
BY_OFFSET: Final = "queryMsgByOffset -t orders -b broker-a -i 0 -o 0"
DIFFERENCES: Final = (
    ("clusterList", r"DefaultCluster \| .*", "RocketMQ's timer reads up to a second behind"),
    (STATUS, r"\w+QueueCapacity\W+\d+", "settings of thread pools, which PocketMQ has not"),
    (STATUS, "commitLogDiskRatio_DIR .*", "PocketMQ has no row for each directory of the log"),
    (STATUS, r"(get(Found|Miss|Total|Transferred)|put)Tps\W.*", "empty in RocketMQ's first 10 s"),
    (STATUS, r"getMessageEntireTimeMax\W.*", "the longest read of RocketMQ took 1 ms"),
    (STATUS, r"putLatency999?\W.*", "no histogram on this page"),
    (STATUS, r"brokerVersion\W.*", "rocketmq-exporter needs it, and fails with RocketMQ 5.5.0"),
    (STATUS, r"putMessageTimesTotal\W.*", "RocketMQ shows 1 before its first message"),
    ("topicList", OWN_TOPICS, "RocketMQ creates its own topics at its start"),
    ("topicList -c", rf"DefaultCluster \| {OWN_TOPICS}", "its own topics"),
    ("statsAll", rf"{OWN_TOPICS} \| 0 \| RATE \| 0 \| NO_CONSUMER", "its own topics"),
    ("topicList", "%RETRY%idle", "PocketMQ creates a group's retry topic with the group"),
    ("consumerProgress -g idle", ".*", "mqadmin asks for the route of the group's retry topic"),
    ("consumerProgress", r"idle \| 0 \| OFFLINE \| 0 \| 2", "it lists groups by retry topics"),
    (BY_OFFSET, r"MessageTrack \[consumerGroup=idle.*|See https:.*", "no route of its retry topic"),
)
"""Command, pattern of the rows of either broker that differ, reason.

The reasons are those of RocketMQ 5.5.0's source: AdminBrokerProcessor.prepareRuntimeInfo,
StoreStatsService.getRuntimeInfo (a rate over 10, 60 and 600 samples of a second is empty until
there are that many), TimerMessageStore.getDequeueBehind, DefaultMessageStore.getRuntimeInfo,
TopicConfigManager, and mqadmin's ConsumerProgressSubCommand and DefaultMQAdminExtImpl
(examineConsumeStats, examineConsumerConnectionInfo).
"""


def test_tables_are_those_of_rocketmq(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    stock(tmp_path / "store")
    with Daemon(tmp_path / "store") as daemon:
        printed = tables(daemon.endpoint, tmp_path)
    assert [*recorded] == [*printed] == [*COMMANDS]
    unexplained, used = [], set()
    for command in COMMANDS:
        theirs, ours = Counter(recorded[command]), Counter(printed[command])
        for row in (*(theirs - ours), *(ours - theirs)):
            why = {d for d in DIFFERENCES if d[0] == command and re.fullmatch(d[1], row)}
            used |= why
            if not why:
                unexplained.append((command, row, "RocketMQ" if row in theirs else "PocketMQ"))
    assert not unexplained
    assert len(used) == len(DIFFERENCES), set(DIFFERENCES) - used


def test_a_row_that_differs_is_noticed() -> None:
    first = "orders  broker-a\t0  17:1 2026-11-27 20:00:01,123 127.0.0.1:80"
    assert rows(first) == ["orders | broker-a | 0 | 17:1 DATE ADDRESS"]
    assert rows(first.replace("17", "18")) != rows(first)
