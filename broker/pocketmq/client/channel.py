"""A client's connection to one endpoint, with retries and error mapping.

Failed calls are retried if that is safe, with growing pauses of `retry_ms` in total:

    failure                      effect                    retried
    refused as retryable         none                      every call
    not connected                none                      every call
    the connection broke         unknown                   repeatable calls, never a send
    deadline exceeded            unknown                   no call
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from pocketmq.client.client_error import (
    CAUSES,
    CLOSED_EARLY,
    UNRESOLVED,
    ClientError,
    DeadlineExceeded,
    NotOpen,
    Unreachable,
    told_error,
)
from pocketmq.client.credentials import NOBODY, Credentials, now_ms
from pocketmq.client.values import check_argument
from pocketmq.client.wire import LoopWire, Wire
from pocketmq.model.endpoint import TLS, endpoint_from_text
from pocketmq.rpc.pb import status_pb2

TIMEOUT_MS: Final = 10_000
RETRY_MS: Final = 3_000
"""Default of the total pause between attempts: enough for a restart of the broker."""
PAUSE_MS: Final = 100
PAUSE_MAX_MS: Final = 1_000

DETAILS_KEY: Final = "grpc-status-details-bin"
ERROR_INFO_URL: Final = "type.googleapis.com/google.rpc.ErrorInfo"
RETRY_INFO_URL: Final = "type.googleapis.com/google.rpc.RetryInfo"
NEVER_SENT: Final = ("failed to connect to all addresses", *UNRESOLVED)
"""Prefixes of gRPC's messages for a call that was not sent, for lack of a connection."""

Value = TypeVar("Value", bound=tuple[Any, ...])
Silence = TypeVar("Silence", bound=ClientError)
_Answer = TypeVar("_Answer", bound=Message)


class Channel:
    """A connection to one endpoint (model/endpoint.py), from the first call to `close`."""

    __slots__ = (
        "_credentials", "_is_closed", "_retry_ms", "_start_step", "_timeout_ms", "endpoint", "wire",
    )  # fmt: skip

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        retry_ms: int = RETRY_MS,
        wire: Callable[[str], Wire] = LoopWire,
        credentials: Credentials = NOBODY,
        start_step: str = "",
    ) -> None:
        if timeout_ms < 1 or retry_ms < 0:
            raise ValueError(
                f"timeout_ms is {timeout_ms} (from 1), retry_ms is {retry_ms} (from 0)"
            )
        check_argument("endpoint", endpoint, str)
        self.endpoint = endpoint_from_text(endpoint)
        self._timeout_ms = timeout_ms
        self._retry_ms = retry_ms
        self.wire = wire(self.endpoint)
        self._credentials = credentials
        self._start_step = start_step
        self._is_closed = False

    async def close(self) -> None:
        """Ends the connection and all calls on it."""
        if not self._is_closed:
            self._is_closed = True
            await self.wire.close()

    async def ask(
        self,
        path: str,
        request: Message,
        answer_type: type[_Answer],
        *,
        wait_ms: int = 0,
        is_repeatable: bool = False,
    ) -> _Answer:
        """Calls a method, "/package.Service/Method", and returns its answer.

        wait_ms         added to the time limit, as the wait of a long poll
        is_repeatable   the call is idempotent
        Errors          ClientError and its subclasses
        """
        assert wait_ms >= 0, "wait_ms is negative"
        timeout_s = (self._timeout_ms + wait_ms) / 1000
        pauses = pauses_ms(self._retry_ms)
        while True:
            if self._is_closed:
                raise NotOpen("NotOpen", "the client is closed", endpoint=self.endpoint)
            try:
                signed = self._credentials.signed(now_ms())
                read = answer_type.FromString
                return await self.wire.call(path, request, read, timeout_s, signed)
            except grpc.RpcError as error:
                failure = await self._failure(error)
                failure.is_uncertain &= not is_repeatable
                pause_ms = next(pauses, None) if may_repeat(failure) else None
                if pause_ms is None:
                    raise failure from error
            await self.wire.sleep(pause_ms / 1000)

    async def _failure(self, error: Any) -> ClientError:
        failure = client_error(error.code().name, error.details() or "", _details(error))
        failure.endpoint = self.endpoint
        if failure.reason != failure.status:
            return failure
        if failure.status == "DEADLINE_EXCEEDED":
            text = f"{self.endpoint} did not answer within {self._timeout_ms / 1000:g} s"
            if not await self.wire.is_connected():
                text += "; no connection was made: is the broker running?"
            return self._silence(DeadlineExceeded, text, failure, is_uncertain=True)
        if failure.status == "UNAVAILABLE":
            is_uncertain = not failure.message.startswith(NEVER_SENT)
            # gRPC puts a path before the cause: "failed to connect to …: Connection refused".
            reason = failure.message.rpartition("remote host: ")[2]
            # A connection that carried calls, or one over TLS, ends for other reasons.
            unknown = CLOSED_EARLY if is_uncertain or self.endpoint.startswith(TLS) else ()
            parts = [part for part in CAUSES if part in failure.message and part not in unknown]
            known = [CAUSES[part][0] for part in parts]
            reason = known[0] if known else reason
            text = f"no broker answers at {self.endpoint}: {reason}"
            if is_uncertain:
                text = f"the connection to {self.endpoint} broke: {reason}"
            silence = self._silence(Unreachable, text, failure, is_uncertain=is_uncertain)
            silence.start_step = self._start_step
            return silence
        if failure.status == "CANCELLED" and self._is_closed:
            return NotOpen("NotOpen", "the client was closed", endpoint=self.endpoint)
        return failure

    def _silence(
        self, kind: type[Silence], text: str, failure: ClientError, *, is_uncertain: bool
    ) -> Silence:
        return kind(
            kind.__name__,
            text,
            status=failure.status,
            retryable=True,
            is_uncertain=is_uncertain,
            endpoint=self.endpoint,
        )


