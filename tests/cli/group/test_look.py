"""Groups are listed over all pages, described, and their lag is told."""

import pytest

from broker.cli.group.look import age_text
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


@pytest.fixture
def behind(fake: FakeBroker) -> FakeBroker:
    """Group billing has read one of three messages in orders."""
    fake.fill(3)
    fake.stand("billing", "orders", q0=1)
    return fake


def test_all_pages_are_listed(fake: FakeBroker) -> None:
    for name in ("b", "a", "c"):
        fake.stand(name, "orders")
    assert [row["name"] for row in run("group", "ls", "-o", "jsonl").rows] == ["a", "b", "c"]


def test_a_list_as_a_table(behind: FakeBroker) -> None:
    assert run("group", "ls", "-o", "table").out.splitlines() == [
        "NAME     ENABLED  FIFO  ATTEMPTS  RETRY QUEUES",
        "billing  yes      no    17        1",
    ]


def test_a_group_is_described_with_its_topics(behind: FakeBroker) -> None:
    document = run("group", "info", "billing").document
    assert (document["name"], document["topics"]) == ("billing", ["orders"])
    assert run("group", "info", "none").code == 3


def test_lag_of_a_group_by_queue(behind: FakeBroker) -> None:
    rows = run("group", "lag", "billing").document
    assert rows == [
        {
            "group": "billing",
            "topic": "orders",
            "queue_id": 0,
            "committed_offset": 1,
            "min_offset": 0,
            "max_offset": 3,
            "lag_messages": 2,
            "lag_ms": 90_000,
        },
        {
            "group": "billing",
            "topic": "orders",
            "queue_id": 1,
            "min_offset": 0,
            "max_offset": 0,
            "lag_messages": 0,
            "lag_ms": 0,
        },
    ]


def test_lag_as_a_table(behind: FakeBroker) -> None:
    assert run("group", "lag", "billing", "-o", "table").out.splitlines() == [
        "TOPIC   QUEUE  COMMITTED  MAX  LAG  AGE",
        "orders  0      1          3    2    90 s",
        "orders  1                 0    0",
    ]


def test_lag_of_one_topic(behind: FakeBroker) -> None:
    behind.queues["audit"] = [[]]
    behind.stand("billing", "audit", q0=0)
    rows = run("group", "lag", "billing", "--topic", "audit").document
    assert [row["topic"] for row in rows] == ["audit"]


def test_lag_of_all_groups(behind: FakeBroker) -> None:
    behind.stand("audit", "orders", q0=3)
    assert run("group", "lag").document == [
        {"group": "audit", "topic": "orders", "committed_sum": 3, "lag_messages": 0},
        {"group": "billing", "topic": "orders", "committed_sum": 1, "lag_messages": 2},
    ]
    assert run("group", "lag", "-o", "table").out.splitlines()[0].split() == [
        "GROUP",
        "TOPIC",
        "LAG",
    ]


def test_lag_of_nobody_is_not_found(fake: FakeBroker) -> None:
    assert run("group", "lag", "none").code == 3


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (0, ""),
        (250, "250 ms"),
        (1_999, "1999 ms"),
        (2_000, "2 s"),
        (119_999, "119 s"),
        (120_000, "2 m"),
        (7_200_000, "2 h"),
        (172_800_000, "2 d"),
    ],
)
def test_ages_for_people(age_ms: int, text: str) -> None:
    assert age_text(age_ms) == text
