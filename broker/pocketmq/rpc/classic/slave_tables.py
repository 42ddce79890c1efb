"""Tables that slave brokers copy from their master, every minute; the timer's progress every 3 s.

    43  GET_ALL_CONSUMER_OFFSET        60  GET_TIMER_CHECK_POINT
    45  GET_ALL_DELAY_OFFSET           61  GET_TIMER_METRICS
    402 GET_ALL_MESSAGE_REQUEST_MODE

Slaves also copy topics (21) and groups (201), which operators list with the same requests. The JSON
of answers has no white space, unlike the files: fastjson2 refuses an unquoted number after it.
Source: SlaveSynchronize, AdminBrokerProcessor.
"""

from pocketmq.format.timer_layout import CHECK
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.store.tables.tables import Tables
from pocketmq.wire.remoting import Command


class SlaveTables:
    """The requests for copies of tables; none changes anything."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def offsets(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offsets of all groups, without advances that a crash could undo."""
        return json_answer(self._tables.offsets.content())

    def delay_offsets(self, request: Command, call: ClassicCall) -> Command:
        """Returns the offsets up to which each delay level is delivered."""
        return json_answer(self._tables.delay_offsets.content())

    def modes(self, request: Command, call: ClassicCall) -> Command:
        """Returns the request modes of classic groups: PULL or POP."""
        return json_answer(self._tables.modes.content())

    def timer_counts(self, request: Command, call: ClassicCall) -> Command:
        """Returns the numbers of pending timed messages as of the last save."""
        return json_answer(self._tables.timer_counts.content())

    def timer_check(self, request: Command, call: ClassicCall) -> Command:
        """Returns the timer's saved progress, 56 bytes.

        A slave reads its own copy of the timer's topic up to the offset that its master has read.
        """
        progress = self._tables.timer_check.progress
        progress = progress._replace(queue_limit=progress.queue_offset)
        return Command(0, body=CHECK.struct.pack(*progress[: len(CHECK.fields)]))
