"""Answers to pulls of classic consumers: the code of each status, and the offsets of the queue.

Source: DefaultPullMessageResultHandler, PullMessageProcessor.composeResponseHeader.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.reading import PullResult, PullStatus
from pocketmq.native.machine import BytesWriter, i32, i64, write_i32_be
from pocketmq.rpc.classic.status import (
    PULL_NOT_FOUND,
    PULL_OFFSET_MOVED,
    PULL_RETRY_IMMEDIATELY,
    SUCCESS,
)
from pocketmq.wire.remoting import LANGUAGE, RESPONSE, VERSION, Command

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
_FOUND_CODE, _FOUND_REMARK = CODES[PullStatus.FOUND]
_BEGIN: Final = f'{{"code":{_FOUND_CODE},"extFields":{{"suggestWhichBrokerId":"0",'.encode()
_NEXT: Final = b'"nextBeginOffset":"'
_MIN: Final = b'","minOffset":"'
_MAX: Final = b'","maxOffset":"'
_FLAG: Final = (
    f'","topicSysFlag":"0","groupSysFlag":"0"}},"flag":{RESPONSE},"language":"{LANGUAGE}","opaque":'
).encode()
_END: Final = (
    f',"remark":"{_FOUND_REMARK}","serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
).encode()


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


def reset_answer(result: PullResult) -> Command:
    """Returns the answer that makes a consumer continue at `next_begin_offset` after a reset."""
    return answer_of(result)._replace(code=PULL_OFFSET_MOVED, remark="OFFSET_RESET")


def found_frame(result: PullResult, content: bytes, opaque: i64) -> bytes:
    """Returns the same frame, with a JSON header, as `answer_of` and wire/remoting.py.

    result    a result whose status is FOUND
    content   its records, joined
    opaque    opaque number of the request
    Cost      1 µs and a copy of `content` when compiled
    """
    assert result.status is PullStatus.FOUND, "no records"
    following, lower, upper = (
        b"%d" % result.next_begin_offset,
        b"%d" % result.min_offset,
        b"%d" % result.max_offset,
    )
    number = b"%d" % int(opaque)
    header = b"".join((_BEGIN, _NEXT, following, _MIN, lower, _MAX, upper, _FLAG, number, _END))
    size: i64 = len(header)
    sizes = BytesWriter()
    write_i32_be(sizes, i32(4 + size + len(content)))
    write_i32_be(sizes, i32(size))
    return b"".join((sizes.getvalue(), header, content))
