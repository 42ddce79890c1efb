"""Changed tags, keys and ids: the log, the queue or the index is wrong, and nothing shows which."""

from pathlib import Path

import pytest

from pocketmq.format.record import decode_record
from pocketmq.model.finding import Doubt
from pocketmq.tools.verify.doubts import OTHER_KEYS
from pocketmq.tools.verify.verification import Verification, VerifyOptions, verify
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.damaged_store import NOW_MS, DamagedStore
from tests.sim.quick_disk import QuickDisk

ENTRIES_AT = 40  # Behind the header of an index file.
NAMES = ["KEYS", "TAGS", "UNIQ_KEY"]


def found_in(store: DamagedStore) -> Verification:
    return verify(QuickDisk(), store.directory, store.sizes, VerifyOptions(now_ms=NOW_MS))


def place_with(store: DamagedStore, name: str) -> int:
    """A record in the middle of the log that has a property, and a topic with a queue."""
    for place in store.places[len(store.places) // 2 :]:
        message = decode_record(store.records[place], decompress=False)
        if message.topic == "RebuildTopic" and set(NAMES) <= set(message.properties):
            return place
    raise AssertionError(name)


def change(store: DamagedStore, name: str) -> Doubt:
    """Changes a bit in a property's value, and returns its message."""
    place = place_with(store, name)
    at = store.records[place].index(name.encode() + b"\x01") + len(name) + 2
    value = store.read(place + at, 1)[0]
    store.write(place + at, bytes([value ^ 1]))
    message = decode_record(store.records[place], decompress=False)
    return Doubt(message.topic, message.queue_id, message.queue_offset, place)


@pytest.fixture
def store(golden: GoldenStores, tmp_path: Path) -> DamagedStore:
    return DamagedStore.of_golden(golden, "rebuild-base", tmp_path / "s")


@pytest.mark.parametrize("name", NAMES)
def test_a_repair_and_later_checks_name_a_message_with_a_changed_property(
    store: DamagedStore, name: str
) -> None:
    doubt = change(store, name)
    found = found_in(store)
    assert found.doubts == (doubt,)
    assert not found.is_sound
    report = store.repair()
    assert report["in_doubt"] == [doubt._asdict()]
    again = found_in(store)
    assert (again.counts, again.doubts) == ({}, ())
    (note,) = [note for note in again.notes if "in doubt since an earlier repair" in note]
    assert f"RebuildTopic:{doubt.queue_id} offset {doubt.queue_offset}" in note


def test_a_lost_name_of_an_id_leaves_its_message_in_doubt(store: DamagedStore) -> None:
    place = place_with(store, "UNIQ_KEY")
    store.flip(place + store.records[place].index(b"UNIQ_KEY"))
    found = found_in(store)
    assert found.counts == {"dangling_entry": 1}
    assert [doubt.physical_offset for doubt in found.doubts] == [place]
    assert store.repair()["in_doubt"] == [found.doubts[0]._asdict()]


def test_an_index_entry_without_a_record_leaves_no_message_in_doubt(store: DamagedStore) -> None:
    place = place_with(store, "KEYS").to_bytes(8)
    files = (store.directory / "index").iterdir()
    index = next(file for file in files if place in file.read_bytes()[ENTRIES_AT:])
    octets = bytearray(index.read_bytes())
    octets[octets.index(place, ENTRIES_AT) + 7] ^= 1
    index.write_bytes(octets)
    found = found_in(store)
    assert found.counts["dangling_entry"] == 1
    assert found.doubts == ()


def test_the_keys_have_a_note_as_the_tag_has(store: DamagedStore) -> None:
    change(store, "KEYS")
    assert OTHER_KEYS in found_in(store).notes


def test_a_right_property_crc_ends_the_doubt(golden: GoldenStores, tmp_path: Path) -> None:
    store = DamagedStore.of_golden(golden, "propcrc", tmp_path / "p")
    queue = max((store.directory / "consumequeue").rglob("0" * 20))
    with queue.open("r+b") as file:
        file.seek(19)
        file.write(bytes([queue.read_bytes()[19] ^ 1]))
    found = found_in(store)
    assert found.counts == {"unit": 1}
    assert found.doubts == ()


def test_what_no_repair_knows_leads_to_no_further_repair(store: DamagedStore) -> None:
    place = store.places[len(store.places) // 2]
    store.write(place + 40, bytes([store.read(place + 40, 1)[0] ^ 1]))
    looked = run("store", "verify", str(store.directory), "-o", "table")
    done = run("store", "repair", str(store.directory), "--yes")
    assert (looked.code, done.code) == (10, 10)
    assert looked.out.count("born_time") == 1
    for said in (looked.err, done.err):
        assert "a start serves these messages as they are" in said
        assert "pocketmq store repair" not in said
        assert "pocketmq store verify" not in said


def test_the_repair_of_a_table_names_its_effect(store: DamagedStore) -> None:
    config = store.directory / "config"
    for name in ("consumerOffset.json", "subscriptionGroup.json", "delayOffset.json"):
        path = config / name
        path.write_bytes(b'{"cut')
        path.with_name(f"{name}.bak").unlink(missing_ok=True)
    planned = run("store", "repair", str(store.directory), "-o", "table").out
    assert "all groups lose their offsets and begin as new ones" in planned
    assert "groups lose their settings" in planned
    assert "may deliver some again" in planned
    assert planned.count("it is moved to pocketmq/quarantine") == 3


def test_a_plan_lists_the_readable_id_and_keys_of_a_lost_message(store: DamagedStore) -> None:
    place = place_with(store, "KEYS")
    found = decode_record(store.records[place], decompress=False).properties
    store.write(place + 100, bytes(4))
    store.flip(place + 110)
    done = run("store", "repair", str(store.directory), "-o", "table")
    assert f"  readable there: id {found['UNIQ_KEY']}, keys {found['KEYS']}" in done.out
    (action,) = store.repair()["log"]
    assert action["readable"] == [f"id {found['UNIQ_KEY']}, keys {found['KEYS']}"]
