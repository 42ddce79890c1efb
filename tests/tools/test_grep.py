"""A pattern is found in every text that holds it."""

import re
import zlib
from pathlib import Path

import pytest

from pocketmq.model.message import FLAG_COMPRESSED, StoredMessage
from pocketmq.rebuild.log_files import LogFile
from pocketmq.tools.grep import ANY, BODY, KEY, PLACES, PROPERTY, TAG, matching
from pocketmq.tools.selection import LogSearch, Selection
from tests.golden_stores import GoldenStores
from tests.kit.log_bytes import LogBytes, golden_files


def found(
    files: list[LogFile], pattern: str, place: str = BODY, flags: int = 0, **wanted: str
) -> list[StoredMessage]:
    """The messages that a pattern is found in."""
    search = LogSearch(files, Selection(**wanted))  # type: ignore[arg-type]
    return list(matching(search, re.compile(pattern, flags), place))


def plainly(files: list[LogFile], pattern: str, place: str, flags: int = 0) -> list[int]:
    """Where the messages lie that a pattern is found in, looked at one by one."""
    search = re.compile(pattern, flags).search

    def texts(message: StoredMessage) -> list[str]:
        body = message.body.decode("utf-8", "replace")
        pairs = [f"{name}={value}" for name, value in message.properties.items()]
        keys = [*message.keys, *filter(None, [message.unique_key])]
        tags = [message.tag] if message.tag else []
        return {BODY: [body], KEY: keys, TAG: tags, PROPERTY: pairs, ANY: [body, *pairs]}[place]

    every = LogSearch(files, Selection()).messages()
    return [m.physical_offset for m in every if any(search(text) for text in texts(m))]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", ["Tag[AB]", "order-1", "-17", "body", "^.{9}$", "=tag", "WAIT"])
@pytest.mark.parametrize("flags", [0, re.IGNORECASE])
def test_a_real_store(golden: GoldenStores, pattern: str, place: str, flags: int) -> None:
    files = golden_files(golden, "basic")
    offsets = [message.physical_offset for message in found(files, pattern, place, flags)]
    assert offsets == plainly(files, pattern, place, flags)


def test_only_what_is_selected_is_searched(golden: GoldenStores) -> None:
    files = golden_files(golden, "semantics")
    tag = next(r["tags"] for r in golden.manifest("semantics")["records"] if r["tags"])
    messages = found(files, "WAIT=true", PROPERTY, tag=tag)
    assert messages
    assert {message.tag for message in messages} == {tag}


def test_compressed_bodies_are_searched_unfolded(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(body=zlib.compress(b"needle in a haystack"), flags=FLAG_COMPRESSED)
    log.add(body=b"hay")
    assert [m.body for m in found(log.close().found(), "needle")] == [b"needle in a haystack"]


def test_a_needle_across_two_records_or_in_another_part_is_none(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    log.add(topic="needle", body=b"hay", block=b"TAGS\x01needle\x02")
    log.add(body=b"needle")
    files = log.close().found()
    assert [m.physical_offset for m in found(files, "needle")] == log.places[1:]
    assert [m.physical_offset for m in found(files, "needle", TAG)] == log.places[:1]
    assert [m.physical_offset for m in found(files, "needle", ANY)] == log.places


def test_texts_are_unicode(tmp_path: Path) -> None:
    log = LogBytes(tmp_path)
    for body in ("GRÜN", "grün", "\u212aELVIN", b"\xff\xfe binary"):
        log.add(body=body if isinstance(body, bytes) else body.encode())
    files = log.close().found()
    assert len(found(files, "grün")) == 1
    assert len(found(files, "grün", flags=re.IGNORECASE)) == 2
    assert len(found(files, "gr.n", flags=re.IGNORECASE)) == 2
    assert len(found(files, "kelvin", flags=re.IGNORECASE)) == 1
    assert len(found(files, "\ufffd+ bin")) == 1
