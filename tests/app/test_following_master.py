"""A whole broker that follows a master of RocketMQ, which a test plays from recorded bytes."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from pocketmq.client import Message, PullQuery
from pocketmq.client.client_error import ClientError
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, CONFIG_DIRECTORY, offset_file_name
from pocketmq.format.record import encode_blank
from pocketmq.format.signature import is_content_signature
from pocketmq.format.table_json import decode_table
from pocketmq.format.timer_layout import CHECK
from pocketmq.rpc.classic.signing import signed_content
from tests.kit.golden_log import files_below
from tests.kit.played_master import (
    FILE_SIZE,
    RUNTIME,
    SESSIONS,
    PlayedMaster,
    played_master,
    recorded_answers,
    recorded_files,
    recorded_frames,
    recorded_log,
    recorded_reports,
)
from tests.kit.records import record
from tests.running_broker import RunningBroker, broker_with

BLANK_BEGIN = 65_000
"""Physical offset of the BLANK that ends the first file of the recorded log."""
FIRST_END = recorded_reports(SESSIONS[0])[-1]


def log_of(directory: Path) -> bytes:
    files = files_below(directory / COMMIT_LOG_DIRECTORY)
    return b"".join(files[name] for name in sorted(files)).rstrip(b"\0")


def following(master: PlayedMaster) -> str:
    return f"replication.leader={master.endpoint}"


async def shows(broker: RunningBroker, end: int) -> None:
    """Returns once a broker shows everything below an offset; one that cuts its log restarts."""
    async with asyncio.timeout(20):
        while True:
            with suppress(ClientError):
                if (await broker.client.admin.store_status()).dispatched_offset >= end:
                    return


async def told(broker: RunningBroker) -> str:
    """Returns why a follower is not connected."""
    async with asyncio.timeout(20):
        while True:
            if found := (await broker.client.admin.replication.status()).trouble:
                return found


async def has_tables(broker: RunningBroker, directory: Path) -> None:
    """Returns once the last of a master's tables is copied."""
    async with asyncio.timeout(20):
        while not (directory / CONFIG_DIRECTORY / "timercheck").exists():
            await broker.client.admin.store_status()


async def asks_again(broker: RunningBroker, master: PlayedMaster) -> None:
    """Returns a while after a follower has asked for all tables, and then for the log's end."""
    async with asyncio.timeout(20):
        while [one.code for one in master.requests].count(RUNTIME) < 2:
            await broker.client.admin.store_status()
    for _ in range(50):
        await broker.client.admin.store_status()


async def sends(broker: RunningBroker, message: Message) -> None:
    """Sends a message once the broker leads."""
    async with asyncio.timeout(20):
        while True:
            try:
                await broker.client.send(message)
                return
            except ClientError:
                await asyncio.sleep(0)


async def test_it_does_what_a_recorded_slave_did(tmp_path: Path) -> None:
    whole, store = recorded_log(), tmp_path / "b"
    async with played_master(whole[:FIRST_END], recorded_answers(), FILE_SIZE) as master:
        master.is_paced = True
        master.ends = [at + len(part) for at, part in recorded_frames(SESSIONS[0])]
        async with broker_with(store, following(master)) as follower:
            await shows(follower, FIRST_END)
            await has_tables(follower, store)
        # 0 would ask for the last file; the follower asks for the first byte that is not known.
        assert master.reports == [[1, *recorded_reports(SESSIONS[0])[1:]]]
        assert log_of(store) == whole[:FIRST_END]

        master.is_paced = False
        master.grow(whole[FIRST_END:])
        async with broker_with(store, following(master)) as follower:
            await shows(follower, len(whole))
    wanted = recorded_reports(SESSIONS[1])
    assert (master.reports[1][0], master.reports[1][-1]) == (wanted[0], wanted[-1])
    assert log_of(store) == whole.rstrip(b"\0")
    for name, content in recorded_files().items():
        ours = decode_table((store / CONFIG_DIRECTORY / name).read_bytes())
        theirs = decode_table(content.encode())
        if name == "topics.json":
            theirs = {key: theirs[key] for key in ours}
        assert ours == theirs, name
    progress = CHECK.struct.unpack_from((store / CONFIG_DIRECTORY / "timercheck").read_bytes())
    assert progress[0] == CHECK.struct.unpack(recorded_answers()[60])[0]


