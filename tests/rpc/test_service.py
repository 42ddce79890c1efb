"""Method tables and reading requests."""

from typing import Any

import pytest

from broker.model.cold_read import ColdRead
from broker.model.errors import DiskSlow
from broker.rpc.admission import CallClass
from broker.rpc.call import Call
from broker.rpc.pb import broker_pb2 as pb
from broker.rpc.service import (
    COLD_READS_MAX,
    SMALL_REQUEST_MAX,
    MalformedRequest,
    Method,
    method,
    patient_handler,
)
from broker.rpc.v1.messaging import DESCRIPTOR


def answer(request: pb.QueryByIdRequest, call: Call) -> pb.QueryByIdResponse:
    return pb.QueryByIdResponse()


@pytest.fixture
def row() -> Method:
    return method(DESCRIPTOR, "QueryById", answer, CallClass.QUERY)


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


# -- old bytes -------------------------------------------------------------------------------------


class Shelf:
    """A handler whose answer lies on disk in some pieces."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces
        self.fetched = 0

    def fetch(self) -> None:
        self.fetched += 1

    def answer(self, request: object, call: object) -> str:
        if self.fetched < self.pieces:
            raise ColdRead(self.fetch)
        return f"{request}!"

    async def answer_later(self, request: object, call: object) -> str:
        return self.answer(request, call)


CALL: Any = None


async def test_what_is_in_memory_is_answered_at_once() -> None:
    shelf = Shelf(0)
    assert patient_handler(shelf.answer)("a", CALL) == "a!"
    assert await patient_handler(shelf.answer_later)("a", CALL) == "a!"


async def test_old_bytes_are_fetched_piece_by_piece() -> None:
    shelf = Shelf(3)
    assert await patient_handler(shelf.answer)("a", CALL) == "a!"
    assert shelf.fetched == 3
    shelf = Shelf(3)
    assert await patient_handler(shelf.answer_later)("a", CALL) == "a!"
    assert shelf.fetched == 3


async def test_memory_that_never_keeps_them_ends_the_call() -> None:
    with pytest.raises(DiskSlow, match="1000 reads from disk"):
        await patient_handler(Shelf(COLD_READS_MAX + 1).answer)("a", CALL)
