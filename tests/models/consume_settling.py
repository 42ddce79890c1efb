"""Steps of consume walks: valid and outdated handles are settled."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from pocketmq.format.receipt_handle import ORDERED
from pocketmq.model.consuming import Settled, SettleStatus
from pocketmq.services.consume.handles import runs_of
from tests.models.consume_model import BURIED, DELAYED, State, World
from tests.models.consume_walk import GROUPS, ConsumeWalk, Handle

DELAYS_MS: Final = (1_000, 5_000, 10_000, 30_000)
OK: Final = SettleStatus.OK
Change = Callable[[State], World]


async def settle(
    walk: ConsumeWalk, call: Callable[[], Awaitable[list[Settled]]], handles: list[Handle],
    change: Change, turns: int | None = None, halves: Sequence[Change] = (),
) -> list[Settled]:  # fmt: skip
    """Uses handles of one group; `change` is the new state of their messages.

    halves   or that, in order, of a call that was cut off: it puts messages, then tells of them
    """
    walk.calls.append(f"  {[(h.body, h.delivery) for h in handles]} {turns}")
    settled = await walk.answered(call, turns)
    answers = [None] * len(handles) if settled is None else [s.status is OK for s in settled]
    walk.calls.append(f"  {answers}")
    for handle, answer in zip(handles, answers, strict=True):
        model = walk.models[handle.group]
        ways = [*halves] if answer is None and _is_ordered(handle) else []
        if handle.body in model.gone:
            ways.append(lambda _: ())
        model.applied(handle.body, handle.delivery, answer, change, *ways)
        walk.counts["settled" if answer else "refused" if answer is False else "cut off"] += 1
        model.may_die_again[handle.body] += answer is None
    await walk.seen()
    return settled or []


async def ack(
    walk: ConsumeWalk, group: str, handles: list[Handle], turns: int | None = None
) -> None:
    """Acknowledges messages."""
    walk.note("acks", group)
    call = partial(walk.consume.ack, group, GROUPS[group], [h.text for h in handles])
    await settle(walk, call, handles, lambda _: (), turns)


async def change(
    walk: ConsumeWalk, group: str, handles: list[Handle], invisible_ms: int,
    turns: int | None = None,
) -> None:  # fmt: skip
    """Changes the invisible time of messages; old and new handles are valid."""
    walk.note("changes", group, invisible_ms)
    entries = [(text, invisible_ms) for text in [h.text for h in handles]]
    call = partial(walk.consume.change_invisible, group, GROUPS[group], entries)
    until_ms, touched = walk.now_ms + invisible_ms, {handle.delivery for handle in handles}
    if not walk.models[group].is_ordered:  # A lease that was changed is another one.
        for key, given in walk.attempts.items():
            walk.attempts[key] = [one for one in given if one[1].delivery not in touched]
    settled = await settle(
        walk, call, handles, lambda s: (s._replace(at_ms=until_ms, renews=False),), turns
    )
    told = zip(handles, settled, strict=bool(settled))
    walk.handles += [old._replace(text=new.handle) for old, new in told if new.status is OK]


async def send_back(
    walk: ConsumeWalk, group: str, handles: list[Handle], level: int, turns: int | None = None
) -> None:
    """Sends messages back for a retry."""
    walk.note("send backs", group, level)
    entries = [(text, level) for text in [h.text for h in handles]]
    call = partial(walk.consume.send_back, group, GROUPS[group], entries)
    at_ms, model = walk.now_ms + DELAYS_MS[level - 1], walk.models[group]

    def back(state: State) -> State:
        return model.again(DELAYED, state, at_ms)

    halves: list[Change] = [lambda s: (s, back(s)), lambda s: (s._replace(number=1), back(s))]
    await settle(walk, call, handles, lambda s: (back(s),), turns, halves)


async def give_up(
    walk: ConsumeWalk, group: str, handles: list[Handle], turns: int | None = None
) -> None:
    """Dead-letters messages."""
    walk.note("given up", group)
    texts = [h.text for h in handles]
    call = partial(walk.consume.forward_to_dead_letters, group, GROUPS[group], texts)
    await settle(walk, call, handles, lambda _: (BURIED,), turns)


def _is_ordered(handle: Handle) -> bool:
    """Returns whether a handle is of a FIFO lease."""
    place, _, _ = runs_of([handle.text])[0]
    return place is not None and place.revive_queue == ORDERED
