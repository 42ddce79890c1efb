"""Restarts a broker in order under RocketMQ's own clients of all languages, again and again.

Three forms, each with a store of its own: the port is closed meanwhile; a socket that stays, as
systemd holds one; over TLS, with the port closed. Each client is a producer and a push consumer, in
a group of its own; they stay. After each start all of them must be at work again; at the end what
was acknowledged must stand in the store, and have come to every group: official_lives.py.
"""

import json
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.e2e.official.programs import PROGRAMS, Missing, Program
from torture.budget import Budget, NotHere
from torture.official_lives import FAILED, FIGURES, OfficialLives

PORT_CLOSED: Final = "port closed"
SOCKET_STAYS: Final = "socket stays"
OVER_TLS: Final = "over TLS"
FORMS: Final = (PORT_CLOSED, SOCKET_STAYS, OVER_TLS)
LANGUAGES: Final = ("python", "java", "node", "go")
RESTARTS: Final = 20
"""Of each form, where the time allows."""


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Restart until there were enough of each form; returns the figures.

    Errors   AssertionError, Violation: a client did not come back, something was lost, or came
             twice; a client was told of a restart on a socket that stays. NotHere
    """
    try:
        programs = {name: PROGRAMS[name]() for name in LANGUAGES}
    except Missing as why:
        raise NotHere(str(why)) from why
    figures: dict[str, Any] = {}
    for number, form in enumerate(FORMS, 1):
        end_s = budget.seconds * number / len(FORMS)
        figures[form] = dict(_restarted(place / str(number), form, programs, budget, end_s))
        budget.progress(json.dumps(figures))
    assert figures[SOCKET_STAYS][FAILED] == 0, figures
    return figures


def _restarted(
    place: Path, form: str, programs: Mapping[str, Program], budget: Budget, end_s: float
) -> Counter[str]:
    """Returns the figures of one form, whose share of the time ends at `end_s`."""
    place.mkdir()
    done = 0
    with ExitStack() as stack:
        listening = None
        if form == SOCKET_STAYS:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        lives = OfficialLives(
            place, Random(f"{budget.seed}-{form}").randrange(2**31), programs,
            listening=listening, is_tls=form == OVER_TLS,
        )  # fmt: skip
        stack.callback(lives.close)
        while done < RESTARTS and (not done or budget.spent < end_s):
            lives.restart()
            done += 1
            budget.progress(json.dumps({form: done}))
        lives.end()
    failed = [f"{FAILED}, {name}" for name in programs]
    return Counter({"restarts": done} | {name: lives.figures[name] for name in (*FIGURES, *failed)})
