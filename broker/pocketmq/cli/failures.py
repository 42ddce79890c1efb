"""Maps errors to a command's exit code and next step."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pocketmq.cli.output import Exit, Failure, typed
from pocketmq.client import ClientError, DeadlineExceeded, Unreachable
from pocketmq.format.names import CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY
from pocketmq.model.endpoint import DEFAULT_HOST, DEFAULT_PORT
from pocketmq.model.errors import (
    NOT_SIGNED,
    AddressUnavailable,
    BrokerError,
    ClientSilent,
    Corruption,
    DiskFull,
    GrantNotFound,
    IllegalConfig,
    LimitReached,
    LogMissing,
    NotAStore,
    RequestError,
    SettingsFileUnusable,
    StorageError,
    StoreFailed,
    StoreGap,
    StoreLocked,
    TableUnreadable,
    Unauthenticated,
    UserNotFound,
    ViewFailed,
    WrongFileSize,
)

STARTS: Final = ("serve", "mqbroker")
"""Commands that run a broker on a named store."""
ROSTERS: Final = ("user", "acl")
"""Commands on users and grants of a broker, or of a store by --store."""
QUEUE_DEPTH: Final = 3
"""Directories between a store and the files of a queue: consumequeue/TOPIC/QUEUE/."""
QUEUE_DIRECTORIES: Final = (CONSUME_QUEUE_DIRECTORY, CONSUME_QUEUE_EXTENSION_DIRECTORY)
FAILED_CODES: Final = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS", "CANCELLED"})
"""gRPC statuses of errors that neither the request nor a temporary state causes."""


def failure_of_file(error: PermissionError) -> Failure:
    """Returns the failure for a file or directory that the command's user may not use."""
    step = "check its owner and mode; a store's files belong to the broker's user"
    return Failure(f"{error.filename}: {error.strerror}", Exit.REFUSED, step)


def failure_of_client(error: ClientError, command: str = "") -> Failure:
    """Returns the command's failure for a broker's error or missing answer.

    command   first word of the command, such as "topic"
    """
    if isinstance(error, Unreachable):
        next_step = "pocketmq serve --store ./store, or name the broker: --endpoint HOST:PORT"
        if error.endpoint not in ("", f"{DEFAULT_HOST}:{DEFAULT_PORT}"):
            # A broker that was named has its store elsewhere: an empty one would only confuse.
            next_step = "start that broker, or name another one: --endpoint HOST:PORT"
        is_told = error.is_uncertain or error.has_cause
        return Failure(error.message, Exit.UNREACHABLE, error.next_step if is_told else next_step)
    if error.reason == ClientSilent.__name__:
        next_step = "clients for Python and Rust never answer; for others add --wait 30s"
        return Failure(error.message, Exit.TIMEOUT, next_step)
    if isinstance(error, DeadlineExceeded) or error.status == "DEADLINE_EXCEEDED":
        next_step = "read the broker's log; whether the request took effect is unknown"
        return Failure(error.message, Exit.TIMEOUT, next_step)
    if error.status == "NOT_FOUND":
        if error.reason == "TransactionUnknown":
            text = error.message.replace(" is not one of producer group ''", " does not exist")
            return Failure(text, Exit.NOT_FOUND, "pocketmq txn ls")
        text, _, advice = error.message.partition(CREATE_IT)
        # Creating the missing topic or group helps only a command that sends or receives.
        creates = command == "produce" or (command, error.reason) == ("consume", "GroupNotFound")
        next_step = advice if advice and creates else error.next_step
        return Failure(text, Exit.NOT_FOUND, next_step)
    if error.reason == Unauthenticated.__name__:
        step = _GIVE_KEY if NOT_SIGNED in error.message else _CHECK_KEY
        return Failure(error.message, Exit.REFUSED, step)
    if error.reason == LimitReached.__name__:
        setting = error.fields.get("setting", "the limit")
        return Failure(error.message, Exit.REFUSED, _RAISE.format(setting=setting))
    if command == "bench" and error.status == "RESOURCE_EXHAUSTED" and not error.next_step:
        return Failure(error.message, Exit.REFUSED, _FEWER_AT_ONCE)
    if command == "produce" and error.reason == "KindConflict":
        next_step = _KIND_STEPS.get(error.fields.get("type", ""), error.next_step)
        return Failure(error.message, Exit.REFUSED, next_step)
    code = Exit.FAILED if error.status in FAILED_CODES else Exit.REFUSED
    return Failure(error.message, code, error.next_step)


def failure_of_broker(
    error: BrokerError, command: str = "", settings: Path | None = None
) -> Failure:
    """Returns the command's failure for an error in this process.

    command    first word of the command, such as "serve"
    settings   the settings file that the command was given
    """
    step = _LOCAL_STEPS.get(type(error), "")
    if isinstance(error, DiskFull) and command not in STARTS:  # No send waits in this process.
        text = f"the disk under {error.path} is full"
        return Failure(text, Exit.FAILED, "free space there, then the same command")
    if isinstance(error, StoreLocked) and command in STARTS:
        step = "a broker runs on it already: pocketmq status; a second one needs its own store"
    if isinstance(error, StoreLocked) and command in ROSTERS:
        step = "if its broker runs, leave out --store: then the broker makes the change"
    if isinstance(error, StoreGap | WrongFileSize):
        step = step.format(store=typed(_store_of(Path(error.path))))
    if isinstance(error, TableUnreadable):
        store = Path(error.path).parent.parent
        step = f"pocketmq store repair {typed(store)}, which shows what it would do"
    if isinstance(error, AddressUnavailable):
        step = _step_of_address(error)
    if isinstance(error, SettingsFileUnusable):
        is_missing = os.strerror(errno.ENOENT) in error.why
        step = f"correct {error.field}, or name another file"
        if Path(error.field).suffix not in ACCOUNT_SUFFIXES:  # `config check` reads no users
            step += f"; {_check(error.field, settings)}"
        step = "name a file that exists" if is_missing else step
    elif type(error) is IllegalConfig:
        step = _step_of_setting(error, settings)
    return Failure(str(error), _exit_code(error), step)


