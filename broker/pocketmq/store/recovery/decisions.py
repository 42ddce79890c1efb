"""Decides a start's actions on log and views: two pure tables over observations.

docs/howto/recovering.md shows the table of the log, ARCHITECTURE.md ("The order of a start") that
of the views.

DAMAGED: durable bytes are damaged or gone. The log stays unchanged, sends are refused, and every
sound record is served. With `accept_damage` the start quarantines holes and gives up lost records.

Damage at or behind the mark was never acknowledged as durable, so the log is cut there. Without a
valid mark (another broker wrote here), a torn tail differs from damage only by sound records behind
it. RocketMQ cuts there and loses them.

Views are trusted up to some offset and dispatched again from there. An incomplete view is removed
and rebuilt from the log's minimum.
Source: CommitLog.recoverNormally, recoverAbnormally; DefaultMessageStore.recover.
"""

from dataclasses import dataclass
from enum import Enum

from pocketmq.format.checkpoint_layout import CheckpointValues
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import OFFSET_MAX


class LogDecision(Enum):
    """The action on the log."""

    KEEP = "keep"
    CUT = "cut"
    QUARANTINE = "quarantine"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Observation:
    """Observations of the log walk and of loading the views.

    mark is the flushed offset, None without a valid one; view_offsets are the views' marks;
    has_holes: sound records follow damage; is_short: without a mark, queues lead to records
    behind the end that were durable.
    """

    has_log: bool
    end: int
    scan_end: ScanEnd
    mark: int | None
    view_offsets: tuple[int, ...]
    has_holes: bool = False
    is_short: bool = False
    accept_damage: bool = False


@dataclass(frozen=True)
class Plan:
    """The row of the table that applies, and its outcome."""

    label: str
    log: LogDecision


def decide(seen: Observation) -> Plan:
    """Returns the row for the observations of the log; pure."""
    if not seen.has_log and not seen.mark:
        return Plan("@no_log", LogDecision.KEEP)
    is_bad = seen.scan_end is not ScanEnd.END_OF_DATA
    is_below_mark = seen.mark is not None and seen.end < seen.mark
    if seen.has_holes and seen.mark is None:
        return Plan("@foreign_hole", LogDecision.QUARANTINE)
    if seen.has_holes or is_below_mark:
        label = "@hole" if seen.has_holes or is_bad else "@lost_tail"
        accepted = LogDecision.QUARANTINE if label == "@hole" else LogDecision.KEEP
        return Plan(label, accepted if seen.accept_damage else LogDecision.DAMAGED)
    if is_bad:
        return Plan("@torn_tail", LogDecision.CUT)
    if seen.is_short:
        decision = LogDecision.KEEP if seen.accept_damage else LogDecision.DAMAGED
        return Plan("@foreign_lost_tail", decision)
    if any(view > seen.end for view in seen.view_offsets):
        return Plan("@ahead", LogDecision.KEEP)
    if any(view < seen.end for view in seen.view_offsets):
        return Plan("@behind", LogDecision.KEEP)
    return Plan("@clean", LogDecision.KEEP)


class Compared(Enum):
    """The reference that views are compared with to find missing parts."""

    LIST = "list"
    LOG = "log"
    NOTHING = "nothing"


@dataclass(frozen=True)
class ViewObservation:
    """Contents of the small files of a store.

    was_aborted   the last life did not end in order
    mark          the flushed offset, None without a valid one: another broker wrote here last
    is_listed     the views were listed at a stop, and the checkpoint is that of the list
    """

    was_aborted: bool
    mark: int | None
    is_listed: bool
    checkpoint: CheckpointValues


@dataclass(frozen=True)
class ViewPlan:
    """The row of the table that applies, and its outcome.

    units_upto    queue files whose units lead below are not read
    takes_ends    ends of queues are those of their table
    believed_upto units and index entries of records below are believed, None: all
    sealed_time   index files that end later are not believed, ms; None: by their offsets alone
    may_wait      a running store may save the findings of a start, where they are many
    """

    label: str
    units_upto: int
    takes_ends: bool
    compared: Compared
    believed_upto: int | None = None
    sealed_time: int | None = None
    may_wait: bool = False

    @property
    def below(self) -> int:
        """Physical offset below which views are believed."""
        return OFFSET_MAX if self.believed_upto is None else self.believed_upto


def decide_views(seen: ViewObservation) -> ViewPlan:
    """Returns the row for the observations of the views; pure."""
    is_ours, durable = seen.mark is not None, seen.checkpoint.logics_physical_offset
    if not seen.was_aborted:
        compared = Compared.LIST if seen.is_listed else Compared.LOG
        return ViewPlan("@stopped", OFFSET_MAX if is_ours else 0, False, compared)
    compared = Compared.LIST if seen.is_listed else Compared.NOTHING
    if is_ours:
        return ViewPlan("@killed", durable, durable > 0, compared, durable, may_wait=True)
    sealed_time = seen.checkpoint.index_msg_timestamp
    return ViewPlan("@foreign_kill", 0, False, compared, durable, sealed_time)
