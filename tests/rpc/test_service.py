"""Method tables and reading requests."""

import pytest

from pocketmq.rpc.admission import CallClass
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import (
    SMALL_REQUEST_MAX,
    MalformedRequest,
    Method,
    method,
)
from pocketmq.rpc.v1.service_table import BROKER


def answer(request: pb.QueryByIdRequest, call: Call) -> pb.QueryByIdResponse:
    return pb.QueryByIdResponse()


@pytest.fixture
def row() -> Method:
    return method(BROKER, "QueryById", answer, CallClass.QUERY)


def test_a_row_has_the_messages_of_the_proto(row: Method) -> None:
    assert row.request is pb.QueryByIdRequest
    assert row.response is row.answer_type is pb.QueryByIdResponse


def test_a_request_is_read_and_an_answer_written(row: Method) -> None:
    request = pb.QueryByIdRequest(topic="orders", id="x")
    assert row.reader()(request.SerializeToString()) == request
    assert row.writer()(pb.QueryByIdResponse()) == b""


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\xff\xff\xff", "not a QueryByIdRequest message"),
        (b"\x0a\x02\xff\xfe", "not a QueryByIdRequest message"),  # a string that is no UTF-8
        (bytes(SMALL_REQUEST_MAX + 1), "the method takes"),
    ],
)
def test_what_cannot_be_read_is_the_clients_mistake(row: Method, raw: bytes, why: str) -> None:
    with pytest.raises(MalformedRequest, match=why):
        row.reader()(raw)


def test_a_method_may_read_and_write_bytes_itself() -> None:
    row = Method(
        "X",
        pb.QueryByIdRequest,
        pb.QueryByIdResponse,
        answer,
        CallClass.SEND,
        parse=len,
        serialize=bytes.upper,
        answer=bytes,
    )
    assert row.reader()(b"four") == 4
    assert row.writer()(b"a") == b"A"
    assert row.answer_type is bytes
