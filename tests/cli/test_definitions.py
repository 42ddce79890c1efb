"""Definitions of a broker as a file: exported, planned, imported, and imported again."""

from pathlib import Path

import pytest

from tests.cli.command_line import Ran, run
from tests.cli.local_broker import LocalBroker

FULL = """\
format_version: 1
topics:
- name: audit
  read_queue_count: 4
  write_queue_count: 2
  permission: 4
  order: true
  attributes: {message.type: FIFO, pocketmq.retention.ms: "60000"}
- {name: plain}
groups:
- {name: billing, fifo: true, max_attempts: 3, begin: max}
- {name: reports}
users:
- {access_key: app, enabled: false}
- {access_key: boss, admin: true, secret: a-secret-of-mine}
grants:
- {user: app, actions: [sub, pub], resource: "topic:audit"}
- {user: app, actions: [sub], resource: "group:billing", deny: true, sources: [10.0.0.0/8]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "definitions.yaml"
    path.write_text(FULL)
    return path


def bring(file: Path, *options: str) -> Ran:
    return run("definitions", "import", str(file), "-o", "jsonl", *options)


def actions(done: Ran) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["name"], row["action"]) for row in done.rows]


EVERYTHING = [
    ("topic", "audit", "create"),
    ("topic", "plain", "create"),
    ("group", "billing", "create"),
    ("group", "reports", "create"),
    ("user", "app", "create"),
    ("user", "boss", "create"),
    ("grant", "app topic:audit", "create"),
    ("grant", "app denied group:billing", "create"),
]


def test_a_plan_comes_first_and_a_second_import_changes_nothing(
    broker: LocalBroker, file: Path
) -> None:
    plan = bring(file)
    assert (plan.code, actions(plan)) == (4, EVERYTHING)
    assert "8 definitions would be created or changed" in plan.err
    assert broker.store.tables.topics.find("audit") is None
    done = bring(file, "--yes")
    assert (done.code, actions(done)) == (0, EVERYTHING)
    assert "secret of user app, shown only once: " in done.err
    assert "boss" not in done.err
    topic = run("topic", "info", "audit").document
    assert (topic["read_queue_count"], topic["write_queue_count"], topic["type"]) == (4, 2, "FIFO")
    assert (topic["permission"], topic["order"], topic["retention_ms"]) == (4, True, 60_000)
    group = run("group", "info", "billing").document
    assert (group["fifo"], group["max_attempts"], group["begin"]) == (True, 3, "max")
    again = bring(file, "--yes")
    assert (again.code, again.rows) == (0, [])
    assert "has all definitions" in again.err


def test_what_is_exported_changes_nothing_and_makes_the_same(
    broker: LocalBroker, file: Path, tmp_path: Path
) -> None:
    bring(file, "--yes")
    out = run("definitions", "export").out
    assert "billing" in out
    assert "secret" not in out
    copy = tmp_path / "copy.yaml"
    copy.write_text(out)
    assert bring(copy).rows == []
    for name in ("audit", "plain"):
        run("topic", "rm", name, "--yes")
    run("group", "rm", "billing", "--yes")
    run("user", "rm", "app", "--yes")
    assert bring(copy, "--yes").code == 0
    assert run("definitions", "export").out == out


def test_a_difference_is_shown_field_by_field(broker: LocalBroker, file: Path) -> None:
    bring(file, "--yes")
    file.write_text(
        FULL.replace("permission: 4", "permission: 6").replace("begin: max", "begin: min")
    )
    rows = bring(file, "--yes").rows
    assert [(row["name"], row["details"]) for row in rows] == [
        ("audit", "permission: 4 → 6"),
        ("billing", "begin: max → min"),
    ]
    assert run("topic", "info", "audit").document["permission"] == 6


def test_attributes_that_a_topic_lacks_in_the_file_are_removed(
    broker: LocalBroker, file: Path
) -> None:
    bring(file, "--yes")
    file.write_text("topics: [{name: audit, attributes: {message.type: FIFO}}]")
    assert bring(file, "--yes").code == 0
    assert run("topic", "info", "audit").document["attributes"] == {"message.type": "FIFO"}
    file.write_text("topics: [{name: audit}]")
    assert bring(file).rows == []


@pytest.mark.parametrize("name", ["audit", "another"])
def test_a_plan_refuses_a_value_that_the_broker_would_refuse(
    broker: LocalBroker, file: Path, name: str
) -> None:
    run("definitions", "import", str(file), "--yes")
    file.write_text(f"topics: [{{name: {name}, attributes: {{pocketmq.retention.ms: 12h}}}}]")
    done = run("definitions", "import", str(file))
    assert done.code == 2
    assert f"topic {name}: attribute 'pocketmq.retention.ms' is not allowed" in done.err
    assert "its value is a number of ms from 1000 to" in done.err


def test_attributes_of_another_version_stay_if_they_do_not_change(
    broker: LocalBroker, file: Path
) -> None:
    broker.fill(1)
    attributes = {"lite.expiration": "5"}
    broker.do(broker.inner.store.tables.topics.update("orders", attributes=attributes))
    file.write_text("topics: [{name: orders, attributes: {lite.expiration: '5'}}]")
    assert run("definitions", "import", str(file)).code == 0


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("[sub]", "actions: pub,sub → sub"),
        ("[pub, sub, get]", "actions: pub,sub → get,pub,sub"),
    ],
)
def test_a_grant_becomes_exactly_the_listed_one(
    broker: LocalBroker, file: Path, wanted: str, shown: str
) -> None:
    bring(file, "--yes")
    row = f'grants: [{{user: app, actions: {wanted}, resource: "topic:audit"}}]'
    file.write_text(row)
    assert [one["details"] for one in bring(file, "--yes").rows] == [shown]
    assert bring(file).rows == []
    assert len(run("acl", "ls", "app", "-o", "jsonl").rows) == 2


def test_values_in_another_form_are_the_same(broker: LocalBroker, file: Path) -> None:
    file.write_text("""
