"""How other people's clients are judged, and how what came of them is shown."""

from typing import Any

import pytest

from torture.budget import NotHere
from torture.foreign.calls import CANCELLED, Call, plan
from torture.interop import table, verdicts_of
from torture.interop_service import Interop, Wanted, described, refused


def result(*codes: int, answers: tuple[str, ...] = ("b2s=",), **own: Any) -> dict[str, Any]:
    """Returns a client's report of one call; the answer is "ok"."""
    return {"codes": [*codes], "text": "said", "answers": [*answers], "trailers": {}, **own}


CALL = Call("one", "/a.B/C", (b"",), check=lambda answers, _: answers == [b"ok"])


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (result(0), "ok"),
        (result(0, 0, 0), "ok"),
        (result(0, 14), "codes [0, 14], not 0: said"),
        (result(0, answers=("bm8=",)), "other answers: [b'no']"),
        (result(0, answers=()), "other answers: []"),
    ],
)
def test_a_call_is_judged_by_all_its_codes_and_by_its_answers(
    found: dict[str, Any], verdict: str
) -> None:
    assert CALL.verdict(found) == verdict


def test_trailers_are_compared_whatever_their_names_look_like() -> None:
    def check(_: list[bytes], trailers: Any) -> bool:
        return "x-request-id" in trailers

    call = CALL._replace(code=CANCELLED, check=check)
    assert call.verdict(result(1, trailers={"X-Request-Id": ["a"]})) == "ok"
    assert call.verdict(result(1, trailers=None)) != "ok"


def test_every_call_of_a_plan_is_told_from_the_others_and_travels_as_text() -> None:
    calls = plan("own")
    assert len({call.name for call in calls}) == len(calls)
    assert all(isinstance(call.document()["requests"][0], str) for call in calls)


def test_a_client_that_is_not_here_is_told_and_is_no_failure() -> None:
    def missing() -> dict[str, str]:
        raise NotHere("go is not on the PATH")

    ran = {"a": {"x": "ok", "y": "codes"}, "b": verdicts_of(missing)}
    assert table(ran).splitlines()[2:] == [
        "| a | 1 of 2 ok | y: codes |",
        "| b | not run | go is not on the PATH |",
    ]


def test_the_interop_service_has_every_kind_of_method_and_shows_the_status_it_is_asked_for() -> (
    None
):
    service = Interop(described()).service()
    assert len({method.kind for method in service.methods}) == 4
    status = refused(Wanted(why="said", number=7), service.methods[0])
    assert (status.code, status.message) == (7, "said")
