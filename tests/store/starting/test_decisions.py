"""The table of views: what a start believes of them, and what it compares them with."""

import pytest

from broker.format.checkpoint_layout import CheckpointValues
from broker.model.message import OFFSET_MAX
from broker.store.starting.decisions import Compared, ViewObservation, ViewPlan, decide_views

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


def test_a_first_checkpoint_never_written_lets_nothing_be_believed() -> None:
    plan = decide_views(ViewObservation(True, 0, False, CheckpointValues()))
    assert (plan.below, plan.units_upto, plan.takes_ends) == (0, 0, False)


def test_after_an_orderly_end_all_is_believed() -> None:
    assert decide_views(ViewObservation(False, 1, True, CHECKPOINT)).below == OFFSET_MAX
