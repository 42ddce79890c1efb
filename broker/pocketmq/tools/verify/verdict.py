"""The verdict of a verification, and what an operator does next: one sentence each."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from pocketmq.format.names import CHECKPOINT_FILE
from pocketmq.model.finding import ABSENT, Finding
from pocketmq.tools.verify.collector import LOST_RECORDS, MISNAMED, STRAY
from pocketmq.tools.verify.listing import cut_step
from pocketmq.tools.verify.tables import CHECKPOINT_TIMES
from pocketmq.tools.verify.timers import is_about_timers
from pocketmq.tools.verify.verification import NOT_AHEAD, STORE_TIME, Verification

LOG_NAMES: Final = ("commitlog/", "pocketmq/watermark")
SERVED_AS_IT_IS: Final = frozenset({"born_time", "queue_offset", "compressed_body", "op_message"})
"""Kinds of findings in valid records: no repair knows the right value."""
NO_REPAIR: Final = (
    "no repair knows the right values, and a start serves these messages as they are; only a "
    "backup has the right ones: pocketmq store diff"
)


def verdict(found: Verification) -> str:
    """Returns the verdict of a check in one sentence."""
    of_timers = [is_about_timers(finding) for finding in found.findings]
    if is_without_log(found):
        text = (
            "The log is not here: commitlog/ has no file, though queues or index were built of one"
        )
    elif found.lost_count:
        text = f"The store is damaged: {_messages(found.lost_count)} lost"
    elif of_timers and all(of_timers):
        text = "No message is lost; files of delayed messages are damaged"
    elif is_ahead_of_clock(found):
        text = "No message is lost; store times are ahead of this machine's clock"
    elif any(
        each.file.startswith(LOG_NAMES) for each in found.findings if not is_about_timers(each)
    ):
        text = "The log is damaged; no message is known to be lost"
    elif found.is_unread and set(found.counts) <= {ABSENT}:
        text = "The store was not checked: its records are beyond the offset that limits the check"
    elif not found.is_sound:
        text = "No message is lost; queues, index or small files are damaged"
    else:
        text = "The store is sound"
    if found.is_copy and found.is_sound:
        text += "; its first start builds queues and index"
    elif ABSENT in found.counts:
        text += "; the next start builds the absent views"
    if found.lacks_topics:
        text += ", but its topic table is absent: see the note"
    if found.lost_earlier:
        count = sum(loss.messages for loss in found.lost_earlier)
        text += f"; {_messages(count)} missing since an earlier repair or start"
    return text


def is_without_log(found: Verification) -> bool:
    """Returns whether the directory has queues or index, but no file of their log."""
    return not found.files and not found.gaps and not found.is_sound


def is_ahead_of_clock(found: Verification) -> bool:
    """Returns whether all findings are store times after the present: some clock was wrong.

    The times of the checkpoint are then also after those of later records.
    """
    findings = [
        each for each in found.findings if each.kind != ABSENT and not _is_time_of_checkpoint(each)
    ]
    return bool(findings) and all(
        (each.kind, each.expected) == (STORE_TIME, NOT_AHEAD) for each in findings
    )


def _is_time_of_checkpoint(finding: Finding) -> bool:
    return finding.file == CHECKPOINT_FILE and finding.expected.startswith(CHECKPOINT_TIMES)


def _messages(count: int) -> str:
    return "1 message is" if count == 1 else f"{count} messages are"


def next_step(found: Verification, directory: Path) -> str:
    """Returns what an operator does about the findings."""
    if is_without_log(found):
        return (
            f"move the files of the log to {directory}/commitlog (RocketMQ's storePathCommitLog "
            "has their place), or restore them from a copy"
        )
    command = f"pocketmq store repair {quote(str(directory))}"
    step = f"{command}, which shows what it would do"
    needed = [*_needed(found)]
    if needed:
        cut = cut_step(needed[0], directory)
        why = f"; {cut}" if cut else ": no repair knows its content"
        return f"restore {needed[0].file} from a backup{why}"
    by_hand = [*_by_hand(found)]
    is_lacking = bool(found.gaps) or found.head is not None
    if by_hand and is_lacking:
        by_hand.append("restore the missing files from a backup")
        step = f"{command} --accept-loss, which shows what it would do"
    if by_hand:
        return f"{'; '.join(by_hand)}; or {step}"
    if is_lacking:
        return (
            f"restore the files from a backup; without one: {command} --accept-loss, "
            "which shows what it would do"
        )
    if set(found.counts) <= SERVED_AS_IT_IS:
        return NO_REPAIR
    ends = [each.file for each in found.findings if each.kind == LOST_RECORDS]
    if ends:
        return f"restore {ends[0]} from a backup; without one: {step}"
    if is_ahead_of_clock(found):
        step = f"correct the clock if it is wrong now; if it was wrong then: {step}"
    if found.lost_count:
        step = f"restore a backup, or go on without the lost messages: {step}"
    return step


def _needed(found: Verification) -> Iterator[Finding]:
    """Yields findings of log files that no repair replaces; an empty last file is none of them."""
    for each in found.findings:
        is_blocking = each.kind in ("file_size", "missing_file") and not each.repairable
        if is_blocking and each.file.startswith(LOG_NAMES) and each.found != "0 bytes":
            yield each


def _by_hand(found: Verification) -> Iterator[str]:
    """Yields what to do with files of the log that are whole, but in a wrong place."""
    for each in found.findings:
        if each.kind == MISNAMED:
            yield f"rename {each.file} to {each.expected.rpartition(' ')[2]}"
        elif each.kind == STRAY and each.file.startswith(LOG_NAMES):
            yield f"move {each.file} out of commitlog/"
