"""The table of leases beside plain lists: what is open, what ends when, what the journal needs."""

from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pocketmq.format.pop_records import Batched, PopCheckpoint
from pocketmq.model.consuming import Held
from pocketmq.services.consume import leases as leases_module
from pocketmq.services.consume.leases import GroupQueue, Lease, LeaseTable
from tests.kit.consuming import GROUP, TOPIC


def lease_of(queue: GroupQueue, offsets: list[int], journal_offset: int, popped_ms: int) -> Lease:
    """Returns a lease that stands somewhere in the journal; -1: in a real broker's revive topic."""
    batched = Batched(GROUP, TOPIC, 0, offsets[0], popped_ms, "b")
    checkpoint = PopCheckpoint(batched, offsets, 500, 0)
    return Lease(queue, checkpoint, journal_offset, first_popped_ms=popped_ms)


class LeaseWalk(RuleBasedStateMachine):
    """Leases are added, taken, settled, given back, moved and released in any order."""

    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.journal_end = 0
        self.table = LeaseTable()
        self.queue = self.table.queue(GROUP, TOPIC, 0, 0)
        self.pending: dict[Lease, list[int]] = {}
        self.settling: dict[Lease, list[int]] = {}
        self.place: dict[Lease, int] = {}
        self.ends: dict[Lease, int] = {}
        """All four of open leases, in the order in which they were added."""

    def _drop(self, lease: Lease) -> None:
        """Forgets a lease if nothing is left of it."""
        if not self.pending[lease] and not self.settling[lease]:
            for table in (self.pending, self.settling, self.place, self.ends):
                del table[lease]

    def _some(self, chosen: int, *, is_settling: bool = False) -> Lease | None:
        of = self.settling if is_settling else self.pending
        found = [lease for lease, offsets in of.items() if offsets]
        return found[chosen % len(found)] if found else None

    @rule(
        offsets=st.sets(st.integers(0, 9), min_size=1, max_size=4),
        lasts=st.integers(1, 50),
        is_foreign=st.booleans(),
    )
    def add(self, offsets: set[int], lasts: int, *, is_foreign: bool) -> None:
        """Leases messages, of which some may be leased: an offset was set back."""
        place = -1 if is_foreign else self.journal_end
        self.journal_end += not is_foreign
        lease = lease_of(self.queue, sorted(offsets), place, self.now + 1)
        for older in [*self.pending]:
            self.pending[older] = [at for at in self.pending[older] if at not in offsets]
            self._drop(older)
        self.table.add(lease, self.now + lasts)
        self.pending[lease], self.settling[lease] = sorted(offsets), []
        self.place[lease], self.ends[lease] = place, self.now + lasts

    @precondition(lambda self: any(self.pending.values()))
    @rule(chosen=st.integers(0, 99), count=st.integers(1, 4))
    def take(self, chosen: int, count: int) -> None:
        lease = self._some(chosen)
        assert lease is not None
        taken, self.pending[lease] = self.pending[lease][:count], self.pending[lease][count:]
        self.settling[lease] += taken
        self.table.take(lease, taken)

    @precondition(lambda self: any(self.settling.values()))
    @rule(chosen=st.integers(0, 99), is_done=st.booleans())
    def end_settling(self, chosen: int, *, is_done: bool) -> None:
        """Closes what was taken, or gives it back, as far as it was not leased anew since."""
        lease = self._some(chosen, is_settling=True)
        assert lease is not None
        offsets, self.settling[lease] = self.settling[lease], []
        if is_done:
            self.table.close(lease, len(offsets))
        else:
            others = {at for its in self.pending.values() for at in its}
            self.table.give_back(lease, offsets)
            left = {*self.pending[lease], *offsets} - (others - {*self.pending[lease]})
            self.pending[lease] = sorted(left)
        self._drop(lease)

    @precondition(lambda self: any(self.pending.values()))
    @rule(chosen=st.integers(0, 99))
    def move(self, chosen: int) -> None:
        """Writes a lease down anew."""
        lease = self._some(chosen)
        if lease is not None and self.place[lease] >= 0:
            self.table.move(lease, self.journal_end)
            self.place[lease] = self.journal_end
            self.journal_end += 1

    @precondition(lambda self: any(self.pending.values()))
    @rule(chosen=st.integers(0, 99), lasts=st.integers(0, 60), is_released=st.booleans())
    def end_at(self, chosen: int, lasts: int, *, is_released: bool) -> None:
        lease = self._some(chosen)
        assert lease is not None
        ends_ms = self.now + lasts
        if is_released:
            self.table.release(lease, ends_ms)
            self.ends[lease] = min(ends_ms, self.ends[lease])
        else:
            self.table.end_at(lease, ends_ms)
            self.ends[lease] = ends_ms

    def _over(self) -> list[Lease]:
        return [one for one, its in self.pending.items() if its and self.ends[one] <= self.now]

    @rule(by=st.integers(0, 30))
    def time_passes(self, by: int) -> None:
        self.now += by
        overdue = self.table.overdue(self.now)
        assert len(overdue) == len(set(overdue))
        assert set(overdue) == set(self._over())

    @rule()
    def end(self) -> None:
        """Each lease that is over ends once, the earliest first; here it is leased on."""
        over = self._over()
        ended = list(self.table.ended(self.now))
        assert len(ended) == len(over)
        assert set(ended) == set(over)
        assert [one.ends_ms for one in ended] == sorted(self.ends[one] for one in over)
        assert list(self.table.ended(self.now)) == []
        for lease in ended:
            self.ends[lease] = self.now + 10
            self.table.end_at(lease, self.now + 10)

    @rule(before=st.integers(0, 20), count=st.integers(1, 4))
    def look_for_old_ones(self, before: int, count: int) -> None:
        """Only those are written down anew of which the journal tells all there is."""
        own = sorted((place, one) for one, place in self._own())
        wanted = [
            one
            for place, one in own[:count]
            if place < before and self.pending[one] and not self.settling[one]
        ]
        assert self.table.oldest(before, count) == wanted

    def _own(self) -> list[tuple[Lease, int]]:
        return [(one, place) for one, place in self.place.items() if place >= 0]

    @invariant()
    def it_holds_what_is_open(self) -> None:
        if not hasattr(self, "table"):
            return
        table = self.table
        leased = {at: one for one, its in self.pending.items() for at in its}
        assert self.queue.leased == leased
        assert all(one.pending() == its for one, its in self.pending.items())
        assert table.count == len(leased)
        settling = sum(map(len, self.settling.values()))
        held = self.queue.held(2**60)
        assert (held.behind, held.ahead) == (len(leased) + settling, 0)
        assert table.open_count == len(self.pending)
        own = [place for _, place in self._own()]
        assert table.has_foreign == (len(own) < len(self.place))
        assert table.journal_begin(self.journal_end) == min(own, default=self.journal_end)
        assert all(table.is_open(at) == (at in own) for at in range(self.journal_end + 1))
        partly = {
            one for one, its in self.pending.items()
            if self.place[one] >= 0 and 0 < len(its) < len(one.queue_offsets)
        }  # fmt: skip
        assert set(table.partly_settled()) == partly
        ends = [self.ends[one] for one, its in self.pending.items() if its]
        assert not ends or (table.next_end_ms or 0) <= min(ends)


