"""Figures of rebuilding a whole log: on one core and by Spark, beside a plain read.

Each measured run is a separate process, so that its processor time and memory can be measured:
    python -m bench.rebuild rebuild STORE OUT [crc]
    python -m bench.rebuild verify STORE VIEWS
    python -m bench.rebuild backfill STORE OUT WORKERS JOBS
    python -m bench.rebuild reput STORE
Each prints one JSON object.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.store import write_log
from harness.figures import Extent, Figure
from harness.process import anonymous_mib, apart, cpu_seconds
from pocketmq.format.index_layout import STYLE_5_5, IndexGeometry
from pocketmq.model.message import OFFSET_MAX
from pocketmq.rebuild.log_files import KnownShape, find_log_files

FILE_SIZE = 256 * 1024 * 1024
GEOMETRY = IndexGeometry(5_000_000, 20_000_000)
COUNT = 2_000_000
REPUT_COUNT = 200_000
SAMPLE_SECONDS = 0.05


# --- measured processes -------------------------------------------------------------------------


def settings(*, check_crc: bool = False) -> KnownShape:
    """Returns the shape of the measured stores: RocketMQ's default sizes."""
    return KnownShape(
        index_slot_count=GEOMETRY.slot_count, index_entry_count_max=GEOMETRY.entry_count_max,
        time_zone="UTC", check_crc=check_crc,
    )  # fmt: skip


def run_rebuild(store: Path, out: Path, *, check_crc: bool) -> dict[str, float]:
    """Rebuilds in this process."""
    from pocketmq.rebuild.sequential import rebuild

    begun, cpu = perf_counter(), cpu_seconds(os.getpid())
    files = find_log_files(store, FILE_SIZE)
    found = rebuild(files, settings(check_crc=check_crc), out, upto=OFFSET_MAX)
    return {
        "messages": found.record_count, "bytes": found.end, "seconds": perf_counter() - begun,
        "cpu": cpu_seconds(os.getpid()) - cpu, "rss_mib": anonymous_mib(os.getpid()),
    }  # fmt: skip


def run_verify(store: Path, views: Path) -> dict[str, float]:
    """Checks a log and its views in this process."""
    from pocketmq.files.disk import Disk
    from pocketmq.rebuild.log_files import KnownShape
    from pocketmq.tools.verify.verification import VerifyOptions, verify

    begun, cpu = perf_counter(), cpu_seconds(os.getpid())
    sizes = KnownShape(
        commit_log_file_size_bytes=FILE_SIZE, index_slot_count=GEOMETRY.slot_count,
        index_entry_count_max=GEOMETRY.entry_count_max, index_style=STYLE_5_5, time_zone="UTC",
    )  # fmt: skip
    found = verify(Disk(), store, sizes, VerifyOptions(views=views))
    if found.findings:
        raise SystemExit(f"verify found {found.counts}")
    return {"seconds": perf_counter() - begun, "cpu": cpu_seconds(os.getpid()) - cpu}


def run_backfill(store: Path, out: Path, workers: int, jobs: int) -> dict[str, Any]:
    """Rebuilds several times in one Spark session; the first job warms it."""
    from pocketmq.backfill.session import open_session, spark_mapper
    from pocketmq.rebuild.parallel import RebuildJob, rebuild_parallel

    begun = perf_counter()
    session = open_session(f"local[{workers}]", name="bench")
    started = perf_counter() - begun
    files, seconds, peak = find_log_files(store, FILE_SIZE), [], [0.0]
    with sampled_workers(peak):
        for _ in range(jobs):
            shutil.rmtree(out, ignore_errors=True)
            begun = perf_counter()
            rebuild_parallel(
                RebuildJob(files, settings(), out, OFFSET_MAX, workers=workers),
                spark_mapper(session),
            )
            seconds.append(perf_counter() - begun)
    session.stop()
    return {"session": started, "first": seconds[0], "warm": seconds[1:], "rss_mib": peak[0]}


def run_reput(store: Path) -> dict[str, float]:
    """Measures the broker's dispatch, which builds the views of a store without views."""
    from pocketmq.files.disk import Disk
    from pocketmq.model.step import SystemClock
    from pocketmq.store.recovery.components import StoreComponents
    from pocketmq.store.recovery.start import start_at_once
    from pocketmq.store.settings import StoreSettings

    parts = StoreComponents(
        StoreSettings(
            directory=store, commit_log_file_size_bytes=FILE_SIZE, index_slot_count=5_000_000,
            index_entry_count_max=20_000_000, time_zone="UTC",
            explicit=frozenset({"index_slot_count", "index_entry_count_max"}),
        ),
        Disk(),
    )  # fmt: skip
    begun, cpu = perf_counter(), cpu_seconds(os.getpid())
    start_at_once(parts, SystemClock())
    found = {"seconds": perf_counter() - begun, "cpu": cpu_seconds(os.getpid()) - cpu}
    parts.close()
    return found


