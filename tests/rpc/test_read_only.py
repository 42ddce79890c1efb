"""The calls that a follower refuses: every method that changes something, on each protocol."""

import pytest

from pocketmq.model.errors import NotLeader
from pocketmq.rpc.classic.service_table import TABLE as CLASSIC
from pocketmq.rpc.read_only import REFUSED, of_follower
from pocketmq.rpc.v1.service_table import closed_faces
from pocketmq.rpc.v2.service_table import TABLE as OFFICIAL
from tests.kit.call import FakeCall

FACES = [*closed_faces(), OFFICIAL.closed_face(), CLASSIC.closed_face()]
VERBS = ("Create", "Update", "Delete", "Add", "Remove", "Set", "Reset", "Clone", "Purge", "Redrive")
KEPT = {
    "RemoveReplica", "UPDATE_BROKER_CONFIG", "DELETE_EXPIRED_COMMITLOG", "DELETE_TOPIC_IN_NAMESRV",
    "ADD_WRITE_PERM_OF_BROKER",
}  # fmt: skip
"""Methods that change no table."""


@pytest.mark.parametrize("service", FACES, ids=lambda one: one.name)
def test_refused_methods_name_the_leader(service: object) -> None:
    (found,) = of_follower([service], "10.0.0.1:8081")  # type: ignore[list-item]
    refused = REFUSED.get(found.name, frozenset())
    for method in found.methods:
        if method.name in refused:
            assert method.shortcut is None
            with pytest.raises(NotLeader, match=r"10\.0\.0\.1:8081"):
                method.handler(None, FakeCall())


def test_what_changes_a_table_by_its_name_is_refused() -> None:
    for service in FACES:
        refused = REFUSED.get(service.name, frozenset())
        for method in service.methods:
            name = method.name.replace("AUTH_", "")
            if name.startswith((*VERBS, *(f"{verb.upper()}_" for verb in VERBS))):
                assert method.name in refused | KEPT, (service.name, method.name)
