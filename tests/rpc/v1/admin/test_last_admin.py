"""A broker that checks users keeps an enabled admin."""

from typing import Final

import pytest

from pocketmq.model.access import User
from pocketmq.model.errors import LastAdmin
from pocketmq.rpc.pb import access_pb2 as pb
from pocketmq.rpc.v1.access import AccessFace
from tests.kit.call import FakeCall
from tests.kit.store_broker import StoreBroker
from tests.kit.users import SECRET

LOSSES: Final = (
    pb.UpdateUserRequest(access_key="root", admin=False),
    pb.UpdateUserRequest(access_key="root", enabled=False),
    pb.DeleteUserRequest(access_key="root"),
)


async def change(face: AccessFace, request: pb.UpdateUserRequest | pb.DeleteUserRequest) -> None:
    if isinstance(request, pb.DeleteUserRequest):
        await face.delete_user(request, FakeCall())
    else:
        await face.update_user(request, FakeCall())


@pytest.mark.parametrize("loss", LOSSES)
async def test_only_an_admin_beside_another_one_can_go(
    broker: StoreBroker, loss: pb.UpdateUserRequest | pb.DeleteUserRequest
) -> None:
    face, roster = AccessFace(broker.access, is_checked=True), broker.access.table.roster
    roster.add(User("root", SECRET, is_admin=True))
    roster.add(User("away", SECRET, is_admin=True, is_enabled=False))
    roster.add(User("app", SECRET))
    with pytest.raises(LastAdmin, match="'root' is the last enabled admin; make another one"):
        await change(face, loss)
    assert roster.users["root"] == User("root", SECRET, is_admin=True)
    await change(face, pb.UpdateUserRequest(access_key="root", secret="another-secret"))
    await change(face, pb.UpdateUserRequest(access_key="away", enabled=True))
    await change(face, loss)
    assert "root" not in roster.users or roster.users["root"] != User("root", SECRET, is_admin=True)


async def test_where_no_user_is_checked_every_admin_can_go(broker: StoreBroker) -> None:
    broker.access.table.roster.add(User("root", SECRET, is_admin=True))
    await change(broker.access_face, pb.DeleteUserRequest(access_key="root"))
    assert not broker.access.table.roster.users
