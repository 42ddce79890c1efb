"""The extension of rebuilt queues: as RocketMQ wrote it, also after a run that was killed."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pocketmq.rebuild.extension import extend_queues
from pocketmq.rebuild.log_files import KnownShape, LogFile
from pocketmq.rebuild.parallel import RebuildJob, rebuild_parallel
from pocketmq.rebuild.plan import map_here
from pocketmq.rebuild.sequential import rebuild
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import EVERYTHING, golden_files, golden_settings

VIEWS = ("consumequeue", "consumequeue_ext")


@pytest.fixture
def files(golden: GoldenStores) -> list[LogFile]:
    return golden_files(golden, "cqext")


@pytest.fixture
def shape(golden: GoldenStores) -> KnownShape:
    return replace(
        golden_settings(golden, "cqext"),
        consume_queue_extension=True,
        consume_queue_extension_file_size_bytes=4096,
        filters=(golden.store("cqext") / "config/consumerFilter.json").read_text(),
    )


def assert_real(golden: GoldenStores, out: Path) -> None:
    for name in VIEWS:
        assert files_below(out / name) == files_below(golden.store("cqext") / name)


def test_in_one_process_and_in_many_tasks(
    golden: GoldenStores, files: list[LogFile], shape: KnownShape, tmp_path: Path
) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    rebuild(files, shape, one, upto=EVERYTHING)
    rebuild_parallel(RebuildJob(files, shape, many, EVERYTHING, piece_size=20_000), map_here)
    assert_real(golden, one)
    assert_real(golden, many)


def test_a_run_goes_on_where_one_was_killed(
    golden: GoldenStores, files: list[LogFile], shape: KnownShape, tmp_path: Path
) -> None:
    """A part of the queues' files lead into the extension already, the others do not."""
    plain = tmp_path / "plain"
    built = rebuild(files, replace(shape, consume_queue_extension=False), plain, upto=EVERYTHING)
    for number, path in enumerate(sorted((golden.store("cqext") / VIEWS[0]).rglob("*"))):
        if path.is_file() and number % 2:
            shutil.copyfile(path, plain / path.relative_to(golden.store("cqext")))
    shutil.copytree(
        golden.store("cqext") / VIEWS[1], plain / VIEWS[1], copy_function=shutil.copyfile
    )
    for _ in range(2):
        count = extend_queues(plain, files, shape, built.queues, map_here)
        assert count == 400
        assert_real(golden, plain)


def test_without_subscriptions_units_have_no_bitmap(
    golden: GoldenStores, files: list[LogFile], shape: KnownShape, tmp_path: Path
) -> None:
    rebuild(files, replace(shape, filters=""), tmp_path, upto=EVERYTHING)
    found = files_below(tmp_path / VIEWS[1])
    real = files_below(golden.store("cqext") / VIEWS[1])
    assert found["NoFilter/0/" + "0" * 20] == real["NoFilter/0/" + "0" * 20]
    assert found["SqlTopic/0/" + "0" * 20] != real["SqlTopic/0/" + "0" * 20]
