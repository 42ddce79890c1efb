"""The remoting protocol: commands as bytes, in both serializations, whole or in pieces."""

import json
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.wire import remoting
from pocketmq.wire.remoting import (
    BINARY,
    FIELDS_MAX,
    HEADER_SIZE_MAX,
    JSON,
    LANGUAGES,
    ONE_WAY,
    RESPONSE,
    START_SIZE,
    Command,
    CommandReader,
    Oversized,
    RemotingError,
    encode,
    starts_frame,
)

SESSIONS = Path(__file__).parents[1] / "kit" / "remoting"
RECORDED = sorted(path.name for path in SESSIONS.iterdir() if path.suffix in (".up", ".down"))
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.builds(
    Command,
    code=st.integers(0, 400),
    fields=st.dictionaries(TEXTS, TEXTS, max_size=8),
    body=st.binary(max_size=40),
    opaque=INT32,
    flag=st.integers(0, 3),
    remark=TEXTS,
    language=st.sampled_from(LANGUAGES),
    version=st.integers(0, 600),
    serialization=st.sampled_from([JSON, BINARY]),
)


def reader(body_max: int = 1 << 24) -> CommandReader:
    return CommandReader(lambda code: body_max)


def framed(header: bytes, body: bytes = b"", serialization: int = JSON) -> bytes:
    size = 4 + len(header) + len(body)
    return pack(">II", size, serialization << 24 | len(header)) + header + body


def in_pieces(raw: bytes, size: int) -> list[Command | Oversized]:
    read, found = reader(), list[Command | Oversized]()
    for begin in range(0, len(raw), size):
        found += read.receive(raw[begin : begin + size])
    assert not read.is_unfinished
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_sessions_are_read_whole_and_in_pieces(name: str) -> None:
    raw = (SESSIONS / name).read_bytes()
    whole = in_pieces(raw, len(raw))
    assert len(whole) > 1
    assert in_pieces(raw, 1) == in_pieces(raw, 97) == whole
    for command in whole:
        assert isinstance(command, Command)
        assert command.is_reply == name.endswith(".down") or command.code in (39, 40)


def test_a_recorded_send_has_its_fields() -> None:
    raw = (SESSIONS / "j53-batch-3.up").read_bytes()
    batch = next(one for one in in_pieces(raw, 1000) if isinstance(one, Command) and one.body[:1])
    assert (batch.code, batch.language, batch.version) == (320, "JAVA", 479)
    assert (batch.fields["a"], batch.fields["m"]) == ("p-batch", "true")


def test_recorded_replies_are_written_as_the_real_broker_wrote_them() -> None:
    raw = (SESSIONS / "j53-sync-2.down").read_bytes()
    replies = in_pieces(raw, len(raw))
    assert b"".join(encode(one) for one in replies if isinstance(one, Command)) == raw


@given(st.lists(COMMANDS, max_size=5), st.integers(1, 60))
def test_what_is_written_is_read_in_any_pieces(commands: list[Command], size: int) -> None:
    raw = b"".join(map(encode, commands))
    assert in_pieces(raw, size) == commands


@given(st.binary(max_size=80), st.sampled_from([JSON, BINARY]))
def test_any_header_is_a_command_or_refused(header: bytes, serialization: int) -> None:
    try:
        found = reader().receive(framed(header, b"", serialization))
    except RemotingError:
        return
    assert len(found) == 1


@given(COMMANDS, st.integers(0, 60), st.integers(0, 255))
def test_a_flipped_byte_is_a_command_or_refused(command: Command, place: int, byte: int) -> None:
    raw = bytearray(encode(command))
    raw[place % len(raw)] = byte
    read = reader()
    try:
        read.receive(bytes(raw))
    except RemotingError:
        return
    assert read.held <= len(raw)


@given(st.binary(max_size=30))
def test_a_start_is_recognized_with_nine_bytes(data: bytes) -> None:
    assert len(data) < START_SIZE or starts_frame(data) is not None


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_connections_are_recognized_by_their_first_bytes(name: str) -> None:
    raw = (SESSIONS / name).read_bytes()
    assert starts_frame(raw[:START_SIZE])
    assert starts_frame(raw[: START_SIZE - 1]) is None


@pytest.mark.parametrize(
    "data", [b"\x16\3\1\0\1\0\1\0\1", b"PRI * HTT", b"GET / HTT", b"\0\0\0\x14\0\0\0\1{"]
)
def test_other_protocols_are_not_taken_for_frames(data: bytes) -> None:
    assert starts_frame(data) is False


