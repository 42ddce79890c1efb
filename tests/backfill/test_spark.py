"""Everything that runs on Spark, in one file: one worker of pytest-xdist has it, and one session.

Worker processes that die, drivers that die, damage: the views are the same bytes all the same, or
there is an error that says why.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException

from pocketmq.backfill.analytics import (
    committed_offsets,
    consumer_lag,
    duplicate_keys,
    largest_keys,
    messages_per_hour,
)
from pocketmq.backfill.job import run
from pocketmq.backfill.progress import Phase, ProgressReader
from pocketmq.backfill.session import check_java, open_session, spark_mapper, worker_count
from pocketmq.client import Message
from pocketmq.files.disk import Disk
from pocketmq.format.record import decode_record
from pocketmq.format.record_scan import RecordScan
from pocketmq.model.errors import Corruption, SparkMissing, ViewFailed
from pocketmq.model.message import StoredMessage
from pocketmq.rebuild.sequential import rebuild
from pocketmq.spark.readers import read_consume_queue, read_index, read_messages, register
from pocketmq.testing import RocketMQ
from pocketmq.tools.dump import index_rows, queue_units
from tests.backfill import driver_to_kill, faults, own_session
from tests.backfill.faults import faulty
from tests.backfill.jobs import golden_job
from tests.cli.command_line import run as run_command
from tests.golden_stores import GoldenStores
from tests.kit.column_values import values_of
from tests.kit.log_bytes import golden_files, rebuilt_files, views
from tests.kit.tool_sizes import golden_tool_sizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DIRECTORY = "store.directory"
IDENTICAL = ("basic", "semantics", "propcrc", "rebuild-base", "v533", "rebuild-all-full.after")
"""Stores whose views RocketMQ itself built from the whole log."""


class Drivers:
    """Drivers with a session of their own, which run beside the tests of the session of all."""

    def __init__(self, golden: GoldenStores, place: Path) -> None:
        self.out = place / "out"
        job = golden_job(golden, "rebuild-base", self.out)
        sizes = (
            job.files[0].size, job.settings.consume_queue_file_size_bytes, *job.settings.geometry
        )  # fmt: skip
        words = [golden.store("rebuild-base"), self.out, "10", *sizes]
        self.killed = self._begun(driver_to_kill.__file__, *map(str, words))
        own = {name: os.environ[name] for name in ("HOME", "JAVA_HOME") if name in os.environ}
        own["PATH"] = "/usr/local/bin:/usr/bin:/bin"
        self.own = self._begun(own_session.__file__, str(golden.store("basic")), env=own, cwd="/")

    def _begun(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, *words], stdout=pipe, stderr=pipe, text=True, **options
        )


@pytest.fixture(scope="module")
def drivers(golden: GoldenStores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    try:
        check_java()
    except SparkMissing:
        pytest.skip("Java is missing: a runtime of version 17 or newer")
    begun = Drivers(golden, tmp_path_factory.mktemp("drivers"))
    yield begun
    for one in (begun.killed, begun.own):
        one.kill()
        one.communicate()


@pytest.fixture(scope="module")
def spark(drivers: Drivers) -> Iterator["SparkSession"]:
    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
    }
    session = open_session("local[2]", settings=settings)
    yield session
    session.stop()


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_any_number_of_partitions_gives_rocketmqs_bytes(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path, partitions: int
) -> None:
    cuts = {"piece_size": 40_000, "group_units": 300} if partitions > 1 else {}
    jobs = [
        golden_job(golden, name, tmp_path / name, workers=partitions, **cuts) for name in IDENTICAL
    ]
    with ThreadPoolExecutor(4) as drivers:  # Each of them waits for Spark most of the time.
        list(drivers.map(lambda job: run(job, spark_mapper(spark, partitions)), jobs))
    for name, job in zip(IDENTICAL, jobs, strict=True):
        assert views(job.out) == views(golden.store(name)), name
        rebuild(job.files, job.settings, tmp_path / "one" / name, upto=job.upto)
        assert rebuilt_files(job.out) == rebuilt_files(tmp_path / "one" / name)


def test_what_a_real_broker_forgot_comes_back(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path
) -> None:
    """RocketMQ left queues and index out for files older than the newest ten; this does not."""
    run(golden_job(golden, "rebuild-all.before", tmp_path), spark_mapper(spark))
    assert views(tmp_path) == views(golden.store("rebuild-all-full.after"))


@pytest.mark.parametrize("fault", [faults.die_at_third_write, faults.die_after, faults.fail_once])
def test_a_task_that_fails_once_is_done_again(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path, fault: faults.Fault
) -> None:
    job = golden_job(golden, "semantics", tmp_path / "out", workers=2, group_units=300)
    run(job, faulty(spark_mapper(spark), fault, tmp_path))
    assert views(job.out) == views(golden.store("semantics"))
    assert (tmp_path / f"{fault.__name__}-read_range").exists()
    assert (tmp_path / f"{fault.__name__}-build_part").exists()


def test_a_task_that_always_fails_ends_the_job_and_says_why(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path
) -> None:
    job = golden_job(golden, "semantics", tmp_path / "out")
    with pytest.raises(ViewFailed, match=r"4 tries: OSError: .*No space left on device"):
        run(job, faulty(spark_mapper(spark), faults.fail_always, tmp_path))
    assert ProgressReader(job.out).look() is None


def test_a_driver_that_was_killed_is_gone_on_from(
    spark: "SparkSession", golden: GoldenStores, drivers: Drivers
) -> None:
    _, errors = drivers.killed.communicate()
    assert drivers.killed.returncode == -9, errors
    job = golden_job(golden, "rebuild-base", drivers.out)
    settings = job.settings
    left = ProgressReader(job.out).look()
    assert left is not None
    assert (left.phase, left.ranges_finished, left.is_running) == (Phase.READING, 10, False)
    counts: dict[str, int] = {}
    mapper = spark_mapper(spark)

    def counted(function: Any, tasks: Any) -> Any:
        counts[function.__name__] = len(tasks)
        return mapper(function, tasks)

    run(replace(job, settings=replace(settings, check_crc=False)), counted)
    assert counts["read_range"] == len(job.files) - 10
    assert views(job.out) == views(golden.store("rebuild-base"))


def test_damage_is_told_as_a_check_of_the_store_tells_it(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path
) -> None:
    job = golden_job(golden, "crash-flip.before", tmp_path / "out", workers=2, piece_size=40_000)
    with pytest.raises(Corruption, match=r"is damaged at byte .*the CRC of its body is wrong"):
        run(job, spark_mapper(spark))
    built = run(replace(job, accept_holes=True), spark_mapper(spark))
    assert [hole["is_followed"] for hole in built["holes"]] == [True]


def test_the_command_line_builds_and_checks(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    store, out = str(golden.store("v533")), str(tmp_path / "out")
    done = run_command("backfill", "run", store, "--out", out, "--time-zone", "UTC")
    assert (done.code, done.document["queues"] > 0) == (0, True)
    checked = run_command("backfill", "verify", out, "--against", store, "--master", "local[2]")
    assert (checked.code, checked.document) == (0, [])


def plain(golden: GoldenStores, name: str) -> list[StoredMessage]:
    """All messages of a store, decoded one by one."""
    return [
        decode_record(Path(file.path).read_bytes(), position)
        for file in golden_files(golden, name)
        for position, _ in RecordScan(Path(file.path).read_bytes(), file.base)
    ]


def rows_of(frame: "DataFrame", *order: str) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: [row[name] for name in order])


MOMENTS = ("born_timestamp", "store_timestamp", "deliver_at")


def local_time(ms: int | None) -> datetime | None:
    """A time as Spark collects it."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000)  # noqa: DTZ006


