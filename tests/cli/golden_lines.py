"""Every command of the command line, and the line whose output tests/cli/golden holds.

`GOLDEN` lists commands that print rows or a document, `WITHOUT` all others with the reason. A new
command fails test_golden.py until it is in one of them. POCKETMQ_WRITE_GOLDEN=1 writes the files.

Commands of a broker run over `filled`, those of a store in a folder with a golden store and a
backup of it.
"""

import re
from pathlib import Path
from typing import Any, Final

from pocketmq import __version__
from tests.cli.command_line import run
from tests.cli.local_broker import LocalBroker

DEAD: Final = "%DLQ%billing"
TYPED: Final = "{delayed}", "{transaction}"
"""Ids that `filled` makes, by their names in a line."""

GOLDEN: Final = {
    "status": "status",
    "top": "top --interval 100ms",
    "topic create": "topic create payments --queues 2 --type fifo",
    "topic ls": "topic ls",
    "topic info": "topic info orders",
    "topic stats": "topic stats orders",
    "topic producers": "topic producers orders",
    "topic edit": "topic edit orders --queues 4",
    "topic purge": "topic purge orders",
    "topic rm": "topic rm orders",
    "group create": "group create shipping --fifo true",
    "group ls": "group ls",
    "group info": "group info billing",
    "group members": "group members billing",
    "group lag": "group lag billing",
    "group edit": "group edit billing --max-attempts 5",
    "group reset": "group reset billing --topic orders --to earliest",
    "group skip": "group skip billing",
    "group clone": "group clone billing shipping",
    "group rm": "group rm billing --with-topics",
    "client stack": "client stack billing host@1",
    "client verify": "client verify billing host@1 orders ID0",
    "produce": "produce orders hello -k order-42",
    "consume": "consume orders --pull --queue 0 --limit 2",
    "tail": "tail orders --last 2 --no-follow",
    "msg by-key": "msg by-key orders k --limit 2",
    "msg get": "msg get ID0 --topic orders",
    "msg trace": "msg trace ID0",
    "delay ls": "delay ls",
    "delay show": "delay show {delayed}",
    "delay recall": "delay recall {delayed}",
    "txn ls": "txn ls",
    "txn show": "txn show {transaction}",
    "txn commit": "txn commit {transaction}",
    "txn rollback": "txn rollback {transaction}",
    "txn resume": "txn resume {transaction}",
    "dlq ls": "dlq ls",
    "dlq peek": "dlq peek billing",
    "dlq redrive": "dlq redrive billing",
    "dlq purge": "dlq purge billing",
    "user add": "user add shop --secret-file secret",
    "user ls": "user ls",
    "user edit": "user edit app --enabled false",
    "user rm": "user rm app",
    "acl grant": "acl grant app sub topic:orders --source 10.0.0.0/8",
    "acl revoke": "acl revoke app pub topic:orders",
    "acl ls": "acl ls",
    "acl explain": "acl explain app pub topic:orders",
    "replica status": "replica status",
    "replica promote": "replica promote",
    "replica demote": "replica demote --leader 10.0.0.2:8081",
    "replica add": "replica add 127.0.0.1:1",
    "replica remove": "replica remove 10.0.0.2",
    "replica resync": "replica resync",
    "definitions import": "definitions import definitions.yaml --only topics",
    "context add": "context add test --endpoint 127.0.0.1:9000",
    "context ls": "context ls",
    "context use": "context use prod",
    "context rm": "context rm prod",
    "config check": "config check broker.toml",
    "config show": "config show -c broker.toml --origin",
    "config diff": "config diff broker.toml other.toml",
    "version": "version",
    "store info": "store info store",
    "store dump": "store dump store --queue TopicA:0",
    "store verify": "store verify store",
    "store rebuild": "store rebuild store",
    "store repair": "store repair store",
    "store ls": "store ls store --kind commitlog",
    "store diff": "store diff store store",
    "store backup": "store backup store copy",
    "store restore": "store restore backup restored",
    "archive ship": "archive ship store archive --once",
    "archive ls": "archive ls archive",
    "archive run": "archive run store lake",
    "archive compact": "archive compact lake",
    "store grep": "store grep . store --limit 1",
    "store diverged": "store diverged store --count",
    "store stats": "store stats store --by topic",
    "store export": "store export store --to messages.jsonl",
}
"""Line by command."""
BELOW: Final = "# "
"""Begins a line of standard error."""
OPTIONAL: Final = frozenset(
    """tag deliver_at group old_offset queue_offset problem_count main: waits The""".split()
)
"""Columns whose field a document has only if it is set, and lines of plain text."""
FIRST_LINES: Final = {"config show": 4}
"""Lines that a golden output has of a long one, whose other rows change with each setting."""
WITHOUT: Final = {
    "serve": "a broker: tests/e2e",
    "dev": "a broker: tests/e2e",
    "console": "serves pages: tests/console",
    "mqbroker": "a broker: tests/app/test_container.py",
    "definitions export": "prints a file: test_definitions.py",
    "monitoring init": "writes a folder: test_monitoring.py",
    "bench produce": "measures: test_bench.py",
    "bench consume": "measures: test_bench.py",
    "bench latency": "measures: test_bench.py",
    "completion": "prints a shell's script: test_completion.py",
    "config init": "prints a file: tests/config/test_document.py",
    "config import-broker-conf": "prints a file: tests/config/test_broker_conf.py",
    "user token": "prints a token: test_access.py",
    "backfill plan": "needs Spark: tests/cli/backfill",
    "backfill run": "needs Spark: tests/cli/backfill",
    "backfill verify": "needs Spark: tests/cli/backfill",
    "backfill install": "needs Spark: tests/cli/backfill",
    "backfill status": "needs Spark: tests/cli/backfill",
}
"""Reason by command."""


