"""Which clients of a group live, and how many are known."""

import pytest

from pocketmq.filter.tag import EVERYTHING
from pocketmq.model.consuming import RENEWED_MAX_MS, RENEWED_MS, Received, ReceiveRequest
from pocketmq.model.errors import TooManyRequests
from pocketmq.services.consume.clients import ALIVE_MS, KEPT_MAX, Clients
from tests.kit.consuming import GROUP, ConsumeDesk, bodies


def received(client_id: str, wait_ms: int = 0) -> ReceiveRequest:
    return ReceiveRequest(
        GROUP, "orders", EVERYTHING, 32, RENEWED_MS, wait_ms, client_id, auto_renew=True
    )


def test_of_too_many_the_one_heard_of_longest_ago_is_forgotten_once_it_is_dead() -> None:
    clients = Clients()
    for number in range(KEPT_MAX):
        clients.receives(received(f"c{number}"), 1)
    clients.touch("c0", "g", 2)
    with pytest.raises(TooManyRequests) as refused:
        clients.receives(received("one more"), ALIVE_MS)
    assert refused.value.limit == 20_000
    clients.receives(received("c1"), ALIVE_MS)
    clients.receives(received("one more"), ALIVE_MS + 1)
    alive = [one for one in ("c0", "c1", "c2", "one more") if clients.is_alive(one, "g", 2)]
    assert alive == ["c0", "c1", "one more"]


def test_ids_that_nobody_receives_by_make_nobody_forgotten() -> None:
    clients = Clients()
    clients.receives(received("c"), 0)
    for number in range(KEPT_MAX + 1):
        clients.touch(f"flood{number}", "g", 1)
    assert clients.is_alive("c", "g", 2)
    assert not clients.is_alive("flood0", "g", 2)


def test_who_waits_does_not_make_others_old() -> None:
    clients, now_ms, wait_ms = Clients(), ALIVE_MS - 1, 30_000
    for number in range(2_000):
        clients.receives(received(f"c{number}"), 0)
    for number in range(2_000):
        clients.receives(received(f"d{number}", wait_ms), now_ms)
    assert clients.is_alive("c0", "g", now_ms)
    assert not clients.is_alive("c0", "g", now_ms + 1)


def test_a_client_lives_in_the_groups_that_it_receives_for() -> None:
    clients = Clients()
    clients.receives(received("c", 30_000), 0)
    clients.touch("c", "g", 0)
    assert clients.is_alive("c", "g", 30_000 + ALIVE_MS - 1)
    assert not clients.is_alive("c", "h", 0)
    clients.forget("c", "g")
    assert not clients.is_alive("c", "g", 0)


async def test_no_flood_of_ids_ends_what_renews_itself(desk: ConsumeDesk) -> None:
    await desk.send("a")
    renewed = {"client_id": "c", "auto_renew": True, "invisible_ms": RENEWED_MS}
    assert bodies(await desk.receive(**renewed)) == ["a"]
    clients = desk.consume.clients
    for number in range(KEPT_MAX):
        clients.touch(f"flood{number}", GROUP, desk.clock.monotonic_ms())
        assert isinstance(desk.consume.receive(desk.asked(client_id=f"m{number}")), Received)
    await desk.step(RENEWED_MS)
    assert bodies(await desk.receive()) == []


async def test_who_is_one_too_many_is_told_so_and_the_others_go_on(desk: ConsumeDesk) -> None:
    await desk.send("a", "b")
    renewed = {"auto_renew": True, "invisible_ms": RENEWED_MS}
    for number in range(KEPT_MAX - 1):
        desk.consume.clients.receives(received(f"c{number}"), desk.clock.monotonic_ms())
    assert bodies(await desk.receive(client_id="one", max_messages=1, **renewed)) == ["a"]
    with pytest.raises(TooManyRequests):
        await desk.receive(client_id="other", **renewed)
    assert bodies(await desk.receive(client_id="other")) == ["b"]
    desk.consume.leave("c0", GROUP)
    assert bodies(await desk.receive(client_id="other", **renewed)) == []


@pytest.mark.parametrize(
    ("held_ms", "is_renewed"), [(RENEWED_MAX_MS - 1, True), (RENEWED_MAX_MS, False)]
)
def test_leases_are_renewed_for_three_hours_while_their_client_lives(
    held_ms: int, *, is_renewed: bool
) -> None:
    clients = Clients()
    clients.receives(received("c"), 0)
    assert clients.renews("c", "g", ALIVE_MS - 1, held_ms) == is_renewed
    assert not clients.renews("c", "g", ALIVE_MS, held_ms)
    assert not clients.renews("other", "g", 0, held_ms)