@pytest.mark.parametrize("name", ["basic", "semantics"])
def test_messages_are_what_decoding_each_record_gives(
    spark: "SparkSession", golden: GoldenStores, name: str
) -> None:
    found = rows_of(read_messages(spark, golden.store(name)), "physical_offset")
    for row in found:
        row["body"] = bytes(row["body"])
        moments = {name: row.pop(name) for name in MOMENTS}
        assert moments == {name: local_time(row[f"{name}_ms"]) for name in MOMENTS}
    for row, message in zip(found, plain(golden, name), strict=True):
        assert row == values_of(message) | {"properties": message.properties}


def test_units_and_entries_are_those_of_a_dump(spark: "SparkSession", golden: GoldenStores) -> None:
    store, sizes = golden.store("semantics"), golden_tool_sizes(golden, "semantics")
    units = rows_of(read_consume_queue(spark, store), "topic", "queue_id", "queue_offset")
    assert units == [
        {"topic": topic, "queue_id": queue_id, **unit._asdict()}
        for topic, queue_id in sorted({(row["topic"], row["queue_id"]) for row in units})
        for unit in queue_units(Disk(), store, sizes, topic=topic, queue_id=queue_id)
    ]
    entries = rows_of(read_index(spark, store, sizes.geometry), "file", "number")
    for row in entries:
        assert row.pop("store_time") == local_time(row["store_time_ms"])
    assert entries == [row._asdict() for row in index_rows(Disk(), store, sizes)]


