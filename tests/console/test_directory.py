"""The console of a store directory: stores of a real RocketMQ, damaged and empty ones."""

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from pocketmq.console.pages.offline import OFFLINE_ROUTES
from pocketmq.files.disk import Disk
from pocketmq.format.names import OWN_DIRECTORY
from pocketmq.log.store_directory import ManifestFile, StoreManifest
from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.browser import BrowserShown, BrowserVisit, directory_of
from tests.kit.console_scene import damaged
from tests.kit.tool_sizes import golden_tool_sizes

TOPIC = "/topic?name=orders"
HOLD = """import sys
from pathlib import Path
from pocketmq.files.disk import Disk
from pocketmq.log.store_directory import StoreDirectory
StoreDirectory(Disk(), Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()"""
"""A program that has the lock of a store until its input ends."""


async def verified(visitor: BrowserVisit) -> BrowserShown:
    """Runs a verification to its end; returns the page with the result."""
    await visitor.get("/")
    assert (await visitor.post("/store/verify")).place == "/"
    while True:
        page = await visitor.get("/")
        if "<progress" not in page.html:
            return page
        await asyncio.to_thread(int)  # the verification runs in another thread


async def test_a_store_of_rocketmq_is_shown_and_sound(golden: GoldenStores) -> None:
    async with directory_of(golden.store("basic")) as visitor:
        page = await visitor.get("/")
        assert "Log files 20 of 131 kB" in page.text
        assert "RocketMQ, or an unknown broker" in page.text
        assert "ended in order" in page.text
        result = await verified(visitor)
        assert "The store is sound. 2,871 records" in result.text
        assert 'class="t-bad" x=' not in result.html
        assert 'class="t0" x=' in result.html


async def test_what_a_directory_cannot_tell_is_left_out(golden: GoldenStores) -> None:
    async with directory_of(golden.store("basic")) as visitor:
        page = await visitor.get("/topics")
    assert "Messages" in page.text
    assert "/s" not in page.text
    assert "0 B" not in page.text
    assert "Last message" not in page.text


async def test_the_age_of_a_lag_is_that_of_its_oldest_message(
    golden: GoldenStores, tmp_path: Path
) -> None:
    copy = golden.copy("basic", tmp_path / "s")
    table = {"offsetTable": {"orders@slow": {"0": 0}}}
    (copy / "config" / "consumerOffset.json").write_text(json.dumps(table))
    async with directory_of(copy) as visitor:
        page = await visitor.get("/group?name=slow")
    oldest = page.text.partition("Oldest waits ")[2].partition("In flight")[0]
    assert re.match(r"\d+ d", oldest), oldest


async def test_a_store_of_pocketmq_is_shown(golden: GoldenStores, tmp_path: Path) -> None:
    copy = damaged(golden, tmp_path / "own")
    shape = golden_tool_sizes(golden, "basic")
    manifest = StoreManifest.with_shape(shape, cluster="c", broker="b")
    ManifestFile(Disk(), copy / OWN_DIRECTORY).write(manifest)
    async with directory_of(copy) as visitor:
        assert "Written by PocketMQ, format 1" in (await visitor.get("/")).text


async def test_damage_is_red_on_the_map_with_what_is_lost(
    golden: GoldenStores, tmp_path: Path
) -> None:
    copy = damaged(golden, tmp_path / "hurt")
    async with directory_of(copy) as visitor:
        result = await verified(visitor)
        assert "The store is damaged: 8 messages are lost" in result.text
        assert result.html.count('class="t-bad" x=') == 1
        assert "single , queue 0, from offset 184" in result.text
        assert f"pocketmq store repair {copy}" in result.text
        assert "pocketmq topic" not in (await visitor.get("/topics")).text


async def test_a_damaged_store_is_repaired_once_its_name_is_typed(
    golden: GoldenStores, tmp_path: Path
) -> None:
    copy = damaged(golden, tmp_path / "hurt")
    file = copy / "commitlog" / "00000000000001310720"
    before = file.read_bytes()
    async with directory_of(copy) as visitor:
        await verified(visitor)
        plan = await visitor.post("/store/repair")
        assert "messages lost: 8" in plan.text
        assert "Nothing has changed yet" in plan.text
        unsure = await visitor.post("/store/repair", confirm="hurts")
        assert "Nothing has changed yet" in unsure.text
        assert file.read_bytes() == before
        assert (await visitor.post_raw("/store/repair", "confirm=hurt")).status == 403
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLD, str(copy), stdin=PIPE, stdout=PIPE
        )
        assert holder.stdout is not None
        assert await holder.stdout.readline()
        in_use = await visitor.post("/store/repair", confirm="hurt")
        await holder.communicate(b"")
        assert in_use.status == 400
        assert file.read_bytes() == before
        done = await visitor.post("/store/repair", confirm="hurt")
        assert done.place == "/"
        assert "messages lost: 8" in (await visitor.get("/")).text
        assert file.read_bytes() != before
        assert list((copy / "pocketmq" / "quarantine").iterdir())
        again = await visitor.post("/store/repair")
        assert "messages lost: 8" not in again.text


