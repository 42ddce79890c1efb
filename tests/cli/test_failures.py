"""The kind of failure decides the exit code, and the output names the next step."""

import errno
import os

import pytest

from pocketmq.cli.failures import failure_of_broker, failure_of_client
from pocketmq.cli.nearness import failure_at
from pocketmq.cli.output import Failure
from pocketmq.client import ClientError, DeadlineExceeded, Unreachable
from pocketmq.client.client_error import CAUSES
from pocketmq.model import errors
from pocketmq.model.errors import BrokerError


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("NOT_FOUND", 3),
        ("INVALID_ARGUMENT", 4),
        ("ALREADY_EXISTS", 4),
        ("FAILED_PRECONDITION", 4),
        ("PERMISSION_DENIED", 4),
        ("OUT_OF_RANGE", 4),
        ("RESOURCE_EXHAUSTED", 4),
        ("UNAVAILABLE", 4),
        ("UNIMPLEMENTED", 4),
        ("INTERNAL", 1),
        ("DATA_LOSS", 1),
    ],
)
def test_the_status_of_an_answer_decides(code: str, exit_code: int) -> None:
    assert failure_of_client(ClientError("Any", "text", status=code)).exit_code == exit_code


def test_silence_is_unreachable_or_a_timeout() -> None:
    assert failure_of_client(Unreachable("Unreachable", "text")).exit_code == 5
    late = failure_of_client(DeadlineExceeded("DeadlineExceeded", "text", retryable=True))
    assert late.exit_code == 6
    assert "unknown" in late.next_step
    told = failure_of_client(ClientError("Late", "text", status="DEADLINE_EXCEEDED"))
    assert told.exit_code == 6


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.IllegalConfig(field="x", why="y"), 2),
        (errors.StoreLocked(path="/s"), 4),
        (errors.NotAStore(path="/s", why="y"), 4),
        (errors.StoreTooNew(path="/s", found=2, known=1), 4),
        (errors.IllegalTopic(topic="a.b", why="y"), 4),
        (errors.StoreGap(path="/s/commitlog/1", expected=0, found=1), 10),
        (errors.Corruption(path="/s", file_position=0, physical_offset=0, why="y"), 10),
        (errors.StoreFailed(why="y"), 1),
    ],
)
def test_an_error_of_this_process_decides(error: BrokerError, exit_code: int) -> None:
    failure = failure_of_broker(error)
    assert failure.exit_code == exit_code
    assert failure.message == str(error)


def test_a_full_disk_stops_a_command_but_no_sends() -> None:
    error = errors.DiskFull(path="/s")
    offline = failure_of_broker(error, "store")
    assert (offline.exit_code, offline.message) == (1, "the disk under /s is full")
    assert offline.next_step == "free space there, then the same command"
    assert failure_of_broker(error, "serve").message == str(error)


@pytest.mark.parametrize(
    "path",
    [
        "commitlog/00000000000000004096",
        "index/20261121004218766",
        "consumequeue/index/3/00000000000000006000",
        "consumequeue_ext/orders/0/00000000000000000000",
    ],
)
def test_the_next_step_of_a_lost_file_names_its_store(path: str) -> None:
    file = f"/data/consumequeue/my store/{path}"
    gap = errors.StoreGap(path=file, expected=0, found=4096)
    size = errors.WrongFileSize(path=file, expected_bytes=2, found_bytes=1, key_names="x")
    for error in (gap, size):
        step = failure_of_broker(error).next_step
        assert step.startswith("pocketmq store verify '/data/consumequeue/my store', ")


def test_what_may_pass_later_is_to_be_tried_again() -> None:
    error = ClientError("StoreBusy", "busy", status="RESOURCE_EXHAUSTED", retryable=True)
    assert failure_of_client(error).next_step == "try again"


def test_a_known_reason_leads_to_a_command() -> None:
    error = ClientError("TopicExists", "text", status="ALREADY_EXISTS", fields={"topic": "orders"})
    step = "pocketmq topic info orders; pocketmq topic edit orders changes it"
    assert failure_of_client(error).next_step == step


def test_a_refused_key_and_a_limit_lead_to_what_helps() -> None:
    unsigned = ClientError("Unauthenticated", errors.NOT_SIGNED, status="UNAUTHENTICATED")
    assert "POCKETMQ_ACCESS_KEY" in failure_of_client(unsigned).next_step
    wrong = ClientError("Unauthenticated", "the key is wrong", status="UNAUTHENTICATED")
    assert "user edit KEY --new-secret" in failure_of_client(wrong).next_step
    fields = {"setting": "limits.topics_max"}
    full = ClientError(
        "LimitReached", "3 of 3", status="RESOURCE_EXHAUSTED", retryable=True, fields=fields
    )
    step = failure_of_client(full).next_step
    assert step.startswith("limits.topics_max is live: change it")
    assert "try again" not in step


@pytest.mark.parametrize(("command", "is_start"), [("serve", True), ("store", False)])
def test_a_second_broker_on_a_store_is_not_told_to_read(command: str, is_start: bool) -> None:
    step = failure_of_broker(errors.StoreLocked(path="/s"), command).next_step
    assert ("its own store" in step) is is_start
    assert ("--read-only" in step) is not is_start


