"""Transports of calls: on an event loop, or blocking the calling thread.

The client is written once, as coroutines. A BlockingWire blocks the thread where a LoopWire
suspends the coroutine, so `drive` runs a coroutine to its end in one step. A BlockingWire does not
use grpc.aio, which logs errors if two event loops of a process use it.
"""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from concurrent import futures
from pathlib import Path
from threading import Thread
from typing import Any, Final, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from pocketmq.client.credentials import Pairs
from pocketmq.model.endpoint import ROOTS, TLS, TLS_NAME

MESSAGE_SIZE_MAX: Final = 17 * 1024 * 1024
"""Limit of a gRPC message, above the largest message that a broker accepts."""
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_MAX),
    ("grpc.enable_http_proxy", 0),  # connect to brokers directly
    ("grpc.use_local_subchannel_pool", 1),  # each client has its own connection
    # Reconnect soon after a broker's restart: gRPC's default backoff grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Detect a broker that vanished without closing the connection while calls wait for answers.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
LOOK_S: Final = 0.05
"""Upper limit of a blocking wire's wait for gRPC to report that the connection is ready."""

Found = TypeVar("Found")
Given_co = TypeVar("Given_co", covariant=True)
Question = Coroutine[Any, Any, Found]
"""A coroutine that makes calls."""


class RunningCall(Protocol[Given_co]):
    """A coroutine in the background; asyncio's and concurrent futures implement it."""

    def done(self) -> bool:
        """Returns whether the coroutine has ended."""

    def result(self) -> Given_co:
        """Returns the coroutine's result, or raises its error."""

    def cancel(self) -> Any:
        """Requests the end of the coroutine, as far as the wire supports that."""


class Wire(Protocol):
    """A connection to one endpoint, made by the first call."""

    async def call(
        self, path: str, request: Message, read: Callable[[bytes], Found], timeout_s: float,
        metadata: Pairs = (),
    ) -> Found:  # fmt: skip
        """Calls a method, "/package.Service/Method", and returns its answer.

        Errors   grpc.RpcError
        """

    async def is_connected(self) -> bool:
        """Returns whether a gRPC connection is ready."""

    async def sleep(self, seconds: float) -> None:
        """Returns after a time."""

    async def all_of(self, questions: Iterable[Question[Found]]) -> list[Found]:
        """Returns the results of coroutines, which run concurrently if the wire can."""

    def begin(self, question: Question[Found]) -> RunningCall[Found]:
        """Starts a coroutine in the background."""

    async def first_of(self, pendings: Collection[RunningCall[Any]]) -> None:
        """Returns when one of the coroutines has ended."""

    async def close(self) -> None:
        """Ends the connection and all calls on it."""


