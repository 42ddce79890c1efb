"""Fixtures for all tests."""

import gc
import os
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings

from pocketmq import native
from tests.golden_stores import GoldenStores

pytest_plugins = ("pocketmq.testing.plugin", "pytester")

# The same examples each time, as many as there are: how quick a machine is changes nothing.
settings.register_profile("tests", derandomize=True, deadline=None, database=None)
settings.load_profile("tests")

# Edited sources run instead of what was compiled of them, in every process and without a line each.
if native.SOURCES.exists() and native.stale():
    os.environ[native.PURE_VARIABLE] = "1"

LONG: Final = (
    "tests/backfill/test_spark.py", "tests/e2e/", "tests/faults/",
    "tests/services/test_later_walk.py", "tests/tools/repair/", "tests/tools/verify/",
    "tests/rpc/own/test_requests_go.py",
)  # fmt: skip


def pytest_report_header() -> str:
    """Says which form of the compiled modules is tested."""
    why = native.why_not_compiled()
    return f"modules of pocketmq.native: {f'sources ({why})' if why else 'compiled'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what takes long, so that all workers end at about the same time."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


def pytest_collection() -> None:
    """Collects no garbage while objects are only added: 17,000 tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keeps later garbage collections from traversing all tests and modules each time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoldenStores]:
    """The stores written by a real RocketMQ; all workers of one run share the unpacked ones."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    scratch = base / "golden"
    scratch.mkdir(exist_ok=True)
    stores = GoldenStores(scratch)
    yield stores
    assert not stores.changed(), "a test wrote into a shared store; it needs golden.copy()"
