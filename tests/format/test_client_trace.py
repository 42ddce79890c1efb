"""Traces of classic clients are read as RocketMQ's decoder reads them, and damaged ones skipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.format.client_trace import STEPS, ClientTrace, read_traces

AT_MS = 1_795_696_090_896


def body(*entries: str) -> bytes:
    """Returns the body of entries whose fields are separated by "|"."""
    return "".join(f"{entry.replace('|', chr(1))}{chr(2)}" for entry in entries).encode()


PUB = f"Pub|{AT_MS}|DefaultRegion|p|orders|u7|a|k|127.0.0.1:8081|4|3|0|7F00B3C0|true"
BEFORE = f"SubBefore|{AT_MS}|DefaultRegion|g|r1|u7|2|k"
AFTER = "SubAfter|r1|u7|5|false|k|4"
PUBLISHED = ClientTrace("Pub", "u7", AT_MS, "p", "orders", cost_ms=3, status="SUCCESS")
ENDED = f"EndTransaction|{AT_MS}|r|p|orders|u7|null|null|host|2|tx|ROLLBACK_MESSAGE|true"


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (PUB, PUBLISHED),
        (f"{PUB}|192.0.2.1", PUBLISHED._replace(client="192.0.2.1")),
        (
            PUB.replace("7F00B3C0|true", "false").replace("|3|", "|-3|"),
            PUBLISHED._replace(cost_ms=-3, status="FAILED"),
        ),
        (BEFORE, ClientTrace("SubBefore", "u7", AT_MS, "g", reconsume_times=2, request_id="r1")),
        (AFTER, ClientTrace("SubAfter", "u7", cost_ms=5, status="FAILED", request_id="r1")),
        (
            f"SubAfter|r1|u7|5|true|k|1|{AT_MS}|g",
            ClientTrace("SubAfter", "u7", AT_MS, "g", "", "", 5, "TIME_OUT", request_id="r1"),
        ),
        (
            "SubAfter|r1|u7|5|true|null|0|",
            ClientTrace("SubAfter", "u7", cost_ms=5, status="SUCCESS", request_id="r1"),
        ),
        (
            "SubAfter|r1|u7|5|false|k",
            ClientTrace("SubAfter", "u7", cost_ms=5, status="FAILED", request_id="r1"),
        ),
        (
            ENDED,
            ClientTrace("EndTransaction", "u7", AT_MS, "p", "orders", status="ROLLBACK_MESSAGE"),
        ),
        (
            f"Recall|{AT_MS}|r|p|orders|u7|false",
            ClientTrace("Recall", "u7", AT_MS, "p", "orders", status="FAILED"),
        ),
    ],
)  # fmt: skip
def test_each_kind_and_form_of_an_entry(entry: str, wanted: ClientTrace) -> None:
    assert read_traces(body(entry)) == ([wanted], 0)


def test_bodies_of_real_clients_are_read_whole() -> None:
    """Of Java 5.3.3, for a message that is consumed by the second try; 4.9.8 writes the same."""
    key, first, second = (
        f"FD000000000000000000000000000002226830946E098A48{end}"
        for end in ("26AC009E", "2CD900A0", "30D600A2")
    )
    published = body(
        f"Pub|1795811184324|DefaultRegion|tracing|Traced|{key}|A|key|127.0.0.1:43623|4|34|0|"
        "7F0000010000AA67000000000001005F|true"
    )
    consumed = body(
        f"SubBefore|1795811185881|DefaultRegion|traced|{first}|{key}|0|key",
        f"SubAfter|{first}|{key}|0|false|key|4|1795811185881|traced",
        f"SubBefore|1795811186902|DefaultRegion|traced|{second}|{key}|1|key",
        f"SubAfter|{second}|{key}|0|true|key|0|1795811186902|traced",
    )
    assert read_traces(published) == (
        [ClientTrace("Pub", key, 1795811184324, "tracing", "Traced", "", 34, "SUCCESS")], 0
    )  # fmt: skip
    found, skipped_count = read_traces(consumed)
    assert skipped_count == 0
    assert {(one.message_id, one.group) for one in found} == {(key, "traced")}
    assert [(one.request_id, one.status, one.reconsume_times) for one in found] == [
        (first, "", 0), (first, "FAILED", None), (second, "", 1), (second, "SUCCESS", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        "Pub", "Other|1|2", "", PUB.replace(str(AT_MS), "now"), PUB.replace("|true", ""),
        PUB.replace("true", "yes"), PUB.replace("|3|", "|x|"), BEFORE.replace("|2|", "|-2|"),
        AFTER.replace("|4", "|5"), AFTER.replace("|4", "|-1"), AFTER.replace("|false|k|4", ""),
        f"{AFTER}|soon|g", ENDED.replace("|tx|ROLLBACK_MESSAGE|true", ""), "Recall|1|r|p|orders",
    ],
)  # fmt: skip
def test_damaged_and_unknown_entries_are_skipped_and_counted(bad: str) -> None:
    found, skipped_count = read_traces(body(BEFORE, bad, AFTER))
    assert [one.step for one in found] == ["SubBefore", "SubAfter"]
    assert skipped_count == (1 if bad else 0)


def test_text_that_is_no_utf_8_spoils_only_its_entry() -> None:
    found, skipped_count = read_traces(b"Pub\x01\xff\x02" + body(BEFORE))
    assert ([one.step for one in found], skipped_count) == (["SubBefore"], 1)


PIECES = st.sampled_from([*STEPS, "\1", "\2", "1", "true", "-1", "x", "é", str(2**70)])


@given(
    st.one_of(st.binary(max_size=60), st.lists(PIECES).map(lambda parts: "".join(parts).encode()))
)
def test_no_body_is_an_error(raw: bytes) -> None:
    found, skipped_count = read_traces(raw)
    assert len(found) + skipped_count == sum(bool(part) for part in raw.split(b"\2"))