def may_repeat(failure: ClientError) -> bool:
    """Returns whether to retry a failed call; idempotent calls are never uncertain."""
    is_late = failure.status == "DEADLINE_EXCEEDED"
    return failure.retryable and not is_late and not failure.is_uncertain


def pauses_ms(budget_ms: int) -> Iterator[int]:
    """Yields the pauses before the next attempts; their sum is at most the budget."""
    pause_ms = PAUSE_MS
    while pause_ms <= budget_ms:
        yield pause_ms
        budget_ms -= pause_ms
        pause_ms = min(2 * pause_ms, PAUSE_MAX_MS)


class Stub:
    """The methods of one service, by name."""

    __slots__ = ("_channel", "_service")

    def __init__(self, channel: Channel, service: ServiceDescriptor) -> None:
        self._channel = channel
        self._service = service

    async def read(self, method: str, *, wait_for_ms: int = 0, **fields: Any) -> Any:
        """Calls an idempotent method."""
        return await self.ask(method, wait_for_ms=wait_for_ms, is_repeatable=True, **fields)

    async def ask(
        self, method: str, *, wait_for_ms: int = 0, is_repeatable: bool = False, **fields: Any
    ) -> Any:
        """Calls a method and returns its answer.

        fields        fields of the request; None leaves a field unset
        wait_for_ms   added to the time limit if positive, as the wait of a long poll
        Errors        ClientError and its subclasses; TypeError: a value of another type;
                      ValueError: the request has no such field, or a number out of its range
        """
        found = self._service.methods_by_name[method]
        try:
            request = GetMessageClass(found.input_type)(**fields)
        except (TypeError, ValueError) as error:
            raise type(error)(_misfit(found.input_type, fields) or str(error)) from None
        answer_type = GetMessageClass(found.output_type)
        path = f"/{self._service.full_name}/{method}"
        return await self._channel.ask(
            path, request, answer_type, wait_ms=max(wait_for_ms, 0), is_repeatable=is_repeatable
        )


def _misfit(kind: Descriptor, fields: dict[str, Any]) -> str:
    """Returns what is wrong with a request's fields; "" if none of them is wrong by itself."""
    for name, value in fields.items():
        try:
            GetMessageClass(kind)(**{name: value})
        except (TypeError, ValueError) as error:
            field = kind.fields_by_name.get(name)
            if field is None:
                return ""
            rows = value if isinstance(value, list | tuple) else [value]
            if field.message_type is not None and all(isinstance(row, dict) for row in rows):
                found = (_misfit(field.message_type, row) for row in rows)
                return next(filter(None, found), "")
            if isinstance(error, ValueError):
                return f"{name} is out of range: {value!r}"
            return f"{name} is {_word_of(field)}, not {value!r}"
    return ""


def _word_of(field: FieldDescriptor) -> str:
    """Returns the type of a field's values, as an error names it."""
    types = FieldDescriptor
    words = {types.TYPE_STRING: "a str", types.TYPE_BYTES: "bytes", types.TYPE_BOOL: "a bool"}
    word = words.get(field.type, "an int")
    return f"a list, each {word}" if field.is_repeated else word


def value_of(kind: type[Value], message: Message, **given: Any) -> Value:
    """Returns a named tuple of a message's fields; unset optional fields become None.

    given   values for fields that the message does not have, or has in another form
    """
    fields = message.DESCRIPTOR.fields_by_name
    for name in kind._fields:  # type: ignore[attr-defined]
        if name not in given:
            is_unset = fields[name].has_presence and not message.HasField(name)
            given[name] = None if is_unset else getattr(message, name)
    return kind(**given)


def _details(error: Any) -> bytes:
    """Returns the serialized google.rpc.Status of an error; b"" if there is none."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return value
    return b""


def client_error(status: str, message: str, details: bytes) -> ClientError:
    """Returns the error of a gRPC status.

    status    name of the status
    details   serialized google.rpc.Status; b"" if there is none
    """
    try:
        parts = {
            part.type_url: part.value for part in status_pb2.Status.FromString(details).details
        }
        info = status_pb2.ErrorInfo.FromString(parts.get(ERROR_INFO_URL, b""))
    except DecodeError:
        return ClientError(status, message, status=status)
    if not info.reason:
        return ClientError(status, message, status=status)
    return told_error(
        info.reason,
        message,
        status,
        retryable=RETRY_INFO_URL in parts,
        fields=dict(info.metadata),
    )
