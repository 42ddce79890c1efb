"""Parses and encodes commands of RocketMQ's remoting protocol, without I/O.

    u32 length of the rest · u8 serialization · u24 header length · header · body

    0  JSON      {"code":310,"extFields":{"a":"p"},"flag":0,"language":"JAVA","opaque":4, …}
    1  ROCKETMQ  i16 code · u8 language · i16 version · i32 opaque · i32 flag · i32 size · remark
                 · i32 size · fields, each i16 size · name · i32 size · value

Both sides send requests on one connection, each with opaque numbers of its own. A reply repeats the
opaque and the serialization of its request. Source: RemotingCommand, RocketMQSerializable,
NettyDecoder.
"""

import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from struct import Struct, error
from typing import Any, Final, NamedTuple, final

JSON: Final = 0
BINARY: Final = 1
FRAME_SIZE_MAX: Final = 16 * 1024 * 1024 - 4
"""Upper limit of a frame's bytes after its length field."""
HEADER_SIZE_MAX: Final = 256 * 1024
"""Upper limit of a header's bytes: a property block of 32 KiB, escaped in JSON, fits."""
FIELDS_MAX: Final = 128
"""Upper limit of a command's fields; RocketMQ's longest request has about 30 fields."""
START_SIZE: Final = 9
"""Number of a connection's first bytes that show whether it begins with a frame."""
HEAD_SIZE: Final = 8
"""Size of a frame's part before its header."""

RESPONSE: Final = 1
ONE_WAY: Final = 2
"""RESPONSE and ONE_WAY are bits of a command's flag."""
LANGUAGE: Final = "JAVA"
VERSION: Final = 513
"""Language and version (V5_5_0) in the broker's commands, as RocketMQ 5.5.0 writes them."""
LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
)  # fmt: skip
"""Names of languages by their number (LanguageCode)."""
_WIDE: Final = (
    200050, 200051, 200052, 200053, 200054, 200055, 200070, 200071, 200072, 200073, 200074, 200075,
    200076, 200077, 200078, 200079, 200151,
)  # fmt: skip
_WIDENED: Final[Mapping[int, int]] = {code & 0xFFFF: code for code in _WIDE}
"""Whole codes of pop and lite requests, by their 16 bits in a binary header."""
_FRAME: Final = Struct(">II")
_BINARY: Final = Struct(">hBhiii")
_NAME_SIZE: Final = Struct(">h")
_SIZE: Final = Struct(">i")
_KINDS: Final = (str, bool, int, float)


class RemotingError(ValueError):
    """Received bytes are no remoting command; the rest of the connection cannot be read."""


class Command(NamedTuple):
    """One request or reply.

    code    request code, or the result of a reply
    fields  extFields, all texts
    flag    0, or the bits RESPONSE and ONE_WAY
    opaque  number of the request, chosen by its sender and repeated by the reply
    """

    code: int
    fields: Mapping[str, str] = {}
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str = ""
    language: str = LANGUAGE
    version: int = VERSION
    serialization: int = JSON

    @property
    def is_reply(self) -> bool:
        """Whether the command answers a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether the command's sender expects no reply."""
        return bool(self.flag & ONE_WAY)


class Oversized(NamedTuple):
    """A request whose body exceeds the limit of its code, so that the body is skipped.

    command    the request, with an empty body
    body_size  bytes of the skipped body
    """

    command: Command
    body_size: int


def starts_frame(data: bytes) -> bool | None:
    """Returns whether a connection begins with a remoting frame; None: more bytes are needed.

    data   first bytes of the connection; START_SIZE bytes suffice
    """
    if not data.startswith(b"\0"):
        return None if not data else False
    if len(data) < START_SIZE:
        return None
    size, mark = _FRAME.unpack_from(data)
    serialization, header_size = mark >> 24, mark & 0xFFFFFF
    if not 21 <= size <= FRAME_SIZE_MAX or not 0 < header_size <= size - 4:
        return False
    return serialization == BINARY or (serialization == JSON and data[HEAD_SIZE] == 0x7B)


# -- reading -----------------------------------------------------------------------------------