async def test_topics_messages_and_groups_are_read_from_files(golden: GoldenStores) -> None:
    async with directory_of(golden.store("basic")) as visitor:
        assert "orders" in (await visitor.get("/topics")).text
        page = await visitor.get(TOPIC)
        place = page.html.partition('<td class="time"><a href="')[2].partition('"')[0]
        message = await visitor.get(place.replace("&amp;", "&"))
        assert message.status == 200
        number = message.html.partition('class="mono soft"><bdi>')[2].partition("</bdi>")[0]
        found = await visitor.get(f"/messages?topic=orders&by=id&q={number}")
        assert found.place.startswith("/message?topic=orders&queue=")
        key = (await visitor.get(f"/messages?topic=orders&by=key&q={number}")).text
        assert "Stored (UTC)" in key
        early = await visitor.get("/messages?topic=orders&by=time&q=2020-01-01")
        assert "No message of orders was found" in early.text
        groups = await visitor.get("/groups?sort=lag")
        name = groups.html.partition("/group?name=")[2].partition('"')[0]
        assert "Lag by queue" in (await visitor.get(f"/group?name={name}")).text
        assert (await visitor.get("/topic?name=missing")).status == 404
        assert (await visitor.get("/group?name=missing")).status == 404
        assert (await visitor.get("/messages?by=id&q=missing")).status == 200


async def test_older_pages_of_a_topic_reach_its_first_message(golden: GoldenStores) -> None:
    async with directory_of(golden.store("basic")) as visitor:
        target, count = TOPIC, 0
        while target:
            page = await visitor.get(target)
            count += page.html.count('<td class="body">')
            target = page.html.partition('rel="next" href="')[2].partition('"')[0]
            target = target.replace("&amp;", "&")
        assert f"Messages {count:,}" in (await visitor.get(TOPIC)).text


async def test_an_empty_store_says_so(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    async with directory_of(tmp_path) as visitor:
        assert "no message was ever stored here" in (await visitor.get("/")).text
        assert "The store is sound" in (await verified(visitor)).text


async def test_a_repair_that_needs_a_file_is_not_offered_and_names_the_next_step(
    golden: GoldenStores, tmp_path: Path
) -> None:
    copy = golden.copy("basic", tmp_path / "s")
    sorted((copy / "commitlog").iterdir())[3].unlink()
    async with directory_of(copy) as visitor:
        result = await verified(visitor)
        assert f"pocketmq store repair {copy} --accept-loss" in result.text
        plan = await visitor.post("/store/repair")
        forced = await visitor.post("/store/repair", confirm="s")
    assert "nothing can be done yet" in plan.text
    assert f"without one: pocketmq store repair {copy} --accept-loss" in plan.text
    assert "to confirm" not in plan.text
    assert forced.status != 200


async def test_the_verdict_names_messages_of_an_accepted_loss(
    golden: GoldenStores, tmp_path: Path
) -> None:
    copy = damaged(golden, tmp_path / "hurt")
    assert run("store", "repair", str(copy), "--yes").code == 0
    verdict = run("store", "verify", str(copy), "-o", "table").out.splitlines()[0]
    assert "missing since an earlier repair" in verdict
    async with directory_of(copy) as visitor:
        result = await verified(visitor)
    assert verdict in result.text
    assert "Missing: " in result.text


@pytest.mark.parametrize("path", ["/topic/remove", "/send", "/group/reset", "/access/users"])
async def test_a_directory_has_no_actions_of_a_broker(golden: GoldenStores, path: str) -> None:
    async with directory_of(golden.store("basic")) as visitor:
        assert [route.path for route in OFFLINE_ROUTES if route.is_action] == [
            "/store/verify", "/store/repair",
        ]  # fmt: skip
        await visitor.get("/")
        assert (await visitor.post(path, name="orders", confirm="orders")).status in (404, 405)
