"""Services carried on grpc.aio: what a client sees over a real connection."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha.reflection_pb2 import (
    ExtensionRequest,
    ServerReflectionRequest,
    ServerReflectionResponse,
)

from pocketmq.format.addresses import text_from_host
from pocketmq.model.errors import Corruption, Draining, IllegalConfig, TopicNotFound
from pocketmq.model.stats import Counter
from pocketmq.rpc.admission import DEFAULT_LIMITS, CallClass
from pocketmq.rpc.call import Call, current_request_id
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import admin_pb2, broker_pb2
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import DETAILS_KEY, Metadata, Service, method
from pocketmq.rpc.v1.service_table import BROKER
from pocketmq.rpc.v1.status import refuse
from tests.kit.store_broker import ServerClass, StoreBroker, connected, running, store_broker
from tests.kit.store_language import turns

PATH = "/pocketmq.v1.Broker/"


class Desk:
    """A broker served on a port, and a client of it."""

    def __init__(self, broker: StoreBroker, server: Any, channel: grpc.aio.Channel):
        self.broker = broker
        self.server = server
        self.channel = channel

    def ask(self, name: str, request: Any, **options: Any) -> Any:
        """Calls a method of either service by its name."""
        service, _, short = name.rpartition("/")
        pool = admin_pb2 if service == "Admin" else broker_pb2
        answer = getattr(pool, f"{short}Response")
        path = f"/pocketmq.v1.{service or 'Broker'}/{short}"
        call = self.channel.unary_unary(path, type(request).SerializeToString, answer.FromString)
        return call(request, **{"timeout": 20, **options})

    async def refusal(self, name: str, request: Any) -> grpc.aio.AioRpcError:
        """Returns the error of a call that must fail."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.ask(name, request)
        return caught.value

    async def raw_refusal(self, path: str, raw: bytes) -> grpc.aio.AioRpcError:
        """Returns the error of bytes sent to a path."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.channel.unary_unary(path)(raw, timeout=20)
        return caught.value

    async def until_parked(self, count: int = 1) -> None:
        """Returns when so many polls are parked."""
        while self.broker.pull.waiter_count != count:
            await turns()

    def stat(self, name: str) -> Any:
        return next(stat for stat in self.server.stats if stat.name == name)


@asynccontextmanager
async def served(server_class: ServerClass, broker: StoreBroker) -> AsyncIterator[Desk]:
    server = server_class(broker.services())
    async with running(server) as address, connected(address) as channel:
        yield Desk(broker, server, channel)


@pytest.fixture
async def desk(server_class: ServerClass, broker: StoreBroker) -> AsyncIterator[Desk]:
    async with served(server_class, broker) as opened:
        yield opened


def reason(error: grpc.aio.AioRpcError) -> str:
    raw = error.trailing_metadata().get(DETAILS_KEY)
    assert isinstance(raw, bytes)
    status = status_pb2.Status.FromString(raw)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "pocketmq"
    return info.reason


def too_large(server_class: ServerClass) -> grpc.StatusCode:
    """Returns what a request gets that is larger than its method takes."""
    if server_class is OwnServer:
        return grpc.StatusCode.RESOURCE_EXHAUSTED  # by its length, before it is here
    return grpc.StatusCode.INVALID_ARGUMENT


def one_method(handler: Any, call_class: CallClass = CallClass.QUERY) -> Service:
    """Returns a service whose QueryById is served by this handler."""
    row = method(BROKER, "QueryById", handler, call_class)
    return Service("pocketmq.v1.Broker", (row,), refuse)


# --- calls that succeed ---


async def test_a_message_sent_is_pulled(desk: Desk) -> None:
    message = pb.Message(topic="orders", body=b"x", queue_id=0)
    sent = await desk.ask("SendMessage", pb.SendMessageRequest(messages=[message]))
    assert sent.results[0].status == pb.SEND_OK
    pulled = await desk.ask("PullMessage", pb.PullMessageRequest(topic="orders"))
    assert pulled.messages[0].message_id == sent.results[0].message_id
    assert pulled.messages[0].born_host.startswith("127.0.0.1:")


async def test_16_mib_pass_both_ways(server_class: ServerClass) -> None:
    async with (
        store_broker(commit_log_file_size_bytes=20 << 20) as broker,
        served(server_class, broker) as desk,
    ):
        await broker.add("orders", *[bytes(4 << 20)] * 4)
        request = pb.PullMessageRequest(topic="orders", max_bytes=15 << 20, shape=pb.RECORDS)
        assert len((await desk.ask("PullMessage", request)).records) > 12 << 20
        keys = ["k" * 1000] * 15_000
        error = await desk.refusal(
            "SendMessage",
            pb.SendMessageRequest(messages=[pb.Message(topic="orders", body=b"x", keys=keys)]),
        )
        assert reason(error) == "PropertiesTooLarge"


async def test_a_handler_is_told_of_its_call(server_class: ServerClass) -> None:
    told: dict[str, Any] = {}

    def answer(request: pb.QueryByIdRequest, call: Call) -> pb.QueryByIdResponse:
        told.update(
            name=call.metadata("x-name"),
            other=call.metadata("x-other"),
            raw=call.metadata("x-raw-bin"),
            left_ms=call.time_left_ms(),
            peer=call.peer,
            host=text_from_host(call.peer_host),
        )
        return pb.QueryByIdResponse()

    server = server_class([one_method(answer)])
    async with running(server) as address, connected(address) as channel:
        ask = channel.unary_unary(PATH + "QueryById")
        metadata = (("x-name", "first"), ("x-name", "second"), ("x-raw-bin", b"raw"))
        await ask(b"", metadata=metadata, timeout=30)
        assert (told["name"], told["other"], told["raw"]) == ("first", None, "raw")
        assert 25_000 < told["left_ms"] <= 31_000
        assert told["peer"] == f"ipv4:{told['host']}"
        await ask(b"")
        assert told["left_ms"] is None


# --- calls that fail ---


async def test_an_error_of_ours_has_a_status_and_details(desk: Desk) -> None:
    error = await desk.refusal("PullMessage", pb.PullMessageRequest(topic="unknown"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert reason(error) == "TopicNotFound"
    error = await desk.refusal("QueryOffsets", pb.QueryOffsetsRequest(topic="orders", queue_id=9))
    assert error.code() is grpc.StatusCode.OUT_OF_RANGE
    assert desk.stat("pocketmq_rejected_total").values == {
        ("TopicNotFound",): 1,
        ("QueueOutOfRange",): 1,
    }


async def test_errors_of_awaited_handlers_too(desk: Desk) -> None:
    error = await desk.refusal("SendMessage", pb.SendMessageRequest())
    assert (error.code(), reason(error)) == (grpc.StatusCode.INVALID_ARGUMENT, "NoMessages")


async def test_hostile_text_comes_back_quoted_and_cut(desk: Desk) -> None:
    text = "bad\r\n\x00\N{PILE OF POO}" * 5000
    error = await desk.refusal("PullMessage", pb.PullMessageRequest(topic=text))
    assert reason(error) == "IllegalTopic"
    assert "\n" not in (error.details() or "")


async def test_bytes_that_are_no_request_are_the_clients_mistake(desk: Desk) -> None:
    error = await desk.raw_refusal(PATH + "PullMessage", b"\xff\xff")
    assert (error.code(), reason(error)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "MalformedRequest",
    )


async def test_a_request_larger_than_its_method_takes_is_refused(desk: Desk) -> None:
    error = await desk.raw_refusal(PATH + "PullMessage", bytes(65_537))
    assert error.code() is too_large(type(desk.server))
    assert all(number in (error.details() or "") for number in ("65537", "65536"))


async def test_what_is_not_served_is_unimplemented(desk: Desk) -> None:
    for path in (PATH + "Forget", "/nobody/Nothing"):
        error = await desk.raw_refusal(path, b"")
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_17_mib_are_refused_before_they_are_parsed(desk: Desk) -> None:
    error = await desk.raw_refusal(PATH + "SendMessage", bytes(17 << 20))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_bug_shows_the_client_a_number_and_the_log_the_rest(
    server_class: ServerClass, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: Any, call: Call) -> Any:
        raise ValueError("secret path")

    server = server_class([one_method(fail)])
    async with running(server) as address, connected(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(PATH + "QueryById")(b"", timeout=20)
        error = caught.value
        assert (error.code(), reason(error)) == (grpc.StatusCode.INTERNAL, "Internal")
        assert "secret" not in str(error.debug_error_string())
        (record,) = [r for r in caplog.records if r.name == "pocketmq.rpc.serving"]
        assert record.getMessage() == "rpc.failed"
        assert record.exc_info is not None
        assert vars(record)["incident"] in (error.details() or "")
        assert vars(record)["method"] == "pocketmq.v1.Broker/QueryById"


async def test_damage_is_told_without_its_place_and_logged_with_it(
    server_class: ServerClass, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: Any, call: Call) -> Any:
        raise Corruption(path="/secret", file_position=1, physical_offset=2, why="bad")

    server = server_class([one_method(fail)])
    async with running(server) as address, connected(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(PATH + "QueryById")(b"", timeout=20)
        assert caught.value.code() is grpc.StatusCode.DATA_LOSS
        assert "secret" not in str(caught.value.debug_error_string())
    assert any("/secret" in vars(record).get("error", "") for record in caplog.records)
    (damage,) = [stat for stat in server.stats if stat.name == "pocketmq_crc_errors_total"]
    assert isinstance(damage, Counter)
    assert damage.values["other",] == 1


async def test_calls_that_succeed_or_are_refused_leave_no_log_line(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pocketmq")
    await desk.ask("PullMessage", pb.PullMessageRequest(topic="orders"))
    await desk.refusal("PullMessage", pb.PullMessageRequest(topic="unknown"))
    assert not [r for r in caplog.records if r.name.startswith("pocketmq.rpc")]


async def test_one_class_of_calls_may_be_full_while_another_is_not(
    server_class: ServerClass, broker: StoreBroker
) -> None:
    server = server_class(broker.services(), limits={**DEFAULT_LIMITS, CallClass.POLL: 1})
    async with running(server) as address, connected(address) as channel:
        desk = Desk(broker, server, channel)
        poll = pb.PullMessageRequest(topic="orders", wait_ms=30_000)
        parked = asyncio.ensure_future(desk.ask("PullMessage", poll))
        await desk.until_parked()
        error = await desk.refusal("PullMessage", poll)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert reason(error) == "TooManyRequests"
        inflight = desk.stat("pocketmq_inflight_requests")
        assert inflight.read()["pocketmq.v1.Broker/PullMessage",] == 1
        await desk.ask("SendMessage", sending(queue_id=0))
        assert (await parked).status == pb.FOUND
        assert set(inflight.read().values()) == {0}


def sending(**fields: Any) -> pb.SendMessageRequest:
    message = pb.Message(**{"topic": "orders", "body": b"x", **fields})
    return pb.SendMessageRequest(messages=[message])


# --- long polls ---


async def test_a_poll_is_woken_by_a_send(desk: Desk) -> None:
    poll = asyncio.ensure_future(
        desk.ask("PullMessage", pb.PullMessageRequest(topic="orders", wait_ms=30_000))
    )
    await desk.until_parked()
    await desk.ask("SendMessage", sending(queue_id=0))
    assert (await poll).messages[0].body == b"x"


async def test_a_poll_is_answered_before_the_clients_deadline(desk: Desk) -> None:
    request = pb.PullMessageRequest(topic="orders", wait_ms=30_000)
    answer = await desk.ask("PullMessage", request, timeout=0.4)
    assert answer.status == pb.NO_NEW_MESSAGE


async def test_a_cancelled_poll_leaves_nothing_behind(desk: Desk) -> None:
    call = desk.ask("PullMessage", pb.PullMessageRequest(topic="orders", wait_ms=30_000))
    await desk.until_parked()
    call.cancel()
    await desk.until_parked(0)
    await turns()
    inflight = desk.stat("pocketmq_inflight_requests")
    assert inflight.read()["pocketmq.v1.Broker/PullMessage",] == 0
    await desk.ask("SendMessage", sending(queue_id=0))


async def test_a_drain_answers_polls_and_refuses_sends(desk: Desk) -> None:
    poll = asyncio.ensure_future(
        desk.ask("PullMessage", pb.PullMessageRequest(topic="orders", wait_ms=30_000))
    )
    await desk.until_parked()
    desk.server.drain()
    desk.broker.pull.drain()
    assert (await poll).status == pb.NO_NEW_MESSAGE
    error = await desk.refusal("SendMessage", sending())
    assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "Draining")
    await desk.ask("QueryOffsets", pb.QueryOffsetsRequest(topic="orders"))


async def test_stopping_waits_for_nobody_when_all_is_drained(
    server_class: ServerClass, broker: StoreBroker
) -> None:
    server = server_class(broker.services())
    async with running(server) as address, connected(address) as channel:
        desk = Desk(broker, server, channel)
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            HealthCheckRequest.SerializeToString,
            HealthCheckResponse.FromString,
        )(HealthCheckRequest())
        statuses = aiter(watch)
        await anext(statuses)
        poll = asyncio.ensure_future(
            desk.ask("PullMessage", pb.PullMessageRequest(topic="orders", wait_ms=30_000))
        )
        await desk.until_parked()
        server.drain()
        broker.pull.drain()
        async with asyncio.timeout(20):
            await server.stop(600)
        assert (await poll).status == pb.NO_NEW_MESSAGE


async def test_stopping_does_not_wait_for_a_call_that_no_handler_has(
    server_class: ServerClass, broker: StoreBroker
) -> None:
    server = server_class(broker.services())
    async with running(server) as address, connected(address) as channel:
        unfinished = channel.stream_unary("/pocketmq.v1.Broker/PullMessage")()
        await unfinished.wait_for_connection()
        desk = Desk(broker, server, channel)
        await desk.ask("QueryOffsets", pb.QueryOffsetsRequest(topic="orders"))  # comes behind it
        server.drain()
        async with asyncio.timeout(20):
            await server.stop(600)
        assert await unfinished.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


# --- the server itself ---


async def test_health_follows_what_the_server_says(desk: Desk) -> None:
    check = desk.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        HealthCheckRequest.SerializeToString,
        HealthCheckResponse.FromString,
    )

    async def statuses() -> list[str]:
        names = ("", "pocketmq.v1.Broker", "pocketmq.v1.Admin", "store.write")
        answers = [await check(HealthCheckRequest(service=name)) for name in names]
        return [HealthCheckResponse.ServingStatus.Name(answer.status) for answer in answers]

    assert await statuses() == ["NOT_SERVING"] * 4
    desk.server.show_ready(writable=True)
    assert await statuses() == ["SERVING"] * 4
    desk.server.show_ready(writable=False)
    assert await statuses() == ["SERVING", "SERVING", "SERVING", "NOT_SERVING"]
    desk.server.drain()
    assert await statuses() == ["NOT_SERVING"] * 4


async def test_calls_are_refused_until_the_store_has_recovered(
    server_class: ServerClass, broker: StoreBroker
) -> None:
    server = server_class(broker.services())
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0')}"
    await server.start(Draining())
    async with connected(address) as channel:
        desk = Desk(broker, server, channel)
        error = await desk.refusal("QueryOffsets", pb.QueryOffsetsRequest(topic="orders"))
        assert (error.code(), reason(error)) == (grpc.StatusCode.UNAVAILABLE, "Draining")
        server.show_ready(writable=lambda: True)
        await desk.ask("QueryOffsets", pb.QueryOffsetsRequest(topic="orders"))
    server.drain()
    await server.stop(0)


# --- request ids ---


async def test_an_error_carries_the_clients_request_id(desk: Desk) -> None:
    metadata = (("x-request-id", "mine"),)
    call = desk.ask("PullMessage", pb.PullMessageRequest(topic="unknown"), metadata=metadata)
    assert dict(await call.trailing_metadata())["x-request-id"] == "mine"


async def test_an_error_carries_an_id_of_ours_where_the_client_gave_none(desk: Desk) -> None:
    error = await desk.refusal("PullMessage", pb.PullMessageRequest(topic="unknown"))
    assert dict(error.trailing_metadata())["x-request-id"]
    assert reason(error) == "TopicNotFound"


async def test_a_handler_knows_the_id_of_its_call(server_class: ServerClass) -> None:
    told: list[str] = []

    async def answer(request: Any, call: Call) -> pb.QueryByIdResponse:
        await turns()
        told.append(current_request_id())
        return pb.QueryByIdResponse()

    server = server_class([one_method(answer)])
    async with running(server) as address, connected(address) as channel:
        ask = channel.unary_unary(PATH + "QueryById")
        names = [f"r{number}" for number in range(5)]
        await asyncio.gather(*[ask(b"", metadata=(("x-request-id", name),)) for name in names])
    assert sorted(told) == names


# --- metrics ---


async def test_a_call_is_counted_by_what_it_was_and_how_it_ended(desk: Desk) -> None:
    latency = desk.stat("rocketmq_rpc_latency_milliseconds")

    def counted(code: str, response: str, polling: str, result: str) -> int:
        return sum(latency.at(("grpc", code, response, polling, result)).counts)

    await desk.ask("SendMessage", sending(queue_id=0))
    await desk.ask("PullMessage", pb.PullMessageRequest(topic="orders"))
    poll = pb.PullMessageRequest(topic="orders", queue_id=1, wait_ms=30_000)
    parked = asyncio.ensure_future(desk.ask("PullMessage", poll))
    await desk.until_parked()
    await desk.ask("SendMessage", sending(queue_id=1))
    await parked
    await desk.refusal("PullMessage", pb.PullMessageRequest(topic="unknown"))
    assert counted("send_message_v2", "success", "false", "success") == 2
    assert counted("pull_message", "success", "false", "success") == 1
    assert counted("pull_message", "success", "true", "success") == 1
    assert counted("pull_message", "topic_not_found", "false", "process_request_failed") == 1


async def test_a_cancelled_call_is_counted_as_one(desk: Desk) -> None:
    call = desk.ask("PullMessage", pb.PullMessageRequest(topic="orders", wait_ms=30_000))
    await desk.until_parked()
    call.cancel()
    await desk.until_parked(0)
    await turns()
    latency = desk.stat("rocketmq_rpc_latency_milliseconds")
    ended = latency.at(("grpc", "pull_message", "none", "true", "cancelled"))
    assert sum(ended.counts) == 1


@pytest.mark.parametrize("version", ["v1alpha", "v1"])
async def test_reflection_names_the_services_and_their_files(desk: Desk, version: str) -> None:
    own = f"grpc.reflection.{version}.ServerReflection"

    async def asked() -> AsyncIterator[ServerReflectionRequest]:
        yield ServerReflectionRequest(list_services="")
        official = "apache.rocketmq.v2.MessagingService"
        for name in ("pocketmq.v1.Admin", own, official, "nobody.Nothing"):
            yield ServerReflectionRequest(file_containing_symbol=name)
        yield ServerReflectionRequest(file_by_filename="grpc_reflection/v1/reflection.proto")
        yield ServerReflectionRequest(all_extension_numbers_of_type="pocketmq.v1.Message")
        extension = ExtensionRequest(containing_type="pocketmq.v1.Message", extension_number=9)
        yield ServerReflectionRequest(file_containing_extension=extension)
        yield ServerReflectionRequest()

    call = desk.channel.stream_stream(
        f"/{own}/ServerReflectionInfo",
        ServerReflectionRequest.SerializeToString,
        ServerReflectionResponse.FromString,
    )(asked())
    answers = [answer async for answer in call]
    listed, admin, itself, official, nobody, file, numbers, extension, nothing = answers
    assert {service.name for service in listed.list_services_response.service} == {
        "pocketmq.v1.Broker",
        "pocketmq.v1.Admin",
        "pocketmq.v1.Access",
        "pocketmq.v1.Replication",
        "apache.rocketmq.v2.MessagingService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "grpc.reflection.v1.ServerReflection",
    }
    for answer, word in ((admin, "CreateTopicRequest"), (itself, own.rpartition(".")[0])):
        files = answer.file_descriptor_response.file_descriptor_proto
        assert any(word.encode() in file for file in files)
    described = [
        FileDescriptorProto.FromString(file)
        for file in official.file_descriptor_response.file_descriptor_proto
    ]
    assert described[0].package == "apache.rocketmq.v2"
    assert described[0].service[0].method[0].input_type == ".apache.rocketmq.v2.QueryRouteRequest"
    assert {file.name for file in described[1:]} == set(described[0].dependency)
    assert admin.original_request.file_containing_symbol == "pocketmq.v1.Admin"
    assert len(file.file_descriptor_response.file_descriptor_proto) == 1
    assert list(numbers.all_extension_numbers_response.extension_number) == []
    codes = [answer.error_response.error_code for answer in (nobody, extension, nothing)]
    assert codes == [5, 5, 12]


async def test_a_shortcut_is_asked_first_and_may_answer_later_or_not_at_all(
    server_class: ServerClass,
) -> None:
    asked: list[bytes] = []

    def shortcut(raw: bytes, peer_host: bytes, metadata: Metadata) -> Any:
        asked.append(raw)
        if raw == b"later":
            return awaited()
        if raw == b"never":
            raise TopicNotFound(topic="t")
        if raw == b"who":
            return f"{metadata('x-mq-client-id')} {metadata('x-mq-namespace')}".encode()
        return b"now" if raw == b"now" else None

    async def awaited() -> bytes:
        await turns()
        return b"then"

    def usual(request: Any, call: Call) -> pb.QueryByIdResponse:
        return pb.QueryByIdResponse()

    row = method(BROKER, "QueryById", usual, CallClass.QUERY, shortcut=shortcut)
    server = server_class([Service("pocketmq.v1.Broker", (row,), refuse)])
    async with running(server) as address, connected(address) as channel:
        ask = channel.unary_unary(PATH + "QueryById")
        assert [await ask(raw) for raw in (b"now", b"later", b"")] == [b"now", b"then", b""]
        named = (("x-mq-client-id", "me"), ("x-mq-client-id", "you"))
        assert await ask(b"who", metadata=named) == b"me None"
        for raw, code in (
            (b"never", grpc.StatusCode.NOT_FOUND),
            (bytes(65_537), too_large(server_class)),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(raw)
            assert caught.value.code() is code
    assert asked == [b"now", b"later", b"", b"who", b"never"]


async def test_a_port_in_use_is_refused(server_class: ServerClass, desk: Desk) -> None:
    server = server_class([])
    port = server.add_port("127.0.0.1:0")
    assert port > 0
    other = server_class([])
    with pytest.raises(IllegalConfig, match=f"127.0.0.1:{port}"):
        other.add_port(f"127.0.0.1:{port}")
    await server.stop(0)
