"""Checks and uploads before Spark runs anything; see test_spark.py for the rest."""

import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from pickle import dumps
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq import backfill
from pocketmq.backfill import session as module
from pocketmq.backfill.session import (
    DESCRIPTION,
    LOG_SETTINGS,
    SMALL_TASKS_PER_WORKER,
    check_java,
    equip,
    is_submitted,
    open_session,
    package_archive,
    spark_mapper,
)
from pocketmq.model.errors import SparkMissing
from pocketmq.rebuild.manifest import mark_file
from pocketmq.rebuild.parallel import build_part, read_range
from pocketmq.rebuild.plan import TaskFailed, cut_points


def java_home(directory: Path, told: str, code: int = 0) -> str:
    """A Java runtime that says this of its version."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return str(directory)


def test_java_must_be_there_run_and_be_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path / "17", 'openjdk version "17.0.15"'))
    check_java()
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path / "8", 'java version "1.8.0_1"'))
    with pytest.raises(SparkMissing, match="is version 1, Spark needs 17"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path / "broken", "", 1))
    with pytest.raises(SparkMissing, match="does not run"):
        open_session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(SparkMissing, match="does not run"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissing, match="apt-get install"):
        check_java()


def test_pyspark_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, 'openjdk version "21"'))
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkMissing, match="pip install"):
        open_session()


def test_spark_submit_is_known_by_what_it_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert not is_submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert is_submitted()


def test_workers_get_this_package_and_need_no_other_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    archive = package_archive()
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    assert {"pocketmq/rebuild/parallel.py", "pocketmq/rebuild/parallel.pyc"} <= {*names}
    code = "import pocketmq.rebuild.parallel as p; print(p.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(archive)}, cwd=archive.parent,
    )  # fmt: skip
    assert done.stdout.startswith(str(archive))


class Fitted:
    """A Spark context that notes what it is told for its workers."""

    def __init__(self, name: str, master: str, settings: tuple[str, ...] = ()) -> None:
        self.applicationId = name
        self.master = master
        self.pythonExec = "python3"
        self.sent: list[str] = []
        self._settings = settings

    def getConf(self) -> Any:
        return SimpleNamespace(contains=lambda name: name in self._settings)

    def addPyFile(self, path: str) -> None:
        self.sent.append(Path(path).name)


def test_workers_of_any_session_run_this_python_and_get_this_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    archive = package_archive()  # Made once for all sessions below, as it compiles the package.
    monkeypatch.setattr("pocketmq.backfill.session.package_archive", lambda: archive)
    root = str(Path(backfill.__file__).parents[2])

    def fitted(name: str, master: str, *settings: str, path: str = root) -> Fitted:
        monkeypatch.setenv("PYTHONPATH", path)
        context = Fitted(name, master, settings)
        for _ in range(2):  # It is done once.
            equip(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type]
        return context

    own = fitted("a", "local[2]")
    assert (own.pythonExec, own.sent) == (sys.executable, [])
    settled = fitted("b", "local", "spark.pyspark.python")
    assert settled.pythonExec == "python3"
    (tmp_path / "pocketmq").mkdir()
    (tmp_path / "pocketmq" / "__init__.py").touch()
    hidden = fitted("c", "local[*]", path=str(tmp_path))
    assert (hidden.pythonExec, hidden.sent) == (sys.executable, ["pocketmq.zip"])
    far = fitted("d", "spark://host:7077")
    assert (far.pythonExec, far.sent) == ("python3", ["pocketmq.zip"])
    monkeypatch.setenv("PYSPARK_PYTHON", "/not/there/python3")
    assert fitted("e", "local[1]").pythonExec == "python3"
    lost = Fitted("f", "local[1]")
    lost.pythonExec = "/not/there/python3"
    equip(SimpleNamespace(sparkContext=lost))  # type: ignore[arg-type]
    assert lost.sent == ["pocketmq.zip"]


class Partitions:
    """Runs each partition here, and notes how many there are."""

    def __init__(self, error: Exception | None = None) -> None:
        self.counts: list[int] = []
        self.error = error

    def collected(self, _: Any, function: Any, count: int) -> list[bytes]:
        self.counts.append(count)
        if self.error is not None:
            raise self.error
        return [function(number) for number in range(count)]


class Context:
    """A context that notes its local properties."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value