@pytest.mark.parametrize("wide", [200050, 200051, 200054, 200151, 200070])
def test_truncated_codes_of_binary_headers_are_restored(wide: int) -> None:
    (command,) = reader().receive(encode(Command(wide, serialization=BINARY)))
    assert isinstance(command, Command)
    assert command.code == wide
    (plain,) = reader().receive(encode(Command(wide & 0xFFFF)))
    assert isinstance(plain, Command)
    assert plain.code == wide & 0xFFFF


def test_numbers_and_booleans_of_fields_become_texts() -> None:
    fields = {"a": 1, "b": True, "c": 1.5, "d": None, "e": "x"}
    header = json.dumps({"code": 10, "extFields": fields, "flag": 2}).encode()
    (command,) = reader().receive(framed(header))
    assert isinstance(command, Command)
    assert command.fields == {"a": "1", "b": "true", "c": "1.5", "e": "x"}
    assert (command.is_one_way, command.is_reply) == (True, False)
    assert command.language == "OTHER"


HOSTILE = {
    "no JSON": b"{code",
    "no object": b"[]",
    "too deep": b"[" * 50_000,
    "code no number": b'{"code":"10"}',
    "code a boolean": b'{"code":true}',
    "code too wide": b'{"code":2147483648}',
    "endless number": b'{"code":' + b"9" * 9_000 + b"}",
    "opaque infinite": b'{"opaque":1e999}',
    "fields a list": b'{"extFields":[]}',
    "field an object": b'{"extFields":{"a":{}}}',
    "remark no text": b'{"remark":5}',
    "half a pair": b'{"extFields":{"a":"\\ud800"}}',
    "no UTF-8": b'{"remark":"\xff"}',
    "too many fields": json.dumps({"extFields": dict.fromkeys(map(str, range(129)), "")}).encode(),
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_headers_are_refused(header: bytes) -> None:
    with pytest.raises(RemotingError):
        reader().receive(framed(header))


HEADS = {
    "too long": pack(">II", 1 << 24, 5),
    "header beyond the frame": pack(">II", 20, 17),
    "header too long": pack(">II", HEADER_SIZE_MAX + 9, HEADER_SIZE_MAX + 1),
    "serialization 2": pack(">II", 20, 2 << 24 | 5),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_frame_is_refused_by_its_head_before_more_of_it_is_kept(head: bytes) -> None:
    with pytest.raises(RemotingError):
        reader().receive(head)
    read = reader()
    assert read.receive(head[:7]) == []
    with pytest.raises(RemotingError):
        read.receive(head[7:])


BINARY_HEADERS = {
    "cut": bytes(5),
    "remark beyond": pack(">hBhiiii", 1, 0, 1, 1, 0, 9, 0),
    "fields beyond": pack(">hBhiiii", 1, 0, 1, 1, 0, 0, 9),
    "negative size": pack(">hBhiiii", 1, 0, 1, 1, 0, -1, 0),
    "name beyond": pack(">hBhiiiih", 1, 0, 1, 1, 0, 0, 2, 9),
    "value beyond": pack(">hBhiiiihi", 1, 0, 1, 1, 0, 0, 6, 0, 9),
    "too many fields": pack(">hBhiiii", 1, 0, 1, 1, 0, 0, 6 * (FIELDS_MAX + 1))
    + bytes(6 * (FIELDS_MAX + 1)),
}


@pytest.mark.parametrize("header", BINARY_HEADERS.values(), ids=BINARY_HEADERS)
def test_damaged_binary_headers_are_refused(header: bytes) -> None:
    with pytest.raises(RemotingError):
        reader().receive(framed(header, serialization=BINARY))


def test_a_body_above_its_limit_is_skipped_and_not_kept() -> None:
    read = reader(body_max=100)
    small, large = Command(7, body=bytes(100), opaque=2), Command(7, body=bytes(10_000), opaque=1)
    raw = encode(large) + encode(small)
    found, held = list[Command | Oversized](), 0
    for begin in range(0, len(raw), 50):
        found += read.receive(raw[begin : begin + 50])
        held = max(held, read.held)
    assert found == [Oversized(large._replace(body=b""), 10_000), small]
    assert held < 300
    assert read.receive(raw) == found  # Whole at once, too.


def test_the_body_of_a_reply_has_no_limit_of_its_own() -> None:
    reply = Command(0, body=bytes(10_000), flag=RESPONSE)
    assert reader(body_max=100).receive(encode(reply)) == [reply]
    assert encode(reply._replace(flag=ONE_WAY)) != encode(reply)


def test_a_command_without_fields_and_remark_is_short() -> None:
    assert encode(Command(0, opaque=3, flag=1))[8:] == (
        b'{"code":0,"flag":1,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON",'
        b'"version":513}'
    )
    assert remoting.VERSION == 513
