"""The scripts read the lock and pytest's report as they say."""

import tomllib
from itertools import chain

import core_lock
import not_run

LOCK = """\
# This file was made.
a==1.0 ; sys_platform != 'win32' \\
    --hash=sha256:00
    # via pocketmq (pyproject.toml)
b-c==2.0 \\
    --hash=sha256:01 \\
    --hash=sha256:02
    # via
    #   a
    #   d
d==3.0 \\
    --hash=sha256:03
    # via pocketmq (pyproject.toml)
e==4.0 \\
    --hash=sha256:04
    # via d
"""

REPORT = """\
<testsuites><testsuite>
<testcase name="ran"/>
<testcase><skipped type="pytest.skip" message="Java is missing">a.py:1: x</skipped></testcase>
<testcase><skipped type="pytest.skip" message="Java is missing">a.py:9: x</skipped></testcase>
<testcase><skipped type="pytest.xfail" message="known"/></testcase>
<testcase>
<skipped message="collection skipped">('/a.py', 3, 'Skipped: go is missing')</skipped>
</testcase>
</testsuite></testsuites>
"""


def names(lock: str) -> list[str]:
    return [core_lock.normal_name(pin) for pin in core_lock.pins(lock)]


def test_the_core_is_what_the_roots_lead_to_and_nothing_else() -> None:
    core = core_lock.core_of(LOCK, ["A>=0.9; sys_platform != 'win32'"])
    assert core.startswith("a==1.0 ; sys_platform != 'win32' \\\n    --hash=sha256:00\n")
    assert names(core) == ["a", "b-c"]
    assert "--hash=sha256:02" in core


def test_a_root_may_be_named_in_any_spelling() -> None:
    assert names(core_lock.core_of(LOCK, ["B_C"])) == ["b-c"]


def test_the_real_lock_gives_serving_no_spark_and_no_linters() -> None:
    lock = (core_lock.ROOT / "requirements.lock").read_text()
    core = names(core_lock.core_of(lock, ["grpcio", "uvicorn"]))
    assert core == ["click", "grpcio", "h11", "typing-extensions", "uvicorn"]


def test_the_lock_pins_whatever_the_project_asks_for() -> None:
    project = tomllib.loads((core_lock.ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    pinned = names((core_lock.ROOT / "requirements.lock").read_text())
    assert {core_lock.normal_name(requirement) for requirement in asked} <= set(pinned)


def test_reasons_are_counted_and_expected_failures_are_not() -> None:
    assert not_run.skips(REPORT) == {"Java is missing": 2, "go is missing": 1}


def test_the_table_says_what_is_missing_most_first() -> None:
    assert not_run.table(not_run.skips(REPORT)) == (
        "not run here:\n    2  Java is missing\n    1  go is missing"
    )
    assert "nothing" in not_run.table({})


def test_only_loop_devices_and_go_may_be_missing_where_all_must_run() -> None:
    assert not not_run.is_failure({"loop devices need root": 1, "Go 1.22 is missing": 3})
    assert not_run.is_failure({"loop device": 1, "Java is missing": 1})
    assert not_run.is_failure({"google cannot be reached": 1})
