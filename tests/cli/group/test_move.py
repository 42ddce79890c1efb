"""A group is moved only with --yes; without it the plan is shown and nothing is changed."""

import pytest

from broker.client.admin_values import ResetTarget
from tests.cli.command_line import run
from tests.cli.fake_broker import FakeBroker

RESET = ("group", "reset", "billing", "--topic", "orders")


@pytest.fixture
def fake(fake: FakeBroker) -> FakeBroker:
    """Group billing stands at 2 of queue 0."""
    fake.fill(3)
    fake.stand("billing", "orders", q0=2)
    return fake


def test_a_reset_tells_old_and_new(fake: FakeBroker) -> None:
    done = run(*RESET, "--to", "earliest", "--yes")
    assert done.code == 0
    assert done.document == [
        {"group": "billing", "topic": "orders", "queue_id": 0, "old_offset": 2, "new_offset": 0},
        {"group": "billing", "topic": "orders", "queue_id": 1, "new_offset": 0},
    ]
    assert fake.stands["billing", "orders"] == {0: 0, 1: 0}


def test_without_yes_a_reset_is_a_plan(fake: FakeBroker) -> None:
    done = run(*RESET, "--to", "earliest")
    assert done.code == 4
    assert [row["new_offset"] for row in done.document] == [0, 0]
    assert "billing would be moved in 2 queues" in done.err
    assert "--yes" in done.err
    assert fake.stands["billing", "orders"] == {0: 2}


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
def test_where_to(fake: FakeBroker, options: list[str], target: ResetTarget) -> None:
    assert run(*RESET, *options, "--yes").code == 0
    assert fake.resets == [(target, (), False)]


def test_a_time_before_now_is_written_with_a_minus(fake: FakeBroker) -> None:
    assert run(*RESET, "--to", "-1h", "--yes").code == 0
    ((target, _, _),) = fake.resets
    assert target.time_ms


def test_some_queues_only(fake: FakeBroker) -> None:
    run(*RESET, "--to", "latest", "--queue", "1", "--queue", "0", "--yes")
    assert fake.resets[0][1] == (1, 0)


@pytest.mark.parametrize(
    "options",
    [[], ["--to", "earliest", "--to-offset", "1"], ["--to", "soon"], ["--to-offset", "-1"]],
)
def test_wrong_use_is_refused_without_asking(fake: FakeBroker, options: list[str]) -> None:
    assert run(*RESET, *options).code == 2
    assert run("group", "reset", "billing", "--to", "earliest").code == 2
    assert fake.resets == []


def test_a_clone_stands_where_its_source_stands(fake: FakeBroker) -> None:
    assert run("group", "clone", "billing", "other").code == 4
    assert ("other", "orders") not in fake.stands
    done = run("group", "clone", "billing", "other", "--yes")
    assert done.document == [{"group": "other", "topic": "orders", "queue_id": 0, "new_offset": 2}]
    assert fake.stands["other", "orders"] == {0: 2}


def test_a_clone_of_nothing_says_so(fake: FakeBroker) -> None:
    fake.queues["audit"] = []
    done = run("group", "clone", "billing", "other", "--topic", "audit", "--yes")
    assert (done.code, done.document) == (0, [])
    assert "nothing to clone" in done.err


def test_nobody_cannot_be_moved(fake: FakeBroker) -> None:
    assert run("group", "reset", "none", "--topic", "orders", "--to", "earliest").code == 3
    assert run("group", "clone", "none", "other").code == 3
