"""The handshake of two brokers: bytes cut anywhere, illegal members, and where a stream begins."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.record import encode_blank
from pocketmq.services.replication.handshake import (
    DIVERGED,
    EXPIRED,
    FILE_SIZE,
    HANDSHAKE_SIZE_MAX,
    LATER_EPOCH,
    MALFORMED,
    OTHER_STORE,
    FollowerRefused,
    HandshakeReader,
    Hello,
    LeaderAnswer,
    LeaderLog,
    begin_for,
    decode_answer,
    decode_hello,
    encode_answer,
    encode_hello,
    encode_refusal,
    signature_of,
    token_of,
)
from pocketmq.store.read.log_proofs import Proof
from pocketmq.store.tables.copied_timer import TimerProof

SIZE = 1_000
BYTES = bytes(n * 7 % 251 for n in range(5 * SIZE))
TIMER = TimerProof(100, 900, 500, 400, 7)
HELLO = Hello("f1", 3, "s1", SIZE, 30, (Proof(10, 30, 9),), "date signature", timer=TIMER, last=10)
ANSWER = LeaderAnswer(4, "s1", 20, 0, 90, "broker-a", "DefaultCluster", "10.0.0.1:8081", ((4, 20),))


def log_of(end: int, begin: int = 0, store: str = "s1", epoch: int = 3) -> LeaderLog:
    def read(offset: int, size: int) -> bytes:
        return BYTES[offset : min(offset + size, end, offset - offset % SIZE + SIZE)]

    return LeaderLog(epoch, store, SIZE, begin, end, read)


def proof(begin: int, end: int) -> Proof:
    return Proof(begin, end, zlib.crc32(BYTES[begin:end]))


def hello(end: int, *proofs: Proof, store: str = "s1", size: int = SIZE) -> Hello:
    return Hello("f1", 3, store, size, end, proofs, last=proofs[0].begin if proofs else 0)


def refusal(hello: Hello, log: LeaderLog) -> FollowerRefused:
    with pytest.raises(FollowerRefused) as caught:
        begin_for(hello, log)
    return caught.value


def read_in_pieces(content: bytes, cuts: list[int]) -> tuple[dict[str, Any] | None, bytes]:
    reader, at, number, found = HandshakeReader(), 0, 0, None
    while at < len(content):
        size = cuts[number % len(cuts)]
        found = reader.receive(content[at : at + size])
        at, number = at + size, number + 1
    return found, reader.rest


@given(cuts=st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_messages_may_be_cut_anywhere(cuts: list[int]) -> None:
    found, rest = read_in_pieces(encode_hello(HELLO) + b"later", cuts)
    assert found is not None
    assert (decode_hello(found), rest) == (HELLO, b"later")
    found, rest = read_in_pieces(encode_answer(ANSWER), cuts)
    assert found is not None
    assert (decode_answer(found), rest) == (ANSWER, b"")


def test_a_refusal_is_raised_where_it_arrives() -> None:
    content = encode_refusal(FollowerRefused(FILE_SIZE, "files differ", "10.0.0.2:8081"))
    found = HandshakeReader().receive(content)
    assert found is not None
    with pytest.raises(FollowerRefused, match="files differ") as caught:
        decode_answer(found)
    assert (caught.value.reason, caught.value.leader) == (FILE_SIZE, "10.0.0.2:8081")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "does not begin with PMQ1"),
        (b"PMQ2", "does not begin"),
        (b"PMQ1" + (HANDSHAKE_SIZE_MAX + 1).to_bytes(4), "at most 65536 are read"),
        (b"PMQ1\0\0\0\2[]", "no JSON object"),
        (b"PMQ1\0\0\0\1\xff", "no JSON object"),
    ],
)
def test_bytes_of_another_protocol_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(FollowerRefused, match=why) as caught:
        HandshakeReader().receive(content)
    assert caught.value.reason == MALFORMED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("follower", ""), ("follower", 1), ("follower", "x" * 513), ("epoch", -1), ("epoch", True),
        ("epoch", 2**31), ("store", None), ("fileSize", "1"), ("end", 2**63), ("end", 1.0),
        ("proofs", {}), ("proofs", [[1, 2]]), ("proofs", [[1, 2, -1]]), ("proofs", [[2, 2, 0]]),
        ("proofs", [[1, 2, 3]] * 65), ("proofs", [[0, 1 << 27, 0]]), ("token", []),
        ("timer", []), ("timer", [0, 9, 5, 9, 1]), ("timer", [0, 9, 5, 2, -1]),
        ("timer", [0, 1 << 20, 5, 2, 1]),
    ],
)  # fmt: skip
def test_illegal_members_of_a_hello_are_refused(name: str, value: Any) -> None:
    members = json.loads(encode_hello(HELLO)[8:])
    members[name] = value
    with pytest.raises(FollowerRefused) as caught:
        decode_hello(members)
    assert caught.value.reason == MALFORMED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("store", ""), ("begin", 91), ("minOffset", 21), ("end", None), ("address", 5),
        ("terms", 1), ("terms", [[1]]), ("terms", [[1, -1]]), ("epoch", "4"), ("broker", None),
    ],
)  # fmt: skip
def test_illegal_members_of_an_answer_are_refused(name: str, value: Any) -> None:
    members = json.loads(encode_answer(ANSWER)[8:])
    members[name] = value
    with pytest.raises(FollowerRefused) as caught:
        decode_answer(members)
    assert caught.value.reason == MALFORMED


def test_an_empty_follower_gets_the_log_from_its_begin() -> None:
    assert begin_for(hello(0, store=""), log_of(2_500, begin=1_000)) == 1_000


def test_a_follower_with_a_common_end_goes_on_there() -> None:
    assert begin_for(hello(400, proof(300, 400)), log_of(2_500)) == 400


def test_a_follower_whose_end_follows_a_blank_goes_on_behind_it() -> None:
    content = bytearray(BYTES)
    content[900:908] = encode_blank(100)[:8]
    log = log_of(2_500)._replace(read=lambda at, size: bytes(content[at : at + size]))
    assert begin_for(hello(1_000, proof(800, 900)), log) == 1_000
    assert begin_for(hello(1_000, proof(800, 900)), log_of(2_500)) == 900, "no BLANK is there"
    assert begin_for(hello(1_000, proof(800, 995)), log_of(2_500)) == 1_000, "too short for one"
    assert begin_for(hello(1_000, proof(800, 900)), log._replace(end=900)) == 900
    later = hello(1_000, Proof(900, 950, 1), proof(800, 900))
    assert begin_for(later, log) == 900, "a record is where the leader has a BLANK"
    between = hello(1_000, proof(800, 900))._replace(last=900)
    assert begin_for(between, log) == 900, "it names records before that one"


def test_a_diverged_follower_names_more_and_goes_on_at_the_highest_common_record() -> None:
    other = Proof(500, 600, 1)
    refused = refusal(hello(600, other), log_of(2_500))
    assert refused.reason == DIVERGED
    assert "record at 500" in str(refused)
    assert begin_for(hello(600, other, proof(300, 400), proof(0, 90)), log_of(2_500)) == 400


def test_a_follower_that_is_ahead_goes_back_to_the_leaders_end() -> None:
    ahead = Proof(900, 999, 5)
    assert refusal(hello(999, ahead), log_of(500)).reason == DIVERGED
    assert begin_for(hello(999, ahead, proof(400, 500)), log_of(500)) == 500


def test_two_leaders_of_one_epoch_may_have_no_common_record() -> None:
    log = log_of(500)._replace(term_begin=0)
    assert begin_for(hello(99, Proof(0, 99, 1)), log) == 0
    assert begin_for(hello(400, Proof(9, 99, 1), Proof(0, 9, 2)), log) == 0
    assert refusal(hello(99, Proof(9, 99, 1)), log).reason == DIVERGED
    for other in (log._replace(term_begin=1), log._replace(epoch=4), log._replace(store="s2")):
        assert refusal(hello(99, Proof(0, 99, 1)), other).reason == OTHER_STORE


@pytest.mark.parametrize(
    ("hello", "log", "reason", "parts"),
    [
        (hello(0, size=512), log_of(9), FILE_SIZE, ("512", "1000", "commit_log_file_size_bytes")),
        (hello(9, proof(0, 9), store="s2"), log_of(9), OTHER_STORE, ("s2", "s1", "empty store")),
        (hello(400, proof(0, 400)), log_of(2_000, 1_000), EXPIRED, ("400", "1000", "empty store")),
        (hello(400, Proof(9, 99, 1), Proof(0, 9, 2)), log_of(500), OTHER_STORE, ("none of 2",)),
        (hello(0), log_of(9, epoch=2), LATER_EPOCH, ("is 3", "'s 2", "follow that one")),
    ],
)  # fmt: skip
def test_a_refusal_states_both_values_and_the_next_step(
    hello: Hello, log: LeaderLog, reason: str, parts: tuple[str, ...]
) -> None:
    refused = refusal(hello, log)
    assert refused.reason == reason
    for part in parts:
        assert part in str(refused)


def test_a_token_has_the_signature_of_a_call() -> None:
    assert signature_of(token_of((("x-mq-date-time", "D"), ("authorization", "A B")))) == (
        "A B",
        "D",
    )
    assert signature_of(token_of(())) == ("", "")
