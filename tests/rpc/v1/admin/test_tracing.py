"""The ways of messages through a store that a real RocketMQ left."""

from pathlib import Path

from pocketmq.rpc.pb import admin_pb2 as pb
from tests.golden_stores import GoldenStores
from tests.kit.store_broker import store_broker
from tests.kit.store_golden import golden_copy


async def test_ways_of_messages_in_a_real_store(golden: GoldenStores, tmp_path: Path) -> None:
    directory = golden_copy(golden, "semantics", tmp_path / "store")
    async with store_broker(directory) as broker:

        async def way(key: str) -> list[tuple[str, str, str]]:
            answer = await broker.answer("Admin/TraceMessage", pb.TraceMessageRequest(id=key))
            assert answer.message_id == key
            steps = pb.TraceStep.Name
            return [(steps(row.step), row.topic, row.group) for row in answer.records]

        start = "FD0000000000000000000000000000024E854E0E2F2A6721"
        assert await way(start + "55C50082") == [
            ("SENT", "RetryT", ""),
            ("DEAD_LETTER", "%DLQ%retry-group", "retry-group"),
        ]
        assert await way(start + "5585007F") == [
            ("SENT", "RetryT", ""),
            ("SCHEDULED", "SCHEDULE_TOPIC_XXXX", "retry-group"),
            ("RETRIED", "%RETRY%retry-group", "retry-group"),
        ]
        assert await way(start + "60FE0104") == [
            ("SENT", "PopT", ""),
            ("RETRIED", "%RETRY%pop-group_PopT", "pop-group"),
        ]
        (letters,) = (
            await broker.answer("Admin/ListDeadLetters", pb.ListDeadLettersRequest())
        ).groups
        assert (letters.group, letters.waiting_count) == ("retry-group", 4)