class LoopWire:
    """A transport for calls by tasks of one event loop."""

    __slots__ = ("_channel", "_methods", "_target")

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    async def call(
        self, path: str, request: Message, read: Callable[[bytes], Found], timeout_s: float,
        metadata: Pairs = (),
    ) -> Found:  # fmt: skip
        """Calls a method and returns its answer."""
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self._opened().unary_unary(
                path,
                request_serializer=type(request).SerializeToString,
                response_deserializer=read,
            )
        answer: Found = await method(request, timeout=timeout_s, metadata=metadata)
        return answer

    def _opened(self) -> grpc.aio.Channel:
        if self._channel is None:
            assert not self._methods, "methods without a channel"
            self._channel = _aio_channel(self._target)
        return self._channel

    async def is_connected(self) -> bool:
        """Returns whether a gRPC connection is ready."""
        return self._opened().get_state() is grpc.ChannelConnectivity.READY

    async def sleep(self, seconds: float) -> None:
        """Returns after a time."""
        await asyncio.sleep(seconds)

    async def all_of(self, questions: Iterable[Question[Found]]) -> list[Found]:
        """Returns the results of coroutines, run concurrently."""
        return await asyncio.gather(*questions)

    def begin(self, question: Question[Found]) -> RunningCall[Found]:
        """Starts a coroutine in the background."""
        task = asyncio.Task(question)
        task.add_done_callback(_seen)  # else asyncio logs the error of a dropped task
        return task

    async def first_of(self, pendings: Collection[RunningCall[Any]]) -> None:
        """Returns when one of the coroutines has ended."""
        tasks = [pending for pending in pendings if isinstance(pending, asyncio.Task)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Ends the connection and all calls on it."""
        if self._channel is not None:
            await self._channel.close()


class BlockingWire:
    """A transport for blocking calls by any number of threads."""

    __slots__ = ("_channel", "_methods", "_target")

    def __init__(self, target: str) -> None:
        self._target = target
        # gRPC connects at the first call, so this cannot fail.
        self._channel = _channel(target)
        self._methods: dict[str, Any] = {}

    async def call(
        self, path: str, request: Message, read: Callable[[bytes], Found], timeout_s: float,
        metadata: Pairs = (),
    ) -> Found:  # fmt: skip
        """Calls a method and returns its answer."""
        method = self._methods.get(path)
        if method is None:  # two threads may create it at once, which is harmless
            method = self._methods[path] = self._channel.unary_unary(
                path,
                request_serializer=type(request).SerializeToString,
                response_deserializer=read,
            )
        answer: Found = method(request, timeout=timeout_s, metadata=metadata)
        return answer

    async def is_connected(self) -> bool:
        """Returns whether a gRPC connection is ready."""
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout=LOOK_S)
        except grpc.FutureTimeoutError:
            ready.cancel()
            return False
        return True

    async def sleep(self, seconds: float) -> None:
        """Returns after a time."""
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop is blocked

    async def all_of(self, questions: Iterable[Question[Found]]) -> list[Found]:
        """Returns the results of coroutines, run one after the other."""
        return [await question for question in questions]

    def begin(self, question: Question[Found]) -> RunningCall[Found]:
        """Starts a coroutine in a daemon thread."""
        pending: futures.Future[Found] = futures.Future()

        def run() -> None:
            try:
                pending.set_result(drive(question))
            except BaseException as error:  # noqa: BLE001 - raised again by result()
                pending.set_exception(error)

        # cancel() has no effect from here on: only closing the wire ends a blocked call.
        pending.set_running_or_notify_cancel()
        Thread(target=run, name="pocketmq-client", daemon=True).start()
        return pending

    async def first_of(self, pendings: Collection[RunningCall[Any]]) -> None:
        """Returns when one of the coroutines has ended."""
        waited = [pending for pending in pendings if isinstance(pending, futures.Future)]
        futures.wait(waited, return_when=futures.FIRST_COMPLETED)

    async def close(self) -> None:
        """Ends the connection and all calls on it."""
        self._channel.close()


def _credentials() -> grpc.ChannelCredentials:
    """Returns credentials that trust the certificates in the file of ROOTS; else gRPC's own.

    gRPC would read the file itself, but would then trust no certificate that another one signed.
    """
    try:
        return grpc.ssl_channel_credentials(Path(os.environ[ROOTS]).read_bytes())
    except (KeyError, OSError):
        return grpc.ssl_channel_credentials()


def _tls_options() -> tuple[tuple[str, int | str], ...]:
    """Returns the options of a TLS channel; the broker's own console dials 127.0.0.1 for any name.

    That console trusts nothing but the certificate of its broker (app/console.py).
    """
    name = os.environ.get(TLS_NAME, "")
    return (*OPTIONS, ("grpc.ssl_target_name_override", name)) if name else OPTIONS


def _channel(target: str) -> grpc.Channel:
    """Returns a channel to "host:port", or to "tls://host:port" with gRPC's root certificates."""
    if target.startswith(TLS):
        credentials = _credentials()
        return grpc.secure_channel(target.removeprefix(TLS), credentials, options=_tls_options())
    return grpc.insecure_channel(target, options=OPTIONS)


def _aio_channel(target: str) -> grpc.aio.Channel:
    """Returns an asyncio channel, for the targets of `_channel`."""
    if target.startswith(TLS):
        credentials = _credentials()
        return grpc.aio.secure_channel(
            target.removeprefix(TLS), credentials, options=_tls_options()
        )
    return grpc.aio.insecure_channel(target, options=OPTIONS)


def _seen(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


def drive(question: Question[Found]) -> Found:
    """Runs a coroutine that uses a BlockingWire to its end in this thread."""
    try:
        question.send(None)
    except StopIteration as end:
        found: Found = end.value
        return found
    raise AssertionError("a coroutine suspended over a blocking wire")
