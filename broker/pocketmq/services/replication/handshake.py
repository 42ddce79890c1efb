"""The handshake between two PocketMQ brokers, without sockets.

    follower → leader   "PMQ1", u32 size, JSON {follower, epoch, store, fileSize, end, lastRecord,
                        proofs, token, terms, leader, timer, confirmed}
    leader → follower   "PMQ1", u32 size, JSON {epoch, terms, store, begin, minOffset, end, broker,
                        cluster, address}, or {error, reason, leader}

A log is copied only onto a log that is proven to be the same: the follower names records near its
end with their CRCs, and the leader compares them with its own bytes. A record contains its own
offset and its store time, so the same record at the same offset follows the same log.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from pocketmq.format.json_text import is_integer, read_object
from pocketmq.format.record import BLANK_SIZE, encode_blank
from pocketmq.model.message import INT32_MAX, OFFSET_MAX
from pocketmq.services.replication.protocol import SlaveRefused
from pocketmq.store.read.log_proofs import PROOFS_MAX, Proof
from pocketmq.store.tables.copied_timer import PROVEN_SIZE, TimerProof

MAGIC: Final = b"PMQ1"
"""First bytes of both sides of a connection between brokers."""
HANDSHAKE_SIZE_MAX: Final = 64 * 1024
"""Upper limit of the JSON's bytes."""
PROVEN_MAX: Final = 64 << 20
"""Upper limit of the bytes of all records that a handshake names."""
_SIZE: Final = Struct(">4sI")
_TEXT_MAX: Final = 512
_CRC_MAX: Final = 2**32 - 1

FILE_SIZE, OTHER_STORE, DIVERGED, EXPIRED = "file_size", "other_store", "diverged", "expired"
SAME_FOLLOWER, TOKEN, MALFORMED, NOT_LEADER = "same_follower", "token", "malformed", "not_leader"
LATER_EPOCH: Final = "later_epoch"


class FollowerRefused(SlaveRefused):
    """A follower that is not served; `reason` is one of the constants of this module.

    leader   address of the broker to follow instead, "" if it is not known
    """

    def __init__(self, reason: str, why: str, leader: str = "") -> None:
        super().__init__(why)
        self.reason = reason
        self.leader = leader


class Hello(NamedTuple):
    """First message of a follower.

    follower   random id of the follower
    epoch      epoch of its last term; 0 if no broker was ever promoted
    store      id of the store whose log it copied; "" for an empty log
    end        physical end of its log
    proofs     records of its log, the last one first; empty for an empty log
    token      signature of an admin (see `token_of`), "" for none
    terms      rows (epoch, physical offset of its begin) of all terms; of a follower, the last one
    leader     "host:port" of the leader of its last term, "" if it is not known
    timer      proof of its copy of the timer log; None: it has none
    confirmed  physical offset below which a leader showed the log to consumers; 0: the proofs do
               not determine where the logs differ
    last       physical offset at which the last record of its log begins
    """

    follower: str
    epoch: int
    store: str
    file_size_bytes: int
    end: int
    proofs: tuple[Proof, ...] = ()
    token: str = ""
    terms: tuple[tuple[int, int], ...] = ()
    leader: str = ""
    timer: TimerProof | None = None
    confirmed: int = 0
    last: int = 0


class LeaderAnswer(NamedTuple):
    """Answer of the leader.

    epoch        epoch of its term
    store        id of its store
    begin        physical offset at which the stream begins; if it is below the follower's end, the
                 follower cuts its log there
    min_offset   first physical offset of its log
    end          end of its log
    address      "host:port" that clients use
    terms        rows (epoch, physical offset of its begin) of all terms
    """

    epoch: int
    store: str
    begin: int
    min_offset: int
    end: int
    broker: str
    cluster: str
    address: str
    terms: tuple[tuple[int, int], ...] = ()


class LeaderLog(NamedTuple):
    """The leader's log, as far as a handshake needs it.

    read         (physical offset, size) -> bytes, fewer if the log does not have them
    common       offset above which the logs differ, as the leader's later terms began there
    term_begin   physical offset at which its last term began
    """

    epoch: int
    store: str
    file_size_bytes: int
    min_offset: int
    end: int
    read: Callable[[int, int], bytes]
    common: int = OFFSET_MAX
    term_begin: int = OFFSET_MAX


# -- decisions of the leader -------------------------------------------------------------------
def begin_for(hello: Hello, log: LeaderLog) -> int:
    """Returns where the stream to a follower begins.

    Errors   FollowerRefused
    Cost     reads one record, or up to PROOFS_MAX records if the follower's log has diverged
    """
    if hello.epoch > log.epoch:
        why = (
            f"its epoch is {hello.epoch}, this broker's {log.epoch}: another broker was promoted "
            "later; follow that one"
        )
        raise FollowerRefused(LATER_EPOCH, why)
    if hello.file_size_bytes != log.file_size_bytes:
        why = (
            f"its commit-log files have {hello.file_size_bytes} bytes, the leader's "
            f"{log.file_size_bytes}; set store.commit_log_file_size_bytes = {log.file_size_bytes} "
            "and follow with an empty store"
        )
        raise FollowerRefused(FILE_SIZE, why)
    if not hello.proofs:
        return log.min_offset
    if hello.store and hello.store != log.store:
        why = (
            f"its log was copied from store {hello.store}, this is store {log.store}; follow the "
            "broker with that store, or follow with an empty store"
        )
        raise FollowerRefused(OTHER_STORE, why)
    if hello.end < log.min_offset:
        why = (
            f"it has the log up to {hello.end}, but the log begins at {log.min_offset}, as older "
            "files have expired; follow with an empty store, and raise replication.lag_max_bytes"
        )
        raise FollowerRefused(EXPIRED, why)
    return _common_end(hello, log)


