"""The page of a running broker is the contract, in both directions."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.format.record import decode_record
from pocketmq.metrics.exposition import LEGACY_NAMES
from pocketmq.metrics.numbers import INTERVAL_SECONDS, LoopLag, Oldest
from pocketmq.model.errors import Corruption, DiskFull
from pocketmq.model.message import StoredMessage
from pocketmq.store.message_store import MessageStore
from pocketmq.store.read.cold_read import Later, NowOrLater
from tests.kit.records import record
from tests.metrics.contract import FULL, NATIVE, OWN, TIMER, Shown, compare, families
from tests.metrics.whole_broker import whole_broker
from tests.sim.clock import START_MS, FakeClock

PUBLIC_ROWS = (*NATIVE, *OWN)


async def shown_by(directory: Path, **options: Any) -> dict[str, Shown]:
    async with whole_broker(directory, **options) as broker:
        await broker.traffic()
        return families(await broker.page())


async def test_the_page_is_the_contract(tmp_path: Path) -> None:
    shown = await shown_by(tmp_path / "store")
    compare(shown, PUBLIC_ROWS)
    silent = {name for name, one in shown.items() if not one.samples}
    assert silent <= {
        "rocketmq_topic_create_execution_time_milliseconds",
        "rocketmq_consumer_group_create_execution_time_milliseconds",
        "rocketmq_send_to_dlq_messages_total",
        "rocketmq_half_messages",
        "rocketmq_commit_messages_total",
        "rocketmq_rollback_messages_total",
        "rocketmq_finish_message_latency_milliseconds",
        "pocketmq_transaction_checks_total",
        "rocketmq_pop_revive_in_message_total",
        "rocketmq_pop_revive_retry_messages_total",
        "pocketmq_ack_total",
        "pocketmq_replica_lag_bytes",
        "pocketmq_replica_lag_seconds",
        "pocketmq_rejected_total",
        "pocketmq_expired_files_total",
        "pocketmq_index_skipped_total",
        "pocketmq_retention_held_until_seconds",
        "pocketmq_inflight_requests",
    }


async def test_details_are_the_contract_and_three_more(tmp_path: Path) -> None:
    compare(await shown_by(tmp_path / "store", detail="full"), (*PUBLIC_ROWS, *FULL))


async def test_values_and_their_labels_are_rocketmqs(tmp_path: Path) -> None:
    shown = await shown_by(tmp_path / "store")
    sent = shown["rocketmq_messages_in_total"]
    assert sent.values("message_type") == {"normal"}
    assert sent.values("is_system") == {"false"}
    assert sent.values("node_type") == {"broker"}
    assert shown["rocketmq_storage_size_bytes"].values("storage_type") == {"local"}
    rpc = shown["rocketmq_rpc_latency_milliseconds"]
    assert rpc.values("protocol_type") == {"grpc"}
    assert {"send_message_v2", "pull_message"} <= rpc.values("request_code")
    lag = shown["rocketmq_consumer_lag_messages"]
    assert (lag.samples[0].value, lag.values("consumer_group")) == (2, {"G"})
    for name in ("consumer_lag_latency", "storage_message_reserve_time"):
        assert shown[f"rocketmq_{name}_milliseconds"].samples[0].value == 1000


async def test_series_of_a_removed_topic_and_group_go_and_come_again_with_it(
    tmp_path: Path,
) -> None:
    async with whole_broker(tmp_path / "store") as broker:
        tables = broker.store.tables
        await tables.groups.ensure("G")
        await broker.traffic()
        shown = families(await broker.page())
        assert shown["rocketmq_messages_in_total"].values("topic") == {"orders"}
        assert shown["rocketmq_consumer_inflight_messages"].samples[0].value == 0
        await tables.topics.remove("orders")
        await tables.groups.remove("G")
        page = await broker.page()
        assert 'topic="orders"' not in page
        assert 'consumer_group="G"' not in page
        await broker.traffic()
        shown = families(await broker.page())
        assert [s.value for s in shown["rocketmq_messages_in_total"].samples] == [3]


async def test_a_topic_that_comes_and_goes_between_two_scrapes_leaves_no_series(
    tmp_path: Path,
) -> None:
    async with whole_broker(tmp_path / "store") as broker:
        await broker.traffic()
        await broker.store.tables.topics.remove("orders")
        assert 'topic="orders"' not in await broker.page()


async def test_who_runs_the_proxy_is_told(tmp_path: Path) -> None:
    up = (await shown_by(tmp_path / "store"))["rocketmq_proxy_up"]
    assert [sample.value for sample in up.samples] == [1]
    assert up.values("node_type") == {"proxy"}
    assert up.values("proxy_mode") == {"local"}


async def test_a_store_that_takes_no_messages_is_looked_at_all_the_same(tmp_path: Path) -> None:
    async with whole_broker(tmp_path / "store") as broker:
        await broker.traffic()
        broker.store.writing.refuse(DiskFull(path="/s"))
        shown = families(await broker.page())
        broker.store.writing.refuse(None)
    assert shown["rocketmq_consumer_lag_messages"].samples
    states = shown["pocketmq_store_state"].samples
    assert [s.labels["state"] for s in states if s.value] == ["read_only"]


async def test_while_the_store_ends_nothing_is_computed(tmp_path: Path) -> None:
    async with whole_broker(tmp_path / "store") as broker:
        await broker.traffic()
        broker.store.drain()
        shown = families(await broker.page())
    assert not shown["rocketmq_consumer_lag_messages"].samples


def test_every_old_name_belongs_to_a_row() -> None:
    known = {row.name for row in (*NATIVE, *TIMER)}
    assert LEGACY_NAMES.keys() <= known


# -- the oldest message ----------------------------------------------------------------------------


class Desk:
    """A log with one message of a minute ago, and the age of its oldest one."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log_range = (0, 100)
        self.asked = 0
        self.fault: Exception | None = None
        self.is_cold = False
        self.message = decode_record(record(0, b"x", time_ms=START_MS - 60_000))
        self.oldest = Oldest(lambda: self.log_range, self.message_at, self.clock.wall_ms)

    def message_at(self, physical_offset: int) -> NowOrLater[StoredMessage | None]:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return Later(self._fetched) if self.is_cold else self.message

    async def _fetched(self) -> StoredMessage | None:
        return self.message


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_the_oldest_message_is_read_once(desk: Desk) -> None:
    assert desk.oldest.age_ms() == 0
    for _ in range(3):
        await desk.oldest.refresh()
    assert desk.oldest.age_ms() == 60_000
    assert desk.asked == 1
    desk.clock.advance(5)
    assert desk.oldest.age_ms() == 60_005


