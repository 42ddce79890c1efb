"""Pages follow each other by name, whatever comes and goes between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.model.administration import PAGE_SIZE_MAX, page_of
from pocketmq.model.errors import IllegalNumber, IllegalPageToken
from pocketmq.model.names import check_group, check_topic


@given(st.sets(st.text("abc", min_size=1, max_size=3)), st.integers(1, 5))
def test_all_pages_together_are_the_list(found: set[str], size: int) -> None:
    names, token, seen = sorted(found), "", list[str]()
    while True:
        page = page_of(names, size, token, check_topic)
        assert len(page.items) <= size
        seen += page.items
        token = page.next_page_token
        if not token:
            break
    assert seen == names


def test_left_to_itself_a_page_has_100() -> None:
    names = [f"{number:03}" for number in range(101)]
    assert page_of(names, 0, "", check_topic) == (names[:100], "099")


@pytest.mark.parametrize("size", [-1, PAGE_SIZE_MAX + 1])
def test_sizes_have_bounds(size: int) -> None:
    with pytest.raises(IllegalNumber):
        page_of([], size, "", check_topic)


def test_a_token_could_be_a_name() -> None:
    for check in (check_topic, check_group):
        assert page_of(["a", "z"], 0, "orders", check) == (["z"], "")
        with pytest.raises(IllegalPageToken):
            page_of(["a"], 0, "a b", check)
