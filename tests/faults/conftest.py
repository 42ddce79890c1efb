"""Fixtures of tests that break things."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def quiet() -> Iterator[None]:
    """No logs: thousands of broken stores have much to tell."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def memory(quiet: None) -> Iterator[Path]:
    """A directory in memory, where there is one."""
    shared = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="pocketmq-", dir=shared if shared.is_dir() else None))
    yield made
    shutil.rmtree(made)
