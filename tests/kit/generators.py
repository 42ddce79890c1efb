"""Generators that report progress and return a result."""

from collections.abc import Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


def result_of(steps: Generator[Any, None, Result]) -> Result:
    """Runs a generator to its end; returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: Result = ended.value
            return result
