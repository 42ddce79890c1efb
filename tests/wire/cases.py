"""Cases by chance, for tests and for the battery `wire`: header blocks, frames, conversations.

Each takes a source of chance and fails by AssertionError; the same source makes the same case.
"""

import faulthandler
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from h2.settings import SettingCodes
from hpack import Decoder as ReferenceDecoder
from hpack import Encoder
from hpack.exceptions import HPACKError
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from pocketmq.wire.connection import Connection
from pocketmq.wire.flow import Limits
from pocketmq.wire.frames import PREFACE, ConnectionFault
from pocketmq.wire.hpack import Decoder
from tests.wire.h2_client import REQUEST, Pair, framed
from tests.wire.raw_peer import parsed

LIST_MAX: Final = 1 << 20
EDGES: Final = [0, *(edge + off for edge in (1 << n for n in range(15)) for off in (-1, 0, 1))]
"""Sizes where something may change: every power of two and what lies beside it."""
NAMES: Final = ("x-request-id", "grpc-timeout", "authorization", "te", ":path", "x", "data-bin")

_PRINTABLE: Final = bytes(33 + byte % 94 for byte in range(256))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Ends the process, with a traceback, if what is inside takes longer.

    A compiled loop without end holds the interpreter's lock, so no Python can stop it.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _mutated(rng: Random, raw: bytes) -> bytes:
    """Returns bytes that differ in a few places from these."""
    changed = bytearray(raw)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0 if changed:
                changed[place % len(changed)] = rng.randrange(256)
            case 1 if changed:
                changed[place % len(changed)] ^= 1 << rng.randrange(8)
            case 2:
                changed[place:place] = rng.randbytes(rng.randrange(1, 4))
            case _:
                del changed[place : place + rng.randrange(1, 9)]
    return bytes(changed)


def _size(rng: Random, size_max: int) -> int:
    """Returns a small size mostly, now and then an edge."""
    size = rng.choice(EDGES) if rng.random() < 0.1 else rng.randrange(40)
    return min(size, size_max)


# --- header blocks --------------------------------------------------------------------------------


def _field(rng: Random) -> tuple[bytes, bytes]:
    name = (
        rng.choice(NAMES).encode()
        if rng.random() < 0.6
        else b"x-" + rng.randbytes(2).hex().encode()
    )
    size = _size(rng, 1_100)
    if rng.random() < 0.5:
        return name, rng.randbytes(size).translate(_PRINTABLE)
    return name, rng.randbytes(size)


def _ours(decoder: Decoder, block: bytes) -> tuple[list[tuple[bytes, bytes]] | None, str]:
    try:
        return [(field.name, field.value) for field in decoder.decode(block)], ""
    except ConnectionFault as fault:
        return None, fault.why


def _reference(decoder: ReferenceDecoder, block: bytes) -> list[tuple[bytes, bytes]] | None:
    try:
        return [(bytes(name), bytes(value)) for name, value in decoder.decode(block, raw=True)]
    except (HPACKError, UnicodeDecodeError):
        return None


def block_case(rng: Random) -> int:
    """Decodes header blocks with one table, sound ones and others, as `hpack` does; how many."""
    encoder, ours, reference = Encoder(), Decoder(LIST_MAX), ReferenceDecoder(LIST_MAX)
    is_sound = True
    known = [_field(rng) for _ in range(rng.randrange(1, 6))]
    for count in range(1, rng.randrange(2, 9)):
        if rng.random() < 0.2:
            encoder.header_table_size = min(rng.choice(EDGES), 4_096)
        fields = [
            rng.choice(known) if rng.random() < 0.5 else _field(rng)
            for _ in range(rng.randrange(1, 8))
        ]
        block = encoder.encode(
            [(name, value, rng.random() < 0.1) for name, value in fields],
            huffman=rng.random() < 0.7,
        )
        if rng.random() < 0.6:
            pass
        elif rng.random() < 0.9:
            block = _mutated(rng, block)
            is_sound = False  # nor any later one: the tables differ from the encoder's
        else:
            block = rng.randbytes(rng.randrange(40))
            is_sound = False
        found, why = _ours(ours, block)
        if why == "a number has more than five bytes":
            return count  # the reference has no limit, and reads on
        wanted = _reference(reference, block)
        assert found == wanted, f"{block.hex()}: {found} {why}, not {wanted}"
        if found is None:
            assert not is_sound, f"{block.hex()} is sound, and refused: {why}"
            return count
    return count


# --- frames ---------------------------------------------------------------------------------------


def _flagged(frame: Frame, *flags: str) -> Frame:
    frame.flags |= set(flags)
    return frame


