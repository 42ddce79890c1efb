"""Hypothesis strategies for unusual records: names, texts, flags, sizes."""

from typing import Any

from hypothesis import strategies as st

from pocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from tests.kit.log_bytes import IPV4, IPV6, TIME_MS

TOPICS = ["T", "Aa", "BB", "SCHEDULE_TOPIC_XXXX", "%RETRY%" + "g" * 140, "orders-of-a-longer-name"]
NAMES = [
    "KEYS",
    "TAGS",
    "UNIQ_KEY",
    "DELAY",
    "KEYS2",
    "AGS",
    "WAIT",
    "UNIQ_KE",
    "TAGSTAGS",
    "",
    "k",
]

texts = st.one_of(
    st.sampled_from(
        [
            "", " ", "a", "a b", "  a   b ", "订单", "😀x", "\x7f", "x" * 8, "y" * 9, "z" * 600,
            "3", "18", "99", "-1", "0", "+2", "٣", "a\x01b", "polygenelubricants",
        ]
    ),
    st.text(max_size=40).map(lambda text: text.replace("\x02", "")),
)  # fmt: skip
values = st.one_of(
    texts.map(str.encode), st.binary(max_size=12).map(lambda b: b.replace(b"\x02", b""))
)
pairs = st.tuples(st.sampled_from(NAMES).map(str.encode), values).map(
    lambda pair: pair[0] + b"\x01" + pair[1]
)
blocks = st.builds(
    lambda parts, ending: b"\x02".join(parts) + ending,
    st.lists(st.one_of(pairs, values), max_size=8),
    st.sampled_from([b"", b"\x02", b"\x02\x02", b"\x01", b"\x02KEYS\x01"]),
)
fields: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "queue_id": st.integers(0, 3),
        "queue_offset": st.integers(0, 30),
        "body": st.binary(max_size=30),
        "block": blocks,
        "time_ms": st.integers(TIME_MS - 5_000, TIME_MS + 5_000),
        "flags": st.sampled_from(
            [TRANSACTION_NONE] * 4
            + [TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, 0x701, 2]
        ),
        "born": st.sampled_from([IPV4, IPV4, IPV6]),
        "host": st.sampled_from([IPV4, IPV4, IPV6]),
    }
)
records = st.lists(fields, min_size=1, max_size=12)