def _step_of_address(error: AddressUnavailable) -> str:
    option = ADDRESS_OPTIONS.get(error.field, f"--set {error.field}")
    if error.why != os.strerror(errno.EADDRINUSE):
        return f"name an address of this machine: {option} HOST:PORT, such as 127.0.0.1 or 0.0.0.0"
    port = error.address.rpartition(":")[2]
    status = f"pocketmq status --endpoint {error.address}, or " if option == "--listen" else ""
    return (
        f"see what uses it: {status}ss -ltnp 'sport = :{port}'; or another port: {option} HOST:PORT"
    )


def _step_of_setting(error: IllegalConfig, settings: Path | None) -> str:
    """Returns the next step for a setting; its field is "KEY (ORIGIN)", or a key alone."""
    field = error.field
    if not field.endswith(")"):
        return _STEPS_OF_KEYS.get(field, "")  # Other texts have the next step themselves.
    file, _, line = field.removesuffix(")").rpartition(" (")[2].rpartition(":")
    if line.isdecimal():
        return f"correct {file}; all errors: {_check(file, settings)}"
    if UNREADABLE in error.why:
        is_missing = os.strerror(errno.ENOENT) in error.why
        return "name a file that exists" if is_missing else "name a file that this user can read"
    return str(_LOCAL_STEPS[IllegalConfig])


def _check(file: str, settings: Path | None) -> str:
    """Returns the command that checks a file; for a file in conf.d it names the file beside it."""
    from pocketmq.config.load import PARTS_DIRECTORY

    is_part = settings is not None and Path(file).parent == settings.parent / PARTS_DIRECTORY
    return f"pocketmq config check {typed(settings if is_part else file)}"


def _store_of(path: Path) -> Path:
    """Returns the store directory of a file of its log, a queue, the index or the timer log."""
    up = path.parents
    is_of_queue = up[0].name.isdecimal() and up[QUEUE_DEPTH - 1].name in QUEUE_DIRECTORIES
    return up[QUEUE_DEPTH if is_of_queue else 1]


def _exit_code(error: BrokerError) -> int:
    if isinstance(error, IllegalConfig):
        return Exit.USAGE
    if isinstance(error, Corruption | StoreGap | LogMissing):
        return Exit.DAMAGED
    if isinstance(error, StoreFailed | ViewFailed):
        return Exit.FAILED
    if isinstance(error, UserNotFound | GrantNotFound):
        return Exit.NOT_FOUND
    return Exit.REFUSED if isinstance(error, StorageError | RequestError) else Exit.FAILED


_GIVE_KEY: Final = (
    "set POCKETMQ_ACCESS_KEY and POCKETMQ_SECRET_KEY, or keep both: pocketmq context add NAME "
    "--endpoint HOST:PORT --access-key KEY"
)
_CHECK_KEY: Final = (
    "check both, and this machine's clock; for a lost secret an admin makes a new one: "
    "pocketmq user edit KEY --new-secret; for that of the only admin stop the broker and add "
    "--store DIR, as the broker's user"
)
_RAISE: Final = "{setting} is live: change it in the broker's settings, then kill -HUP its process"
CREATE_IT: Final = "; create it: "
UNREADABLE: Final = " cannot be read: "
"""Part of the error of a setting whose file cannot be read."""
ACCOUNT_SUFFIXES: Final = frozenset({".yml", ".yaml"})
"""Suffixes of a plain_acl.yml."""
_GIVE_BOTH: Final = "name both files, each in PEM: --tls-cert FILE --tls-key FILE"
_STEPS_OF_KEYS: Final[Mapping[str, str]] = {
    "rpc.tls_cert": _GIVE_BOTH,
    "rpc.tls_key": _GIVE_BOTH,
    "rpc.tls_only": "leave out one of the two",
}
"""Setting whose error names no origin -> next step."""

_FEWER_AT_ONCE: Final = (
    "keep fewer bytes in flight at once: add --in-flight N with a smaller N, or lower --size"
)
_KIND_STEPS: Final[Mapping[str, str]] = {
    "FIFO": "add --message-group NAME",
    "DELAY": "add --delay 30s, or --at TIME",
    "TRANSACTION": "add --transactional",
    "PRIORITY": "add --priority N",
    "NORMAL": "leave out --message-group, --delay, --at, --priority, --transactional",
}
"""Type of a topic -> options of `pocketmq produce` that make a message of that type."""
ADDRESS_OPTIONS: Final[Mapping[str, str]] = {"rpc.listen": "--listen", "http.listen": "--http"}
"""Setting -> option of `serve` and `dev` that sets it."""
_VERIFY: Final = "pocketmq store verify {store}, which lists lost messages and the next step"
_LOCAL_STEPS: Final[Mapping[type[BrokerError], Any]] = {
    StoreLocked: "stop the other process; most offline commands can read with --read-only",
    IllegalConfig: "pocketmq config init prints all settings with their defaults",
    NotAStore: "name the directory that holds commitlog/",
    StoreGap: _VERIFY,
    WrongFileSize: _VERIFY,
}
