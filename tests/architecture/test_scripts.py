"""The scripts read the lock, pytest's report and this machine's settings as they say."""

import re
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import core_lock
import debian_root
import not_run
import slim_image
from enclosure import Enclosure

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
    core = names(core_lock.core_of(lock, ["grpcio", "h11"]))
    assert core == ["grpcio", "h11", "typing-extensions"]


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


TARGETS = """\
bookworm http://first/debian/ main
bookworm http://first/debian/ contrib
bookworm http://second/debian/ non-free
trixie http://first/debian/ main
"""


def test_a_root_is_made_of_the_release_that_runs_here_from_its_first_mirror() -> None:
    release = debian_root.release_of(TARGETS, "bookworm")
    assert release == ("bookworm", "http://first/debian/", ("main", "contrib"))


def test_a_list_of_mirrors_is_followed(tmp_path: Path) -> None:
    mirrors = tmp_path / "mirrors"
    mirrors.write_text("http://near/debian\tpriority:1\nhttp://far/debian\n")
    release = debian_root.release_of(f"noble mirror+file:{mirrors}/ main\n", "noble")
    assert release.mirror == "http://near/debian"


@pytest.mark.parametrize("suite", ["sid", ""])
def test_a_release_without_a_source_is_said_to_be_missing(suite: str) -> None:
    with pytest.raises(debian_root.Unavailable, match="no source for"):
        debian_root.release_of(TARGETS, suite)


def test_pip_is_told_inside_what_it_is_told_here_with_files_where_they_are_seen(
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "bundle.crt"
    bundle.touch()
    listed = (
        f":env:.cert='{bundle}'\n:env:.timeout='9'\nglobal.timeout='1'\n"
        "install.find-links='/nowhere\\nhttp://wheels'\n"
    )
    settings = debian_root.pip_settings_of(listed, {"SSL_CERT_FILE": "/another"})
    assert settings.paths == {bundle: f"/etc/pip.given{bundle}"}
    assert settings.text == (
        f"[global]\ncert = /etc/pip.given{bundle}\ntimeout = 9\n"
        "[install]\nfind-links = /nowhere\n  http://wheels\n"
    )


def test_certificates_that_only_the_environment_names_are_handed_on() -> None:
    settings = debian_root.pip_settings_of("", {"SSL_CERT_FILE": "/nowhere.crt"})
    assert settings == ("[global]\ncert = /nowhere.crt\n", {})


def test_an_enclosed_program_gets_the_environment_it_is_given_and_no_other() -> None:
    place = Enclosure(Path("/r"), {"A": "1"}, shared={Path("/v"): "/store"}, user="3000:3000")
    command = place.command("serve")
    assert command[:5] == ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    assert command[-8:] == [
        *("chroot", "--userspec=3000:3000", "/r"),
        *("/usr/bin/env", "-i", "--chdir=/", "A=1", "serve"),
    ]
    assert {"rw", "/v", "/store"} < set(command)
    beside = place.beside(7, "ls")
    assert beside[:5] == ["nsenter", "--target=7", "--mount", "--pid", "--root"]
    assert "--net" in Enclosure(Path("/r"), {}, own_network=True).beside(7, "ls")


def test_the_build_of_the_image_sees_whatever_the_dockerfile_copies() -> None:
    dockerfile = (core_lock.ROOT / "Dockerfile").read_text()
    seen = (core_lock.ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    project = tomllib.loads((core_lock.ROOT / "pyproject.toml").read_text())["project"]
    sources = {source.rstrip("/") for line in copied for source in line.split()}
    assert {project["readme"], *project["license-files"], "broker"} <= sources
    for source in sources:
        assert (core_lock.ROOT / source).exists()
        assert f"!{source}" in seen


def test_the_image_loses_what_no_program_reads_and_nothing_else(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.13" / "site-packages"
    kept = {
        "numpy/core.py",
        "uvloop/includes/__init__.py",
        "uvloop/loop.so",
        "pocketmq/proto/a.proto",
    }
    lost = {"numpy/tests/test_core.py", "numpy/f2py/f2py.py", "numpy/core.pyi", "uvloop/loop.pyx",
            "uvloop/__pycache__/x.pyc", "numpy/_core/_simd.so", "pygments/lexer.py"}  # fmt: skip
    for name in kept | lost:
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    gone = [*slim_image.removable(packages)]
    left = {
        str(path.relative_to(packages))
        for path in packages.rglob("*")
        if path.is_file() and not any(path.is_relative_to(one) for one in gone)
    }
    assert left == kept


def test_a_broker_of_this_clone_gets_only_what_was_typed(tmp_path: Path) -> None:
    """An own `--store` would win over `store.directory` of a settings file."""
    made = {"scripts/setup": "exit 0", ".venv/bin/pocketmq": 'echo "$@"'}
    for name, line in made.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    shutil.copy(Path(__file__).parents[2] / "scripts/serve", tmp_path / "scripts")
    typed = [str(tmp_path / "scripts/serve"), "-c", "broker.toml"]
    assert subprocess.check_output(typed, text=True) == "serve -c broker.toml\n"
