"""Common behaviour of official clients' calls: client id, size limit, form of errors."""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.service import SEND_SIZE_MAX, SMALL_REQUEST_MAX, MalformedRequest
from pocketmq.rpc.v2.caller import caller_of
from tests.kit.call import FakeCall
from tests.kit.official import OfficialDesk, name, raw_of, receive


def of_size(make: Callable[[str], Message], size: int) -> bytes:
    """Returns a request of so many bytes, made of a text of fitting length."""
    text_size = 2 * size - len(raw_of(make("x" * size)))
    raw = raw_of(make("x" * text_size))
    assert len(raw) == size
    return raw


def ack(handle: str) -> pb.AckMessageRequest:
    return pb.AckMessageRequest(entries=[pb.AckMessageEntry(receipt_handle=handle)])


def sent(body: str) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(messages=[pb.Message(body=body.encode())])


def stack(text: str) -> pb.TelemetryCommand:
    return pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace(thread_stack_trace=text))


def route(topic: str) -> pb.QueryRouteRequest:
    return pb.QueryRouteRequest(topic=name(topic))


@pytest.mark.parametrize(
    ("method", "make", "size_max"),
    [
        ("AckMessage", ack, 524_288),
        ("Telemetry", stack, 4_194_304),
        ("SendMessage", sent, SEND_SIZE_MAX),
        ("QueryRoute", route, SMALL_REQUEST_MAX),
    ],
)
async def test_a_request_is_read_up_to_the_size_of_its_method(
    desk: OfficialDesk, method: str, make: Callable[[str], Message], size_max: int
) -> None:
    read = desk.methods[method].reader()
    read(of_size(make, size_max))
    with pytest.raises(MalformedRequest, match=f"{size_max + 1} bytes"):
        read(of_size(make, size_max + 1))


@pytest.mark.parametrize(("length", "kept"), [(254, 254), (255, 255), (256, 255)])
def test_what_a_client_says_of_itself_is_kept_up_to_255_characters(length: int, kept: int) -> None:
    call = FakeCall(
        metadata={
            "x-mq-client-id": "i" * length,
            "x-mq-language": "l" * length,
            "x-mq-client-version": "v" * length,
        }
    )
    call.user = "ann"
    caller = caller_of(call)
    assert (caller.client_id, caller.language, caller.version, caller.namespace) == (
        "i" * kept, "l" * kept, "v" * kept, "",
    )  # fmt: skip
    assert caller.session_id == f"ann {'i' * kept}"


def test_a_client_may_say_nothing_but_its_id() -> None:
    caller = caller_of(FakeCall(metadata={"x-mq-client-id": "i", "x-mq-namespace": "shop"}))
    assert caller == ("i", "i", "", "", "shop")


async def test_a_receive_that_is_refused_has_its_time_behind_it(desk: OfficialDesk) -> None:
    status, time = await desk.all("ReceiveMessage", receive("bad group!", "orders"))
    assert pb.Code.Name(status.status.code) == "ILLEGAL_CONSUMER_GROUP"
    assert time.delivery_timestamp.seconds > 1_600_000_000
    pull = pb.PullMessageRequest(group=name("bad group!"))
    assert len(await desk.all("PullMessage", pull)) == 1


async def test_a_receive_of_nobody_is_refused_in_one_answer(desk: OfficialDesk) -> None:
    call = desk.call(x_mq_client_id="")
    (answer,) = await desk.all("ReceiveMessage", receive("g", "orders"), call)
    assert pb.Code.Name(answer.status.code) == "CLIENT_ID_REQUIRED"
