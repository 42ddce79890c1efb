"""The client's errors and its values."""

from broker.client.values import (
    ClientError,
    DeadlineExceeded,
    Outgoing,
    PullQuery,
    Shape,
    Unreachable,
    Wait,
)
from broker.rpc.pb import broker_pb2 as pb


def test_an_error_says_what_the_broker_said() -> None:
    error = ClientError(
        "TopicNotFound", "no such topic", code="NOT_FOUND", retryable=True, fields={"topic": "x"}
    )
    assert (error.reason, str(error), error.code) == ("TopicNotFound", "no such topic", "NOT_FOUND")
    assert (error.retryable, error.fields) == (True, {"topic": "x"})


def test_silence_and_absence_are_errors_of_their_own() -> None:
    for kind in (Unreachable, DeadlineExceeded):
        error = kind("x", "y")
        assert isinstance(error, ClientError)
        assert (error.fields, error.retryable) == ({}, False)


def test_names_are_those_of_the_proto() -> None:
    for wait in Wait:
        assert pb.Wait.Value(wait.name) == wait.value
    for shape in Shape:
        assert pb.PullShape.Value(shape.name) == shape.value
    assert {field.name for field in pb.Message.DESCRIPTOR.fields} == set(vars(Outgoing("t", b"x")))


def test_a_query_begins_with_the_brokers_defaults() -> None:
    query = PullQuery("orders", 0, 0)
    assert (query.max_messages, query.max_bytes, query.wait_ms, query.expression) == (0, 0, 0, "*")
