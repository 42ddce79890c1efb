"""A standalone Spark cluster of a master and two workers builds RocketMQ's bytes."""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from pocketmq.backfill.session import check_java
from pocketmq.model.errors import SparkMissing
from tests.e2e.page_sessions import ROOT

EXAMPLE: Final = ROOT / "scripts" / "spark_cluster_example"
RUN_S: Final = 480
MESSAGES: Final = 6_000
"""Messages of 1 KiB, in files of 1 MiB: some ranges for each worker."""


@pytest.mark.timeout(RUN_S + 60)
def test_a_cluster_of_two_workers_builds_the_bytes_of_one_process(tmp_path: Path) -> None:
    """In a second run one worker is killed after the first range."""
    try:
        check_java()
    except SparkMissing:
        pytest.skip("Java is missing: a runtime of version 17 or newer")
    own = {"TMPDIR": str(tmp_path), "MESSAGES": str(MESSAGES), "FILE_MIB": "1"}
    done = subprocess.run(
        [EXAMPLE], env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "identical"
    launched = set(re.findall(r"Asked to launch executor app-[0-9-]+/([0-9]+)", done.stdout))
    assert launched == {"0", "1"}
    assert "killed worker 2" in done.stdout
    assert done.stdout.count(f"records           {MESSAGES}") == 3
