"""Of handshakes that take long, the oldest of the address that has most gives up its place."""

import asyncio

from pocketmq.rpc.own.handshakes import SPARED_S, Handshakes


def begun(handshakes: Handshakes, address: str, *times_s: float) -> list[asyncio.Task[None]]:
    tasks = []
    for now_s in times_s:
        task = asyncio.ensure_future(_forever())
        handshakes.begin(address, task, now_s)
        tasks.append(task)
    return tasks


async def _forever() -> None:
    await asyncio.Event().wait()


async def test_the_address_that_has_most_gives_up_its_oldest() -> None:
    handshakes = Handshakes()
    (good,) = begun(handshakes, "good", 0.0)
    greedy = begun(handshakes, "greedy", 1.0, 2.0)
    assert handshakes.give_up_one(2.0)
    await asyncio.wait(greedy[:1])
    assert [task.cancelled() for task in (good, *greedy)] == [False, True, False]
    assert handshakes.count == 2


async def test_each_has_some_time() -> None:
    handshakes = Handshakes()
    begun(handshakes, "greedy", 1.0, 2.0)
    assert not handshakes.give_up_one(1.0 + SPARED_S / 2)
    assert handshakes.count == 2


async def test_one_that_has_ended_is_not_given_up() -> None:
    handshakes = Handshakes()
    (task,) = begun(handshakes, "a", 0.0)
    handshakes.end("a", task)
    handshakes.end("a", task)
    assert handshakes.count == 0
    assert not handshakes.give_up_one(100.0)
