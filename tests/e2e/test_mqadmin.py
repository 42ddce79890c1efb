"""RocketMQ's mqadmin, unmodified, works on the broker, whose port is its name server."""

import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from pocketmq.wire.remoting import Command, encode
from tests.e2e.daemon import Daemon, here
from tests.e2e.official.classic import classic_program, java_command
from tests.rpc.classic.consumer import heartbeat

RUN_S: Final = 300
READ: Final = {
    "clusterList": "broker-a",
    "brokerStatus -b {at}": "putTps",
    "getBrokerConfig -b {at}": "brokerPermission",
    "topicList": "orders",
    "topicStatus -t orders": "broker-a",
    "topicRoute -t orders": "readQueueNums",
    "getConsumerConfig -g readers": "consumeFromMinEnable",
    "consumerProgress -g readers": "Consume Diff Total: 1",
    "consumerProgress -g idle": "Consume Diff Total: 2",
    "consumerProgress": "readers",
    "statsAll -t orders": "readers",
    "haStatus -b {at}": "Master",
    "getNamesrvConfig": "orderMessageEnable",
    "producer -b {at}": "CLIENT_INNER_PRODUCER",
    "consumerConnection -g readers": "CLUSTERING",
}
"""Command that changes nothing -> a text that it prints."""
MORE: Final = {
    "clusterList -m": "InTotalToday",
    "topicList -c": "DefaultCluster",
    "topicClusterList -t orders": "DefaultCluster",
    "allocateMQ -t orders -i 10.0.0.1,10.0.0.2": '"topic":"orders"',
    "brokerConsumeStats -b {at}": "Diff Total: 3",
    "producerConnection -g CLIENT_INNER_PRODUCER -t orders": "JAVA",
    "queryMsgByKey -t orders -k k1": "#IndexKey",
    "queryMsgByOffset -t orders -b broker-a -i 0 -o 0": "trackType=CONSUMED",
    "queryCq -t orders -q 0 -i 0 -c 2 -b {at}": "physicOffset=220, physicSize=212",
    "printMsg -t orders": "queueOffset=1",
    "printMsgByQueue -t orders -a broker-a -i 0 -p true": "queueOffset=1",
    "consumeMessage -t orders -b broker-a -i 0 -o 0 -c 1": "Consume ok",
    "exportMetadata -c DefaultCluster -f {home}": "metadata.json success",
    "exportConfigs -c DefaultCluster -f {home}": "configs.json success",
    "exportMetrics -c DefaultCluster -f {home}": "metrics.json success",
    "sendMessage -t orders -p hello": "SEND_OK",
    "sendMsgStatus -b broker-a -c 1": "SEND_OK",
    "checkMsgSendRT -t orders -a 2": "Avg RT",
    "cloneGroupOffset -s readers -d idle -t orders -o true": "clone group offset success",
    "resetOffsetByTime -g readers -t orders -s now": "broker-a",
    "skipAccumulatedMessage -g idle -t orders": "broker-a",
    "setConsumeMode -b {at} -t orders -g idle -m PULL -q 0": "consume mode[PULL]",
    "updateTopic -b {at} -t made -r 3 -w 3": "create topic to {at} success",
    "updateTopic -b {at} -t inorder -r 2 -w 2 -o true": "orderConf=[broker-a:2]",
    "updateOrderConf -m get -t inorder": "orderConf=[broker-a:2]",
    "updateOrderConf -m put -t orders -v broker-a:1": "update orderConf success",
    "updateOrderConf -m delete -t orders": "delete orderConf success",
    "updateTopicPerm -b {at} -t made -p 4": "from 6 to 4",
    "deleteTopic -c DefaultCluster -t made": "delete topic [made] from NameServer success",
    "updateSubGroup -b {at} -g made": "create subscription group to {at} success",
    "deleteSubGroup -b {at} -g made": "delete subscription group [made]",
    "updateKvConfig -s ns1 -k k1 -v v1": "create or update kv config to namespace success",
    "deleteKvConfig -s ns1 -k k1": "delete kv config from namespace success",
    "wipeWritePerm -b broker-a": "OK, ",
    "addWritePerm -b broker-a": "OK, ",
    "cleanExpiredCQ -b {at}": "success",
    "cleanUnusedTopic -b {at}": "success",
    "deleteExpiredCommitLog -b {at}": "success",
}
"""Further commands, run in this order -> a text that each prints."""
REFUSED: Final = {
    "updateNamesrvConfig -k orderMessageEnable -v true": "CODE: 3 .* use pocketmq config",
    "updateBrokerConfig -b {at} -k brokerPermission -v 4": "CODE: 3 .* sign as an admin",
    "getColdDataFlowCtrInfo -b {at}": "CODE: 3 .*request code 2003",
}
"""Commands that are not served -> a pattern of what is printed."""
COMMANDS: Final = {"5.5.0": (*READ, *MORE, *REFUSED), "5.3.3": (*READ,)}


def mqadmin(
    classes: str, home: Path, at: str, commands: Sequence[str], names: str = ""
) -> dict[str, str]:
    """Runs commands on a broker, in one JVM; returns what each prints.

    names   address of the name server; "": that of the broker
    """
    lines = [f"{one.format(at=at, home=home)} -n {names or at}".split() for one in commands]
    words = [word for line in lines for word in (*line, "--")]
    done = subprocess.run(
        java_command(classes, "Admin", *words, home=home),
        capture_output=True, text=True, check=False, timeout=RUN_S,
    )  # fmt: skip
    told = [part.partition("\n") for part in done.stdout.split("== ")[1:]]
    assert [name for name, _, _ in told] == [command.split()[0] for command in commands]
    return dict(zip(commands, (text for _, _, text in told), strict=True))


def stocked(at: str) -> None:
    """Stores two messages, of which a group has consumed one."""
    for command in (
        "topic create orders --queues 1", "group create readers", "produce orders a --key k1",
        "produce orders b", "group reset readers --topic orders --to 1 --yes",
        "group create idle", "group reset idle --topic orders --to 0 --yes",
    ):  # fmt: skip
        done = here(*command.split(), "--endpoint", at)
        assert done.code == 0, done.err


@pytest.mark.parametrize("version", COMMANDS)
def test_commands(tmp_path: Path, version: str) -> None:
    classes = classic_program(version, "Admin.java", "rocketmq-tools")
    with Daemon(tmp_path / "store") as daemon:
        at = daemon.endpoint
        stocked(at)
        host, _, port = at.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(encode(Command(34, {}, heartbeat("readers", "orders"))))
            assert client.recv(4)  # It is a member, and its retry topic exists.
            told = mqadmin(classes, tmp_path, at, COMMANDS[version])
    wrong = {
        command: text[-3_000:]
        for command, text in told.items()
        if command not in REFUSED
        and ((READ | MORE)[command].format(at=at) not in text or "Exception" in text)
    }
    wrong |= {
        command: text[-3_000:]
        for command, text in told.items()
        if command in REFUSED and not re.search(REFUSED[command], text)
    }
    assert not wrong