def _sound_frames(rng: Random, encoder: Encoder, stream_id: int) -> list[Frame]:
    """Returns the frames of a call, or a part of them."""
    block = encoder.encode(REQUEST)
    cut = rng.randrange(len(block))
    body = framed(*(rng.randbytes(_size(rng, 20_000)) for _ in range(rng.randrange(3))))
    place = rng.randrange(len(body) + 1)
    frames: list[Frame] = [HeadersFrame(stream_id, block)]
    if rng.random() < 0.3:
        frames = [HeadersFrame(stream_id, block[:cut]), ContinuationFrame(stream_id, block[cut:])]
    frames[-1].flags |= {"END_HEADERS"}
    for part in (body[:place], body[place:]):
        for at in range(0, len(part), 16_384):
            frames.append(DataFrame(stream_id, part[at : at + 16_384]))
    if rng.random() < 0.3:
        padded = DataFrame(stream_id, b"", pad_length=rng.randrange(256))
        frames.append(_flagged(padded, "PADDED"))
    if rng.random() < 0.8:
        frames.append(DataFrame(stream_id, b"", flags=["END_STREAM"]))
    return frames


def _any_frame(rng: Random, stream_id: int) -> Frame:
    """Returns a frame that says something about what there may be."""
    settings = {rng.randrange(1, 7): rng.choice((0, 1, 16_384, 65_536, 2**31 - 1, 2**31))}
    frames: tuple[Callable[[], Frame], ...] = (
        lambda: WindowUpdateFrame(stream_id, rng.choice((1, 100, 2**16, 2**31 - 1))),
        lambda: WindowUpdateFrame(0, rng.choice((1, 100, 2**16))),
        lambda: RstStreamFrame(stream_id, rng.randrange(14)),
        lambda: SettingsFrame(0, settings),
        lambda: PingFrame(0, rng.randbytes(8), flags=rng.choice(([], ["ACK"]))),
        lambda: PriorityFrame(stream_id, rng.randrange(9), rng.randrange(256), exclusive=True),
        lambda: GoAwayFrame(0, 0, rng.randrange(14), b"bye"),
        lambda: ContinuationFrame(stream_id, rng.randbytes(3)),
        lambda: DataFrame(stream_id, rng.randbytes(rng.randrange(20))),
    )
    return rng.choice(frames)()


def _raw_frames(rng: Random) -> bytes:
    """Returns what a peer sends that is mostly sound."""
    encoder = Encoder()
    parts = [PREFACE, SettingsFrame().serialize()]
    stream_id = 1
    for _ in range(rng.randrange(1, 12)):
        kind = rng.random()
        if kind < 0.5:
            parts += [frame.serialize() for frame in _sound_frames(rng, encoder, stream_id)]
            stream_id += 2 * rng.choice((1, 1, 1, 2, 50))
        elif kind < 0.85:
            parts.append(_any_frame(rng, rng.randrange(1, stream_id + 2)).serialize())
        elif kind < 0.95:
            payload = rng.randbytes(rng.randrange(20))
            head = bytes((0, 0, len(payload), rng.randrange(11), rng.randrange(256), 0, 0, 0))
            parts.append(head + bytes((rng.randrange(8),)) + payload)
        else:
            parts[-1] = _mutated(rng, parts[-1])
    return b"".join(parts)


Seen = tuple[bytes, dict[int, tuple[list[bytes], bool, int]], bool]


def _seen(raw: bytes, cuts: list[int], limits: Limits) -> Seen:
    """Feeds bytes in pieces; returns what was sent, what streams came to, whether it is closing."""
    server = Connection(limits, clock=lambda: 0.0)
    streams = {}
    for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        news = server.receive(raw[begin:end])
        assert len({stream.id for stream in news}) == len(news)
        streams.update({stream.id: stream for stream in news})
        assert 0 <= server.held <= limits.budget + limits.message_max + 16_384
    for stream in sorted(streams.values(), key=lambda stream: stream.id):
        server.respond(stream, b"answer")
    sent = b""
    while part := server.take():
        sent += part
    held = {s.id: (list(s.messages), s.ended, s.reset_code) for s in streams.values()}
    return sent, held, server.closing


def frames_case(rng: Random) -> int:
    """Feeds frames, sound ones and others, whole and in pieces: both come to the same; 1."""
    raw = _raw_frames(rng)
    limits = Limits(budget=65_535 << rng.randrange(3), stream_window=65_535 << rng.randrange(2))
    limits = Limits(message_max=30_000) if rng.random() < 0.5 else limits
    whole = _seen(raw, [], limits)
    step = rng.choice((1, 9, 1_000))
    cuts = list(range(step, len(raw), step)) if len(raw) < 3_000 else []
    cuts = cuts or sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(1, 20)))
    pieces = _seen(raw, cuts, limits)
    assert whole == pieces, f"{raw.hex()} cut at {cuts}"
    parsed(whole[0])
    return 1


