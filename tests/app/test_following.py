"""Two whole brokers: one follows the other, over its port of clients."""

import asyncio
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pocketmq.client import Message
from pocketmq.client.client_error import ClientError
from pocketmq.files.disk import Disk
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.model.endpoint import ROOTS
from pocketmq.model.errors import DiskFull
from pocketmq.rpc.replication.following import reason_of
from pocketmq.tools.restore import restore
from tests.kit.golden_log import files_below
from tests.metrics.contract import FOLLOWER, ROLES, families
from tests.running_broker import RunningBroker, broker_with


def log_of(directory: Path) -> bytes:
    """Returns the log of a store, without zeros at its end."""
    files = files_below(directory / COMMIT_LOG_DIRECTORY)
    return b"".join(files[name] for name in sorted(files)).rstrip(b"\0")


async def caught_up(leader: RunningBroker, follower: RunningBroker) -> None:
    """Returns once a follower shows all messages; one that cuts its log restarts."""
    async with asyncio.timeout(20):
        while True:
            with suppress(ClientError):
                ends = [(await one.client.admin.store_status()) for one in (leader, follower)]
                if ends[0].appended_offset == ends[1].dispatched_offset > 0:
                    return


async def fill(broker: RunningBroker, count: int, size: int = 1_000) -> None:
    for number in range(count):
        await broker.client.send(Message("orders", bytes([65 + number % 26]) * size))


def following(leader: RunningBroker) -> str:
    return f"replication.leader={leader.addresses['grpc']}"


@pytest.mark.knob("replication.leader")
async def test_a_follower_copies_shows_and_accepts_nothing(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a") as leader:
        await fill(leader, 150)
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            await caught_up(leader, follower)
            await fill(leader, 60)
            await caught_up(leader, follower)
            with pytest.raises(ClientError, match="send them to its leader") as caught:
                await follower.client.send(Message("orders", b"x"))
            assert caught.value.reason == "NotLeader"
            with pytest.raises(ClientError, match="send them to its leader"):
                await follower.client.admin.create_topic("new")
            assert '"following"' in await follower.page("/readyz")
            found = await follower.client.admin.replication.status()
            assert (found.role, found.connected, found.lag_bytes) == ("follower", True, 0)
            led = await leader.client.admin.replication.status()
            assert [one.connected for one in led.replicas] == [True]
        assert log_of(tmp_path / "a") == log_of(tmp_path / "b")
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            await fill(leader, 20)
            await caught_up(leader, follower)
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b")


async def settled(follower: RunningBroker) -> tuple[bool, str]:
    """Returns whether a follower is connected, and its trouble, once it is either."""
    async with asyncio.timeout(20):
        while True:
            found = await follower.client.admin.replication.status()
            if found.connected or found.trouble:
                return found.connected, found.trouble


@pytest.mark.knob("replication.user", "replication.secret_path")
@pytest.mark.parametrize(
    ("user", "secret", "why"),
    [("admin", "right", ""), ("admin", "wrong", "signature is wrong"), ("", "", "no signature")],
)
async def test_a_leader_with_users_admits_admins(
    tmp_path: Path, user: str, secret: str, why: str
) -> None:
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"{name}-secret-of-12\n")
    signed = ("access.check=on", f"access.admin_secret_path={tmp_path / 'right'}")
    given = (f"replication.user={user}", f"replication.secret_path={tmp_path / secret}")
    async with (
        broker_with(tmp_path / "a", *signed) as leader,
        broker_with(tmp_path / "b", following(leader), *given) as follower,
    ):
        is_connected, trouble = await settled(follower)
        assert is_connected == (not why)
        assert why in trouble


CERTIFICATE = Path(__file__).parents[1] / "kit" / "certificate"


async def test_a_follower_dials_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOTS, str(CERTIFICATE / "cert.pem"))
    files = [f"rpc.tls_{name}={CERTIFICATE / name}.pem" for name in ("cert", "key")]
    async with broker_with(tmp_path / "a", *files) as leader:
        port = leader.addresses["grpc"].rpartition(":")[2]
        await fill(leader, 150)
        dialled = f"replication.leader=tls://localhost:{port}"
        async with broker_with(tmp_path / "b", dialled) as follower:
            await caught_up(leader, follower)
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b")


