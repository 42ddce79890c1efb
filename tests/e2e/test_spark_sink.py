"""RocketMQ's own client reads what the sink of Spark wrote."""

from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from pocketmq.spark.data_source import PocketSource
from pocketmq.spark.sink import BatchSink
from pocketmq.testing import RocketMQ
from tests.e2e.official.cases import official
from tests.e2e.official.programs import Official


def test_an_official_client_reads_what_was_written(rocketmq: RocketMQ, tmp_path: Path) -> None:
    program = official("python")
    rocketmq.create_topic("alerts", queues=2)
    table = pa.table(
        {
            "body": ["one", "zwölf 取消", "x" * 100_000],
            "keys": [["k1", "k2"]] * 3,
            "tag": ["A"] * 3,
            "message_id": ["ID-1", "ID-2", None],
            "properties": pa.array([[("color", "blue")]] * 3, pa.map_(pa.string(), pa.string())),
        }
    )
    source = PocketSource({"endpoint": rocketmq.endpoint, "topic": "alerts"})
    writer = source.writer(from_arrow_schema(table.schema), False)
    assert isinstance(writer, BatchSink)
    writer.write(iter(table.to_batches()))
    with Official(program, rocketmq.endpoint, tmp_path / "log") as client:
        got = client.ask("receive", topic="alerts", group="readers", count=3)
    bodies = {row["body"]: row["message_id"] for row in got}
    assert sorted(bodies) == sorted(table["body"].to_pylist())
    assert (bodies["one"], bodies["zwölf 取消"]) == ("ID-1", "ID-2")
    for row in got:
        assert (row["tag"], row["keys"], row["properties"]) == (
            "A",
            ["k1", "k2"],
            {"color": "blue"},
        )
        assert not row["corrupted"]