def test_the_next_step_is_shown_below_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    Failure("it broke", 1, "mend it").show()
    Failure("it broke", 1).show()
    assert capsys.readouterr().err == "Error: it broke\nNext:  mend it\nError: it broke\n"


@pytest.mark.parametrize(
    ("field", "is_shown"), [("rpc.listen (--set)", True), ("rpc.listen", False)]
)
def test_all_settings_are_shown_to_who_gave_a_wrong_value_alone(field: str, is_shown: bool) -> None:
    failure = failure_of_broker(errors.IllegalConfig(field=field, why="y"))
    assert ("config init" in failure.next_step) is is_shown


@pytest.mark.parametrize(
    ("detail", "cause", "step"),
    [
        ("Failed parsing HTTP/2", "another protocol than gRPC", 'prints at its start as "grpc"'),
        ("CERTIFICATE_VERIFY_FAILED", "is not trusted", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
        ("Hostname Verification Check", "is for another name", "openssl x509"),
        ("WRONG_VERSION_NUMBER", "no TLS is served", "leave out tls://"),
        ("Socket closed", "listens there and closed", "a broker with rpc.tls_only needs tls://"),
        ("Connection refused", "", "pocketmq serve"),
    ],
)
def test_a_port_that_is_no_broker_is_named_in_plain_words(
    detail: str, cause: str, step: str
) -> None:
    text = next((cause for part, (cause, _) in CAUSES.items() if part == detail), detail)
    assert cause in text
    error = Unreachable("Unreachable", f"no broker answers at x: {text}")
    assert step in failure_of_client(error).next_step
    failure = failure_at(error, "pocketmq topic ls", "prod", lambda kind: [], str)
    assert isinstance(failure, Failure)
    assert (step in failure.next_step) == bool(cause)


@pytest.mark.parametrize(
    ("field", "option"),
    [("rpc.listen", "--listen"), ("http.listen", "--http"), ("rpc.x", "--set rpc.x")],
)
def test_an_address_in_use_names_the_option_for_another(field: str, option: str) -> None:
    why = os.strerror(errno.EADDRINUSE)
    error = errors.AddressUnavailable(field=field, address="127.0.0.1:8081", why=why)
    step = failure_of_broker(error, "serve").next_step
    assert f"another port: {option} HOST:PORT" in step
    assert ("pocketmq status --endpoint 127.0.0.1:8081" in step) is (field == "rpc.listen")
    foreign = errors.AddressUnavailable(field=field, address="10.0.0.9:1", why="Cannot assign")
    step = failure_of_broker(foreign, "serve").next_step
    assert step.startswith(f"name an address of this machine: {option}")


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (errors.IllegalConfig(field="rpc.tls_cert", why="y"), "--tls-cert FILE --tls-key FILE"),
        (errors.IllegalConfig(field="rpc.tls_key", why="y"), "--tls-cert FILE --tls-key FILE"),
        (errors.IllegalConfig(field="rpc.tls_only", why="y"), "leave out one of the two"),
        (
            errors.IllegalConfig(
                field="a.b (A_FILE)", why="/f cannot be read: No such file or directory"
            ),
            "name a file that exists",
        ),
        (
            errors.IllegalConfig(field="a.b (A_FILE)", why="/f cannot be read: Is a directory"),
            "name a file that this user can read",
        ),
    ],
)
def test_an_error_of_a_named_file_has_a_next_step(error: BrokerError, step: str) -> None:
    assert step in failure_of_broker(error).next_step


def test_a_file_of_accounts_is_not_to_be_checked_as_settings() -> None:
    error = errors.SettingsFileUnusable(field="conf/plain_acl.yml", why="y")
    assert failure_of_broker(error).next_step == "correct conf/plain_acl.yml, or name another file"


def test_a_bench_that_sends_too_much_at_once_names_its_option() -> None:
    error = ClientError(
        "Refused", "too many unfinished requests at once", status="RESOURCE_EXHAUSTED"
    )
    assert "--in-flight" in failure_of_client(error, "bench").next_step
    assert failure_of_client(error, "produce").next_step == ""


def test_a_change_that_no_follower_has_leads_to_the_followers() -> None:
    error = ClientError("NotReplicated", "0 of 1", status="UNAVAILABLE", retryable=True)
    assert failure_of_client(error).next_step.startswith("pocketmq replica status shows")


@pytest.mark.parametrize(
    ("roots", "step"),
    [
        ("", "set GRPC_DEFAULT_SSL_ROOTS_FILE_PATH to its certificate (the file of"),
        (
            "/nowhere.pem",
            "PATH to a file that can be read, as /nowhere.pem cannot, or name it without",
        ),
        (
            __file__,
            f"pem without that setting), which {__file__} lacks, or name",
        ),
    ],
    ids=["none", "missing", "another"],
)
def test_a_file_of_certificates_that_is_named_is_not_to_be_set_again(
    monkeypatch: pytest.MonkeyPatch, roots: str, step: str
) -> None:
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", roots)
    error = Unreachable("Unreachable", "its TLS certificate is not trusted")
    assert step in error.next_step
