"""The names that programs import, and what importing them costs."""

import subprocess
import sys

import pytest

import pocketmq
from pocketmq import client, spark


@pytest.mark.parametrize("name", sorted({*pocketmq.__all__} - {"__version__"}))
def test_every_public_name_is_the_clients(name: str) -> None:
    assert getattr(pocketmq, name) is getattr(client, name)


def test_every_public_name_of_spark_exists() -> None:
    assert [name for name in spark.__all__ if not callable(getattr(spark, name))] == []


def test_another_name_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'pocketmq' has no attribute 'Consumer'"):
        _ = pocketmq.Consumer


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import pocketmq", ("pocketmq.client", "pocketmq.model", "grpc")),
        ("from pocketmq import Message", ("grpc", "google")),
        ("import pocketmq.spark", ("grpc", "pocketmq.store")),
    ],
)
def test_a_name_loads_only_what_it_needs(code: str, unwanted: tuple[str, ...]) -> None:
    shown = f"import sys; {code}; print([*set({unwanted}) & sys.modules.keys()])"
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.strip() == "[]"