def filled(broker: LocalBroker) -> dict[str, str]:
    """Fills a broker with one of each thing; returns the ids in `TYPED`."""
    broker.fill(3)
    for line in (
        "group create billing",
        "user add app --secret-file secret",
        "acl grant app pub topic:orders",
        "context add prod --endpoint mq.example:8081",
        "context add local --endpoint 127.0.0.1:8081",
    ):
        done = run(*line.split())
        assert done.code == 0, done.err
    broker.stand("billing", "orders", q0=1)
    broker.store.tables.topics.adopt(DEAD, 1)
    broker.add(DEAD, b"a", b"b", UNIQ_KEY="A", RETRY_TOPIC="orders")
    broker.stand("billing", DEAD, q0=1)
    run("consume", "orders", "-g", "billing", "--pop", "--limit", "1", "--no-ack")
    delayed = run("produce", "orders", "later", "--delay", "1h").document["message_id"]
    held = run("produce", "orders", "held", "--transactional").document["transaction_id"]
    broker.do(broker.inner.talking.settled())
    Path("definitions.yaml").write_text(
        run("definitions", "export").out.replace("orders", "payments")
    )
    return {"{delayed}": delayed, "{transaction}": held}


def _zeros(found: re.Match[str]) -> str:
    return re.sub(r"[0-9]", "0", found[0])


MASKS: Final[tuple[tuple[re.Pattern[str], Any], ...]] = (
    (re.compile(r'"(recall_handle|receipt_handle|store_id)": ?"[^"]+"'), r'"\1":"…"'),
    (re.compile(r"/[^\s\"]+/(config|copy|restored|backup|store)\b"), r"\1"),
    (re.compile(r"\b[0-9A-F]{32,36}\b"), lambda found: "ID".ljust(len(found[0]), "-")),
    (re.compile(r"\b1[0-9]{12}\b"), _zeros),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?"), _zeros),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d\b"), _zeros),
    (re.compile(r'("(?:interval_s|seconds|\w*per_s)": ?)[0-9.]+'), r"\g<1>0"),
    (re.compile(r"( (?:[KMG]i)?B +)\d+\.\d(?= )"), r"\g<1>0.0"),
    (re.compile(r'("?bytes_free"?:? +)[0-9]+'), r"\g<1>0"),
    (re.compile(re.escape(__version__)), "VERSION"),
)
"""Patterns of what differs from run to run, and what stands for it."""


def masked(text: str) -> str:
    """Returns an output without what differs from run to run."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def shown(command: str, form: str, typed: dict[str, str]) -> str:
    """Returns what a command's line prints in a form, with notes, errors and exit code below."""
    words = [typed.get(word, word) for word in GOLDEN[command].split()]
    done = run(*words, "-o", form)
    below = [*masked(done.err).splitlines(), *([f"exit code {done.code}"] if done.code else [])]
    head = f"$ pocketmq {GOLDEN[command]} -o {form}\n"
    lines = masked(done.out).splitlines(keepends=True)[: FIRST_LINES.get(command)]
    return head + "".join(lines) + "".join(f"{BELOW}{line}\n" for line in below)


def names_of(text: str) -> set[str]:
    """Returns the names of fields in a golden output, in lower case."""
    lines = [line for line in text.splitlines()[1:] if not line.startswith(BELOW)]
    if text.partition("\n")[0].endswith("json"):
        return set(re.findall(r'"(\w+)": ?', "\n".join(lines)))
    titles = next((line for line in lines if line == line.upper() and line[:1].isalpha()), "")
    single = lines[: lines.index(titles)] if titles else lines
    return {*titles.lower().split(), *(line.split()[0] for line in single if line)}


def leaves() -> set[str]:
    """Returns every command that has no commands below it."""
    from tests.cli.test_program import ALL  # imports each command

    names = {" ".join(path) for path in ALL}
    return {name for name in names if not any(other.startswith(f"{name} ") for other in names)}