async def test_it_is_promoted_with_topics_groups_and_offsets(tmp_path: Path) -> None:
    whole = recorded_log()
    async with (
        played_master(whole, recorded_answers(), FILE_SIZE) as master,
        broker_with(tmp_path, following(master)) as follower,
    ):
        await shows(follower, len(whole))
        with pytest.raises(ClientError, match="rocketmq://"):
            await follower.client.send(Message("TinyTopic", b"x"))
        with pytest.raises(ClientError, match="stop its producers"):
            await follower.client.admin.replication.promote()
        changed = master.answers[43].replace(b"{0:21,1:15", b"{0:21,1:14", 1)
        assert changed != master.answers[43]
        master.answers[43] = changed
        epoch, begin = await follower.client.admin.replication.promote(force=True)
        assert (epoch, begin) == (1, len(whole))
        await sends(follower, Message("TinyTopic", b"ours", queue_id=1))
        client = follower.client
        assert await client.fetch_offset("c-push", "TinyTopic", 1) == 14
        topics = [one.name for one in (await client.admin.list_topics())[0]]
        assert "TinyTopic" in topics
        page = await client.pull(PullQuery("TinyTopic", 1, 14))
        assert page.messages[-1].body == b"ours"
        assert page.messages[0].queue_offset == 14


async def test_files_of_another_size_are_refused_with_both(tmp_path: Path) -> None:
    async with (
        played_master(recorded_log(), recorded_answers(), 4 * FILE_SIZE) as master,
        broker_with(tmp_path, following(master)) as follower,
    ):
        trouble = await told(follower)
    assert "262144" in trouble
    assert "65536" in trouble
    assert log_of(tmp_path) == b""


def last_record(log: bytes) -> int:
    """Returns where the last record of the recorded log begins, in its second file."""
    at = FILE_SIZE
    while (end := at + int.from_bytes(log[at : at + 4])) < len(log):
        at = end
    return at


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_log_with_other_bytes_is_cut_where_both_agree(
    tmp_path: Path, is_lost: bool
) -> None:
    whole = recorded_log()
    common = recorded_frames(SESSIONS[0])[9][0] if is_lost else last_record(whole)
    async with played_master(whole, recorded_answers(), FILE_SIZE) as master:
        async with broker_with(tmp_path, following(master)) as follower:
            await shows(follower, len(whole))
        master.log = whole[:common]
        if not is_lost:
            master.held = common
            master.grow(whole[common:-1] + b"?")
        async with broker_with(tmp_path, following(master)) as follower:
            async with asyncio.timeout(20):
                while log_of(tmp_path) != whole[:common].rstrip(b"\0"):
                    with suppress(ClientError):
                        await follower.client.admin.store_status()
    copies = sorted((tmp_path / "pocketmq" / "diverged").glob("*@*[0-9]"))
    end = FILE_SIZE if is_lost else len(whole)
    assert whole[common:end].rstrip(b"\0") in copies[0].read_bytes()


async def ends_behind_the_blank(store: Path, master: PlayedMaster) -> None:
    """Makes a follower's log that a start cuts at the begin of its second file."""
    whole, master.log = recorded_log(), recorded_log()[:FILE_SIZE]
    blank = encode_blank(FILE_SIZE - BLANK_BEGIN)
    assert whole[BLANK_BEGIN:FILE_SIZE].startswith(blank)
    async with broker_with(store, following(master)) as follower:
        await shows(follower, BLANK_BEGIN)
        while master.reports[0][-1:] != [FILE_SIZE]:
            await follower.client.admin.store_status()
    torn = whole[FILE_SIZE : FILE_SIZE + 100].ljust(FILE_SIZE, b"\0")
    (store / COMMIT_LOG_DIRECTORY / offset_file_name(FILE_SIZE)).write_bytes(torn)


