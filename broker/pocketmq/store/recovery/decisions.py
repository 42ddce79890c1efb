"""Decides a start's actions on log and views: two pure tables over observations.

The table of the log is in docs/howto/recovering.md, the table of the views in ARCHITECTURE.md ("The
order of a start").

DAMAGED: durable bytes are damaged or missing. The log stays unchanged, sends are refused, and every
valid record is served. With `accept_damage` the start quarantines holes and abandons lost records.
Bytes at or after the mark were never acknowledged as durable, so damage among them cuts the log.
RocketMQ cuts the log at any damage, and loses the valid records that follow.
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

    mark           flushed offset; None without a valid mark
    view_offsets   durable offsets of the views
    has_holes      whether valid records follow damage
    is_headless    whether the oldest files of a replicated log are missing, and did not expire
    is_short       whether, without a mark, queues refer to durable records after the log's end
    """

    has_log: bool
    end: int
    scan_end: ScanEnd
    mark: int | None
    view_offsets: tuple[int, ...]
    has_holes: bool = False
    is_headless: bool = False
    is_short: bool = False
    accept_damage: bool = False


@dataclass(frozen=True)
class Plan:
    """The row of the log's table that applies."""

    label: str
    log: LogDecision


def decide(seen: Observation) -> Plan:
    """Returns the row of the log's table for observations; pure."""
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
    if seen.is_headless:
        accepted = LogDecision.CUT if is_bad else LogDecision.KEEP
        return Plan("@lost_head", accepted if seen.accept_damage else LogDecision.DAMAGED)
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

    mark        flushed offset; None without a valid mark: RocketMQ wrote last
    is_listed   whether the manifest lists the views, and was written with this checkpoint
    """

    was_aborted: bool
    mark: int | None
    is_listed: bool
    checkpoint: CheckpointValues


@dataclass(frozen=True)
class ViewPlan:
    """The row of the views' table that applies.

    units_upto      units of records below this offset are durable; files before them are not read
    takes_ends      whether queue ends are read from the table of queue ends
    believed_upto   units and index entries of records below this offset are trusted; None: all
    sealed_time     index files with later end times (ms) are not trusted; None: no such limit
    may_wait        whether the running store may save the start's findings later
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
        """Physical offset below which views are trusted."""
        return OFFSET_MAX if self.believed_upto is None else self.believed_upto


def decide_views(seen: ViewObservation) -> ViewPlan:
    """Returns the row of the views' table for observations; pure."""
    is_ours, durable = seen.mark is not None, seen.checkpoint.logics_physical_offset
    if not seen.was_aborted:
        compared = Compared.LIST if seen.is_listed else Compared.LOG
        return ViewPlan("@stopped", OFFSET_MAX if is_ours else 0, False, compared)
    compared = Compared.LIST if seen.is_listed else Compared.NOTHING
    if is_ours:
        return ViewPlan("@killed", durable, durable > 0, compared, durable, may_wait=True)
    sealed_time = seen.checkpoint.index_msg_timestamp
    return ViewPlan("@foreign_kill", 0, False, compared, durable, sealed_time)
