"""Checks before a run that every worker reaches log and output, and that the disk is large enough.

    driver    writes a token file to the output ─► probe on each worker ─► looks for their files
    worker    reads the token and the first and last file of the log; writes its own file

On several machines a path may lead to different directories. Without these checks a run would fail
late, with an error about the log.
"""

import errno
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pocketmq.model.errors import PlaceUnusable
from pocketmq.rebuild.estimate import estimate_job
from pocketmq.rebuild.parallel import RebuildJob
from pocketmq.rebuild.plan import Mapper, whole_files
from pocketmq.rebuild.staging import Staging

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(/|$)")
_TOKEN: Final = "probe"
_NO_WRITE: Final = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)
PROBE_BYTES: Final = 65_536
"""Bytes that a probe writes, so that a full disk refuses them."""


def refuse_address(path: Path | str) -> None:
    """Raises PlaceUnusable for a URL such as s3a://bucket/store: only directories can be used."""
    if _SCHEME.match(str(path)) and not Path(path).exists():
        raise PlaceUnusable(
            path=re.sub(":/+", "://", str(path), count=1),
            why="it is an address, and only directories are read and written; mount it on every "
            "worker, and name the directory",
        )


def refuse_small_disk(job: RebuildJob, free_bytes: int) -> None:
    """Raises PlaceUnusable if a run needs more than the free bytes and those of an earlier run."""
    needed = estimate_job(job, whole_files(job.files, job.upto)).total_bytes
    if needed <= free_bytes or needed <= free_bytes + _allocated_bytes(job.out):
        return
    raise PlaceUnusable(
        path=str(job.out),
        why=f"the run needs about {needed} bytes, and {free_bytes} are free; free space, or name "
        "another directory: --out DIR2",
    )


def _allocated_bytes(out: Path) -> int:
    paths = (Path(base) / name for base, _, names in os.walk(out) for name in names)
    return sum(path.stat().st_blocks * 512 for path in paths if path.exists())


# -- the probe -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Probe:
    """A worker's task: check the first and last file of the log, and the output.

    writer   name of the worker's own file
    token    content of the driver's token file
    ends     (path, size in bytes) of the first and the last file of the log
    """

    out: str
    token: str
    writer: str
    ends: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe: the worker's host, and why it cannot work there; "" if it can."""

    host: str
    writer: str
    fault: str = ""


def probe(task: Probe, host: str = "") -> ProbeResult:
    """Checks input and output on a worker.

    host   name of the worker's machine; "": this machine's
    """
    try:
        fault = _input_fault(task) or _output_fault(task)
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}"
    return ProbeResult(host or socket.gethostname(), task.writer, fault)


def _input_fault(task: Probe) -> str:
    for path, size in task.ends:
        with Path(path).open("rb") as file:
            found = os.fstat(file.fileno()).st_size
        if found < size:
            return f"{path} has {found} bytes there, {size} on the driver's machine"
    return ""


def _output_fault(task: Probe) -> str:
    work = Staging(Path(task.out)).work
    if not work.is_dir():
        return f"{task.out} is another directory there, or none"
    if (work / _TOKEN).read_text() != task.token:
        return f"{task.out} is another directory there"
    (work / f"{_TOKEN}-{task.writer}").write_bytes(bytes(PROBE_BYTES))
    return ""


def probe_workers(job: RebuildJob, mapper: Mapper) -> None:
    """Checks that every worker reads the log, and writes to the directory that the driver reads.

    Spark gives a task to every free processor before it gives one a second task. Workers that join
    later are not probed. If one of them writes elsewhere, the run fails after the ranges are read.

    Errors   PlaceUnusable: names each host and its fault
    Cost     one short task for each concurrent task
    """
    staging = Staging(job.out)
    ends = tuple((file.path, file.size) for file in {*job.files[:1], *job.files[-1:]})
    tasks = [
        Probe(str(job.out), staging.writer, f"{staging.writer}-{number}", ends)
        for number in range(job.workers)
    ]
    token = staging.work / _TOKEN
    try:
        staging.work.mkdir(parents=True, exist_ok=True)
        token.write_text(staging.writer)
        _judge(job.out, staging, list(mapper(probe, tasks)))
    except OSError as error:
        raise unwritable(job.out, error) from error
    finally:
        for path in staging.work.glob(f"{_TOKEN}*"):
            path.unlink(missing_ok=True)


def unwritable(out: Path, error: OSError) -> PlaceUnusable:
    """Returns the error of a directory that the driver cannot write; raises any other OSError."""
    if error.errno not in _NO_WRITE:
        raise error
    return PlaceUnusable(
        path=str(out),
        why=f"it cannot be written: {error.strerror}; free space or change its owner, or name "
        "another directory: --out DIR2",
    )


def _judge(out: Path, staging: Staging, results: Sequence[ProbeResult]) -> None:
    faults = {}
    for result in results:
        fault = result.fault
        if not fault and not (staging.work / f"{_TOKEN}-{result.writer}").exists():
            fault = "the driver does not see what it wrote"
        if fault:
            faults[result.host] = fault
    if not faults:
        return
    good = sorted({result.host for result in results} - faults.keys())
    listed = "; ".join(f"host {host}: {fault}" for host, fault in sorted(faults.items()))
    others = f"; no fault on {', '.join(good)}" if good else ""
    raise PlaceUnusable(
        path=str(out),
        why=f"not every worker reaches log and output: {listed}{others}; mount both under the same "
        "paths on every machine",
    )