topics: [{name: audit, attributes: {message.type: fifo}}]
groups: [{name: billing, begin: "2026-11-21T03:30:00+01:00"}]
users: [{access_key: app}]
grants:
- {user: app, actions: [SUB, ALL], resource: "TOPIC:audit", sources: [10.1.2.3, "::1"]}
""")
    assert bring(file, "--yes").code == 0
    assert bring(file, "--yes").rows == []


def test_settings_are_compared_and_not_changed(broker: LocalBroker, file: Path) -> None:
    shown = run("definitions", "export", "--only", "settings").out
    assert shown.startswith("format_version: 1\nsettings:")
    assert "rpc.listen" not in shown
    file.write_text("settings: {no.such: 5}")
    done = bring(file, "--yes")
    assert (done.code, actions(done)) == (0, [("setting", "no.such", "differs")])
    assert list(done.rows[0]) == ["kind", "name", "action", "details"]
    assert "changed in the broker's files" in done.err


def test_one_section_alone(broker: LocalBroker, file: Path) -> None:
    assert actions(bring(file, "--only", "groups", "--yes")) == EVERYTHING[2:4]
    assert "topics" not in run("definitions", "export", "--only", "groups").out


def test_nothing_that_the_file_does_not_name_is_removed(broker: LocalBroker, file: Path) -> None:
    run("group", "create", "others")
    bring(file, "--yes")
    assert broker.store.tables.groups.find("others") is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topics: [", "line 1 is not YAML"),
        ("- a", "holds no sections"),
        ("", "holds no sections"),
        ("format_version: 2", "format_version 2"),
        ("queues: []", "unknown section 'queues'"),
        ("topics: {}", "topics is not a list"),
        ("topics: [orders]", "topics[1] is not a list of fields"),
        ("topics: [{order: true}]", "topics[1]: name is missing"),
        ("topics: [{name: a, colour: red}]", "unknown field 'colour'"),
        ("topics: [{name: a, permission: rw}]", "permission is 'rw', not a number"),
        ("topics: [{name: a, attributes: {a: 1}}]", "not texts by name"),
        ("groups: [{name: a}, {name: a}]", "'a' is defined twice"),
        ("groups: [{name: a, fifo: 1}]", "fifo is 1, not true or false"),
        ("grants: [{user: a, actions: sub, resource: r}]", "not a list of texts"),
        ("settings: [a]", "is not a list of settings"),
        ("settings: {retention.age_ms: soon}", "retention.age_ms"),
        ("groups: [{name: a, begin: soon}]", "cannot begin at 'soon'"),
        ("grants: [{user: a, actions: [fly], resource: r}]", "fly"),
        ("grants: [{user: a, actions: [sub], resource: r}]", "grants[1] (a): "),
        ("!!python/object/apply:os.getcwd []", "is not YAML"),
        ("\x00", "is not YAML"),
    ],
)
def test_a_wrong_file_changes_nothing(
    broker: LocalBroker, tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    done = bring(path, "--yes")
    assert done.code == 2, done.err
    assert says in done.err
    assert broker.calls == []
