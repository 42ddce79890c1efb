"""Which messages of the groups that wait are lowest: as a sorted list of all of them says."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.services.consume.fifo.message_groups import PLACES_KEPT, IdleGroups, MessageGroup

KEYS = "abcdefgh"


@given(st.lists(st.sampled_from(KEYS), max_size=40), st.data())
def test_they_are_the_lowest_whatever_was_held_and_settled_before(
    keys: list[str], data: st.DataObject
) -> None:
    idle, groups = IdleGroups(), {key: MessageGroup() for key in keys}
    for number, key in enumerate(keys):
        groups[key].offsets.append(number)
    for key, group in groups.items():
        idle.add(key, group)
    held: set[str] = set()
    for _ in range(data.draw(st.integers(0, 12))):
        left = [key for key, group in groups.items() if group.offsets]
        if left:
            key = data.draw(st.sampled_from(left))
            _change(idle, groups[key], key, held, data.draw(st.sampled_from("hold settle".split())))
        count = data.draw(st.integers(0, 9))
        free = [n for n, key in enumerate(keys) if key not in held and n in groups[key].offsets]
        assert idle.lowest(count) == free[:count]
        assert all(
            (key in idle) == (key not in held and bool(g.offsets)) for key, g in groups.items()
        )


def _change(idle: IdleGroups, group: MessageGroup, key: str, held: set[str], what: str) -> None:
    """Holds a group, or releases it with one message less."""
    if key not in held:
        held.add(key)
        idle.discard(key)
        return
    if what == "settle":
        group.offsets.pop(len(group.offsets) // 2)
    held.discard(key)
    if group.offsets:
        idle.add(key, group)


def test_places_of_groups_that_come_and_go_take_no_room() -> None:
    idle, first, second = IdleGroups(), MessageGroup(), MessageGroup()
    first.offsets.append(1)
    second.offsets.append(2)
    idle.add("first", first)
    most = 0
    for _ in range(10 * PLACES_KEPT):
        idle.discard("second")
        idle.add("second", second)
        most = max(most, len(idle))
        assert idle.lowest(1) == [1]
    assert most == 2 * 2 + 64
    assert idle.lowest(9) == [1, 2]
    assert len(idle) <= 2 * 2 + PLACES_KEPT