@contextmanager
def sampled_workers(peak: list[float]) -> Iterator[None]:
    """Records the largest RssAnon of any Python worker of Spark during the block."""
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            for process_id in spark_workers():
                try:
                    peak[0] = max(peak[0], anonymous_mib(process_id))
                except (FileNotFoundError, ProcessLookupError):
                    continue

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def spark_workers() -> list[int]:
    """Returns the process ids of Spark's Python workers, and of the daemon that forks them."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


measured = partial(apart, "bench.rebuild")


# --- figures ------------------------------------------------------------------------------------


@contextmanager
def scratch_log(count: int, *, body: int = 1024, keys: str = "ascii") -> Iterator[Path]:
    """Creates a log for the duration of the block."""
    with tempfile.TemporaryDirectory(
        prefix="pocketmq-bench-", dir=os.environ.get("BENCH_DIR")
    ) as place:
        store = Path(place) / "store"
        write_log(store, count, body=body, file_size=FILE_SIZE, keys=keys)
        yield store


def seconds_to_read(store: Path) -> float:
    """Returns the seconds that `cat` takes to read the log."""
    begun = perf_counter()
    files = sorted(str(path) for path in (store / "commitlog").iterdir())
    subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - begun


def rebuild_figures(extent: Extent) -> list[Figure]:
    """Stores rebuild and verify on one core, beside `cat` of the same files, and a CJK store."""
    plain, crc, checked, megabytes, times, memory = [], [], [], [], [], []
    with scratch_log(COUNT) as store:
        out = store.parent / "views"
        for number in range(extent.rounds + 1):
            read = seconds_to_read(store)
            shutil.rmtree(out, ignore_errors=True)
            run = measured("rebuild", store, out)
            shutil.rmtree(out)
            with_crc = measured("rebuild", store, out, "crc")
            check = measured("verify", store, out)
            if not number:
                continue  # The first runs also pay for the machine's first use of memory pages.
            plain.append(run["messages"] / run["cpu"] / 1000)
            crc.append(with_crc["messages"] / with_crc["cpu"] / 1000)
            checked.append(with_crc["messages"] / check["cpu"] / 1000)
            megabytes.append(run["bytes"] / run["cpu"] / 1e6)
            times.append(run["seconds"] / read)
            memory.append(run["rss_mib"])
    with scratch_log(COUNT // 4, keys="cjk") as store:
        runs = [measured("rebuild", store, store.parent / f"v{n}") for n in range(extent.rounds)]
    cjk = [run["messages"] / run["cpu"] / 1000 for run in runs]
    unit = "k msg/CPU s"
    return [
        Figure.of("rebuild", "`store rebuild`, 1 KiB, 3 index entries", plain, unit, "≥ 500"),
        Figure.of("rebuild_crc", "the same with every CRC checked", crc, unit, "≥ 350"),
        Figure.of("rebuild_cjk", "the same, keys that are not ASCII", cjk, unit, "≥ 250"),
        Figure.of("rebuild_mb", "`store rebuild`, log bytes", megabytes, "MB/CPU s", ""),
        Figure.of("rebuild_cat", "`store rebuild` ÷ `cat` of the same files, wall", times, "×", ""),
        Figure.of("rebuild_rss", "RssAnon of `store rebuild`", memory, "MiB", ""),
        Figure.of("verify", "`store verify`, CRCs and all views", checked, unit, ""),
    ]


def backfill_figures(extent: Extent) -> list[Figure]:
    """Spark on one and on two cores in warm sessions; memory of its workers at 1× and 5×."""
    ratios, one, two, memory = [], [], [], []
    with scratch_log(COUNT) as store:
        for number in range(extent.rounds):
            order = (1, 2) if number % 2 else (2, 1)
            found = {n: measured("backfill", store, store.parent / "b", n, 4) for n in order}
            one.append(median(found[1]["warm"]))
            two.append(median(found[2]["warm"]))
            ratios.append(one[-1] / two[-1])
            memory.append(max(run["rss_mib"] for run in found.values()))
    with scratch_log(5 * COUNT) as store:
        large = {n: measured("backfill", store, store.parent / "b", n, 2) for n in (2, 1)}
    ratio = large[1]["warm"][0] / large[2]["warm"][0]
    return [
        Figure.of("backfill_ratio", "backfill local[1] ÷ local[2], warm", ratios, "×", "≥ 1.5"),
        Figure.of("backfill_ratio_5", "the same, 10 M messages", [ratio], "×", "≥ 1.5"),
        Figure.of("backfill_one", "backfill job on local[1], 2 M messages", one, "s", ""),
        Figure.of("backfill_two", "backfill job on local[2], 2 M messages", two, "s", ""),
        Figure.of("worker_rss", "RssAnon of a Spark worker, 2.5 GB log", memory, "MiB", "≤ 400"),
        Figure.of("worker_rss_5", "the same, 12.7 GB log", [large[2]["rss_mib"]], "MiB", "≤ 400"),
    ]


def reput_figures(extent: Extent) -> list[Figure]:
    """The broker's dispatch of a log without views."""
    rates = []
    with scratch_log(REPUT_COUNT) as store:
        for _ in range(extent.rounds):
            run = measured("reput", store)
            rates.append(REPUT_COUNT / run["cpu"] / 1000)
            for name in ("consumequeue", "index", "pocketmq", "checkpoint", "abort"):
                path = store / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    what = "online reput at a start without views"
    return [Figure.of("reput", what, rates, "k msg/CPU s", "")]


def main() -> None:
    """Runs one measured process."""
    kind, store, *rest = sys.argv[1:]
    log, out = Path(store), Path(rest[0]) if rest else Path()
    result: dict[str, Any]
    match kind:
        case "rebuild":
            result = run_rebuild(log, out, check_crc=rest[1:] == ["crc"])
        case "verify":
            result = run_verify(log, out)
        case "backfill":
            result = run_backfill(log, out, int(rest[1]), int(rest[2]))
        case _:
            result = run_reput(log)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
