"""The environment of a container gives the first admin a secret, and an error two lines to run."""

import asyncio
from pathlib import Path

import pytest

from pocketmq.app.container import Container, container_of
from pocketmq.app.serve import serve
from pocketmq.app.stage import Stage
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import load
from pocketmq.config.sections import TEMPORARY_STORE
from pocketmq.model.access import User
from pocketmq.model.errors import IllegalConfig
from pocketmq.tools.users import read_roster
from tests.kit.users import SECRET
from tests.running_broker import broker_with

EVERYWHERE = "rpc.listen=0.0.0.0:0"


def test_the_secret_is_taken_out_of_the_environment() -> None:
    environment = {"POCKETMQ_ADMIN_SECRET": "s", "POCKETMQ_IMAGE": "mine", "HOME": "/"}
    assert container_of(environment) == Container("mine", "s", "admin")
    assert "POCKETMQ_ADMIN_SECRET" not in environment
    assert container_of({"POCKETMQ_ADMIN_SECRET": ""}) == Container()
    assert container_of({"POCKETMQ_ADMIN_USER": "root"}).admin == "root"


def test_a_secret_is_given_once() -> None:
    twice = {"POCKETMQ_ADMIN_SECRET": "s", "POCKETMQ_ADMIN_SECRET_FILE": "/f"}
    with pytest.raises(IllegalConfig, match=r"POCKETMQ_ADMIN_SECRET: .*_FILE is set as well"):
        container_of(twice)


async def test_a_store_without_users_begins_with_the_admin_and_keeps_its_secret(
    tmp_path: Path,
) -> None:
    for secret in (SECRET, "another"):
        async with broker_with(tmp_path, EVERYWHERE, stage=Stage(container=Container("", secret))):
            pass
        assert read_roster(tmp_path).users == {"admin": User("admin", SECRET, is_admin=True)}


async def test_a_secret_that_no_client_can_send_is_refused_by_its_name(tmp_path: Path) -> None:
    stage = Stage(container=Container("", "two words"))
    with pytest.raises(IllegalConfig, match="POCKETMQ_ADMIN_SECRET: a secret is 1 to") as caught:
        async with broker_with(tmp_path, EVERYWHERE, stage=stage):
            pass
    assert "two words" not in str(caught.value)


async def test_in_a_container_the_refusal_is_two_lines_to_run(tmp_path: Path) -> None:
    stage = Stage(container=Container("registry/pocketmq:1"))
    with pytest.raises(IllegalConfig) as caught:
        async with broker_with(tmp_path, EVERYWHERE, stage=stage):
            pass
    _, admin, everyone = str(caught.value).splitlines()
    run = "docker run -p 8081:8081 -v pocketmq:/var/lib/pocketmq"
    assert admin.endswith(f"{run} -e POCKETMQ_ADMIN_SECRET=CHOOSE-ONE registry/pocketmq:1")
    assert everyone.endswith(f"{run} -e POCKETMQ_INSECURE=1 registry/pocketmq:1")


async def test_the_refusal_of_a_temporary_store_names_no_user_for_it(tmp_path: Path) -> None:
    given = {"--set": [EVERYWHERE], TEMPORARY_STORE: [f"store.directory={tmp_path}"]}
    with pytest.raises(IllegalConfig, match="add --insecure to serve all callers") as caught:
        await serve(LiveConfig(load(assignments=given)), print, asyncio.Future())
    assert str(tmp_path) not in str(caught.value)


async def test_a_short_secret_is_doubted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(container=Container("", "abc"))
    async with broker_with(tmp_path, EVERYWHERE, stage=stage):
        pass
    (doubt,) = [vars(r)["doubt"] for r in caplog.records if r.message == "config.suspect"]
    assert doubt.startswith("the secret of admin has 3 characters and can be guessed")
