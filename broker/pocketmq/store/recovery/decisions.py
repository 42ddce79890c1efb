"""What a start finds, and what it does about it: two pure tables.

The log
label          damage found                          mark    log                    views
@no_log        none: there is no file                0       nothing to do          removed
@clean         none                                  <= end  keep                   complete
@behind        none                                  <= end  keep                   dispatch
@ahead         none                                  <= end  keep                   cut to the end
@torn_tail     at the end, nothing sound behind      <= end  cut, zero the rest     cut to the end
@foreign_hole  with sound records behind             none    quarantine             built behind it
@foreign_lost_tail  none: the log ends too early     none    DAMAGED, or keep
@hole          with sound records behind, or torn    > it    DAMAGED, or quarantine
@lost_tail     none: the log ends too early          > end   DAMAGED, or keep

DAMAGED: bytes that were durable are damaged or gone. Nothing is changed in the log, no message is
taken, everything sound is served, over the damage too. Who starts with `accept_damage` gives up
what is lost: holes are quarantined, and the store goes on.

Damage at or behind the mark was never acknowledged as durable; what lies behind it there is cut,
for a record that parses is a record. Without a valid mark (another broker wrote here) nothing tells
torn from damaged but what lies behind: RocketMQ cuts there, and loses what follows. Such a log ends
too early where queues lead behind its end after an orderly stop, or its checkpoint tells of a
younger durable record.

The views
label          last life                 believed                          compared with
@stopped       ended in order            as far as they reach              the list of the stop,
                                                                           else the whole log
@killed        ended anyhow, ours        below the checkpoint; ends of     the list, if the end came
                                         queues by their table             behind it, else nothing
@foreign_kill  ended anyhow, another's   below the checkpoint, index       the same
                                         files by its time
A stop lists the views as the last thing but one: where the mark is the list's end of the log, and
nothing lies behind it, a store that still has its abort mark had ended in order.
What is not believed is dispatched again. A view that lacks something is removed, and built from the
log's minimum.
Source: CommitLog.recoverNormally, recoverAbnormally; DefaultMessageStore.recover.
"""

from dataclasses import dataclass
from enum import Enum

from pocketmq.format.checkpoint_layout import CheckpointValues
from pocketmq.model.finding import ScanEnd
from pocketmq.model.message import OFFSET_MAX


class LogDecision(Enum):
    """What happens to the log."""

    KEEP = "keep"
    CUT = "cut"
    QUARANTINE = "quarantine"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Observation:
    """What the walk over the log and the loading of the views showed.

    mark is the flushed offset, None without a valid one; view_offsets are the views' marks;
    has_holes: sound records lie behind damage; is_short: without a mark, queues lead to records
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
    """The row of the table that applies, and what it says."""

    label: str
    log: LogDecision


def decide(seen: Observation) -> Plan:
    """Returns the row for what was seen of the log; pure."""
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
    """What tells whether a view lacks something."""

    LIST = "list"
    LOG = "log"
    NOTHING = "nothing"


@dataclass(frozen=True)
class ViewObservation:
    """What the small files of a store say.

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
    """The row of the table that applies, and what it says.

    units_upto    queue files whose units lead below are not read
    takes_ends    ends of queues are those of their table
    believed_upto units and index entries of records below are believed, None: all
    sealed_time   index files that end later are not believed, ms; None: by their offsets alone
    may_wait      a running store may write down what a start found, where that is much
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
    """Returns the row for what was seen of the views; pure."""
    is_ours, durable = seen.mark is not None, seen.checkpoint.logics_physical_offset
    if not seen.was_aborted:
        compared = Compared.LIST if seen.is_listed else Compared.LOG
        return ViewPlan("@stopped", OFFSET_MAX if is_ours else 0, False, compared)
    compared = Compared.LIST if seen.is_listed else Compared.NOTHING
    if is_ours:
        return ViewPlan("@killed", durable, durable > 0, compared, durable, may_wait=True)
    sealed_time = seen.checkpoint.index_msg_timestamp
    return ViewPlan("@foreign_kill", 0, False, compared, durable, sealed_time)
