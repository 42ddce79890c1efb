"""The daemon on copies of stores that a real RocketMQ wrote: it serves exactly what they hold."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import AsyncClient, ClientError, KeyQuery
from tests.e2e.daemon import Daemon, messages_of
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import carries, shown, wanted

STORES = ["basic", "semantics", "propcrc", "cqext", "rebuild-base", "v533"]
PRE_BLANK_SIZE = 0x7FFFFFFF
FOREVER_MS = 2**62


async def found(client: AsyncClient, query: dict[str, Any]) -> list[int]:
    """Returns the places of all messages that answer a recorded query."""
    ask = client.admin.query_by_tag if query["indexType"] == "T" else client.admin.query_by_key
    places: list[int] = []
    token, is_complete = "", False
    while not is_complete:
        end_ms = min(query["end"], FOREVER_MS)
        page = await ask(
            KeyQuery(query["topic"], query["key"], 1024, query["begin"], end_ms, token)
        )
        places += [message.physical_offset for message in page.messages]
        token, is_complete = page.next_cursor, page.complete
    return places


@pytest.mark.parametrize("name", STORES)
def test_every_queue_and_every_query_answers_what_the_manifest_says(
    name: str, golden: GoldenStores, tmp_path: Path
) -> None:
    manifest = golden.manifest(name)
    records = {record["phy"]: record for record in manifest["records"]}
    with Daemon(golden.copy(name, tmp_path / name)) as broker:
        asyncio.run(_compare(broker.endpoint, manifest, records))
        assert broker.stop() == 0


async def _compare(
    endpoint: str, manifest: dict[str, Any], records: dict[int, dict[str, Any]]
) -> None:
    async with AsyncClient(endpoint, retry_ms=0) as client:
        for queue in manifest["queues"]:
            found_now = await messages_of(client, queue["topic"], queue["queueId"], as_admin=True)
            # What was under way when the store was left goes on: it is put behind its end.
            messages = [message for message in found_now if message.physical_offset in records]
            assert messages == found_now[: len(messages)]
            units = [unit for unit in queue["units"] if unit[1] != PRE_BLANK_SIZE]
            assert [message.physical_offset for message in messages] == [unit[0] for unit in units]
            for message in messages:
                assert shown(message) == wanted(records[message.physical_offset])
        topics = {record["topic"] for record in records.values()}
        for query in manifest["queries"]:
            if query["topic"] not in topics:
                with pytest.raises(ClientError, match="does not exist"):
                    await found(client, query)
                continue
            if query["indexType"] == "T" and manifest["rocketmq"].startswith("V5_3"):
                continue  # 5.3 indexes no tags.
            if not query["key"] or query["begin"] > query["end"]:
                continue  # Refused here as malformed; the real broker finds nothing either.
            places = [place for place in await found(client, query) if place in records]
            assert sorted(places) == [p for p, r in records.items() if carries(r, query)]
            assert {p for p in query["offsets"] if carries(records[p], query)} <= set(places)
