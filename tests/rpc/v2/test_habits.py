"""Requests of clients that no other test runs: C++, C#, Rust, many threads.

Requests are as their sources make them, in the order they come; the transport is gRPC's own, which
the one for C++ uses too, with compressed requests and pings.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator
from hashlib import md5
from pathlib import Path
from typing import Any, Final

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.model.administration import GroupSettings
from pocketmq.rpc.pb import messaging_pb2 as pb
from pocketmq.rpc.v2.service_table import MESSAGING, NAME
from tests.running_broker import RunningBroker, broker_with

CALL_S: Final = 3
POLL_S: Final = 23
STREAM_S: Final = 3_600
PINGS: Final = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
CPP: Final = {"x-mq-language": "CPP", "x-mq-client-version": "5.0.3", "x-mq-namespace": "shop"}
DOTNET: Final = {"x-mq-language": "DOTNET", "x-mq-client-version": "5.2.1", "x-mq-protocol": "v2"}
JAVA: Final = {"x-mq-language": "JAVA", "x-mq-client-version": "5.2.0"}
RUST: Final = {"x-mq-language": "RUST", "x-mq-client-version": "5.0.0"}
UA: Final = pb.UA(language=pb.CPP, version="5.0.3", platform="Linux", hostname="h")


class Client:
    """Calls of one client over a channel of its own."""

    def __init__(self, endpoint: str, headers: dict[str, str], client_id: str) -> None:
        self._metadata = [*headers.items(), ("x-mq-client-id", client_id)]
        self._metadata += [("x-mq-date-time", "20261123T063000Z"), ("x-mq-request-id", "1")]
        self.channel = grpc.aio.insecure_channel(
            endpoint, options=PINGS, compression=grpc.Compression.Gzip
        )

    async def ask(self, method: str, request: Message, wait_s: float = CALL_S) -> Any:
        """Returns the one answer to a call."""
        call = self.channel.unary_unary(**self._codec(method))
        return await call(request, metadata=self._metadata, timeout=wait_s)

    async def all(self, method: str, request: Message, wait_s: float = POLL_S) -> list[Any]:
        """Returns all answers to a call."""
        call = self.channel.unary_stream(**self._codec(method))
        return [one async for one in call(request, metadata=self._metadata, timeout=wait_s)]

    def stream(self, method: str) -> Any:
        """Opens a stream both ways."""
        call = self.channel.stream_stream(**self._codec(method))
        return call(metadata=self._metadata, timeout=STREAM_S)

    def _codec(self, method: str) -> dict[str, Any]:
        read = getattr(pb, MESSAGING.methods_by_name[method].output_type.name).FromString
        return {
            "method": f"/{NAME}/{method}",
            "request_serializer": lambda request: request.SerializeToString(),
            "response_deserializer": read,
        }


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    """A broker with a topic and a group that have a namespace, and one of each without."""
    async with broker_with(tmp_path) as running:
        for each in ("orders", "shop%orders"):
            await running.client.admin.create_topic(each, queue_count=4)
        for each in ("readers", "shop%readers"):
            await running.client.admin.create_group(each, GroupSettings())
        yield running


def named(name: str, namespace: str = "") -> pb.Resource:
    """Returns a name as the client sends it."""
    return pb.Resource(name=name, resource_namespace=namespace)


def seconds(count: int) -> Duration:
    """Returns so long."""
    return Duration(seconds=count)


async def test_the_way_of_the_client_for_cpp(broker: RunningBroker) -> None:
    """Telemetry before routes; what it compressed is called GZIP and is zlib's.

    It comes decompressed, as not every client knows that form.
    """
    client = Client(broker.addresses["grpc"], CPP, "cpp@1")
    orders, readers = named("orders", "shop"), named("readers", "shop")
    async with client.channel:
        telemetry = client.stream("Telemetry")
        subscribed = pb.SubscriptionEntry(
            topic=orders, expression=pb.FilterExpression(type=pb.TAG, expression="*")
        )
        settings = pb.Settings(
            client_type=pb.PUSH_CONSUMER, request_timeout=seconds(CALL_S), user_agent=UA,
            subscription=pb.Subscription(group=readers, subscriptions=[subscribed]),
        )  # fmt: skip
        await telemetry.write(pb.TelemetryCommand(settings=settings))
        told = await telemetry.read()
        assert told.status.code == pb.OK
        assert told.settings.subscription.group == readers
        assert told.settings.subscription.long_polling_timeout.seconds > 0
        assert told.settings.backoff_policy.customized_backoff.next

        endpoints = pb.Endpoints(
            scheme=pb.IPv4, addresses=[pb.Address(host="127.0.0.1", port=8081)]
        )
        asked = pb.QueryRouteRequest(topic=orders, endpoints=endpoints)
        route = await client.ask("QueryRoute", asked)
        (queue,) = route.message_queues
        assert (queue.topic, queue.broker.endpoints, queue.broker.id) == (orders, endpoints, 0)
        assigned = await client.ask(
            "QueryAssignment",
            pb.QueryAssignmentRequest(topic=orders, group=readers, endpoints=endpoints),
        )
        assert [each.message_queue.topic for each in assigned.assignments] == [orders]

        body = zlib.compress(b"a large body" * 100)
        system = pb.SystemProperties(
            message_id="01AB", body_encoding=pb.GZIP, message_type=pb.NORMAL, born_host="h",
            born_timestamp=Timestamp(seconds=1_795_000_000), delivery_attempt=-889_275_714,
            trace_context="00-1-2-01",
        )  # fmt: skip
        message = pb.Message(topic=orders, body=body, system_properties=system)
        done = await client.ask("SendMessage", pb.SendMessageRequest(messages=[message]))
        assert [entry.status.code for entry in done.entries] == [pb.OK]

        status, got, _ = await client.all(
            "ReceiveMessage",
            pb.ReceiveMessageRequest(
                group=readers, message_queue=assigned.assignments[0].message_queue, batch_size=32,
                filter_expression=subscribed.expression, invisible_duration=seconds(30),
                auto_renew=True,
            ),
        )  # fmt: skip
        assert status.status.code == pb.OK
        came = got.message.system_properties
        plain = zlib.decompress(body)
        assert (got.message.body, got.message.topic) == (plain, orders)
        assert (came.body_encoding, came.delivery_attempt) == (pb.IDENTITY, 1)
        assert came.body_digest.checksum == md5(plain, usedforsecurity=False).hexdigest().upper()
        assert came.trace_context == "00-1-2-01"

        forwarded = await client.ask(
            "ForwardMessageToDeadLetterQueue",
            pb.ForwardMessageToDeadLetterQueueRequest(
                group=readers, topic=orders, message_id="01AB", delivery_attempt=1
            ),
        )
        assert forwarded.status.code == pb.INVALID_RECEIPT_HANDLE, "it names none"
        changed = await client.ask(
            "ChangeInvisibleDuration",
            pb.ChangeInvisibleDurationRequest(
                group=readers, topic=orders, receipt_handle=came.receipt_handle,
                invisible_duration=seconds(1), message_id="01AB",
            ),
            wait_s=1,
        )  # fmt: skip
        assert changed.status.code == pb.OK
        ended = await client.ask(
            "NotifyClientTermination", pb.NotifyClientTerminationRequest(group=readers)
        )
        assert ended.status.code == pb.OK
        await telemetry.done_writing()
        assert await telemetry.read() is grpc.aio.EOF


async def test_the_way_of_the_client_for_csharp(broker: RunningBroker) -> None:
    """It goes on without the stream that broke, and acks by the handle from before a change."""
    client = Client(broker.addresses["grpc"], DOTNET, "dotnet@1")
    orders, readers = named("orders"), named("readers")
    async with client.channel:
        telemetry = client.stream("Telemetry")
        settings = pb.Settings(
            client_type=pb.SIMPLE_CONSUMER, subscription=pb.Subscription(group=readers)
        )
        await telemetry.write(pb.TelemetryCommand(settings=settings))
        assert (await telemetry.read()).status.code == pb.OK
        telemetry.cancel()

        system = pb.SystemProperties(
            message_id="01CD", body_encoding=pb.IDENTITY, message_type=pb.NORMAL, queue_id=0,
            born_host="h", born_timestamp=Timestamp(seconds=1_795_000_000),
        )  # fmt: skip
        message = pb.Message(topic=orders, body=b"x", system_properties=system)
        done = await client.ask("SendMessage", pb.SendMessageRequest(messages=[message]))
        (entry,) = done.entries
        assert (entry.status.code, entry.message_id) == (pb.OK, "01CD")
        beat = pb.HeartbeatRequest(group=readers, client_type=pb.SIMPLE_CONSUMER)
        assert (await client.ask("Heartbeat", beat)).status.code == pb.OK

        receive = pb.ReceiveMessageRequest(
            group=readers, message_queue=pb.MessageQueue(topic=orders), batch_size=16,
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            invisible_duration=seconds(15), long_polling_timeout=seconds(5),
        )  # fmt: skip
        _, got, _ = await client.all("ReceiveMessage", receive)
        came = got.message.system_properties
        assert came.body_digest.checksum
        assert came.born_timestamp.seconds == 1_795_000_000
        changed = await client.ask(
            "ChangeInvisibleDuration",
            pb.ChangeInvisibleDurationRequest(
                group=readers, topic=orders, receipt_handle=came.receipt_handle,
                invisible_duration=seconds(10), message_id="01CD",
            ),
        )  # fmt: skip
        assert changed.status.code == pb.OK
        old = pb.AckMessageEntry(message_id="01CD", receipt_handle=came.receipt_handle)
        ack = pb.AckMessageRequest(group=readers, topic=orders, entries=[old])
        assert (await client.ask("AckMessage", ack)).status.code == pb.OK


async def test_the_way_of_the_client_for_rust(broker: RunningBroker) -> None:
    """It says nothing on its stream before that is answered, and takes no code but OK."""
    client = Client(broker.addresses["grpc"], RUST, "rust#1")
    orders, readers = named("orders"), named("readers")
    async with client.channel:
        telemetry = client.stream("Telemetry")
        await telemetry.initial_metadata()
        settings = pb.Settings(
            client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[orders]), user_agent=UA
        )
        for _ in range(2):  # Again every 30 s.
            await telemetry.write(pb.TelemetryCommand(settings=settings))
            told = await telemetry.read()
            assert told.status.code == pb.OK
            assert told.settings.backoff_policy.HasField("exponential_backoff")

        system = pb.SystemProperties(
            message_id="01EF", body_encoding=pb.IDENTITY, message_type=pb.NORMAL, born_host="h",
            born_timestamp=Timestamp(seconds=1_795_000_000),
        )  # fmt: skip
        message = pb.Message(topic=orders, body=b"x", system_properties=system)
        done = await client.ask("SendMessage", pb.SendMessageRequest(messages=[message]))
        assert [done.status.code, *(entry.status.code for entry in done.entries)] == [pb.OK] * 2

        receive = pb.ReceiveMessageRequest(
            group=readers, message_queue=pb.MessageQueue(topic=orders), batch_size=1,
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            invisible_duration=seconds(15), long_polling_timeout=seconds(CALL_S),
        )  # fmt: skip
        frames = await client.all("ReceiveMessage", receive, wait_s=CALL_S)
        kinds = [frame.WhichOneof("content") for frame in frames]
        assert kinds == ["status", "message", "delivery_timestamp"], "each is unwrapped"
        handle = frames[1].message.system_properties.receipt_handle
        entry = pb.AckMessageEntry(message_id="01EF", receipt_handle=handle)
        ack = pb.AckMessageRequest(group=readers, topic=orders, entries=[entry])
        acked = await client.ask("AckMessage", ack)
        assert [acked.status.code, acked.entries[0].status.code] == [pb.OK] * 2
        ended = await client.ask("NotifyClientTermination", pb.NotifyClientTerminationRequest())
        assert ended.status.code == pb.OK
        await telemetry.done_writing()
        assert await telemetry.read() is grpc.aio.EOF


async def test_a_client_of_many_threads_prints_all_their_stacks(broker: RunningBroker) -> None:
    """As those for Java and Go do: 2 KB a thread."""
    client = Client(broker.addresses["grpc"], JAVA, "java@1")
    stack = "at java.lang.Thread.run(Thread.java:840)\n" * 100_000
    async with client.channel:
        telemetry = client.stream("Telemetry")
        settings = pb.Settings(
            client_type=pb.PUSH_CONSUMER, subscription=pb.Subscription(group=named("readers"))
        )
        await telemetry.write(pb.TelemetryCommand(settings=settings))
        assert (await telemetry.read()).status.code == pb.OK
        asked = asyncio.ensure_future(broker.client.admin.print_client_stack("readers", "java@1"))
        told = await telemetry.read()
        trace = pb.ThreadStackTrace(
            nonce=told.print_thread_stack_trace_command.nonce, thread_stack_trace=stack
        )
        await telemetry.write(pb.TelemetryCommand(thread_stack_trace=trace))
        assert (await asked).stack == stack
        await telemetry.done_writing()
        assert await telemetry.read() is grpc.aio.EOF