@final
class CommandReader:
    """Splits a connection's bytes into commands.

    body_max   code -> upper limit of a request body's bytes; a larger body yields an `Oversized`
    """

    __slots__ = ("_body_max", "_buffer", "_command", "_need", "_skip")

    def __init__(self, body_max: Callable[[int], int]) -> None:
        self._body_max = body_max
        self._buffer = bytearray()
        self._need = 0
        """Size of the unfinished frame; 0 if the bytes before its header have not arrived."""
        self._command: Command | None = None
        """The unfinished frame's command, if its header has arrived."""
        self._skip = 0
        """Number of bytes of a skipped body that have not arrived."""

    @property
    def held(self) -> int:
        """Bytes of the unfinished frame."""
        return len(self._buffer)

    @property
    def is_unfinished(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._buffer or self._skip)

    def joined(self, data: bytes) -> bytes:
        """Returns bytes that begin with a frame, if `data` completes the unfinished frame.

        Otherwise returns `data`; `receive` then continues with the unfinished frame.
        """
        buffer = self._buffer
        if not buffer or self._skip or len(buffer) + len(data) < self._need:
            return data
        joined = b"".join((buffer, data))
        buffer.clear()
        self._command, self._need = None, 0
        return joined

    def receive(self, data: bytes) -> list[Command | Oversized]:
        """Returns the commands that these bytes complete.

        Errors   RemotingError
        Cost     4 µs a command with a JSON header of 400 bytes, uncompiled
        """
        found: list[Command | Oversized] = []
        if not self._buffer and not self._skip:  # mostly whole frames, which need no copy
            position = self._whole_frames(data, found)
            if position == len(data):
                return found
            data = data[position:]
        self._buffer += data
        while self._step(found):
            pass
        assert self._need >= 0, "negative frame size"
        return found

    def _whole_frames(self, data: bytes, found: list[Command | Oversized]) -> int:
        position, size = 0, len(data)
        while size - position >= HEAD_SIZE:
            rest, serialization, header_size = _head(data, position)
            end = position + 4 + rest
            if end > size:
                break
            body_begin = position + HEAD_SIZE + header_size
            header = data[position + HEAD_SIZE : body_begin]
            command = _command(serialization, header)
            found.append(self._judged(command, end - body_begin, data[body_begin:end]))
            position = end
        return position

    def _judged(self, command: Command, size: int, body: bytes) -> Command | Oversized:
        if not command.is_reply and size > self._body_max(command.code):
            return Oversized(command, size)
        return command._replace(body=body) if size else command

    def _step(self, found: list[Command | Oversized]) -> bool:
        buffer = self._buffer
        if self._skip:
            skipped = min(self._skip, len(buffer))
            del buffer[:skipped]
            self._skip -= skipped
            return not self._skip and bool(buffer)
        if len(buffer) < HEAD_SIZE:
            return False
        rest, serialization, header_size = _head(buffer, 0)
        self._need = 4 + rest
        begin = HEAD_SIZE + header_size
        if self._command is None:
            if len(buffer) < begin:
                return False
            command = _command(serialization, bytes(buffer[HEAD_SIZE:begin]))
            judged = self._judged(command, self._need - begin, b"")
            if isinstance(judged, Oversized):
                found.append(judged)
                self._skip, self._need = self._need, 0
                return True
            self._command = command
        if len(buffer) < self._need:
            return False
        found.append(self._command._replace(body=bytes(buffer[begin : self._need])))
        del buffer[: self._need]
        self._command, self._need = None, 0
        return True


def decode(frame: bytes) -> Command:
    """Returns the command of a whole frame; the body limit of its code is not checked.

    Errors   RemotingError
    """
    _, serialization, header_size = _head(frame, 0)
    begin = HEAD_SIZE + header_size
    return _command(serialization, frame[HEAD_SIZE:begin])._replace(body=frame[begin:])


def frame_size(data: bytes, position: int) -> int:
    """Returns the size of the frame at a position, its length field included."""
    size, _ = _FRAME.unpack_from(data, position)
    return 4 + int(size)


def _head(data: bytes | bytearray, position: int) -> tuple[int, int, int]:
    """Returns (size after the length field, serialization, size of the header) of a frame."""
    rest, mark = _FRAME.unpack_from(data, position)
    serialization, header_size = mark >> 24, mark & 0xFFFFFF
    if rest > FRAME_SIZE_MAX:
        raise RemotingError(f"a frame has {rest} bytes, the limit is {FRAME_SIZE_MAX}")
    if header_size > rest - 4:
        raise RemotingError(f"a frame of {rest} bytes has a header of {header_size}")
    if header_size > HEADER_SIZE_MAX:
        raise RemotingError(f"a header has {header_size} bytes, the limit is {HEADER_SIZE_MAX}")
    if serialization not in (JSON, BINARY):
        raise RemotingError(f"serialization {serialization} is neither JSON (0) nor ROCKETMQ (1)")
    return rest, serialization, header_size


def _command(serialization: int, header: bytes) -> Command:
    return _from_json(header) if serialization == JSON else _from_binary(header)


def _from_json(header: bytes) -> Command:
    try:
        given: Any = json.loads(header.decode())
    except (ValueError, RecursionError) as failure:
        raise RemotingError(f"a header is no JSON: {str(failure)[:100]}") from failure
    if type(given) is not dict:
        raise RemotingError("a header is no JSON object")
    fields = _texts(given.get("extFields"))
    remark = given.get("remark") or ""
    language = given.get("language") or "OTHER"
    if b"\\u" in header:
        _refuse_surrogates((remark, language, *fields, *fields.values()))
    if type(remark) is not str or type(language) is not str:
        raise RemotingError("a header's remark or language is no text")
    return Command(
        _number(given, "code"), fields, b"", _number(given, "opaque"), _number(given, "flag"),
        remark, language, _number(given, "version"),
    )  # fmt: skip


