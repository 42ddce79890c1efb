"""A client's connection to one endpoint: calls in, answers or errors out.

Answers that are errors are raised as the plain values of values.py. A call that waits at the
broker has as much longer to answer.
"""

from typing import Any, Final, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from broker.client.values import ClientError, DeadlineExceeded, Unreachable
from broker.rpc.service import DETAILS_KEY
from broker.rpc.v1.status import ERROR_INFO_URL, RETRY_INFO_URL

TIMEOUT_MS: Final = 10_000
MESSAGE_SIZE_MAX: Final = 17 * 1024 * 1024
"""More than the broker ever sends."""
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_SIZE_MAX),
    ("grpc.max_send_message_length", MESSAGE_SIZE_MAX),
    ("grpc.enable_http_proxy", 0),  # brokers are spoken to directly
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2_000),  # a broker that starts again is found soon
)

Value = TypeVar("Value", bound=tuple[Any, ...])
_Answer = TypeVar("_Answer", bound=Message)


class Channel:
    """A connection to one endpoint, "host:port", between `open` and `close`."""

    __slots__ = ("_channel", "_endpoint", "_methods", "_timeout_ms")

    def __init__(self, endpoint: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._endpoint = endpoint
        self._timeout_ms = timeout_ms
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    def open(self) -> None:
        """Connect as soon as something is asked, from the event loop that runs now."""
        assert not self._methods, "a channel is opened once"
        self._channel = grpc.aio.insecure_channel(self._endpoint, options=OPTIONS)

    async def close(self) -> None:
        """End the connection and all calls on it."""
        await self._channel.close()

    async def ask(
        self, path: str, request: Message, answer_type: type[_Answer], *, wait_ms: int = 0
    ) -> _Answer:
        """Call a method, "/package.Service/Method", and return its answer.

        Errors   ClientError and its kinds
        """
        assert wait_ms >= 0, "an answer takes no negative time"
        method = self._methods.get(path)
        if method is None:
            method = self._methods[path] = self._channel.unary_unary(
                path,
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer_type.FromString,
            )
        try:
            answer: _Answer = await method(request, timeout=(self._timeout_ms + wait_ms) / 1000)
        except grpc.aio.AioRpcError as error:
            raise self._client_error(error) from error
        return answer

    def _client_error(self, error: grpc.aio.AioRpcError) -> ClientError:
        """Return what a status means for whoever asked."""
        code, message = error.code(), error.details() or ""
        details = _details(error)
        if details is not None:
            return client_error(code.name, message, details)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            text = f"{self._endpoint} did not answer within {self._timeout_ms / 1000:g} s"
            if self._channel.get_state() is not grpc.ChannelConnectivity.READY:
                text += "; no connection was made: is a broker there?"
            return DeadlineExceeded("DeadlineExceeded", text, code=code.name, retryable=True)
        if code is grpc.StatusCode.UNAVAILABLE:
            # gRPC tells the way to the reason too: "failed to connect to …: Connection refused".
            reason = message.rpartition("remote host: ")[2]
            text = f"nobody answers at {self._endpoint}: {reason}"
            return Unreachable("Unreachable", text, code=code.name, retryable=True)
        return ClientError(code.name, message, code=code.name)


class Stub:
    """The methods of one service, by their names."""

    __slots__ = ("_channel", "_service")

    def __init__(self, channel: Channel, service: ServiceDescriptor) -> None:
        self._channel = channel
        self._service = service

    async def ask(self, method: str, *, wait_for_ms: int = 0, **fields: Any) -> Any:
        """Call a method with the fields of its request, None for unset, and return its answer.

        wait_for_ms   how much longer than others the answer may take
        Errors        ClientError and its kinds; ValueError: the request has no such field
        """
        found = self._service.methods_by_name[method]
        request = GetMessageClass(found.input_type)(**fields)
        answer_type = GetMessageClass(found.output_type)
        path = f"/{self._service.full_name}/{method}"
        return await self._channel.ask(path, request, answer_type, wait_ms=wait_for_ms)


def value_of(kind: type[Value], message: Message, **given: Any) -> Value:
    """Return a named tuple of a message's fields of the same names; unset optional ones are None.

    given   what differs from the message's, or is not in it
    """
    fields = message.DESCRIPTOR.fields_by_name
    for name in kind._fields:  # type: ignore[attr-defined]
        if name not in given:
            is_unset = fields[name].has_presence and not message.HasField(name)
            given[name] = None if is_unset else getattr(message, name)
    return kind(**given)


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """Return the google.rpc.Status that came with a status, None when none did."""
    raw = error.trailing_metadata().get(DETAILS_KEY)
    if not isinstance(raw, bytes):
        return None
    try:
        return status_pb2.Status.FromString(raw)
    except DecodeError:
        return None


def client_error(code: str, message: str, details: status_pb2.Status) -> ClientError:
    """Return the error of a status with google.rpc details; `code` is the name of its code."""
    parts = {part.type_url: part.value for part in details.details}
    info = error_details_pb2.ErrorInfo.FromString(parts.get(ERROR_INFO_URL, b""))
    return ClientError(
        info.reason or code,
        message,
        code=code,
        retryable=RETRY_INFO_URL in parts,
        fields=dict(info.metadata),
    )
