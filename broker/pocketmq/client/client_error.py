"""Errors of a client's calls; ClientError is the base of all.

refused by the broker  also an instance of the class in model/errors that the broker raised, with
                       that class's fields: `except errors.TopicNotFound as error: error.topic`.
                       For a class that this version does not know, the error is a RequestError, an
                       Unavailable, or only a ClientError
Unreachable            no broker accepts connections, or the connection broke
DeadlineExceeded       the reply did not arrive in time
NotOpen                the client has been closed
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from pocketmq.model import errors
from pocketmq.model.decimal import signed_number_of
from pocketmq.model.endpoint import ROOTS
from pocketmq.model.errors import BrokerError

REFUSALS: Final = frozenset(
    {
        "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "OUT_OF_RANGE",
        "UNIMPLEMENTED",
    }
)  # fmt: skip
"""gRPC statuses of requests that cannot succeed unless they are changed."""


class ClientError(Exception):
    """A call that failed.

    reason        stable name, for programs; for an error of the broker, the class name in
                  model/errors
    message       the fault, for people
    status        name of the gRPC status
    retryable     the same call may succeed later
    is_uncertain  the call may have taken effect; the client then does not repeat a send
    fields        the error's fields from the broker, as text
    endpoint      endpoint that was called
    message_ids   ids of the messages of a failed send, for lookups
    """

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        status: str = "",
        retryable: bool = False,
        is_uncertain: bool = False,
        fields: Mapping[str, str] | None = None,
        endpoint: str = "",
    ) -> None:
        assert reason, "empty reason"
        self.args = (message,)  # super().__init__ of a mixed class would require the error's fields
        self._reason = reason
        self.message = message
        self.status = status
        self.retryable = retryable
        self.is_uncertain = is_uncertain
        self.fields = dict(fields or {})
        self.endpoint = endpoint
        self.message_ids: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Stable name that programs may compare."""
        return self._reason

    @property
    def next_step(self) -> str:
        """Advice for the operator; "" if the message already contains it."""
        if self.is_uncertain:
            return _UNCERTAIN_SEND if self.message_ids else _UNCERTAIN
        step = _NEXT_STEPS.get(self.reason)
        return step(self.fields) if step else "try again" if self.retryable else ""

    def __str__(self) -> str:
        text = self.message if self.endpoint in self.message else f"{self.endpoint}: {self.message}"
        return f"{text}; next: {self.next_step}" if self.next_step else text


class Unreachable(ClientError):
    """No broker accepted a connection at the endpoint, or the connection broke.

    start_step   advice to start the broker; "": the usual command
    """

    start_step = ""

    @property
    def next_step(self) -> str:
        """Advice for the operator."""
        if self.is_uncertain:
            return super().next_step
        steps = (step for cause, step in CAUSES.values() if cause in self.message)
        step = next(steps, "")
        if step == _TRUST_OR_PLAIN:
            return _trust_step(os.environ.get(ROOTS, ""))
        if step:
            return step.format(endpoint=self.endpoint)
        return self.start_step or _UNREACHABLE

    @property
    def has_cause(self) -> bool:
        """Whether the endpoint answered, but not as the expected broker."""
        return any(cause in self.message for cause, _ in CAUSES.values())


class DeadlineExceeded(ClientError):
    """The reply did not arrive in time."""

    @property
    def next_step(self) -> str:
        """Advice for the operator."""
        return super().next_step if self.is_uncertain else _LATE


class NotOpen(ClientError):
    """The client has been closed."""


def told_error(
    reason: str, message: str, status: str, *, retryable: bool, fields: Mapping[str, str]
) -> ClientError:
    """Returns the error that a broker reported."""
    kind = _known(reason) or (errors.Unavailable if retryable else None)
    if kind is None and status in REFUSALS:
        kind = errors.RequestError
    if kind is None:
        return ClientError(reason, message, status=status, retryable=retryable, fields=fields)
    error = _class_of(kind)(reason, message, status=status, retryable=retryable, fields=fields)
    vars(error).update(
        {name: _typed(of, fields.get(name, "")) for name, of in kind.field_types.items()}
    )
    return error


def _known(reason: str) -> type[BrokerError] | None:
    kind = getattr(errors, reason, None)
    is_error = isinstance(kind, type) and issubclass(kind, BrokerError)
    return kind if is_error else None


_classes: dict[type[BrokerError], type[ClientError]] = {}


def _class_of(kind: type[BrokerError]) -> type[ClientError]:
    """Returns a cached subclass of both ClientError and a class of model/errors."""
    found = _classes.get(kind)
    if found is None:
        # These methods of `kind` would need the fields of the broker's error.
        own = {"__init__": ClientError.__init__, "__repr__": ClientError.__repr__}
        found = type(kind.__name__, (ClientError, kind), {**own, "__module__": __name__})
        _classes[kind] = found
    return found


def _typed(kind: Any, text: str) -> str | int:
    """Returns a field's value; a missing number becomes 0."""
    if kind is not int:
        return text
    return signed_number_of(text) or 0


_UNCERTAIN_SEND: Final = (
    "whether it was stored is unknown; look up each message by its id (message_ids) before you "
    "send it again"
)
_UNCERTAIN: Final = "whether it took effect is unknown; check the broker before you repeat the call"
_UNREACHABLE: Final = (
    "start it with `pocketmq serve --store ./store`, or name another endpoint, HOST:PORT"
)
_GRPC_ADDRESS: Final = 'name the address of gRPC, which the broker prints at its start as "grpc"'
_ITS_FILE: Final = (
    "(the file of rpc.tls_cert, or STORE/pocketmq/tls/certificate.pem without that setting)"
)
_OR_PLAIN: Final = "or name it without tls://"
_TRUST_OR_PLAIN: Final = f"set {ROOTS} to its certificate {_ITS_FILE}, {_OR_PLAIN}"


