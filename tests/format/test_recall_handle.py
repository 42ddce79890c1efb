"""Recall handles are those of a real broker, and nothing else is taken for one."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.recall_handle import RecallHandle, decode_recall_handle, encode_recall_handle

REAL = (
    "djEgdy1kZWxheSBicm9rZXItYSAxNzk1MjIxMjg1MjAxIDAxQUFCQkNDRERFRUZGMDAwMTBBMDAwMDAwMDAyMDZFQzI="
)
"""What a RocketMQ 5.5.0 answered."""
PARTS = RecallHandle("w-delay", "broker-a", 1_795_221_285_201, "01AABBCCDDEEFF00010A00000000206EC2")
WORD = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)


def test_a_handle_is_that_of_a_real_broker() -> None:
    assert decode_recall_handle(REAL) == PARTS
    assert encode_recall_handle(PARTS) == REAL


def test_the_end_of_a_handle_may_be_lost_on_its_way() -> None:
    assert decode_recall_handle(REAL.rstrip("=")) == PARTS


@given(st.builds(RecallHandle, WORD, WORD, st.integers(0, 2**62 // 10), WORD))
def test_what_is_encoded_is_decoded(handle: RecallHandle) -> None:
    assert decode_recall_handle(encode_recall_handle(handle)) == handle


@given(
    st.one_of(
        st.text(max_size=40), st.binary(max_size=60).map(lambda b: urlsafe_b64encode(b).decode())
    )
)
def test_anything_else_is_no_handle(text: str) -> None:
    try:
        found = decode_recall_handle(text)
    except ValueError:
        return
    assert found.unique_key


@pytest.mark.parametrize(
    "said",
    ["", "v1", "v2 t b 1 k", "v1 t b 1", "v1 t b x k", "v1 t b -1 k", "v1 t b 1 ", "v1 t b ² k",
     f"v1 t b {2**63} k", "v1 t b 1 " + "k" * 4_096],
)  # fmt: skip
def test_parts_are_checked(said: str) -> None:
    with pytest.raises(ValueError, match=r"it |its "):
        decode_recall_handle(urlsafe_b64encode(said.encode()).decode())
