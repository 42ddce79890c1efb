"""Header blocks, frames and whole conversations by chance, against hpack, hyperframe and h2.

scripts/torture/run wire takes two million.
"""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.cases import block_case, conversation_case, frames_case, time_limit

Case = Callable[[Random], int]
LIMIT_S = 60.0


@pytest.mark.parametrize(
    ("case", "wanted"), [(block_case, 6_000), (frames_case, 1_000), (conversation_case, 200)]
)
def test_many_cases(case: Case, wanted: int) -> None:
    done = seed = 0
    with time_limit(LIMIT_S):
        while done < wanted:
            try:
                done += case(Random(seed))
            except Exception as error:
                raise AssertionError(f"{case.__name__} of seed {seed}") from error
            seed += 1
    assert seed > wanted // 10


@pytest.mark.parametrize("case", [block_case, frames_case, conversation_case])
def test_cases_that_shrink(case: Case) -> None:
    @settings(max_examples=60)
    @given(st.randoms(use_true_random=False))
    def run(rng: Random) -> None:
        case(rng)

    with time_limit(LIMIT_S):
        run()
