"""Headers of a call: those that it needs, their meaning, and those that are refused."""

import pytest

from pocketmq.wire.fields import HeaderField, kind_of
from pocketmq.wire.frames import StreamFault
from pocketmq.wire.headers import Headers, check_trailers, request_headers
from pocketmq.wire.metadata import binary_values, escaped, timeout_ms

BEGIN = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/s/m"))
GRPC = (b"content-type", b"application/grpc")
Pair = tuple[bytes, bytes]


def made(*pairs: Pair) -> list[HeaderField]:
    return [HeaderField(name, value, kind_of(name)) for name, value in pairs]


def request(*pairs: Pair) -> Headers:
    return request_headers(made(*pairs), False)


def test_what_a_call_says() -> None:
    headers = request(
        *(*BEGIN, GRPC, (b"te", b"trailers"), (b"grpc-timeout", b"5S"), (b"x", b"1"), (b"x", b"")),
        *((b"grpc-encoding", b"gzip"), (b"user-agent", b"grpc-go"), (b"raw-bin", b"AAE")),
        *((b"two-bin", b"AA==,AQ=="), (b"bad-bin", b"A")),
    )
    assert (headers.path, headers.timeout_ms, headers.encoding) == (b"/s/m", 5_000, b"gzip")
    assert (headers.status, headers.http_status, headers.why_refused) == (0, 0, "")
    assert headers.metadata == [
        *((b"x", b"1"), (b"x", b""), (b"user-agent", b"grpc-go"), (b"raw-bin", b"\0\1")),
        *((b"two-bin", b"\0"), (b"two-bin", b"\1")),
    ]
    assert (headers.value(b"x"), headers.value(b"y")) == (b"1", None)
    assert [headers.text(name) for name in ("x", "y", "te", "two-bin")] == ["1", None, None, "\0"]


@pytest.mark.parametrize(
    "pairs",
    [
        (*BEGIN[1:], GRPC),  # no method
        (*BEGIN[:1], BEGIN[2], GRPC),
        (*BEGIN[:2], GRPC),
        (*BEGIN[:2], (b":path", b""), GRPC),
        (*BEGIN, BEGIN[0], GRPC),  # twice
        (GRPC, *BEGIN),  # pseudo-headers after others
        (*BEGIN, (b"x", b"1"), (b":authority", b"a")),
        (*BEGIN, GRPC, (b":status", b"200")),
        (*BEGIN, (b":unknown", b"1"), GRPC),
        (*BEGIN, GRPC, (b"connection", b"close")),
        (*BEGIN, GRPC, (b"transfer-encoding", b"chunked")),
        (*BEGIN, GRPC, (b"te", b"trailers, deflate")),
        *((*BEGIN, GRPC, (name, b"1")) for name in (b"", b"A", b"a b", b"a:b", b"a\x7f", b"\xe4")),
        *(
            (*BEGIN, GRPC, (b"x", value))
            for value in (b"a\0", b"a\nb", b"\rabcdefgh", b" a", b"a\t")
        ),
        *((*BEGIN, GRPC, (b"x", b"12345678" * 2 + end)) for end in (b"\0", b"1\r2", b"\n345678x")),
        (*BEGIN, GRPC, (b"content-length", b"")),
        (*BEGIN, GRPC, (b"content-length", b"-1")),
        (*BEGIN, GRPC, (b"content-length", b"1" * 16)),
        (*BEGIN, GRPC, (b"content-length", b"1"), (b"content-length", b"2")),
    ],
)
def test_what_is_no_request(pairs: tuple[Pair, ...]) -> None:
    with pytest.raises(StreamFault):
        request(*pairs)


@pytest.mark.parametrize(
    "value", [b"a b", b"\x80\xff", b"a\tb", b"12345678\t2345678", b"\x01", b""]
)
def test_values_of_other_bytes_pass(value: bytes) -> None:
    assert request(*BEGIN, GRPC, (b"x", value)).metadata == [(b"x", value)]


@pytest.mark.parametrize(
    ("pair", "http_status"),
    [
        ((b"content-type", b"application/grpc+proto"), 0),
        ((b"content-type", b"application/grpc;charset=utf-8"), 0),
        ((b"content-type", b"application/grpc-web"), 415),
        ((b"content-type", b"text/html"), 415),
        ((b"x", b"1"), 415),
    ],
)
def test_what_is_none_of_grpc_is_refused_in_the_words_of_http(pair: Pair, http_status: int) -> None:
    assert request(*BEGIN, pair).http_status == http_status
    got = request((b":method", b"GET"), *BEGIN[1:], pair)
    assert got.http_status == 405


@pytest.mark.parametrize(
    ("pair", "status"),
    [
        ((b"grpc-timeout", b"1"), 13),
        ((b"grpc-timeout", b"S"), 13),
        ((b"grpc-timeout", b"123456789S"), 13),
        ((b"grpc-timeout", b"1x"), 13),
        ((b"grpc-encoding", b"deflate"), 12),
        ((b"grpc-encoding", b"identity"), 0),
    ],
)
def test_what_grpc_cannot_serve_is_refused_in_its_own(pair: Pair, status: int) -> None:
    headers = request(*BEGIN, GRPC, pair)
    assert headers.status == status
    assert bool(headers.why_refused) == bool(status)


def test_metadata_over_the_limit_is_refused() -> None:
    assert request_headers(made(*BEGIN), True).status == 8


def test_trailers_have_no_pseudo_headers() -> None:
    check_trailers(made((b"x", b"1"), (b"te", b"trailers")))
    for name in (b":path", b":status", b"connection", b"A"):
        with pytest.raises(StreamFault):
            check_trailers(made((name, b"1")))


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        *((b"0n", 0), (b"1n", 1), (b"1000000n", 1), (b"1000001n", 2), (b"1u", 1), (b"1500u", 2)),
        *((b"7m", 7), (b"2S", 2_000), (b"3M", 180_000), (b"99999999H", 359_999_996_400_000)),
        *((b"", -2), (b"m", -2), (b"1", -2), (b"-1m", -2), (b"1 m", -2), (b"123456789m", -2)),
    ],
)
def test_timeouts(value: bytes, ms: int) -> None:
    assert timeout_ms(value) == ms


def test_texts_are_escaped_and_cut_between_characters() -> None:
    assert escaped("a b~\t%\u00fc\n") == b"a b~%09%25%C3%BC%0A"
    assert escaped("".join(map(chr, range(32, 127)))).replace(b"%25", b"%") == bytes(range(32, 127))
    assert escaped("\u00fc" * 3_000) == b"%C3%BC" * 2_048
    assert escaped("a" + "\u00fc" * 3_000) == b"a" + b"%C3%BC" * 2_047


def test_binary_values_with_and_without_padding() -> None:
    assert binary_values(b"") == [b""]
    assert binary_values(b"AAE=,AAE, AA==") == [b"\0\1", b"\0\1", b"\0"]
    assert binary_values(b"A") is None
    assert binary_values(b"A*==") is None