TestLeaseWalk = LeaseWalk.TestCase
TestLeaseWalk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_ends_of_leases_that_are_over_take_no_room() -> None:
    table = LeaseTable()
    lease = lease_of(table.queue(GROUP, TOPIC, 0, 0), [0, 1], 0, 1)
    table.add(lease, 500)
    for number in range(3 * leases_module.ENDS_KEPT_MIN):
        table.end_at(lease, 1_000 + number)
    assert len(table._ends) <= leases_module.ENDS_KEPT_MIN + 2
    last_ms = 1_000 + 3 * leases_module.ENDS_KEPT_MIN - 1
    assert list(table.ended(last_ms - 1)) == []
    assert list(table.ended(last_ms)) == [lease]


def test_what_is_leased_is_told_apart_by_where_the_group_stands() -> None:
    table = LeaseTable()
    queue = table.queue(GROUP, TOPIC, 0, 0)
    table.add(lease_of(queue, [3, 4, 7], 0, 1), 500)
    for at, behind in ((0, 0), (4, 1), (7, 2), (8, 3)):
        held = table.held(lambda *_, at=at: at)[GROUP, TOPIC][0]
        assert (held.behind, held.ahead) == (behind, 3 - behind)


def test_what_is_being_settled_is_leased_until_its_settlement_is_in_the_journal() -> None:
    table = LeaseTable()
    queue = table.queue(GROUP, TOPIC, 0, 0)
    table.add(lease := lease_of(queue, [3, 4], 0, 1), 500)

    def held() -> Mapping[int, Held]:
        return table.held(lambda *_: 5).get((GROUP, TOPIC), {})

    table.take(lease, [3])
    assert held() == {0: Held(2, 0, 4, lease.first_popped_ms)}
    table.give_back(lease, [3])
    table.take(lease, [3, 4])
    assert held() == {0: Held(2, 0, 3)}
    table.close(lease, 1)
    assert held() == {0: Held(1, 0, 4)}
    table.close(lease, 1)
    assert held() == {}


def test_an_expected_lease_holds_the_journal_and_no_message() -> None:
    table = LeaseTable()
    queue = table.queue(GROUP, TOPIC, 0, 0)
    lease = lease_of(queue, [0], 5, 1)
    table.expect(lease)
    assert (table.journal_begin(9), table.count, table.oldest(9, 9)) == (5, 0, [])
    assert table.partly_settled() == []
    table.forget(lease)
    assert (table.journal_begin(9), table.open_count) == (9, 0)


def test_what_is_given_back_after_it_was_leased_anew_holds_no_lease_open() -> None:
    table = LeaseTable()
    queue = table.queue(GROUP, TOPIC, 0, 0)
    older, later = lease_of(queue, [0, 1], 0, 1), lease_of(queue, [0, 1], 1, 2)
    table.add(older, 500)
    table.take(older, [0, 1])
    table.add(later, 600)
    table.give_back(older, [0, 1])
    assert (table.open_count, table.journal_begin(9), table.count) == (1, 1, 2)
    assert later.pending() == [0, 1]
    assert list(table.ended(600)) == [later]
