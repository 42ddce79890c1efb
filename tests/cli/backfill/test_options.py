"""Faults of a store, a directory or an option are reported before Spark starts."""

import logging
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pocketmq.backfill import session as session_module
from tests.cli.backfill.conftest import Started
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import views


def test_an_output_directory_must_be_free(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    store = str(golden.store("basic"))
    done = run("backfill", "run", store, "--out", store)
    assert done.code == 4
    assert "it is a store itself" in done.err
    assert "--out DIR2" in done.err
    (tmp_path / "index").mkdir()
    assert "no backfill wrote" in run("backfill", "plan", store, "--out", str(tmp_path)).err
    assert started.masters == []


def test_a_store_must_be_there(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert run("backfill", "plan", str(tmp_path / "none"), *out).code == 3
    (tmp_path / "holiday.jpg").touch()
    done = run("backfill", "plan", str(tmp_path), *out)
    assert done.code == 4
    assert "holiday.jpg" in done.err


def test_an_extension_is_built_as_rocketmq_wrote_it(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    real, out = golden.store("cqext"), tmp_path / "out"
    assert run("backfill", "run", str(real), "--out", str(out)).code == 0
    for name in ("consumequeue", "consumequeue_ext"):
        assert files_below(out / name) == files_below(real / name)


def test_queues_are_built_without_their_extension_when_that_is_agreed_to(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    arguments = (
        "backfill", "run", str(golden.store("cqext")), "--out", str(tmp_path / "out"),
        "--set", "enableConsumeQueueExt=false",
    )  # fmt: skip
    refused = run(*arguments)
    assert refused.code == 4
    assert "consumequeue_ext" in refused.err
    assert run(*arguments, "--yes").code == 0
    found, wanted = views(tmp_path / "out"), views(golden.store("cqext"))
    assert [found[name] for name in found if "index" in name] == [
        wanted[name] for name in wanted if "index" in name
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--piece-size", "64kB"), "is not a number with one of the units"),
        (("--piece-size", "0"), "not a size above 0"),
        (("--conf", "spark.a"), "is not NAME=VALUE"),
        (("--compat", "5.4"), "5.4"),
        (("--time-zone", "Mars"), "time zone"),
        (("--partitions", "0"), "--partitions"),
        (("--set", "nonsense=1"), "nonsense"),
    ],
)
def test_wrong_options_are_refused(
    golden: GoldenStores, tmp_path: Path, started: Started, options: tuple[str, str], told: str
) -> None:
    store, out = str(golden.store("basic")), str(tmp_path / "out")
    done = run("backfill", "run", store, "--out", out, *options)
    assert done.code == 2
    assert told in done.err
    assert started.masters == []


def test_less_than_the_log_can_be_asked_for(
    golden: GoldenStores, tmp_path: Path, started: Started
) -> None:
    store, out = str(golden.store("rebuild-base")), str(tmp_path / "out")
    records = golden.manifest("rebuild-base")["records"]
    place = str(records[100]["phy"])
    done = run("backfill", "run", store, "--out", out, "--upto", place)
    assert (done.document["records"], done.document["upto"]) == (100, int(place))


def test_a_store_in_use_is_read_as_far_as_it_is_flushed(
    golden: GoldenStores, tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pocketmq.tools import durable, store_access

    records = golden.manifest("rebuild-base")["records"]
    monkeypatch.setattr(store_access, "is_live", lambda directory: True)
    monkeypatch.setattr(durable, "flushed_upto", lambda disk, directory: records[50]["phy"])
    arguments = (str(golden.store("rebuild-base")), "--out", str(tmp_path / "out"))
    assert run("backfill", "run", *arguments).code == 4
    done = run("backfill", "run", *arguments, "--read-only")
    assert done.document["records"] == 50
    assert "The store is in use" in done.err


def test_a_run_can_be_interrupted(
    golden: GoldenStores, tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(session: Any, partitions: int) -> Any:
        return lambda function, tasks: os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(session_module, "spark_mapper", interrupted)
    before = signal.getsignal(signal.SIGINT)
    try:
        done = run(
            "backfill", "run", str(golden.store("basic")), "--out", str(tmp_path), "--partitions",
            "2", "--piece-size", "64KiB",
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)
    assert done.code == 130
    assert signal.getsignal(signal.SIGINT) is before
