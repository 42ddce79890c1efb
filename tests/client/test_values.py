"""The client's values have the proto's names and numbers."""

import pytest

from pocketmq.client import Message, Shape, TailQuery, Wait
from pocketmq.model.batch import PutStatus
from pocketmq.model.reading import Bound, PullStatus
from pocketmq.rpc.pb import broker_pb2 as pb


def test_names_and_numbers_are_those_of_the_proto() -> None:
    for ours, theirs in ((Wait, pb.Wait), (Shape, pb.PullShape), (PullStatus, pb.PullStatus)):
        for one in ours:
            assert theirs.Value(one.name) == one.value
    assert [pb.Bound.Value(bound.name) for bound in Bound] == [0, 1]
    assert {status.value for status in PutStatus} == set(pb.SendStatus.values()) - {0}
    assert {field.name for field in pb.Message.DESCRIPTOR.fields} == set(vars(Message("t", b"x")))


def test_a_text_is_no_body_and_no_list_of_keys() -> None:
    with pytest.raises(TypeError, match=r"write text\.encode\(\)"):
        Message("t", "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write \['order-42'\]"):
        Message("t", b"x", keys="order-42")


def test_a_tail_has_one_beginning() -> None:
    with pytest.raises(ValueError, match="two beginnings: set one of them"):
        TailQuery("t", since_ms=0, last_count=1)
