"""Tests of a class that go on side by side, as each of them mostly waits."""

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest

AT_ONCE: Final = 4
"""Tests of a class that go on at a time."""


def beside(case: Callable[..., None]) -> Callable[..., None]:
    """Returns a test that waits for a case, which was begun with the first test of the class.

    The case may take fixtures of its class and `tmp_path`; what it raises, the test raises.
    """

    def test(self: Any, begun: dict[str, Future[None]]) -> None:
        begun[case.__name__].result()

    test.__name__, test.__doc__ = case.__name__, case.__doc__
    test.__dict__["case"] = case
    return test


class SideBySide:
    """A class of tests, of which those that are decorated go on side by side."""

    @pytest.fixture(scope="class")
    @classmethod
    def begun(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[dict[str, Future[None]]]:
        """The chosen cases, begun; first those with programs of their own, which last longest."""
        chosen = [item for item in request.session.items if getattr(item, "cls", None) is cls]
        own = [
            getattr(cls, item.originalname) for item in chosen if isinstance(item, pytest.Function)
        ]
        cases = [test.case for test in own if hasattr(test, "case")]
        cases.sort(key=lambda case: "program" not in inspect.signature(case).parameters)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = {}
            for case in cases:
                given = {
                    name: tmp_path_factory.mktemp(case.__name__[:30])
                    if name == "tmp_path" else request.getfixturevalue(name)
                    for name in inspect.signature(case).parameters if name != "self"
                }  # fmt: skip
                found[case.__name__] = pool.submit(case, cls(), **given)
            yield found
            pool.shutdown(cancel_futures=True)