@pytest.mark.parametrize("has_grown", [False, True])
async def test_a_log_that_ends_behind_a_blank_which_its_master_lost_is_cut_before_it(
    tmp_path: Path, *, has_grown: bool
) -> None:
    other = record(BLANK_BEGIN, body=b"x" * 100)
    left = FILE_SIZE - BLANK_BEGIN - len(other)
    grown = other + encode_blank(left).ljust(left, b"\0") + record(FILE_SIZE, queue_offset=1)
    async with played_master(b"", recorded_answers(), FILE_SIZE) as master:
        await ends_behind_the_blank(tmp_path, master)
        master.log = master.log[:BLANK_BEGIN] + (grown if has_grown else b"")
        async with broker_with(tmp_path, following(master)) as follower:
            async with asyncio.timeout(20):
                while len(master.reports) < 2:
                    with suppress(ClientError):
                        await follower.client.admin.store_status()
            if not has_grown:
                master.grow(grown)
            await shows(follower, master.end)
        assert [one[0] for one in master.reports] == [1, BLANK_BEGIN]
        assert log_of(tmp_path) == master.log.rstrip(b"\0")


async def test_a_log_that_ends_behind_a_blank_which_its_master_has_goes_on_there(
    tmp_path: Path,
) -> None:
    whole = recorded_log()
    async with played_master(b"", recorded_answers(), FILE_SIZE) as master:
        await ends_behind_the_blank(tmp_path, master)
        master.log = whole
        async with broker_with(tmp_path, following(master)) as follower:
            await shows(follower, len(whole))
        assert [one[0] for one in master.reports] == [1, FILE_SIZE]
    assert log_of(tmp_path) == whole
    assert not (tmp_path / "pocketmq" / "diverged").exists()


async def test_tables_are_copied_though_the_log_ends_behind_a_blank(tmp_path: Path) -> None:
    async with (
        played_master(recorded_log()[:FILE_SIZE], recorded_answers(), FILE_SIZE) as master,
        broker_with(tmp_path, following(master)) as follower,
    ):
        await has_tables(follower, tmp_path)
        await shows(follower, BLANK_BEGIN)
    assert master.reports[0][-1] == FILE_SIZE


async def test_a_log_whose_next_file_has_expired_is_told(tmp_path: Path) -> None:
    whole = recorded_log()
    async with played_master(whole[:FIRST_END], recorded_answers(), FILE_SIZE) as master:
        async with broker_with(tmp_path, following(master)) as follower:
            await shows(follower, FIRST_END)
        master.log, master.begin = whole[FILE_SIZE:], FILE_SIZE
        async with broker_with(tmp_path, following(master)) as follower:
            assert "older files have expired" in await told(follower)
        async with broker_with(tmp_path / "new", following(master)) as follower:
            await shows(follower, len(whole))
    assert log_of(tmp_path / "new") == whole[FILE_SIZE:].rstrip(b"\0")
    assert master.reports[-1][0] == FILE_SIZE


async def test_tables_wait_for_the_log_that_they_refer_to(tmp_path: Path) -> None:
    whole = recorded_log()
    async with played_master(whole[:FIRST_END], recorded_answers(), FILE_SIZE) as master:
        master.log = whole
        master.held = FIRST_END
        async with broker_with(tmp_path, following(master)) as follower:
            await shows(follower, FIRST_END)
            await asks_again(follower, master)
            assert not (tmp_path / CONFIG_DIRECTORY / "consumerOffset.json").exists()
            master.held = 1 << 40
            master.grown.set()
            await has_tables(follower, tmp_path)
            assert log_of(tmp_path) == whole.rstrip(b"\0")


@pytest.mark.parametrize("user", ["", "slave"])
async def test_requests_are_signed_as_a_user(tmp_path: Path, user: str) -> None:
    (tmp_path / "secret").write_text("secret-of-slave\n")
    given = (f"replication.user={user}", f"replication.secret_path={tmp_path / 'secret'}")
    async with (
        played_master(recorded_log(), recorded_answers(), FILE_SIZE) as master,
        broker_with(tmp_path / "b", following(master), *given) as follower,
    ):
        await has_tables(follower, tmp_path / "b")
    for request in master.requests:
        signature = request.fields.get("Signature", "")
        assert request.fields.get("AccessKey", "") == user
        content = signed_content(request)
        assert is_content_signature(signature, "secret-of-slave", content) == bool(user)


async def test_pocketmq_is_not_followed_as_a_master_of_rocketmq(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a") as leader:
        setting = f"replication.leader=rocketmq://{leader.addresses['grpc']}"
        async with broker_with(tmp_path / "b", setting) as follower:
            assert "without rocketmq://" in await told(follower)
