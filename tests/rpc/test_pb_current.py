"""The committed protobuf modules are what scripts/generate makes of proto/ today."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "broker" / "pocketmq" / "rpc" / "pb"


def modules(folder: Path) -> dict[str, str]:
    """The generated modules of a folder, by name."""
    return {path.name: path.read_text() for path in folder.glob("*_pb2.py*")}


def test_the_committed_modules_are_current(tmp_path: Path) -> None:
    subprocess.run(
        [ROOT / "scripts" / "generate", tmp_path],
        env={**os.environ, "PYTHON": sys.executable},
        check=True,
    )
    made = modules(tmp_path)
    assert made.keys() >= {"broker_pb2.py", "broker_pb2.pyi"}
    assert made.keys() == modules(COMMITTED).keys()
    for name, text in made.items():
        assert text == modules(COMMITTED)[name], f"{name} is stale: run scripts/generate"


def test_the_modules_import_as_one_package() -> None:
    from pocketmq.rpc.pb import broker_pb2

    message = broker_pb2.Message(topic="orders", body=b"1", keys=["k"])
    assert type(message).__module__ == "pocketmq.rpc.pb.broker_pb2"
    assert broker_pb2.Message.FromString(message.SerializeToString()) == message
    assert broker_pb2.DESCRIPTOR.package == "pocketmq.v1"
