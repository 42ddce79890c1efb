"""Answers to pulls of classic consumers: the code of each status, and the offsets of the queue.

Source: DefaultPullMessageResultHandler, PullMessageProcessor.composeResponseHeader.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.reading import PullResult, PullStatus
from pocketmq.rpc.classic.status import (
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUCCESS,
)
from pocketmq.wire.remoting import Command

CODES: Final[Mapping[PullStatus, tuple[int, str]]] = {
    PullStatus.FOUND: (SUCCESS, "FOUND"),
    PullStatus.NO_NEW_MESSAGE: (PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"),
    PullStatus.NO_SUCH_QUEUE: (PULL_NOT_FOUND, "NO_MATCHED_LOGIC_QUEUE"),
    PullStatus.OFFSET_OVERFLOW_ONE: (PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    PullStatus.NO_MATCHED_MESSAGE: (PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    PullStatus.EXPIRED: (PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING"),
    PullStatus.OFFSET_TOO_SMALL: (PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
    PullStatus.OFFSET_OVERFLOW_BADLY: (PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
}
"""Code and remark of each status; the remarks are RocketMQ's names of statuses."""


def answer_of(result: PullResult) -> Command:
    """Returns a result as the answer to a pull."""
    code, remark = CODES[result.status]
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(result.next_begin_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    return Command(code, fields, b"".join(result.records), remark=remark)
