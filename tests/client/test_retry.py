"""Failed calls are retried only where a repetition can do no harm."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as Request

from pocketmq.client import (
    AsyncClient,
    ClientError,
    DeadlineExceeded,
    Message,
    PullQuery,
    Unreachable,
    errors,
)
from pocketmq.client.channel import RETRY_MS, pauses_ms
from pocketmq.client.credentials import Pairs
from pocketmq.client.wire import BlockingWire, LoopWire
from pocketmq.model.errors import BrokerError
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.pb import broker_pb2 as pb
from pocketmq.rpc.service import DETAILS_KEY
from pocketmq.rpc.v1.status import wire_status
from tests.kit.store_broker import running, store_broker

BUSY = errors.StoreBusy(held_ms=1, limit_ms=1)
NO_WAY = "failed to connect to all addresses; last error: remote host: X"
BROKE = "Socket closed"


class Failed(grpc.RpcError):
    """A status as gRPC gives it to a client."""

    def __init__(self, code: grpc.StatusCode, details: str, raw: bytes = b"") -> None:
        self.code = lambda: code
        self.details = lambda: details
        self.trailing_metadata = lambda: ((DETAILS_KEY, raw),) if raw else ()


def refusal(error: BrokerError) -> Failed:
    code, message, details = wire_status(error)
    codes = {code.value[0]: code for code in grpc.StatusCode}
    return Failed(codes[code], message, details)


class FailingWire(LoopWire):
    """Fails as it is told, then answers; pauses take no time."""

    def __init__(self, *failures: Failed) -> None:
        super().__init__("127.0.0.1:1")
        self.failures = list(failures)
        self.requests: list[Any] = []
        self.slept_s: list[float] = []

    async def call(
        self, path: str, request: Request, read: Any, timeout_s: float, metadata: Pairs = ()
    ) -> Any:
        """Fails, or answer with nothing."""
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop(0)
        if isinstance(request, pb.SendMessageRequest):
            return pb.SendMessageResponse(results=[pb.SendResult(status="SEND_OK")])
        return read(b"")

    async def is_connected(self) -> bool:
        """Reports that there is no broker."""
        return False

    async def sleep(self, seconds: float) -> None:
        """Remembers a pause."""
        self.slept_s.append(seconds)


def failing(*failures: Failed, retry_ms: int = RETRY_MS) -> tuple[AsyncClient, FailingWire]:
    wire = FailingWire(*failures)
    return AsyncClient("127.0.0.1:1", retry_ms=retry_ms, wire=lambda _: wire), wire


UNAVAILABLE, LATE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED
SEND = [Message("orders", b"x"), Message("orders", b"y", message_id="mine")]


@pytest.mark.parametrize("failure", [refusal(BUSY), Failed(UNAVAILABLE, NO_WAY)])
async def test_a_send_that_stored_nothing_is_sent_again(failure: Failed) -> None:
    client, wire = failing(failure, failure)
    await client.send_many(SEND[:1])
    assert len(wire.requests) == 3
    assert wire.requests[0] == wire.requests[2]
    assert wire.slept_s == [0.1, 0.2]


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failed(UNAVAILABLE, BROKE), Unreachable),
        (Failed(UNAVAILABLE, "words of a later gRPC"), Unreachable),
        (Failed(LATE, "Deadline Exceeded"), DeadlineExceeded),
    ],
)
async def test_a_send_that_may_be_stored_is_never_sent_again(
    failure: Failed, kind: type[ClientError]
) -> None:
    client, wire = failing(failure)
    with pytest.raises(kind) as caught:
        await client.send_many(SEND)
    assert len(wire.requests) == 1
    sent = tuple(message.message_id for message in wire.requests[0].messages)
    assert caught.value.message_ids == sent
    assert (len(sent[0]), sent[1]) == (32, "mine")
    assert caught.value.is_uncertain
    assert "look up each message by its id" in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


Ask = Callable[[AsyncClient], Any]


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.commit_offset("g", "orders", 0, 1),
        lambda client: client.pull(PullQuery("orders", 0, 0, commit_offset=1)),
        lambda client: client.admin.delete_topic("orders"),
        lambda client: client.admin.set_offsets("g", "orders", {0: 1}),
        lambda client: client.admin.drain(),
    ],
)
async def test_what_changes_something_is_not_repeated(ask: Ask) -> None:
    client, wire = failing(Failed(UNAVAILABLE, BROKE))
    with pytest.raises(Unreachable) as caught:
        await ask(client)
    assert (len(wire.requests), caught.value.is_uncertain) == (1, True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.pull(PullQuery("orders", 0, 0)),
        lambda client: client.query_offsets("orders", 0),
        lambda client: client.admin.create_topic("orders"),
        lambda client: client.admin.create_group("readers"),
        lambda client: client.admin.list_topics(),
        lambda client: client.admin.flush(),
    ],
)
async def test_what_may_be_repeated_is(ask: Ask) -> None:
    client, wire = failing(Failed(UNAVAILABLE, BROKE), refusal(BUSY), Failed(UNAVAILABLE, NO_WAY))
    with suppress(ValueError):  # an empty answer is none of every method's
        await ask(client)
    assert len(wire.requests) == 4


async def test_a_request_at_fault_is_not_repeated() -> None:
    client, wire = failing(refusal(errors.TopicNotFound(topic="orders")))
    with pytest.raises(errors.TopicNotFound) as caught:
        await client.query_offsets("orders", 0)
    assert (len(wire.requests), caught.value.topic) == (1, "orders")


async def test_patience_has_an_end() -> None:
    client, wire = failing(*[refusal(BUSY)] * 99)
    with pytest.raises(errors.StoreBusy):
        await client.query_offsets("orders", 0)
    assert sum(wire.slept_s) * 1000 <= RETRY_MS
    client, wire = failing(refusal(BUSY), retry_ms=0)
    with pytest.raises(errors.StoreBusy):
        await client.query_offsets("orders", 0)
    assert wire.slept_s == []


def test_pauses_grow_and_stay_below_the_budget() -> None:
    assert list(pauses_ms(0)) == []
    assert list(pauses_ms(3_000)) == [100, 200, 400, 800, 1_000]


@pytest.mark.parametrize("kind", [LoopWire, BlockingWire])
async def test_grpc_tells_that_it_had_no_connection(kind: Any) -> None:
    """The words that a client knows as: nothing was sent."""
    async with store_broker() as broker, running(OwnServer(broker.services())) as address:
        pass
    client = AsyncClient(address, retry_ms=0, wire=kind)
    with pytest.raises(Unreachable) as caught:
        await client.send(Message("orders", b"x"))
    assert not caught.value.is_uncertain
    await client.close()


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ("Failed parsing HTTP/2 (Expected SETTINGS frame)", "another protocol than gRPC"),
        ("SSL_ERROR_SSL: error:1: CERTIFICATE_VERIFY_FAILED: x", "is not trusted; next: set GRPC"),
        ("UNAUTHENTICATED: Hostname Verification Check failed.", "is for another name; next: name"),
        ("SSL_ERROR_SSL: error:1: WRONG_VERSION_NUMBER", "no TLS is served there"),
        ("UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed", "needs tls://127.0.0.1:1; if a proxy"),
        ("UNAVAILABLE: recvmsg:Connection reset by peer", "listens there and closed the connect"),
    ],
)
async def test_an_answer_of_no_broker_is_told_in_plain_words(detail: str, told: str) -> None:
    text = f"failed to connect to all addresses; last error: {detail}"
    client, _ = failing(Failed(UNAVAILABLE, text), retry_ms=0)
    with pytest.raises(Unreachable, match=told) as caught:
        await client.admin.store_status()
    assert detail not in str(caught.value)


@pytest.mark.parametrize("prefix", ["errors resolving nohost:1: ", "DNS resolution failed for "])
async def test_a_name_without_an_address_is_no_broken_connection(prefix: str) -> None:
    client, _ = failing(Failed(UNAVAILABLE, f"{prefix}[Domain name not found]"), retry_ms=0)
    with pytest.raises(
        Unreachable, match=r"no broker answers at .*could not be resolved"
    ) as caught:
        await client.send(Message("orders", b"x"))
    assert not caught.value.is_uncertain
    assert "getent hosts" in caught.value.next_step


async def test_a_connection_that_ended_in_a_call_or_over_tls_does_not_lead_to_tls() -> None:
    client, wire = failing(Failed(UNAVAILABLE, BROKE), retry_ms=0)
    with pytest.raises(Unreachable) as caught:
        await client.admin.store_status()
    assert BROKE in str(caught.value)
    text = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:1.1.1.1:1: " + BROKE
    wire.failures.append(Failed(UNAVAILABLE, text))
    client = AsyncClient("tls://127.0.0.1:1", retry_ms=0, wire=lambda _: wire)
    with pytest.raises(Unreachable) as caught:
        await client.admin.store_status()
    assert BROKE in str(caught.value)
    assert "needs tls" not in str(caught.value)
