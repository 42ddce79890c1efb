"""Closing: everything is closed, in its order, and an error is told."""

from functools import partial

import pytest

from broker.files.closing import close_all


def failing() -> None:
    raise ValueError("stuck")


def test_all_are_closed_in_their_order() -> None:
    closed: list[str] = []
    close_all(partial(closed.append, name) for name in "abc")
    assert closed == ["a", "b", "c"]


def test_an_error_keeps_no_other_from_being_closed() -> None:
    closed: list[str] = []
    with pytest.raises(ValueError, match="stuck"):
        close_all([failing, lambda: closed.append("b"), failing, lambda: closed.append("d")])
    assert closed == ["b", "d"]