def _common_end(hello: Hello, log: LeaderLog) -> int:
    if log.common <= log.min_offset:  # The other log has no record of this one.
        return log.min_offset
    for proof in hello.proofs:
        if log.min_offset <= proof.begin < proof.end <= log.end:
            found = log.read(proof.begin, proof.end - proof.begin)
            if len(found) == proof.end - proof.begin and zlib.crc32(found) == proof.crc:
                is_last = proof.begin == hello.last
                return _after_blank(proof.end, hello.end, log) if is_last else proof.end
    last = hello.proofs[0]
    if len(hello.proofs) == 1 and last.begin > log.min_offset:
        why = (
            f"its record at {last.begin} (CRC {last.crc:08x}) is not in the leader's log, which "
            f"has [{log.min_offset}, {log.end}); it has to name earlier records"
        )
        raise FollowerRefused(DIVERGED, why)
    is_same_epoch = 0 < hello.epoch == log.epoch and hello.store == log.store
    if is_same_epoch and log.term_begin <= log.min_offset:  # Both led, each with its own records.
        return log.min_offset
    why = (
        f"none of {len(hello.proofs)} records of its log from {hello.proofs[-1].begin} to "
        f"{hello.end} is in the leader's log, which has [{log.min_offset}, {log.end}); compare "
        "both stores, then follow with an empty store"
    )
    raise FollowerRefused(OTHER_STORE, why)


def _after_blank(end: int, follower_end: int, log: LeaderLog) -> int:
    """Returns the follower's end if only the BLANK of a file is between it and a common record.

    end   of the common record; returned if more is between them
    """
    left = -end % log.file_size_bytes
    if follower_end != end + left or follower_end > log.end:
        return end
    is_blank = left < BLANK_SIZE or log.read(end, BLANK_SIZE) == encode_blank(left)[:BLANK_SIZE]
    return follower_end if is_blank else end


# -- bytes -------------------------------------------------------------------------------------
class HandshakeReader:
    """Reads one message of a handshake from bytes that arrive in any pieces."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def receive(self, content: bytes) -> dict[str, Any] | None:
        """Returns the message once it is complete, None before.

        Errors   FollowerRefused: no message of this protocol
        """
        found = self._bytes
        found += content
        if not MAGIC.startswith(found[: len(MAGIC)]):
            raise FollowerRefused(MALFORMED, f"it does not begin with {MAGIC.decode()}")
        if len(found) < _SIZE.size:
            return None
        _, size = _SIZE.unpack_from(found)
        if size > HANDSHAKE_SIZE_MAX:
            why = f"its message has {size} bytes, at most {HANDSHAKE_SIZE_MAX} are read"
            raise FollowerRefused(MALFORMED, why)
        if len(found) < _SIZE.size + size:
            return None
        try:
            return read_object(bytes(found[_SIZE.size : _SIZE.size + size]))
        except ValueError as error:
            raise FollowerRefused(MALFORMED, f"its message is no JSON object: {error}") from error

    @property
    def rest(self) -> bytes:
        """The bytes after the message."""
        _, size = _SIZE.unpack_from(self._bytes)
        return bytes(self._bytes[_SIZE.size + size :])


def encode_hello(hello: Hello) -> bytes:
    """Returns a follower's first bytes."""
    members = {
        "follower": hello.follower, "epoch": hello.epoch, "store": hello.store,
        "fileSize": hello.file_size_bytes, "end": hello.end, "lastRecord": hello.last,
        "proofs": hello.proofs, "token": hello.token,
        "terms": hello.terms, "leader": hello.leader, "timer": hello.timer,
        "confirmed": hello.confirmed,
    }  # fmt: skip
    return _framed(members)


def decode_hello(members: dict[str, Any]) -> Hello:
    """Returns a follower's first message.

    Errors   FollowerRefused: a member is missing or illegal
    """
    rows = members.get("proofs")
    if not isinstance(rows, list) or len(rows) > PROOFS_MAX:
        raise FollowerRefused(MALFORMED, f"proofs is no list of at most {PROOFS_MAX} records")
    hello = Hello(
        _text(members, "follower"), _number(members, "epoch", INT32_MAX), _text(members, "store"),
        _number(members, "fileSize", INT32_MAX), _number(members, "end", OFFSET_MAX),
        tuple(map(_proof, rows)), _text(members, "token"), tuple(_terms(members.get("terms", []))),
        _text({"leader": "", **members}, "leader"), _timer(members.get("timer")),
        _number({"confirmed": 0, **members}, "confirmed", OFFSET_MAX),
        _number({"lastRecord": 0, **members}, "lastRecord", OFFSET_MAX),
    )  # fmt: skip
    if not hello.follower:
        raise FollowerRefused(MALFORMED, "follower is empty")
    if sum(proof.end - proof.begin for proof in hello.proofs) > PROVEN_MAX:
        raise FollowerRefused(MALFORMED, f"its proofs have more than {PROVEN_MAX} bytes")
    return hello


