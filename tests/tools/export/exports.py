"""Exports that a test makes and looks at.

done = exported(files, tmp_path / "x.parquet", shape("parquet", "topic", "body"))
offsets(done.files[0])                               which messages are in it
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pocketmq.cli.documents import message_document
from pocketmq.files.disk import Disk
from pocketmq.format.message_columns import columns_of
from pocketmq.model.message import StoredMessage
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.export.files import Exported, ExportFormat, export_files
from pocketmq.tools.selection import LogSearch, Selection


def line(message: StoredMessage) -> bytes:
    return json.dumps(message_document(message)).encode()


def shape(form: str, *names: str, **words: Any) -> ExportFormat:
    return ExportFormat(form, columns_of(names), line, **words)


def exported(files: list[LogFile], target: Path, wanted: ExportFormat, **chosen: Any) -> Exported:
    done = export_files(Disk(), LogSearch(files, Selection(**chosen)), target, wanted)
    assert [path for path in target.parent.iterdir() if path.suffix == ".draft"] == []
    assert done.bytes == sum(path.stat().st_size for path in done.files)
    return done


def offsets(path: Path) -> list[int]:
    if path.suffix == ".parquet":
        found: list[int] = pq.read_table(path).column("physical_offset").to_pylist()
        return found
    return [json.loads(text)["physical_offset"] for text in path.read_text().splitlines()]