def test_a_store_is_a_source_and_a_frame_answers_every_query(
    spark: "SparkSession", golden: GoldenStores
) -> None:
    register(spark)
    store, messages = str(golden.store("basic")), plain(golden, "basic")
    time_ms = sorted(message.store_timestamp_ms for message in messages)[len(messages) // 2]
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    schema = "topic string, store_timestamp timestamp, physical_offset long"
    frame = spark.read.schema(schema).format("pocketmq").load(store)
    narrow = frame.filter(f"topic = 'orders' and store_timestamp >= '{moment}'")
    assert sorted(row.physical_offset for row in narrow.collect()) == [
        message.physical_offset
        for message in messages
        if message.topic == "orders" and message.store_timestamp_ms >= time_ms
    ]
    assert frame.count() == len(messages)
    units = spark.read.format("pocketmq").options(table="units", topic="orders", queue_id=1)
    assert units.load(store).filter("queue_offset > 2").count() == sum(
        (m.topic, m.queue_id) == ("orders", 1) and m.queue_offset > 2 for m in messages
    )
    with pytest.raises(AnalysisException, match="NotAStore: /nowhere is not a store"):
        spark.read.format("pocketmq").load("/nowhere")
    with pytest.raises(AnalysisException, match="there is no option 'colums'"):
        spark.read.format("pocketmq").option("colums", "topic").load(store)


@pytest.mark.parametrize("form", ["parquet", "iceberg"])
def test_a_lake_is_read_alone_and_beside_its_log(
    spark: "SparkSession", golden: GoldenStores, tmp_path: Path, form: str
) -> None:
    store, lake = str(golden.store("basic")), str(tmp_path / "lake")
    assert run_command("archive", "run", store, lake, "--format", form).code == 0
    register(spark)

    def count(path: str, **options: str) -> int:
        return spark.read.format("pocketmq").options(topic="orders", **options).load(path).count()

    wanted = count(store)
    assert wanted > 0
    assert count(lake) == count(store, archive=lake) == wanted


def test_a_session_of_ones_own_needs_no_environment(golden: GoldenStores, drivers: Drivers) -> None:
    """Neither PATH nor PYSPARK_PYTHON lead to this Python, nor PYTHONPATH to this package."""
    out, errors = drivers.own.communicate()
    count = len(plain(golden, "basic"))
    assert out.splitlines() == [f"{count} messages {sys.executable}"], errors


def test_reading_ends_at_damage_or_tells_it_as_a_row(
    spark: "SparkSession", golden: GoldenStores
) -> None:
    store = golden.store("crash-flip.before")
    options: Any = {"columns": ("topic", "physical_offset"), "check_crc": True}
    with pytest.raises(PythonException, match=r"Corruption: .*the CRC of its body is wrong"):
        read_messages(spark, store, **options).collect()
    rows = read_messages(spark, store, on_damage="skip", **options).collect()
    told = [row.damage for row in rows if row.damage]
    assert len(told) == 1
    assert "the CRC of its body is wrong" in told[0]
    assert len(rows) == len(plain(golden, "crash-flip.before"))


def test_questions_are_answered_as_counting_answers_them(
    spark: "SparkSession", golden: GoldenStores
) -> None:
    store, messages = golden.store("semantics"), plain(golden, "semantics")
    names = ("topic", "keys", "message_id", "store_timestamp_ms", "store_size", "physical_offset")
    frame = read_messages(spark, store, columns=names).cache()
    hours = Counter((m.topic, m.store_timestamp_ms // 3_600_000) for m in messages)
    found = messages_per_hour(frame).collect()
    assert {(r.topic, int(r.hour.timestamp()) // 3_600): r.messages for r in found} == hours
    keyed = Counter((m.topic, key) for m in messages for key in set(m.keys))
    largest = largest_keys(frame, count=7).collect()
    wanted = sorted((-count, *key) for key, count in keyed.items())[:7]
    assert [(-r.messages, r.topic, r.key) for r in largest] == wanted
    sizes: Counter[tuple[str, str]] = Counter()
    for message in messages:
        sizes.update(dict.fromkeys([(message.topic, k) for k in message.keys], message.store_size))
    heaviest = largest_keys(frame, by="bytes", count=7).collect()
    assert [r.bytes for r in heaviest] == sorted(sizes.values(), reverse=True)[:7]
    ids = Counter((m.topic, m.unique_key) for m in messages if m.unique_key)
    twice = {key: count for key, count in ids.items() if count > 1}
    repeated = duplicate_keys(frame, of="message_id").collect()
    assert {(r.topic, r.key): r.messages for r in repeated} == twice
    assert {(r.topic, r.key): r.messages for r in duplicate_keys(frame).collect()} == {
        key: count for key, count in keyed.items() if count > 1
    }


def test_the_lag_is_the_end_of_a_queue_less_what_was_committed(
    spark: "SparkSession", golden: GoldenStores
) -> None:
    store = golden.store("semantics")
    queues = golden.manifest("semantics")["queues"]
    ends = {(queue["topic"], queue["queueId"]): queue["maxOffset"] for queue in queues}
    rows = consumer_lag(store, read_consume_queue(spark, store)).collect()
    assert len(rows) == len(committed_offsets(store))
    for row in rows:
        end = ends.get((row.topic, row.queue_id))
        assert row.max_offset == end or not end
        assert row.lag == max((end or 0) - row.committed_offset, 0)


def test_the_map_goes_to_as_many_partitions_as_asked(spark: "SparkSession") -> None:
    assert worker_count(spark) == 2
    assert list(spark_mapper(spark, 3)(len, ["a", "bb", "", "ccc"])) == [1, 2, 0, 3]
    assert list(spark_mapper(spark)(len, [])) == []


def run_to_its_end(begin: "Callable[[], StreamingQuery]") -> None:
    """Runs a stream; Spark gives its Python process 10 s to start, which other load may exceed."""
    for _ in range(4):
        try:
            begin().awaitTermination()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return
    begin().awaitTermination()


def test_a_stream_of_a_broker_is_written_to_it_once(
    spark: "SparkSession", rocketmq: RocketMQ, tmp_path: Path
) -> None:
    sent = {f"k{number}": b"%d" % number for number in range(150)}
    client = rocketmq.client
    client.send_many([Message("orders", body, keys=[key]) for key, body in sent.items()])
    assert len(rocketmq.messages("orders", 150)) == 150
    register(spark)
    stream = spark.readStream.format("pocketmq").options(
        endpoint=rocketmq.endpoint, topic="orders", columns="keys,body", maxOffsetsPerTrigger="100"
    )
    for count in (150, 160):
        copy = (
            stream.load()
            .writeStream.format("pocketmq")
            .options(endpoint=rocketmq.endpoint, topic="copies")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        run_to_its_end(copy.start)
        copies = rocketmq.messages("copies", count)
        assert len(copies) == count
        client.send_many([Message("orders", b"late", keys=[f"l{n}"]) for n in range(10)])
        assert len(rocketmq.messages("orders", 160)) >= 160
    assert {m.properties["KEYS"]: m.body for m in copies if m.body != b"late"} == sent
    assert len({message.unique_key for message in copies}) == 160


def test_a_live_store_is_streamed_and_a_refused_row_is_named(
    spark: "SparkSession", rocketmq: RocketMQ, tmp_path: Path
) -> None:
    client = rocketmq.client
    client.send_many([Message("orders", b"%d" % number) for number in range(40)])
    client.admin.flush()  # A directory is read up to what is on the disk.
    register(spark)
    (store,) = [row.value for row in client.admin.effective_config() if row.key == DIRECTORY]
    stream = spark.readStream.format("pocketmq").options(topicsPattern="ord.*", columns="body")
    live = stream.load(store).writeStream.format("memory").queryName("live")
    run_to_its_end(live.trigger(availableNow=True).start)
    assert {bytes(row.body) for row in spark.table("live").collect()} == {
        b"%d" % number for number in range(40)
    }
    rows = spark.createDataFrame([("a", "fine"), ("b", "wr|ong")], "body string, tag string")
    writer = rows.coalesce(1).write.format("pocketmq").mode("append")
    with pytest.raises(PythonException, match="partition 0, row 1, column tag"):
        writer.options(endpoint=rocketmq.endpoint, topic="orders").save()