async def test_a_follower_that_does_not_trust_its_leader_names_the_variable(tmp_path: Path) -> None:
    files = [f"rpc.tls_{name}={CERTIFICATE / name}.pem" for name in ("cert", "key")]
    async with broker_with(tmp_path / "a", *files) as leader:
        dialled = f"replication.leader=tls://localhost:{leader.addresses['grpc'].split(':')[-1]}"
        async with broker_with(tmp_path / "b", dialled) as follower:
            is_connected, trouble = await settled(follower)
    assert not is_connected
    assert trouble.startswith(f"its TLS certificate is not trusted: set {ROOTS} to a file with it")


async def test_a_follower_with_other_files_is_told_both_sizes(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a") as leader:
        sizes = "store.commit_log_file_size_bytes=128KiB"
        async with broker_with(tmp_path / "b", following(leader), sizes) as follower:
            is_connected, trouble = await settled(follower)
    assert not is_connected
    assert "131072" in trouble
    assert "65536" in trouble


async def test_a_log_that_diverged_is_cut_set_aside_and_copied(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "a") as leader:
        await fill(leader, 100)
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            await caught_up(leader, follower)
    async with broker_with(tmp_path / "b") as alone:
        await fill(alone, 90, size=700)
        lost = (await alone.client.admin.store_status()).appended_offset
    async with broker_with(tmp_path / "a") as leader:
        await fill(leader, 30)
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            await caught_up(leader, follower)
            await fill(leader, 50)
            await caught_up(leader, follower)
            end = (await leader.client.admin.store_status()).appended_offset
            page = await follower.page("/metrics")
            shown = families(page.partition("\r\n\r\n")[2])
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b")
    copies = [*(tmp_path / "b" / "pocketmq" / "diverged").glob("*@*[0-9]")]
    aside = sum(path.stat().st_size for path in copies)
    assert aside > 90 * 700
    assert shown["pocketmq_replica_diverged_bytes"].samples[0].value == aside
    missing = {row.name for row in (*ROLES, *FOLLOWER)} - shown.keys()
    assert not missing, "the contract names metrics that no follower has"
    assert 0 < end != lost


async def test_a_follower_of_another_store_copies_anew_when_told(tmp_path: Path) -> None:
    async with broker_with(tmp_path / "b") as alone:
        await fill(alone, 90)
    async with broker_with(tmp_path / "a") as leader:
        await fill(leader, 150, size=700)
        async with broker_with(tmp_path / "b", following(leader)) as follower:
            async with asyncio.timeout(20):
                while "with an empty store" not in (await settled(follower))[1]:
                    pass
            await follower.client.admin.replication.resync()
            await caught_up(leader, follower)
            found = await follower.client.admin.replication.status()
            assert (found.diverged_messages, found.trouble) == (90, "")
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b")


async def test_a_backup_of_a_running_follower_leads_and_is_followed(tmp_path: Path) -> None:
    store, copy, restored = (tmp_path / name for name in ("b", "copy", "restored"))
    async with (
        broker_with(tmp_path / "a") as leader,
        broker_with(store, following(leader)) as follower,
    ):
        await fill(leader, 100)
        await caught_up(leader, follower)
        end = (await follower.client.admin.store_status()).appended_offset
        command = (sys.executable, "-m", "pocketmq", "store", "backup", str(store), str(copy))
        backup = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        await fill(leader, 60)
        said, _ = await backup.communicate()
        assert (backup.returncode, b'"is_live": true' in said) == (0, True), said
    restore(Disk(), copy, restored)
    whole, copied = log_of(tmp_path / "a"), log_of(restored)
    assert len(copied) >= end - 1
    assert whole.startswith(copied)
    # The running follower may have confirmed messages after the copy, with which it is refused.
    other = shutil.copytree(restored, tmp_path / "other")
    (other / "pocketmq/identity.json").unlink()
    async with broker_with(restored) as leader:
        assert (await leader.client.admin.replication.status()).role == "leader"
        async with broker_with(other, following(leader)) as follower:
            await fill(leader, 20)
            await caught_up(leader, follower)
    assert log_of(other) == log_of(restored)


def test_a_full_disk_of_a_follower_is_told_without_sends() -> None:
    told = reason_of(DiskFull(path="/s"))
    assert told == "the disk under /s is full; free space, the copy then continues by itself"