def _trust_step(roots: str) -> str:
    """Returns the next step for a certificate that is not trusted.

    roots   the file that the environment names, "" for none
    """
    if not roots:
        return _TRUST_OR_PLAIN
    if not os.access(roots, os.R_OK):
        return f"set {ROOTS} to a file that can be read, as {roots} cannot, {_OR_PLAIN}"
    return f"set {ROOTS} to its certificate {_ITS_FILE}, which {roots} lacks, {_OR_PLAIN}"


_OTHER_NAME: Final = (
    "name the broker as its certificate does: openssl x509 -in FILE -noout -ext subjectAltName"
)
_NO_TLS: Final = "leave out tls:// if the broker serves no TLS, as that of a test"
_NEEDS_TLS: Final = (
    "a broker with rpc.tls_only needs tls://{endpoint}; if a proxy or container listens there, "
    "start the broker behind it"
)
_CLOSED: Final = ("something listens there and closed the connection", _NEEDS_TLS)
_NO_ADDRESS: Final = (
    "the host's name could not be resolved",
    "check how the name is written, and whether this machine resolves it: getent hosts NAME",
)
UNRESOLVED: Final = ("DNS resolution failed", "errors resolving")
"""Prefixes of gRPC's messages for a host name without an address, by version of gRPC."""
CLOSED_EARLY: Final = ("Socket closed", "Connection reset by peer")
"""Parts of gRPC's error texts; a cause only before a call was sent, and without TLS."""
CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "Failed parsing HTTP/2": ("another protocol than gRPC is served there", _GRPC_ADDRESS),
    "CERTIFICATE_VERIFY_FAILED": ("its TLS certificate is not trusted", _TRUST_OR_PLAIN),
    "Hostname Verification Check": ("its TLS certificate is for another name", _OTHER_NAME),
    "Handshake read failed": ("the connection ended in the TLS handshake", _NO_TLS),
    "WRONG_VERSION_NUMBER": ("no TLS is served there", f"{_GRPC_ADDRESS}, or leave out tls://"),
    **dict.fromkeys(CLOSED_EARLY, _CLOSED),
    **dict.fromkeys(UNRESOLVED, _NO_ADDRESS),
}
"""Part of gRPC's error text -> (cause, next step with "{endpoint}")."""
_FREE_ROOM: Final = (
    "free space on that disk, or let messages expire earlier (retention.age_ms, size_bytes), then "
    "send again"
)
_VERIFY: Final = (
    "check the store on the broker's machine: pocketmq store verify DIR --read-only, where "
    "pocketmq status shows DIR"
)
_LATE: Final = "read the broker's log, or raise the client's timeout (timeout_ms)"
_KIND_STEPS: Final[Mapping[str, str]] = {
    "FIFO": "set message_group; it makes a FIFO message",
    "DELAY": "set delay_ms, deliver_at_ms or delay_level; each makes a DELAY message",
    "TRANSACTION": "set transactional, or call send_in_transaction",
    "PRIORITY": "set priority; it makes a PRIORITY message",
}
"""Type of a topic -> advice to send a Message of that type."""
_KIND_FIELDS: Final[Mapping[str, str]] = {
    "FIFO": "message_group",
    "DELAY": "the delay",
    "TRANSACTION": "transactional",
    "PRIORITY": "priority",
}
"""Kind of a Message -> the field that makes it one of this kind."""


def _kind_step(fields: Mapping[str, str]) -> str:
    """Returns how to send the message of a KindConflict to its topic."""
    step = _KIND_STEPS.get(fields.get("type", ""), "")
    field = _KIND_FIELDS.get(fields.get("kind", ""), "")
    if not field:
        return step
    return f"leave out {field}, and {step}" if step else f"leave out {field}"


_NEXT_STEPS: Final[Mapping[str, Callable[[Mapping[str, str]], str]]] = {
    "TopicNotFound": lambda fields: "pocketmq topic ls",
    "GroupNotFound": lambda fields: "pocketmq group ls",
    "TopicExists": lambda fields: (
        "pocketmq topic info {0}; pocketmq topic edit {0} changes it".format(
            fields.get("topic", "NAME")
        )
    ),
    **dict.fromkeys(("DiskFull", "DiskAboveLimit", "DiskNearlyFull"), lambda fields: _FREE_ROOM),
    "Corruption": lambda fields: _VERIFY,
    "GroupDisabled": lambda fields: (
        f"pocketmq group edit {fields.get('group', 'NAME')} --enabled true"
    ),
    "GroupExists": lambda fields: (
        "pocketmq group info {0}; pocketmq group edit {0} changes it".format(
            fields.get("group", "NAME")
        )
    ),
    "NotReplicated": lambda fields: (
        "pocketmq replica status shows the followers; repeat the call once they are connected"
    ),
    "QueueOutOfRange": lambda fields: f"pocketmq topic info {fields.get('topic', 'NAME')}",
    "OffsetOutOfRange": lambda fields: "choose one of this range, earliest or latest",
    "MessageNotFound": lambda fields: "look it up by a key: pocketmq msg by-key TOPIC KEY",
    "OriginUnknown": lambda fields: (
        f"pocketmq dlq redrive {fields.get('group', 'GROUP')} --to-topic TOPIC"
    ),
    "KindConflict": _kind_step,
    "NotOpen": lambda fields: "create a new client",
}
"""Next steps, by the reason and fields of the broker's error."""