async def test_another_one_is_read_when_files_were_let_go(desk: Desk) -> None:
    await desk.oldest.refresh()
    desk.log_range = (50, 100)
    await desk.oldest.refresh()
    assert desk.asked == 2


async def test_an_empty_log_has_no_oldest_message(desk: Desk) -> None:
    desk.log_range = (0, 0)
    await desk.oldest.refresh()
    assert desk.asked == 0
    assert desk.oldest.age_ms() == 0


async def test_a_refresh_waits_for_what_the_disk_has_to_tell(desk: Desk) -> None:
    desk.is_cold = True
    await desk.oldest.refresh()
    assert desk.oldest.age_ms() == 60_000


async def test_damage_does_not_fail_the_scrape(desk: Desk) -> None:
    desk.fault = Corruption(path="p", file_position=0, physical_offset=0, why="bad")
    await desk.oldest.refresh()
    assert desk.oldest.age_ms() == 0


async def test_the_store_is_shown_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with whole_broker(tmp_path / "store", detail="full") as broker:
        await broker.traffic()
        monkeypatch.setattr(MessageStore, "disk_space", lambda store: ("/s", 30, 70))
        shown = families(await broker.page())
        parts = broker.store._structures
        mapped = (parts.log_files.count, parts.queue_files.count, len(parts.index.files))
        mapped_bytes = parts.log_files.size_bytes + parts.queue_files.size_bytes
        mapped_bytes += len(parts.index.files) * parts.index.geometry.file_size
    assert all(mapped)
    wanted = {
        "rocketmq_storage_size_bytes": 30,
        "pocketmq_disk_free_bytes": 70,
        "pocketmq_disk_total_bytes": 100,
        "rocketmq_topic_number": len(broker.store.tables.topics.names()),
        "rocketmq_consumer_group_number": len(broker.store.tables.groups.names()),
        "rocketmq_broker_permission": 6,
        "pocketmq_mapped_files": sum(mapped),
        "pocketmq_mapped_bytes": mapped_bytes,
    }
    assert {name: shown[name].samples[0].value for name in wanted} == wanted
    ends = {
        (s.labels["topic"], s.labels["queue_id"]): s.value
        for s in shown["pocketmq_queue_max_offset"].samples
    }
    assert ends["orders", "0"] == 3
    assert shown["pocketmq_queue_min_offset"].samples[0].value == 0


# -- the event loop --------------------------------------------------------------------------------


class Loop:
    """A loop whose time is told to it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[..., Any], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, callback: Callable[..., Any], *arguments: Any) -> "Loop":
        self.timers.append((due, callback, arguments))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def turn(self, late_by: float) -> None:
        """Calls the timer that is due next, too late."""
        due, callback, arguments = self.timers.pop(0)
        self.now = due + late_by
        callback(*arguments)


async def test_lateness_is_what_is_counted() -> None:
    loop, lag = Loop(), LoopLag()
    lag._plan(loop, loop.now)  # type: ignore[arg-type]
    for late_by in (0.0, 0.004, 0.3):
        loop.turn(late_by)
    assert round(lag.seconds.sum, 6) == 0.304
    assert sum(lag.seconds.counts) == 3
    assert loop.timers[0][0] == loop.now + INTERVAL_SECONDS


async def test_it_looks_from_start_to_end() -> None:
    lag = LoopLag()
    lag.end()
    lag.start()
    timer = lag._timer
    assert timer is not None
    assert abs(timer.when() - asyncio.get_running_loop().time() - INTERVAL_SECONDS) < 60
    lag.end()
    assert timer.cancelled()
    lag.end()
