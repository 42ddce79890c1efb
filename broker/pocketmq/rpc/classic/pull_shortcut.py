"""Pulls of classic consumers that are answered at once, served from their frames.

frame ─► header ─► group, topic, queue ─► records known to be valid ─► frame of the answer

A pull takes this way if it wants all messages of the topic and finds some in memory, at most
ANSWER_SIZE_MAX bytes. The usual path (classic/pull_message.py) serves all others, and raises the
errors.
"""

from typing import Final

from pocketmq.model.decimal import number_in
from pocketmq.model.message import INT32_MAX
from pocketmq.model.reading import PullResult, PullStatus, ReadRange
from pocketmq.model.topic import is_group_topic, is_readable_by
from pocketmq.native.machine import i64
from pocketmq.rpc.classic.heartbeat_body import TAG
from pocketmq.rpc.classic.heartbeats import ClassicClients
from pocketmq.rpc.classic.pull_answer import found_frame, found_head
from pocketmq.rpc.classic.pull_request import (
    BYTES_MAX,
    COMMITS,
    HAS_SUBSCRIPTION,
    MESSAGES_MAX,
)
from pocketmq.rpc.service import Metadata
from pocketmq.rpc.services import Services
from pocketmq.wire.remoting_header import UsualHeader

ANSWER_SIZE_MAX: Final = 65_536
"""Upper limit of bytes of an answer's records. A larger answer needs a check of the memory that
unread answers occupy."""
_NAME_SIZE_MAX: Final = 255
_TAG: Final = TAG.encode()
_EVERYTHING: Final = ("*", "")
"""Expressions that match all messages."""


class ClassicPullShortcut:
    """Serves pulls without a command object.

    clients   its `check_free` raises GroupInUse for a group that may not pull
    """

    __slots__ = ("_clients", "_groups", "_header", "_pull", "_store")

    def __init__(self, backing: Services, clients: ClassicClients) -> None:
        self._store = backing.store
        self._pull = backing.pull
        self._groups = backing.sessions.classic.groups
        self._clients = clients
        self._header = UsualHeader()

    def serve(self, raw: bytes, peer_host: bytes, metadata: Metadata) -> bytes | None:
        """Serves a pull that finds records in memory.

        raw         the whole frame
        peer_host   is not used
        metadata    is not used
        Returns     the frame of the answer; None: nothing has changed, and the usual path serves
                    the request or raises the error
        Errors      GroupInUse
        """
        if self._pull.on_pulled is not None:  # It needs single records, not joined ones.
            return None
        header = self._header
        if not header.read(raw) or header.flag or header.is_binary:
            return None
        fields = header.fields
        group = fields.get(b"consumerGroup", b"").decode("ascii")
        topic = fields.get(b"topic", b"").decode("ascii")
        flags, sub_version = self._number(b"sysFlag", 0), self._number(b"subVersion", 0)
        if flags < 0 or sub_version < 0 or not self._wants_all(group, topic, flags, sub_version):
            return None
        wanted = self._range(group, topic)
        if wanted is None:
            return None
        if self._store.tables.offsets.resets.holds(group, topic, wanted.queue_id):
            return None
        commit: i64 = -1
        if flags & COMMITS:
            commit = self._number(b"commitOffset", -1)
        self._clients.check_free(group)
        frame, count, size, upper = self._frame(wanted)
        if not frame:
            return None
        if 0 <= commit <= upper:
            offsets = self._store.tables.offsets
            offsets.advance(group, topic, wanted.queue_id, int(commit))
        self._pull.delivered.count(topic, group, int(count), int(size))
        return frame

    def _frame(self, wanted: ReadRange) -> tuple[bytes, i64, i64, i64]:
        """Returns the frame of the answer, number and bytes of its records, the queue's end.

        The frame is empty if the usual path has to serve the pull.
        """
        opaque = self._header.opaque
        known = self._store.reading.known(wanted)
        if known is None:
            return self._checked_frame(wanted)
        count, following, upper, size = known.count, known.following, known.upper, known.size_bytes
        is_cut = count < wanted.max_messages and following < upper
        if is_cut or size > ANSWER_SIZE_MAX:
            return b"", 0, 0, 0
        return (
            known.copy(found_head(following, known.lower, upper, size, opaque)),
            count,
            size,
            upper,
        )

    def _checked_frame(self, wanted: ReadRange) -> tuple[bytes, i64, i64, i64]:
        """Returns a frame like `_frame`, of records that may have to be checked."""
        found = self._store.reading.pull(wanted, None, joined=True)
        if not isinstance(found, PullResult):
            return b"", 0, 0, 0
        records, count = found.records, found.record_count
        if len(records) != 1 or found.status is not PullStatus.FOUND:
            return b"", 0, 0, 0
        content = records[0]
        is_cut = count < wanted.max_messages and found.next_begin_offset < found.max_offset
        if is_cut or len(content) > ANSWER_SIZE_MAX:
            return b"", 0, 0, 0
        frame = found_frame(found, content, self._header.opaque)
        return frame, count, len(content), found.max_offset

    def _number(self, name: bytes, absent: i64) -> i64:
        """Returns a field, `absent` if it is missing, -1 if it is no number."""
        text = self._header.fields.get(name)
        return absent if text is None else number_in(text, 0, len(text))

    def _wants_all(self, group: str, topic: str, flags: i64, version: i64) -> bool:
        """Returns whether a group exists, may pull, and subscribes to all messages of a topic."""
        config = self._store.tables.groups.find(group)
        if config is None or config.settings.enabled is False:
            return False
        if flags & HAS_SUBSCRIPTION:
            fields = self._header.fields
            if fields.get(b"expressionType", _TAG) != _TAG:
                return False
            return fields.get(b"subscription", b"").decode("ascii") in _EVERYTHING
        members = self._groups.group(group)
        if members is None or members.consumer.is_broadcast:
            return False
        found = members.subscriptions.get(topic)
        if found is None or found.version < version or found.expression_type != TAG:
            return False
        return found.expression in _EVERYTHING

    def _range(self, group: str, topic: str) -> ReadRange | None:
        """Returns what a pull reads; None: the topic or a number is unusual."""
        if not topic or len(topic) > _NAME_SIZE_MAX or is_group_topic(topic):
            return None
        config = self._store.tables.topics.find(topic)
        if config is None or not is_readable_by(topic, group) or not config.is_readable:
            return None
        queue_id, begin = self._number(b"queueId", -1), self._number(b"queueOffset", -1)
        count, size = self._number(b"maxMsgNums", -1), self._number(b"maxMsgBytes", BYTES_MAX)
        if queue_id < 0 or queue_id >= config.read_queue_count or begin < 0:
            return None
        if count <= 0 or count > INT32_MAX or size <= 0 or size > INT32_MAX:
            return None
        count = min(count, i64(MESSAGES_MAX))
        size = min(size, i64(ANSWER_SIZE_MAX))
        return ReadRange(topic, int(queue_id), int(begin), int(count), int(size))
