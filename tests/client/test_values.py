"""The client's values have the proto's names and numbers."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any

import pytest

from pocketmq.client import (
    Client,
    GrantState,
    GroupSettings,
    KeyQuery,
    Message,
    PullQuery,
    ReceiveQuery,
    Shape,
    TailQuery,
    Wait,
)
from pocketmq.model.batch import PutStatus
from pocketmq.model.reading import Bound, PullStatus
from pocketmq.rpc.pb import broker_pb2 as pb

TEXT: Any = "pub"
"""A text where a list is expected."""


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


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        (
            {"id": "1", "amount": 5},
            "property 'amount' is an int, but properties are texts: write '5'",
        ),
        ({"due": None}, "property 'due' is a NoneType, but properties are texts: write 'None'"),
        ({7: "x"}, "the name 7 is an int, but properties are texts: write '7'"),
    ],
)
def test_a_number_is_no_property(properties: Any, told: str) -> None:
    with pytest.raises(TypeError) as raised:
        Message("t", b"x", properties=properties)
    assert str(raised.value) == told


def test_a_tail_has_one_beginning() -> None:
    with pytest.raises(ValueError, match="two beginnings: set one of them"):
        TailQuery("t", since_ms=0, last_count=1)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ReceiveQuery, ("g", "t")),
        (PullQuery, ("t", 0, 0)),
        (TailQuery, ("t",)),
        (KeyQuery, ("t", "k")),
        (Message, ("t", b"x")),
        (GroupSettings, ()),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_fields(
    kind: Callable[..., object], given: tuple[object, ...]
) -> None:
    names = [*signature(kind).parameters]
    with pytest.raises(TypeError) as raised:
        kind(*given, counts=3)
    of = getattr(kind, "__name__", "")
    assert str(raised.value) == f"{of} has no counts; it has {', '.join(names)}"
    assert kind(*given) == kind(**dict(zip(names, given, strict=False)))
    if given:
        with pytest.raises(TypeError, match="missing"):
            kind()


def test_values_are_copied_with_other_fields() -> None:
    query = KeyQuery("t", "k")
    assert pickle.loads(pickle.dumps(query._replace(count_max=3))) == KeyQuery("t", "k", 3)
    with pytest.raises(TypeError, match="ReceiveQuery has no count; it has group, topic, max_"):
        replace(ReceiveQuery("g", "t"), count=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda client: client.send("orders"), "the call takes a pocketmq.Message, not a str"),
        (lambda client: client.send_many([None]), "pocketmq.Message, not a NoneType"),
        (lambda client: client.send_many(Message("o", b"x")), r"several: write \[message\]"),
        (lambda client: client.send_in_transaction("o", len), "pocketmq.Message, not a str"),
        (lambda client: client.receive(PullQuery("o", 0, 0)), "ReceiveQuery, not a pocketmq"),
        (lambda client: client.pull("orders"), "pocketmq.PullQuery, not a str"),
        (lambda client: next(client.tail("orders")), "pocketmq.TailQuery, not a str"),
        (lambda client: next(client.consume("orders")), "pocketmq.ReceiveQuery, not a str"),
        (lambda client: client.query_by_key("k"), "pocketmq.KeyQuery, not a str"),
        (lambda _: Client(8081), "endpoint is a str, not 8081"),  # type: ignore[arg-type]
        (
            lambda client: client.admin.create_topic("orders", type_name=None),
            "type_name is a str, not None",
        ),
        (
            lambda client: client.receive(ReceiveQuery("g", "o", wait_ms="5s")),  # type: ignore[arg-type]
            "wait_ms is an int, not '5s'",
        ),
        (
            lambda client: client.pull(PullQuery("o", 0, 0, wait_ms="5s")),  # type: ignore[arg-type]
            "wait_ms is an int, not '5s'",
        ),
        (
            lambda _: Message("o", b"x", properties=["a"]),  # type: ignore[arg-type]
            r"properties is a dict, not \['a'\]",
        ),
        (
            lambda client: client.admin.access.add_grant(GrantState("b", TEXT, "topic:o")),
            r"actions is a str, but a grant has several: write \['pub'\]",
        ),
        (
            lambda client: client.admin.access.remove_grant("b", "pub", "topic:o"),
            r"actions is a str, but a grant has several: write \['pub'\]",
        ),
    ],
)
def test_an_argument_of_a_wrong_class_is_named(call: Callable[[Any], object], wanted: str) -> None:
    with Client("127.0.0.1:1", retry_ms=0) as client, pytest.raises(TypeError, match=wanted):
        call(client)
