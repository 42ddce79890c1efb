"""The Python and SQL blocks of the pages about Spark run in a classic session and under Connect."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from pocketmq.backfill.session import check_java
from pocketmq.client import Client
from pocketmq.model.errors import SparkMissing
from pocketmq.tools.selection import LogSearch, Selection
from tests.e2e.daemon import Daemon, here
from tests.e2e.page_sessions import ROOT, is_as_shown
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import golden_files, views
from tests.spark import run_pages

PAGES: Final = {"spark.md": "semantics", "spark-streams.md": "basic"}
"""Pages of docs/howto, and the store that each reads."""
SETTINGS: Final = (
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
    "spark.driver.host=127.0.0.1",
    "spark.log.level=OFF",
    "spark.sql.session.timeZone=UTC",
    "spark.sql.shuffle.partitions=2",
    "spark.ui.enabled=false",
)
SECRET: Final = "a-secret"
RUN_S: Final = 480
MIN_BLOCKS: Final = 3
"""Programs that a page has at least."""
_SHOWN: Final = re.compile(
    r"^```\w+\n(?:(?!```).*\n)*```\n```\n(?P<output>(?:(?!```).*\n)*)```$", re.M
)
"""A block of a program, and the output below it."""
SENT: Final = "alerts"
"""The topic to which the page's stream writes."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A broker with TLS that admits the user of the pages."""
    place = tmp_path_factory.mktemp("broker")
    secret, store = place / "secret", place / "store"
    secret.write_text(SECRET)
    words = ("--secret-file", str(secret), "--store", str(store), "--admin")
    assert here("user", "add", "lake", *words).code == 0
    with Daemon(store, "--set", "access.check=on") as serving:
        with Client(serving.endpoint, access_key="lake", secret_key=SECRET) as client:
            client.admin.create_topic(SENT, queue_count=2)
        yield serving


def records(golden: GoldenStores, name: str) -> list[Any]:
    """Returns the records of a store's log."""
    return [*LogSearch(golden_files(golden, name), Selection(())).messages()]


def sent_count(broker: Daemon) -> int:
    """Returns the number of messages that were sent to the topic of the page's stream."""
    with Client(broker.endpoint, access_key="lake", secret_key=SECRET) as client:
        queues = client.admin.describe_topic(SENT).queues
    return sum(queue.max_offset for queue in queues)


def outputs_of(page: str) -> dict[int, list[str]]:
    """Returns the outputs that a page shows, by the line of their programs."""
    return {
        page.count("\n", 0, found.start()) + 1: found["output"].splitlines()
        for found in _SHOWN.finditer(page)
    }


@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("remote", ["", "local[2]"], ids=["classic", "connect"])
def test_the_programs_of_the_pages_run(
    broker: Daemon, golden: GoldenStores, tmp_path: Path, remote: str
) -> None:
    try:
        check_java()
    except SparkMissing:
        pytest.skip("Java is missing: a runtime of version 17 or newer")
    pages = [ROOT / "docs" / "howto" / name for name in PAGES]
    place, lake = tmp_path / "work", str(tmp_path / "archived")
    place.mkdir()
    assert here("archive", "run", str(golden.store("semantics")), lake).code == 0
    plan = {
        "pages": [
            {"path": str(page), "store": str(golden.store(PAGES[page.name]))} for page in pages
        ],
        "names": {"SECRET": SECRET},
        "command": ["backfill", "run", "./store", "--out", "./views", "-o", "json"],
        "words": {
            # The tasks of Spark Connect run in directories of their own.
            '"./store"': f'"{place / "store"}"',
            "/data/store": str(place / "store"),
            "/mnt/lake": lake,
            "tls://broker:8081": f"tls://{broker.endpoint}",
        },
    }  # fmt: skip
    already = sent_count(broker)
    settings = " ".join(f"--conf {setting}" for setting in SETTINGS)
    environment = {
        **os.environ,
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(broker.store / "pocketmq/tls/certificate.pem"),
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] {settings} pyspark-shell",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "broker"), str(ROOT)]),
    }
    if remote:
        environment["SPARK_REMOTE"] = remote
    done = subprocess.run(
        [sys.executable, run_pages.__file__, json.dumps(plan)], cwd=place, env=environment,
        capture_output=True, text=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    session, *blocks, built = map(json.loads, done.stdout.splitlines())
    assert session == {"is_remote": bool(remote)}
    for page in pages:
        printed = {row["line"]: row["printed"] for row in blocks if row["page"] == page.name}
        shown = outputs_of(page.read_text("utf-8"))
        assert printed.keys() >= shown.keys()
        assert len(printed) >= MIN_BLOCKS
        for line, output in shown.items():
            found = "\n".join(filter(None, printed[line].splitlines()))
            assert is_as_shown(output, found), f"{page.name}:{line}\n{found}"
    rows = {name: pq.read_table(place / name).num_rows for name in ("messages", "lake/orders")}
    assert rows == {
        "messages": len(records(golden, "semantics")),
        "lake/orders": sum(message.topic == "orders" for message in records(golden, "basic")),
    }
    assert views(place / "views") == views(golden.store("basic"))
    assert built["document"]["records"] == len(records(golden, "basic"))
    assert sent_count(broker) - already == rows["lake/orders"]
