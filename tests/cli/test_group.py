"""Groups are created, listed, described, moved and removed; the last two only with --yes."""

import pytest

from broker.cli.group import age_text
from broker.client.values import ClientError
from broker.model.administration import ResetTarget
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker


def test_a_group_is_created_with_rocketmqs_defaults(fake: FakeBroker) -> None:
    document = run("group", "create", "billing").document
    assert document["name"] == "billing"
    assert (document["max_attempts"], document["fifo"], document["enabled"]) == (17, False, True)


def test_a_group_is_created_as_told(fake: FakeBroker) -> None:
    options = ["--fifo", "true", "--max-attempts", "3", "--retry-queues", "2", "--enabled", "false"]
    assert run("group", "create", "billing", *options).code == 0
    settings = fake.groups["billing"]
    assert (settings.fifo, settings.max_attempts) == (True, 3)
    assert (settings.retry_queue_count, settings.enabled) == (2, False)


def test_a_group_that_is_there_with_other_settings_is_refused(fake: FakeBroker) -> None:
    fields = {"group": "billing"}
    fake.error = ClientError("GroupExists", "exists", code="ALREADY_EXISTS", fields=fields)
    done = run("group", "create", "billing")
    assert done.code == 4
    assert "pocketmq group info billing" in done.err


def test_what_is_given_is_changed(fake: FakeBroker) -> None:
    run("group", "create", "billing", "--max-attempts", "3")
    document = run("group", "edit", "billing", "--fifo", "true").document
    assert (document["fifo"], document["max_attempts"]) == (True, 3)


def test_a_group_goes_with_yes(fake: FakeBroker) -> None:
    fake.stand("billing", "orders", q0=1)
    done = run("group", "rm", "billing", "--with-topics", "--yes")
    assert done.document == {"group": "billing", "removed_topics": ["%RETRY%billing"]}
    assert fake.groups == {}


def test_without_yes_the_plan_is_shown(fake: FakeBroker) -> None:
    fake.stand("billing", "orders", q0=1)
    done = run("group", "rm", "billing")
    assert done.code == 4
    assert done.document == {"group": "billing", "offsets_in": ["orders"], "with_topics": False}
    assert "--yes" in done.err
    assert "billing" in fake.groups


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


RESET = ("group", "reset", "billing", "--topic", "orders")


@pytest.fixture
def standing(fake: FakeBroker) -> FakeBroker:
    """Group billing stands at 2 of queue 0."""
    fake.fill(3)
    fake.stand("billing", "orders", q0=2)
    return fake


def test_a_reset_tells_old_and_new(standing: FakeBroker) -> None:
    done = run(*RESET, "--to", "earliest", "--yes")
    assert done.code == 0
    assert done.document == [
        {"group": "billing", "topic": "orders", "queue_id": 0, "old_offset": 2, "new_offset": 0},
        {"group": "billing", "topic": "orders", "queue_id": 1, "new_offset": 0},
    ]
    assert standing.stands["billing", "orders"] == {0: 0, 1: 0}


def test_without_yes_a_reset_is_a_plan(standing: FakeBroker) -> None:
    done = run(*RESET, "--to", "earliest")
    assert done.code == 4
    assert [row["new_offset"] for row in done.document] == [0, 0]
    assert "billing would be moved in 2 queues" in done.err
    assert "--yes" in done.err
    assert standing.stands["billing", "orders"] == {0: 2}


@pytest.mark.parametrize(
    ("options", "target"),
    [
        (["--to", "earliest"], ResetTarget()),
        (["--to", "min"], ResetTarget()),
        (["--to", "latest"], ResetTarget(latest=True)),
        (["--to", "max"], ResetTarget(latest=True)),
        (["--to", "1795228200000"], ResetTarget(time_ms=1_795_228_200_000)),
        (["--to", "2026-11-21T02:30:00Z"], ResetTarget(time_ms=1_795_228_200_000)),
        (["--to-offset", "7"], ResetTarget(queue_offset=7)),
        (["--to-offset", "0"], ResetTarget(queue_offset=0)),
    ],
)
def test_where_to(standing: FakeBroker, options: list[str], target: ResetTarget) -> None:
    assert run(*RESET, *options, "--yes").code == 0
    assert standing.resets == [(target, (), False)]


def test_a_time_before_now_is_written_with_a_minus(standing: FakeBroker) -> None:
    assert run(*RESET, "--to", "-1h", "--yes").code == 0
    ((target, _, _),) = standing.resets
    assert target.time_ms


def test_some_queues_only(standing: FakeBroker) -> None:
    run(*RESET, "--to", "latest", "--queue", "1", "--queue", "0", "--yes")
    assert standing.resets[0][1] == (1, 0)


@pytest.mark.parametrize(
    "options",
    [[], ["--to", "earliest", "--to-offset", "1"], ["--to", "soon"], ["--to-offset", "-1"]],
)
def test_wrong_use_is_refused_without_asking(standing: FakeBroker, options: list[str]) -> None:
    assert run(*RESET, *options).code == 2
    assert run("group", "reset", "billing", "--to", "earliest").code == 2
    assert standing.resets == []


def test_a_clone_stands_where_its_source_stands(standing: FakeBroker) -> None:
    assert run("group", "clone", "billing", "other").code == 4
    assert ("other", "orders") not in standing.stands
    done = run("group", "clone", "billing", "other", "--yes")
    assert done.document == [{"group": "other", "topic": "orders", "queue_id": 0, "new_offset": 2}]
    assert standing.stands["other", "orders"] == {0: 2}


def test_a_clone_of_nothing_says_so(standing: FakeBroker) -> None:
    standing.queues["audit"] = []
    done = run("group", "clone", "billing", "other", "--topic", "audit", "--yes")
    assert (done.code, done.document) == (0, [])
    assert "nothing to clone" in done.err
