"""RocketMQ's own client for Python works as it is, on a broker as a user starts it."""

from pathlib import Path

from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.service_table import MESSAGING, NAME
from tests.e2e.official.cases import Cases, official
from tests.e2e.official.programs import Official


class TestPython(Cases):
    """The cases."""

    language = "python"


def test_the_protocol_is_the_clients(tmp_path: Path) -> None:
    with Official(official("python"), "", tmp_path / "log") as client:
        rows = client.ask("describe")
    messages = {row["message"]: row["fields"] for row in rows if "message" in row}
    ours = pb.DESCRIPTOR.message_types_by_name
    assert len(messages) > 50
    for name, fields in messages.items():
        found = {field.name: [field.number, field.type] for field in ours[name].fields}
        assert {field: found.get(field) for field in fields} == fields, name
    enums = {row["enum"]: row["numbers"] for row in rows if "enum" in row}
    for name, numbers in enums.items():
        known = {value.number for value in pb.DESCRIPTOR.enum_types_by_name[name].values}
        assert set(numbers) <= known, name
    (service,) = [row for row in rows if row.get("service") == NAME]
    assert set(service["methods"]) <= set(MESSAGING.methods_by_name)