def _proof(row: Any) -> Proof:
    limits = (OFFSET_MAX, OFFSET_MAX, _CRC_MAX)
    if not isinstance(row, list) or len(row) != len(limits):
        raise FollowerRefused(MALFORMED, "a proof is no list of begin, end and CRC")
    if not all(is_integer(n, 0, upper) for n, upper in zip(row, limits, strict=True)):
        raise FollowerRefused(MALFORMED, "a proof has a number beyond its limits")
    proof = Proof(*row)
    if not 0 < proof.end - proof.begin <= INT32_MAX:
        raise FollowerRefused(MALFORMED, f"a proof ends {proof.end - proof.begin} after its begin")
    return proof


def _timer(row: Any) -> TimerProof | None:
    if row is None:
        return None
    is_proof = isinstance(row, list) and len(row) == len(TimerProof._fields)
    if not is_proof or not all(is_integer(number, 0, OFFSET_MAX) for number in row):
        raise FollowerRefused(MALFORMED, "timer is no list of five numbers")
    proof = TimerProof(*row)
    if not proof.begin <= proof.place < proof.end <= proof.place + PROVEN_SIZE:
        raise FollowerRefused(MALFORMED, f"timer proves [{proof.place}, {proof.end})")
    return proof


def encode_answer(answer: LeaderAnswer) -> bytes:
    """Returns the leader's first bytes."""
    members = answer._asdict()
    members["minOffset"] = members.pop("min_offset")
    return _framed(members)


def encode_refusal(refused: FollowerRefused) -> bytes:
    """Returns the leader's only bytes to a follower that it does not serve."""
    members = {"error": str(refused), "reason": refused.reason, "leader": refused.leader}
    return _framed(members)


def decode_answer(members: dict[str, Any]) -> LeaderAnswer:
    """Returns the leader's answer.

    Errors   FollowerRefused: the leader refused, or a member is missing or illegal
    """
    if "error" in members:
        leader = _text(members, "leader")
        raise FollowerRefused(_text(members, "reason"), str(members["error"]), leader)
    answer = LeaderAnswer(
        epoch=_number(members, "epoch", INT32_MAX),
        store=_text(members, "store"),
        begin=_number(members, "begin", OFFSET_MAX),
        min_offset=_number(members, "minOffset", OFFSET_MAX),
        end=_number(members, "end", OFFSET_MAX),
        broker=_text(members, "broker"),
        cluster=_text(members, "cluster"),
        address=_text(members, "address"),
        terms=tuple(_terms(members.get("terms"))),
    )
    if not answer.store:
        raise FollowerRefused(MALFORMED, "store is empty")
    if not answer.min_offset <= answer.begin <= answer.end:
        why = f"begin {answer.begin} is not in its log, [{answer.min_offset}, {answer.end})"
        raise FollowerRefused(MALFORMED, why)
    return answer


def _terms(rows: Any) -> Iterator[tuple[int, int]]:
    if not isinstance(rows, list):
        raise FollowerRefused(MALFORMED, "terms is no list")
    for row in rows:
        is_pair = isinstance(row, list) and len(row) == len(("epoch", "begin"))
        if not is_pair or not all(is_integer(number, 0, OFFSET_MAX) for number in row):
            raise FollowerRefused(MALFORMED, "a term is no list of epoch and begin")
        yield row[0], row[1]


def _framed(members: dict[str, Any]) -> bytes:
    text = json.dumps(members, separators=(",", ":")).encode()
    assert len(text) <= HANDSHAKE_SIZE_MAX
    return _SIZE.pack(MAGIC, len(text)) + text


def _number(members: dict[str, Any], name: str, upper: int) -> int:
    value = members.get(name)
    if not is_integer(value, 0, upper):
        raise FollowerRefused(MALFORMED, f"{name} is no number from 0 to {upper}")
    assert isinstance(value, int)
    return value


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or len(value) > _TEXT_MAX:
        raise FollowerRefused(MALFORMED, f"{name} is no text of at most {_TEXT_MAX} characters")
    return value


# -- the admin's signature ---------------------------------------------------------------------
def token_of(signed: Sequence[tuple[str, str]]) -> str:
    """Returns the token of a hello from a signature's metadata (date, authorization)."""
    return " ".join(value for _, value in signed)


def signature_of(token: str) -> tuple[str, str]:
    """Returns (authorization, date) of a token; empty texts for an empty one."""
    date, _, authorization = token.partition(" ")
    return authorization, date
