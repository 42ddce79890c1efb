"""Messages by key: what the index says, less what only hashes alike, page by page."""

import base64
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from pocketmq.format.index_layout import IndexGeometry
from pocketmq.format.names import zone_from_name
from pocketmq.log.commit_log import CommitLog
from pocketmq.log.hash_index import HashIndex
from pocketmq.model.errors import Corruption, IllegalPageToken
from pocketmq.model.message import StoredMessage
from pocketmq.model.reading import PAGE_BYTES_MAX, KeyRange, QueryResult
from pocketmq.store.read import key_search
from pocketmq.store.read.key_search import KeySearch
from pocketmq.store.read.lookups import find_message
from pocketmq.store.recovery.components import StoreComponents
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import carries
from tests.kit.store_golden import READ_WHOLE, golden_sizes
from tests.kit.store_language import END_OF_TIME_MS, TalkingStore, store_at
from tests.sim.clock import START_MS
from tests.sim.quick_disk import QuickDisk

COLLIDING = ("Aa", "BB")
"""Two keys of one hash in Java."""
SMALLEST_HASH_KEY = "polygenelubricants"
"""Its own hash is -2**31, whose absolute value does not exist."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TalkingStore]:
    async with store_at(tmp_path / "s", index_entry_count_max=40) as made:
        yield made


def query_of(store: TalkingStore) -> KeySearch:
    parts = store.store._structures
    return KeySearch(parts.log, parts.index, partial(find_message, parts.log), is_ours=True)


def pages(
    query: KeySearch,
    topic: str,
    key: str,
    *,
    count_max: int,
    index_type: str = "",
    begin_ms: int = 0,
    end_ms: int = END_OF_TIME_MS,
    bytes_max: int = PAGE_BYTES_MAX,
) -> list[list[StoredMessage]]:
    """Every page of a query, until one says that it was the last."""
    cursor, found = "", []
    while True:
        wanted = KeyRange(topic, key, count_max, begin_ms, end_ms, cursor, index_type, bytes_max)
        result = query.by_key(wanted)
        found.append(result.messages)
        cursor = result.next_cursor
        assert bool(cursor) != result.complete
        if result.complete:
            return found


def joined(found: list[list[StoredMessage]]) -> list[str]:
    return [message.body.decode() for page in found for message in page]


# -- which messages --------------------------------------------------------------------------------


async def test_newest_first_by_any_key_unique_key_or_tag(store: TalkingStore) -> None:
    await store.send("T", "a", key="k l", unique_key="ID", tag="TagA")
    await store.send("T", "b", key="l", tag="k")
    await store.send("U", "c", key="k", unique_key="ID")
    assert await store.found("T", "l") == ["b", "a"]
    assert await store.found("T", "k") == ["a"]
    assert await store.found("T", "ID") == ["a"]
    assert await store.found("T", "TagA", index_type="T") == ["a"]
    assert await store.found("T", "k", index_type="T") == ["b"]
    assert await store.found("T", "TagA") == []
    assert await store.found("T", "k l") == []
    assert await store.found("nowhere", "k") == []


async def test_keys_of_one_hash_are_told_apart(store: TalkingStore) -> None:
    for number in range(20):
        await store.send("T", f"{number}", key=COLLIDING[number % 2])
    await store.send("T", "odd", key=SMALLEST_HASH_KEY)
    assert await store.found("T", "Aa") == [str(n) for n in range(18, -1, -2)]
    assert await store.found("T", "BB") == [str(n) for n in range(19, -1, -2)]
    assert await store.found("T", SMALLEST_HASH_KEY) == ["odd"]


async def test_topics_of_one_hash_are_told_apart(store: TalkingStore) -> None:
    for topic in COLLIDING:
        await store.send(topic, f"of {topic}", key="k", tag="t")
    assert await store.found("Aa", "k") == ["of Aa"]
    assert await store.found("BB", "t", index_type="T") == ["of BB"]


async def test_a_record_named_by_two_of_its_words_is_found_once(store: TalkingStore) -> None:
    await store.send("T", "a", key="k k", unique_key="k")
    assert await store.found("T", "k") == ["a"]


async def test_times_are_of_the_records_both_ends_included(store: TalkingStore) -> None:
    for number in range(6):
        await store.send("T", f"{number}", key="k")
        store.clock.advance(300)
    await store.settled()
    query = query_of(store)
    for begin, end, expected in (
        (0, END_OF_TIME_MS, "543210"),
        (START_MS + 300, START_MS + 900, "321"),
        (START_MS + 301, START_MS + 899, "2"),
        (START_MS + 600, START_MS + 600, "2"),
        (START_MS + 601, START_MS + 602, ""),
        (START_MS + 10_000, END_OF_TIME_MS, ""),
        (0, START_MS - 1, ""),
    ):
        found = pages(query, "T", "k", count_max=9, begin_ms=begin, end_ms=end)
        assert "".join(joined(found)) == expected


async def test_what_the_log_does_not_hold_any_more_is_left_out(store: TalkingStore) -> None:
    for number in range(4):
        await store.send("T", f"{number}" * 1_500, key="k")
    await store.settled()
    parts = store.store._structures
    parts.log.files.files.pop(0).remove()
    found = pages(query_of(store), "T", "k", count_max=9)
    assert [body[0] for body in joined(found)] == ["3", "2"]


async def test_a_damaged_record_is_named_and_never_served(store: TalkingStore) -> None:
    place = (await store.send("T", "damaged", key="k")).physical_offsets[0]
    await store.settled()
    file = store.store.log.files.files[0]
    store.disk.write_at(file.descriptor, place + 90, b"\0")
    with pytest.raises(Corruption) as caught:
        pages(query_of(store), "T", "k", count_max=9)
    assert caught.value.physical_offset == place


async def test_a_damaged_record_hides_no_other_and_the_last_page_is_not_complete(
    store: TalkingStore,
) -> None:
    places = [(await store.send("T", f"{n}", key="k")).physical_offsets[0] for n in range(5)]
    await store.settled()
    file = store.store.log.files.files[0]
    store.disk.write_at(file.descriptor, places[2] + 88, b"\xff")
    for count in (1, 2, 3, 9):
        query = query_of(store)
        bodies, result = every_page(query, count)
        assert bodies == ["4", "3", "1", "0"]
        assert (result.complete, result.next_cursor) == (False, "")
        assert query.truncated.values[("damage",)] == 1


def every_page(query: KeySearch, count: int) -> tuple[list[str], QueryResult]:
    """Follows the cursors; returns all bodies and the last page."""
    cursor, bodies = "", list[str]()
    while True:
        result = query.by_key(KeyRange("T", "k", count, cursor=cursor))
        bodies += [message.body.decode() for message in result.messages]
        cursor = result.next_cursor
        if not cursor:
            return bodies, result


@pytest.mark.parametrize(
    ("position", "content"),
    [
        (0, (7).to_bytes(4)),
        (0, (-9).to_bytes(4, signed=True)),
        (4, (10**15).to_bytes(8)),
        (4, (-5).to_bytes(8, signed=True)),
        (4, (33).to_bytes(8)),
        (16, (9_999).to_bytes(4)),
        (16, (3).to_bytes(4)),
        (16, (-3).to_bytes(4, signed=True)),
    ],
)
async def test_a_damaged_entry_is_told_and_ends_nothing_else(
    store: TalkingStore, position: int, content: bytes
) -> None:
    """Hash of another slot, place before, behind or between records, a link that is none."""
    for number in range(5):
        await store.send("T", f"{number}", key="k")
    await store.settled()
    index = store.store.views.index.files[0]
    view = index.hold().view
    begin = index.geometry.entries_position + 20 * 3 + position
    view[begin : begin + len(content)] = content
    bodies, result = every_page(query_of(store), 9)
    assert (result.complete, result.next_cursor) == (False, "")
    assert bodies[:2] == ["4", "3"]
    assert set(bodies) <= {"4", "3", "2", "1", "0"}
    index._file.let_go()
    del view


async def test_a_damaged_slot_is_told(store: TalkingStore) -> None:
    await store.send("T", "a", key="k")
    await store.settled()
    file = store.store.views.index.files[0].hold()
    slots = file.view[40:72]
    for value in (99, -1, 2**31 - 1):
        for slot in range(8):
            slots[4 * slot : 4 * slot + 4] = value.to_bytes(4, signed=True)
        assert every_page(query_of(store), 9)[1].complete is False
    slots.release()
    file.let_go()


# -- pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count_max", [1, 2, 3, 7, 50])
async def test_pages_hold_everything_once(store: TalkingStore, count_max: int) -> None:
    for number in range(60):
        await store.send("T", f"{number}", key=f"all {COLLIDING[number % 2]}", unique_key="x")
    await store.settled()
    query = query_of(store)
    assert len(store.store.views.index.files) > 3
    for key, expected in (("all", range(59, -1, -1)), ("Aa", range(58, -1, -2))):
        found = pages(query, "T", key, count_max=count_max)
        assert joined(found) == [str(number) for number in expected]
        assert all(len(page) == count_max for page in found[:-1])


async def test_a_page_goes_on_where_it_ended_whatever_came_since(store: TalkingStore) -> None:
    for number in range(10):
        await store.send("T", f"{number}", key="k")
    await store.settled()
    first = query_of(store).by_key(KeyRange("T", "k", 4))
    for number in range(10, 60):
        await store.send("T", f"{number}", key="k")
    await store.settled()
    second = query_of(store).by_key(KeyRange("T", "k", 99, cursor=first.next_cursor))
    assert joined([first.messages, second.messages]) == [str(n) for n in range(9, -1, -1)]


async def test_a_page_has_its_fill_of_bytes(store: TalkingStore) -> None:
    for number in range(9):
        await store.send("T", f"{number}" * 400, key="k")
    await store.settled()
    query = query_of(store)
    found = pages(query, "T", "k", count_max=99, bytes_max=900)
    assert [len(page) for page in found] == [2, 2, 2, 2, 1]
    assert query.truncated.values == {("bytes",): 4}


async def test_a_page_takes_10000_steps_at_most_and_the_next_goes_on(
    store: TalkingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert key_search.STEPS_MAX == 10_000
    monkeypatch.setattr(key_search, "STEPS_MAX", 7)
    for number in range(30):
        await store.send("T", f"{number}", key="BB" if number == 2 else "Aa")
    await store.settled()
    query = query_of(store)
    found = pages(query, "T", "BB", count_max=9)
    assert joined(found) == ["2"]
    assert len(found) > 3
    assert found[0] == []
    assert query.truncated.values == {("steps",): len(found) - 1}
    assert query.candidates.sum == 30


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20261118110640000:1",
        "20261118110640000:-1:5",
        "2026111811064000:1:5",
        "20261118110640000:1:5 ",
        "20261118110640000:1:12345678901234567890",
    ],
)
async def test_a_token_of_another_make_is_refused(store: TalkingStore, text: str) -> None:
    token = base64.urlsafe_b64encode(text.encode()).decode() or "%"
    for cursor in (token, "\u00fc", "a"):
        with pytest.raises(IllegalPageToken):
            query_of(store).by_key(KeyRange("T", "k", 1, cursor=cursor))


async def test_a_token_that_leads_nowhere_ends_the_query(store: TalkingStore) -> None:
    await store.send("T", "a", key="k")
    await store.settled()
    name = store.store.views.index.files[0].path.name
    for text in (f"{name}:9999999999:5", f"{name}:0:-1", "00000000000000000:1:0"):
        token = base64.urlsafe_b64encode(text.encode()).decode()
        query_of(store).by_key(KeyRange("T", "k", 1, cursor=token))


# -- stores of a real broker -----------------------------------------------------------------------

Parts = Callable[[str], StoreComponents]


@pytest.mark.parametrize("name", READ_WHOLE)
def test_queries_of_a_real_broker_are_answered_less_its_collisions(
    golden: GoldenStores, real: Parts, name: str
) -> None:
    manifest, parts = golden.manifest(name), real(name)
    query, collisions = KeySearch(parts.log, parts.index, partial(find_message, parts.log)), 0
    for asked in manifest["queries"]:
        if asked["indexType"] and name == "v533":
            continue  # 5.3.3 knows no index of tags.
        found = pages(
            *(query, asked["topic"], asked["key"]),
            count_max=17,
            index_type=asked["indexType"] or "",
            begin_ms=asked["begin"],
            end_ms=min(asked["end"], END_OF_TIME_MS),
        )
        places = [message.physical_offset for page in found for message in page]
        right = [r["phy"] for r in manifest["records"] if carries(r, asked)]
        assert sorted(places) == right, asked
        assert places == sorted(places, reverse=True)
        theirs = set(asked["offsets"])
        assert theirs & set(right) <= set(places)
        collisions += len(theirs - set(right))
    assert manifest["queries"]
    assert collisions or name != "basic"


@pytest.mark.parametrize("count_max", [1, 3, 10_000])
def test_records_a_real_broker_indexed_twice_are_found_once(
    golden: GoldenStores, count_max: int
) -> None:
    # The index of this store holds 1,197 entries twice, far from each other.
    name = "crash-behind.after"
    sizes, directory = golden_sizes(golden, name), golden.store(name)
    log = CommitLog(QuickDisk(), directory / "commitlog", sizes["commit_log_file_size_bytes"])
    log.load(read_only=True)
    geometry = IndexGeometry(sizes["index_slot_count"], sizes["index_entry_count_max"])
    index = HashIndex(
        QuickDisk(), directory / "index", geometry, style="5.5", zone=zone_from_name("UTC")
    )
    index.load(read_only=True)
    manifest = golden.manifest(name)
    for asked in manifest["queries"]:
        asked = {**asked, "begin": 0, "end": END_OF_TIME_MS}
        found = pages(
            *(KeySearch(log, index, partial(find_message, log)), asked["topic"], asked["key"]),
            count_max=count_max,
            index_type=asked["indexType"] or "",
        )
        places = [message.physical_offset for page in found for message in page]
        assert sorted(places) == [r["phy"] for r in manifest["records"] if carries(r, asked)]
    index.close()
    log.close()
