"""Where handles lead, over a table of leases alone."""

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.services.consume.handles import find, take_out
from pocketmq.services.consume.leases import Lease, LeaseTable

GROUP, TOPIC = "g", "orders"


def leased(table: LeaseTable, queue_id: int, first: int, count: int, popped_at_ms: int) -> Lease:
    """Returns a lease of messages next to each other, held by the table."""
    batched = Batched(GROUP, TOPIC, queue_id, first, popped_at_ms, "broker a")
    checkpoint = PopCheckpoint(batched, list(range(first, first + count)), 30_000, 0)
    queue = table.queue(GROUP, TOPIC, queue_id, 0)
    lease = Lease(queue, checkpoint, table.count, first_popped_ms=popped_at_ms)
    table.add(lease, 0)
    return lease


def handles_of(lease: Lease) -> list[str]:
    """Returns the handles of all messages of a lease."""
    return [f"{lease.place.prefix}{at}" for at in lease.queue_offsets]


@given(st.data())
def test_each_handle_of_a_call_leads_where_it_does_by_itself(data: st.DataObject) -> None:
    table = LeaseTable()
    made = [leased(table, n % 2, n * 40, data.draw(st.integers(1, 5)), 1_000 + n) for n in range(4)]
    good = [handle for lease in made for handle in handles_of(lease)]
    prefix, older = made[0].place.prefix, made[3].place._replace(popped_at_ms=999).prefix
    bad = [f"{prefix}99", f"{prefix}x", "", " ", "1", "1 2", f"{good[0]} 1"]
    bad.append(f"{older}{made[3].start_offset}")
    asked = data.draw(st.lists(st.sampled_from(good + bad), max_size=30))
    wanted: list[tuple[Lease, int] | None] = []
    for handle in asked:
        held = find(table, GROUP, TOPIC, handle)
        wanted.append(None if held in wanted else held)
    before = table.count
    taken = take_out(table, GROUP, TOPIC, asked)
    pairs = zip(taken.leases, taken.queue_offsets, strict=True)
    assert [pair if pair[0] else None for pair in pairs] == wanted
    by_lease: dict[Lease, list[int]] = {}
    for pair in filter(None, wanted):
        by_lease.setdefault(pair[0], []).append(pair[1])
    assert taken.by_lease == {lease: sorted(at) for lease, at in by_lease.items()}
    assert table.count == before - sum(map(len, by_lease.values()))
    for lease, at in by_lease.items():
        assert set(lease.pending()) == {*lease.queue_offsets} - {*at}
        assert lease.settling_count == len(at)


def test_a_handle_of_another_topic_or_group_leads_nowhere() -> None:
    table = LeaseTable()
    (handle,) = handles_of(leased(table, 0, 7, 1, 1_000))
    assert find(table, GROUP, "other", handle) is None
    assert find(table, "other", TOPIC, handle) is None
    assert take_out(table, "other", TOPIC, [handle]).by_lease == {}
    assert table.count == 1
