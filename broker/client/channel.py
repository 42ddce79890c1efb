"""A client's connection to one endpoint: calls in, answers or errors out.

Answers that are errors are raised as the plain values of values.py. A call that waits at the
broker has as much longer to answer.
"""

from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
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
)

_Answer = TypeVar("_Answer", bound=Message)


class ClientChannel:
    """A connection to one endpoint, "host:port", for the length of an `async with`."""

    __slots__ = ("_channel", "_endpoint", "_methods", "_timeout_ms")

    def __init__(self, endpoint: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._endpoint = endpoint
        self._timeout_ms = timeout_ms
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._endpoint, options=OPTIONS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._channel.close()

    async def ask(
        self, path: str, request: Message, answer_type: type[_Answer], *, wait_ms: int = 0
    ) -> _Answer:
        """Call a method, "/package.Service/Method", and return its answer.

        Errors   ClientError and its kinds
        """
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
            return _told_error(code.name, message, details)
        is_connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and is_connected:
            text = f"{self._endpoint} did not answer in time"
            return DeadlineExceeded("DeadlineExceeded", text, code=code.name, retryable=True)
        if code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
            text = f"nobody answers at {self._endpoint}: {message}"
            return Unreachable("Unreachable", text, code=code.name, retryable=True)
        return ClientError(code.name, message, code=code.name)


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """Return the google.rpc.Status that came with a status, None when none did."""
    raw = error.trailing_metadata().get(DETAILS_KEY)
    if not isinstance(raw, bytes):
        return None
    try:
        return status_pb2.Status.FromString(raw)
    except DecodeError:
        return None


def _told_error(code: str, message: str, details: status_pb2.Status) -> ClientError:
    """Return the error that google.rpc details tell of."""
    parts = {part.type_url: part.value for part in details.details}
    info = error_details_pb2.ErrorInfo.FromString(parts.get(ERROR_INFO_URL, b""))
    return ClientError(
        info.reason or code,
        message,
        code=code,
        retryable=RETRY_INFO_URL in parts,
        fields=dict(info.metadata),
    )
