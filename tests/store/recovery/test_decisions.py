"""The tables of a start: what happens to the log; what of the views is believed, compared."""

from dataclasses import replace

import pytest

from pocketmq.format.checkpoint_layout import CheckpointValues
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import OFFSET_MAX
from pocketmq.store.recovery.decisions import (
    Compared,
    LogDecision,
    Observation,
    ViewObservation,
    ViewPlan,
    decide,
    decide_views,
)

KEEP, CUT, QUARANTINE, DAMAGED = LogDecision
END, TORN, BAD = ScanEnd.END_OF_DATA, ScanEnd.TORN, ScanEnd.BAD

LOG_ROWS: list[tuple[str, LogDecision, Observation]] = [
    ("@no_log", KEEP, Observation(False, 0, END, None, (0, 0), False)),
    ("@no_log", KEEP, Observation(False, 0, END, 0, (500, 500), False)),
    ("@lost_tail", DAMAGED, Observation(False, 0, END, 500, (0, 0), False)),
    ("@clean", KEEP, Observation(True, 500, END, 500, (500, 500), False)),
    ("@clean", KEEP, Observation(True, 500, END, None, (500, 500), False)),
    ("@clean", KEEP, Observation(True, 500, END, 400, (500, 500), False)),
    ("@behind", KEEP, Observation(True, 500, END, 500, (500, 400), False)),
    ("@behind", KEEP, Observation(True, 500, END, None, (0, 0), False)),
    ("@ahead", KEEP, Observation(True, 500, END, 500, (600, 500), False)),
    ("@ahead", KEEP, Observation(True, 500, END, 400, (400, 600), False)),
    ("@ahead", KEEP, Observation(True, 500, END, None, (400, 600), False)),
    ("@foreign_lost_tail", DAMAGED, Observation(True, 500, END, None, (600, 600), is_short=True)),
    ("@torn_tail", CUT, Observation(True, 500, TORN, None, (600, 600), is_short=True)),
    ("@foreign_hole", QUARANTINE, Observation(True, 500, END, None, (600, 0), True, is_short=True)),
    ("@torn_tail", CUT, Observation(True, 500, TORN, 500, (500, 500), False)),
    ("@torn_tail", CUT, Observation(True, 500, BAD, 500, (600, 400), False)),
    ("@torn_tail", CUT, Observation(True, 500, TORN, None, (500, 500), False)),
    ("@torn_tail", CUT, Observation(True, 500, BAD, None, (500, 500), False)),
    ("@lost_tail", DAMAGED, Observation(True, 500, END, 501, (500, 500), False)),
    ("@hole", DAMAGED, Observation(True, 500, TORN, 501, (500, 500), False)),
    ("@hole", DAMAGED, Observation(True, 500, END, 500, (500, 500), True)),
    ("@hole", DAMAGED, Observation(True, 500, BAD, 501, (500, 500), True)),
    ("@hole", DAMAGED, Observation(True, 500, END, 501, (500, 500), True)),
    ("@lost_head", DAMAGED, Observation(True, 500, END, 500, (500, 500), is_headless=True)),
    ("@lost_head", DAMAGED, Observation(True, 500, TORN, 500, (600, 500), is_headless=True)),
    ("@lost_tail", DAMAGED, Observation(True, 500, END, 501, (500, 500), is_headless=True)),
    ("@hole", DAMAGED, Observation(True, 500, END, 500, (500, 500), True, is_headless=True)),
    ("@foreign_hole", QUARANTINE, Observation(True, 500, END, None, (500, 500), True)),
    ("@foreign_hole", QUARANTINE, Observation(True, 500, TORN, None, (500, 500), True)),
]
"""Label, decision, and what was seen."""


@pytest.mark.parametrize(("label", "decision", "seen"), LOG_ROWS)
def test_the_row_for_what_was_seen_of_the_log(
    label: str, decision: LogDecision, seen: Observation
) -> None:
    plan, accepted = decide(seen), decide(replace(seen, accept_damage=True))
    assert (plan.label, plan.log, accepted.label) == (label, decision, label)
    over_damage = QUARANTINE if label == "@hole" else KEEP
    if label == "@lost_head" and seen.scan_end is not END:
        over_damage = CUT
    assert accepted.log is (over_damage if decision is DAMAGED else decision)


DURABLE = 700
SEALED_MS = 9_000
CHECKPOINT = CheckpointValues()._replace(
    logics_physical_offset=DURABLE, index_msg_timestamp=SEALED_MS
)
LIST, LOG, NOTHING = Compared
STOPPED, KILLED, FOREIGN = "@stopped", "@killed", "@foreign_kill"


@pytest.mark.parametrize(
    ("was_aborted", "mark", "is_listed", "plan"),
    [
        (False, 800, True, ViewPlan(STOPPED, OFFSET_MAX, False, LIST)),
        (False, 800, False, ViewPlan(STOPPED, OFFSET_MAX, False, LOG)),
        (False, None, False, ViewPlan(STOPPED, 0, False, LOG)),
        (True, 800, False, ViewPlan(KILLED, DURABLE, True, NOTHING, DURABLE, may_wait=True)),
        (True, 800, True, ViewPlan(KILLED, DURABLE, True, LIST, DURABLE, may_wait=True)),
        (True, None, False, ViewPlan(FOREIGN, 0, False, NOTHING, DURABLE, SEALED_MS)),
    ],
)
def test_the_row_for_what_the_small_files_say(
    was_aborted: bool, mark: int | None, is_listed: bool, plan: ViewPlan
) -> None:
    assert decide_views(ViewObservation(was_aborted, mark, is_listed, CHECKPOINT)) == plan


def test_what_is_believed_ends_with_the_checkpoint_after_a_crash_only() -> None:
    plan = decide_views(ViewObservation(True, 0, False, CheckpointValues()))
    assert (plan.below, plan.units_upto, plan.takes_ends) == (0, 0, False)
    assert decide_views(ViewObservation(False, 1, True, CHECKPOINT)).below == OFFSET_MAX
