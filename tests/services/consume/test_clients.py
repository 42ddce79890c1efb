"""Which clients of a group live, and how many are known."""

from broker.services.consume.clients import ALIVE_MS, KEPT_MAX, Clients


def test_of_too_many_the_one_heard_of_longest_ago_is_forgotten() -> None:
    clients = Clients()
    for number in range(KEPT_MAX):
        clients.touch(f"c{number}", "g", 1)
    clients.touch("c0", "g", 2)
    clients.touch("one more", "g", 2)
    alive = [one for one in ("c0", "c1", "c2", "one more") if clients.is_alive(one, "g", 2)]
    assert alive == ["c0", "c2", "one more"]


def test_who_waits_does_not_make_others_old() -> None:
    clients, now_ms, wait_ms = Clients(), ALIVE_MS - 1, 30_000
    for number in range(2_000):
        clients.touch(f"c{number}", "g", 0)
    for number in range(2_000):
        clients.touch(f"d{number}", "g", now_ms + wait_ms)
    assert clients.is_alive("c0", "g", now_ms)
    assert not clients.is_alive("c0", "g", now_ms + 1)


def test_a_client_lives_in_the_groups_that_it_is_heard_of_in() -> None:
    clients = Clients()
    clients.touch("c", "g", 30_000)
    clients.touch("c", "g", 0)
    assert clients.is_alive("c", "g", 30_000 + ALIVE_MS - 1)
    assert not clients.is_alive("c", "h", 0)
