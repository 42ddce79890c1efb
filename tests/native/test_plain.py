"""The replacement of librt gives the same results."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.native import machine, plain

WIDTHS = {"i16": 2, "i32": 4, "i64": 8}
FORMS = [machine, plain]
bytes_or_numbers = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 255)),
    st.tuples(st.just("write"), st.binary(max_size=20)),
    st.tuples(st.sampled_from([f"write_{width}_be" for width in WIDTHS]), st.integers(-9, 2**63)),
    st.tuples(st.just("truncate"), st.integers(-1, 40)),
)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a call returns, or the type of the error it raises."""
    try:
        return call(*arguments)
    except (ValueError, IndexError) as error:
        return type(error)


def written(form: ModuleType, steps: list[tuple[str, Any]]) -> tuple[list[Any], bytes]:
    """Returns what each step raised, and the bytes at the end."""
    writer = form.BytesWriter()
    told = []
    for name, value in steps:
        number = name.startswith("write_")
        call = partial(getattr(form, name), writer) if number else getattr(writer, name)
        came_to = outcome(call, value)
        told.append(came_to if isinstance(came_to, type) else None)
    return told, writer.getvalue()


@given(st.lists(bytes_or_numbers, max_size=30))
def test_a_writer_holds_the_same_bytes(steps: list[tuple[str, Any]]) -> None:
    assert written(machine, steps) == written(plain, steps)


@pytest.mark.parametrize("form", FORMS)
def test_a_writer_is_read_and_patched_by_place(form: ModuleType) -> None:
    writer = form.BytesWriter()
    writer.write(b"abc")
    writer[1] = 0
    assert (len(writer), writer[0], writer[-1]) == (3, 97, 99)
    assert outcome(writer.__getitem__, 3) is IndexError
    assert outcome(writer.__setitem__, 3, 1) is IndexError


@given(st.binary(max_size=12), st.integers(-2, 12), st.sampled_from([*WIDTHS]))
def test_numbers_are_read_alike(data: bytes, place: int, width: str) -> None:
    name = f"read_{width}_be"
    assert outcome(getattr(machine, name), data, place) == outcome(
        getattr(plain, name), data, place
    )


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(-3, 3))
def test_vectors_hold_the_same_numbers(numbers: list[int], place: int) -> None:
    results = []
    for form in FORMS:
        vector = form.vec[form.i64](numbers[:2], capacity=8)
        for number in numbers:
            vector = form.append(vector, number)
        vector = form.extend(vector, numbers[:3])
        taken = outcome(form.pop, vector, place)
        if isinstance(taken, tuple):
            vector, taken = taken
        results.append((taken, list(vector), len(vector), bytes(memoryview(vector))))
    assert results[0] == results[1]


@pytest.mark.parametrize("form", FORMS)
def test_vectors_of_objects_hold_objects(form: ModuleType) -> None:
    vector = form.vec[bytes]()
    vector = form.append(vector, b"a")
    vector = form.extend(vector, [b"b", b"c"])
    vector, last = form.pop(vector)
    assert (list(vector), last) == ([b"a", b"b"], b"c")