SESSION: Any = SimpleNamespace(sparkContext=Context())


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_jobs_are_described_by_their_phase(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context()
    context.setLocalProperty(DESCRIPTION, "the caller's")
    told: list[str | None] = []

    def collected(session: Any, function: Any, count: int) -> list[bytes]:
        told.append(session.sparkContext.getLocalProperty(DESCRIPTION))
        if error is not None:
            raise error
        return [dumps([[]] * 3)]

    monkeypatch.setattr(module, "_collected", collected)
    run = spark_mapper(SimpleNamespace(sparkContext=context), 1)  # type: ignore[arg-type]
    for function in (cut_points, read_range, build_part, mark_file, len, partial(max, 1)):
        with suppress(ValueError):
            run(function, [1, 2, 3])
    assert told == [
        "pocketmq: find borders of ranges: 3 tasks",
        "pocketmq: read ranges of the log: 3 tasks",
        "pocketmq: build queues and index files: 3 tasks",
        "pocketmq: make files durable: 3 tasks",
        "pocketmq: len: 3 tasks",
        "pocketmq: work: 3 tasks",
    ]
    assert context.properties == {DESCRIPTION: "the caller's"}


def test_large_tasks_go_alone_and_small_ones_in_lots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Partitions()
    monkeypatch.setattr(module, "_collected", found.collected)
    assert spark_mapper(SESSION)(len, ["a"] * 50) == [1] * 50
    assert spark_mapper(SESSION, 7)(len, ["a"] * 50) == [1] * 50
    assert spark_mapper(SESSION, 7)(len, ["a"] * 3) == [1] * 3
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue" / "file").touch()
    spark_mapper(SESSION)(mark_file, [(str(tmp_path), "consumequeue/file")] * 50)
    assert found.counts == [50, 7, 3, 2 * SMALL_TASKS_PER_WORKER]
    assert list(spark_mapper(SESSION)(len, [])) == []


TRACE = "An exception\nTraceback (most recent call last):\n  File\nOSError: the disk is full\n"
DEATH = (
    "An error occurred\n: SparkException: Job aborted: Task 1 failed 4 times, most recent failure: "
    "Lost task 1.3: Python worker exited unexpectedly (crashed). Consider setting 'x'\n\tat java"
)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (TRACE, "OSError: the disk is full"),
        (DEATH, "Lost task 1.3: Python worker exited unexpectedly (crashed)."),
        (
            "An error occurred\n: SparkException: no master answers\n\tat",
            "SparkException: no master answers",
        ),
        ("the cluster is gone", "the cluster is gone"),
        (f"[X] {TRACE} SQLSTATE: 38000\n\nJVM stacktrace:\norg.x\n", "OSError: the disk is full"),
        ("", ""),
    ],
)
def test_a_failed_job_says_why_in_a_line(
    told: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    monkeypatch.setattr(module, "_collected", Partitions(Py4JError(told)).collected)
    with pytest.raises(TaskFailed) as caught:
        spark_mapper(SESSION)(len, ["a"])
    assert str(caught.value) == reason


class Builder:
    """Notes how a session is asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    def appName(self, name: str) -> "Builder":
        self.asked["name"] = name
        return self

    def remote(self, url: str) -> "Builder":
        self.asked["remote"] = url
        return self

    def config(self, key: str, value: str) -> "Builder":
        self.asked[key] = value
        return self

    def getOrCreate(self) -> dict[str, str]:
        return self.asked


@pytest.mark.parametrize(
    ("master", "variable"), [("sc://h:1", ""), ("", "sc://h:2"), ("", "local")]
)
def test_a_server_of_spark_connect_has_the_session(
    monkeypatch: pytest.MonkeyPatch, master: str, variable: str
) -> None:
    """Without Java here, and without settings that only a context of one's own can have."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("SPARK_REMOTE", variable) if variable else None
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    remote = {"remote": master} if master else {}
    found: Any = open_session(master, settings={"a": "b"})
    assert found == {
        "name": "pocketmq", "spark.sql.session.timeZone": "UTC", "a": "b", **remote
    }  # fmt: skip


def test_a_missing_part_of_the_client_of_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_status", None)
    with pytest.raises(SparkMissing, match=r"grpcio-status.*pip install 'pyspark\[connect\]"):
        open_session("sc://host:1")


def test_spark_has_a_quiet_log() -> None:
    assert "rootLogger.level = error" in LOG_SETTINGS.read_text()