# --- conversations --------------------------------------------------------------------------------


class Conversation:
    """A client by `h2` and a connection of ours that say anything allowed to each other."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        limits = Limits(
            budget=rng.choice((65_535, 200_000, 1 << 21)),
            stream_window=rng.choice((65_535, 100_000, 1 << 20)),
            output_max=rng.choice((1, 1_000, 1 << 20)),
        )
        self.pair = Pair(limits, takes=True)
        self.sent: dict[int, list[bytes]] = {}
        self.answered: dict[int, list[bytes]] = {}
        self.begun: set[int] = set()  # streams the client may send more on
        self.cut: set[int] = set()

    def messages(self) -> list[bytes]:
        """Returns some messages."""
        count = self.rng.randrange(3)
        return [self.rng.randbytes(_size(self.rng, 20_000)) for _ in range(count)]

    def step(self) -> None:
        """Takes one random step."""
        self.forget_refused()
        rng, pair, client = self.rng, self.pair, self.pair.client
        stream_id = rng.choice([*self.begun, 0])
        action = rng.randrange(10)
        if action < 4:
            self.call()
        elif action == 4 and stream_id:
            messages = self.messages()
            self.sent[stream_id] += messages
            pair.send(stream_id, framed(*messages), end=False)
        elif action == 5 and stream_id:
            client.reset_stream(stream_id, 8)
            self.cut.add(stream_id)
            self.begun.discard(stream_id)
        elif action == 6:
            client.ping(rng.randbytes(8))
        elif action == 7:
            setting = rng.choice(
                (
                    (SettingCodes.INITIAL_WINDOW_SIZE, rng.choice((1, 10, 16_384, 100_000))),
                    (SettingCodes.HEADER_TABLE_SIZE, rng.choice((0, 100, 4_096, 8_192))),
                    (SettingCodes.MAX_FRAME_SIZE, rng.choice((16_384, 16_385, 1 << 20))),
                )
            )
            client.update_settings(dict([setting]))
        elif action == 8:
            self.answer()
        pair.exchange(rng.choice((1 << 30, 1 << 30, 1_000, 17)))

    def forget_refused(self) -> None:
        """Counts as cut off what the server gave up, as more was unfinished than its budget."""
        for stream_id, answer in self.pair.answers.items():
            if answer.status == "8":
                assert self.pair.server.limits.budget < 1 << 21
                self.cut.add(stream_id)
                self.begun.discard(stream_id)

    def call(self) -> None:
        """Begins a call, whole or not, plain or compressed."""
        messages = self.messages()
        end = self.rng.random() < 0.5
        if self.rng.random() < 0.2:
            stream_id = self.pair.call(end=False, fields=[("grpc-encoding", "gzip")])
            packed = [gzip.compress(message, 1, mtime=0) for message in messages]
            self.pair.send(stream_id, framed(*packed, flag=1), end=end)
        else:
            stream_id = self.pair.call(*messages, end=end, fields=[("x", str(len(self.sent)))])
        self.sent[stream_id] = messages
        if not end:
            self.begun.add(stream_id)

    def answer(self) -> None:
        """Answers a call whose request has ended; a stream of answers or a single one."""
        waiting = [s for s in self.pair.streams.values() if s.ended and s.id not in self.answered]
        if not waiting:
            return
        stream = self.rng.choice(waiting)
        messages = self.messages()
        self.answered[stream.id] = messages
        if len(messages) == 1 and self.rng.random() < 0.7:
            self.pair.server.respond(stream, messages[0])
            return
        for message in messages:
            self.pair.server.send_message(stream, message)
        self.pair.server.finish(stream, 0, "", [(b"x-request-id", b"1")])

    def end(self) -> None:
        """Ends and answers everything; compares what each side sent with what the other got."""
        self.forget_refused()
        for stream_id in self.begun:
            self.pair.client.end_stream(stream_id)
        self.pair.exchange()
        self.forget_refused()
        whole = set(self.sent) - self.cut
        while not whole <= set(self.answered):
            self.answer()
        self.pair.exchange()
        server = self.pair.server
        assert not server.closing
        assert (server.open_count, server.held, server.pending) == (0, 0, 0)
        for stream_id in whole:
            answer = self.pair.answers[stream_id]
            assert self.pair.received[stream_id] == self.sent[stream_id]
            assert answer.messages == self.answered[stream_id]
            assert (answer.status, answer.ended, answer.reset_code) == ("0", True, -1)


def conversation_case(rng: Random) -> int:
    """Holds a conversation with `h2` and compares what was sent with what came; 1."""
    conversation = Conversation(rng)
    for _ in range(rng.randrange(1, 12)):
        conversation.step()
    conversation.end()
    return 1