def _number(given: dict[str, Any], name: str) -> int:
    value = given.get(name, 0)
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise RemotingError(f"a header's {name} is no number of 32 bits")
    return value


def _texts(given: Any) -> dict[str, str]:
    """Returns extFields as texts; some clients write numbers, booleans or null."""
    if given is None:
        return {}
    if type(given) is not dict:
        raise RemotingError("a header's extFields are no object")
    if len(given) > FIELDS_MAX:
        raise RemotingError(f"a header has {len(given)} fields, the limit is {FIELDS_MAX}")
    for value in given.values():
        if type(value) is not str:
            return {name: _text(value) for name, value in given.items() if value is not None}
    return given


def _text(value: Any) -> str:
    if type(value) not in _KINDS:
        raise RemotingError("a field is neither a text nor a number")
    return value if isinstance(value, str) else json.dumps(value)


def _refuse_surrogates(texts: tuple[Any, ...]) -> None:
    try:
        "".join(map(str, texts)).encode()
    except UnicodeEncodeError as failure:
        raise RemotingError("a header contains half of a surrogate pair") from failure


def _from_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_size = _BINARY.unpack_from(header)
        remark, position = _sized(header, _BINARY.size, remark_size)
        (size,) = _SIZE.unpack_from(header, position)
        position += _SIZE.size
        if size < 0 or position + size > len(header):
            raise RemotingError("the fields of a binary header exceed it")
        return Command(
            _WIDENED.get(code, code),
            _binary_fields(header, position, position + size),
            b"", opaque, flag, remark.decode(),
            LANGUAGES[language] if language < len(LANGUAGES) else "OTHER", version, BINARY,
        )  # fmt: skip
    except (error, UnicodeDecodeError) as failure:
        raise RemotingError(f"a binary header is damaged: {str(failure)[:100]}") from failure


def _binary_fields(header: bytes, position: int, end: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    count = 0
    while position < end:
        count += 1
        if count > FIELDS_MAX:
            raise RemotingError(f"a header has more than {FIELDS_MAX} fields")
        (size,) = _NAME_SIZE.unpack_from(header, position)
        name, position = _sized(header, position + _NAME_SIZE.size, size)
        (size,) = _SIZE.unpack_from(header, position)
        value, position = _sized(header, position + _SIZE.size, size)
        fields[name.decode()] = value.decode()
    if position > end:
        raise RemotingError("the fields of a binary header exceed it")
    return fields


def _sized(header: bytes, begin: int, size: int) -> tuple[bytes, int]:
    if size < 0 or begin + size > len(header):
        raise RemotingError("a text of a binary header exceeds it")
    return header[begin : begin + size], begin + size


# -- writing -----------------------------------------------------------------------------------


def encode(command: Command) -> bytes:
    """Returns the frame of a command, in its serialization.

    Cost   2 µs for a JSON header with six fields
    """
    is_binary = command.serialization == BINARY
    header = _binary_header(command) if is_binary else _json_header(command)
    size = 4 + len(header) + len(command.body)
    mark = command.serialization << 24 | len(header)
    assert size <= FRAME_SIZE_MAX, "the frame is too long for its readers"
    return b"".join((_FRAME.pack(size, mark), header, command.body))


def _json_header(command: Command) -> bytes:
    """Members are in alphabetical order, as fastjson writes them."""
    quoted = encode_basestring
    fields = ",".join([f"{quoted(k)}:{quoted(v)}" for k, v in command.fields.items()])
    extra = f',"extFields":{{{fields}}}' if fields else ""
    remark = f',"remark":{quoted(command.remark)}' if command.remark else ""
    return (
        f'{{"code":{command.code}{extra},"flag":{command.flag},"language":"{command.language}",'
        f'"opaque":{command.opaque}{remark},"serializeTypeCurrentRPC":"JSON",'
        f'"version":{command.version}}}'
    ).encode()


def _binary_header(command: Command) -> bytes:
    remark = command.remark.encode()
    fields = b"".join(
        [
            b"".join((_NAME_SIZE.pack(len(name)), name, _SIZE.pack(len(value)), value))
            for name, value in ((k.encode(), v.encode()) for k, v in command.fields.items())
        ]
    )
    code = command.code & 0xFFFF
    head = _BINARY.pack(
        code - ((code & 0x8000) << 1), LANGUAGES.index(command.language), command.version,
        command.opaque, command.flag, len(remark),
    )  # fmt: skip
    return b"".join((head, remark, _SIZE.pack(len(fields)), fields))
