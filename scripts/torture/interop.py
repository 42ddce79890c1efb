"""Other people's gRPC clients on our transport: gRPC's interop cases, and four languages' calls.

gRPC's own interop client talks to the interop test service (interop_service.py) served by our
transport; grpcurl, grpc-python, grpc-go and grpc-js talk to the real daemon, all by the same plan
(foreign/calls.py). What a machine lacks is told with how to install it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from torture.budget import Budget, NotHere
from torture.foreign.calls import TOPIC, plan

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "foreign"
FOREIGN: Final = Path(__file__).with_name("foreign")
CASES: Final = (
    "empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong",
    "empty_stream", "cancel_after_begin", "cancel_after_first_response",
    "timeout_on_sleeping_server", "status_code_and_message", "special_status_message",
    "custom_metadata", "unimplemented_method", "unimplemented_service",
)  # fmt: skip
INTEROP: Final = "google.golang.org/grpc/interop/client@v1.85.0"
GRPCURL: Final = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
HOST: Final = "interop.test"
CASE_S: Final = 60
BUILD_S: Final = 900
OK: Final = "ok"
SAID_MAX: Final = 600

Verdicts = dict[str, str]


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Runs every client; prints a table, returns how many of its calls went well.

    Errors   AssertionError: a call came to something else; NotHere: no client is here
    """
    ran: dict[str, Verdicts] = {}
    for transport in ("own", "own, TLS", "grpcio"):
        ran[f"gRPC's interop cases, {transport}"] = verdicts_of(_interop, transport, str(place))
    for transport in ("own", "grpcio"):
        with _daemon(place / transport, transport) as target:
            for name, client in CLIENTS.items():
                ran[f"{name}, {transport}"] = verdicts_of(client, target, f"{TOPIC}-{name}")
    print(f"\n{table(ran)}\n", flush=True)
    missing = {name: verdicts["here"] for name, verdicts in ran.items() if "here" in verdicts}
    if len(missing) == len(ran):
        raise NotHere("; ".join(missing.values()))
    wrong = [
        f"{name}: {what}: {verdict}"
        for name, verdicts in ran.items() if name not in missing
        for what, verdict in verdicts.items() if verdict != OK
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)
    return {
        name: missing.get(name, f"{len(verdicts)} of {len(verdicts)} ok")
        for name, verdicts in ran.items()
    }


def table(ran: dict[str, Verdicts]) -> str:
    """Returns a Markdown table: a row for each client, with what did not go well."""
    lines = ["| client | calls | not as it must be |", "|---|---|---|"]
    for name, verdicts in ran.items():
        if "here" in verdicts:
            lines.append(f"| {name} | not run | {verdicts['here']} |")
            continue
        wrong = [f"{what}: {verdict}" for what, verdict in verdicts.items() if verdict != OK]
        count = f"{len(verdicts) - len(wrong)} of {len(verdicts)} ok"
        lines.append(f"| {name} | {count} | {'; '.join(wrong) or '–'} |")
    return "\n".join(lines)


def verdicts_of(run: Callable[..., Verdicts], *arguments: str) -> Verdicts:
    """Returns what a client came to; where it cannot run, why not, under "here"."""
    try:
        return run(*arguments)
    except NotHere as why:
        return {"here": str(why)}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"the client": f"{type(error).__name__}: {error}"[:SAID_MAX]}


# --- gRPC's interop client ----------------------------------------------------------------------


def _interop(transport: str, place: str) -> Verdicts:
    client = _go_installed("client", INTEROP)
    name, _, tls = transport.partition(", ")
    cert = _certificate(Path(place)) if tls else []
    options = ["--use_tls", "--use_test_ca", "--ca_file", *cert[:1]] if tls else []
    options += ["--server_host_override", HOST] if tls else []
    with _served([sys.executable, "-m", "torture.interop_service", name, *cert]) as line:
        command = [str(client), "--server_host", "127.0.0.1", "--server_port", line.strip()]
        return {case: _case([*command, *options, "--test_case", case]) for case in CASES}


def _certificate(place: Path) -> list[str]:
    """Returns the files of a certificate that signs itself, and of its key."""
    _need("openssl", "it makes a certificate; install it with your system's packages")
    files = [str(place / "cert.pem"), str(place / "key.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={HOST}",
        "-addext",
        f"subjectAltName=DNS:{HOST}",
    ]
    _fetched([*made, "-out", files[0], "-keyout", files[1]])
    return files


def _case(command: list[str]) -> str:
    try:
        done = _ended(command, CASE_S)
    except subprocess.TimeoutExpired:
        return f"no end after {CASE_S} s"
    return OK if done.returncode == 0 else done.stderr[-SAID_MAX:]


# --- clients of the daemon ----------------------------------------------------------------------


def _judged(command: list[str], target: str, topic: str, where: Path = ROOT) -> Verdicts:
    """Makes a client run the calls of the plan, and judges the result of each."""
    calls = plan(topic)
    asked = json.dumps([call.document() for call in calls])
    done = subprocess.run(
        [*command, target], input=asked, capture_output=True, text=True, check=False,
        timeout=CASE_S * 2, cwd=where, env=_environment(),
    )  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr[-SAID_MAX:])
    results = {result["name"]: result for result in json.loads(done.stdout)}
    return {call.name: call.verdict(results[call.name]) for call in calls}


def _python(target: str, topic: str) -> Verdicts:
    return _judged([sys.executable, "-m", "torture.foreign.client"], target, topic)


def _go(target: str, topic: str) -> Verdicts:
    program = CACHE / "go-client"
    _need("go", "install Go 1.26 or newer")
    CACHE.mkdir(parents=True, exist_ok=True)
    _fetched(["go", "-C", str(FOREIGN / "go"), "build", "-o", str(program), "."])
    return _judged([str(program)], target, topic)


def _node(target: str, topic: str) -> Verdicts:
    _need("npm", "install Node.js 20 or newer, with npm")
    place = CACHE / "node"
    place.mkdir(parents=True, exist_ok=True)
    for source in (FOREIGN / "node").iterdir():
        shutil.copy(source, place)
    if not (place / "node_modules" / "@grpc").exists():
        _fetched(["npm", "install", "--silent", "--no-package-lock", "--prefix", str(place)])
    return _judged(["node", str(place / "client.js")], target, topic, place)


def _grpcurl(target: str, topic: str) -> Verdicts:
    """Asks by reflection, as an operator does by hand: no proto file is given to it."""
    program = _go_installed("grpcurl", GRPCURL)
    message = {"topic": topic, "queue_id": 0, "body": "aGVsbG8=", "tag": "Ünï", "keys": ["clé"]}
    pull = {"topic": topic, "queue_id": 0, "wait_ms": 2_000}
    asked: dict[str, tuple[list[str], str]] = {
        "list": ([target, "list"], "pocketmq.v1.Broker"),
        "describe": ([target, "describe", "pocketmq.v1.Broker"], "rpc PullMessage"),
        "send": (
            ["-d", json.dumps({"messages": [message]}), target, "pocketmq.v1.Broker/SendMessage"],
            '"status": "SEND_OK"',
        ),
        "pull": (["-d", json.dumps(pull), target, "pocketmq.v1.Broker/PullMessage"], "aGVsbG8="),
        "health": ([target, "grpc.health.v1.Health/Check"], "SERVING"),
        "refused": (["-d", "{}", target, "pocketmq.v1.Broker/SendMessage"], "InvalidArgument"),
    }
    verdicts = {}
    for name, (words, wanted) in asked.items():
        done = _ended([str(program), "-plaintext", *words], CASE_S)
        said = done.stdout + done.stderr
        verdicts[name] = OK if wanted in said else said[-SAID_MAX:]
    return verdicts


CLIENTS: Final[dict[str, Callable[[str, str], Verdicts]]] = {
    "grpcurl": _grpcurl,
    "grpc-python": _python,
    "grpc-go": _go,
    "grpc-js": _node,
}


# --- processes ----------------------------------------------------------------------------------


@contextmanager
def _daemon(store: Path, transport: str) -> Iterator[str]:
    """Runs the daemon on a store and gives where it listens."""
    command = [sys.executable, "-m", "pocketmq", "serve", "--store", str(store)]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with _served([*command, "--set", f"rpc.transport={transport}"]) as line:
        target: str = json.loads(line)["grpc"]
        yield target


@contextmanager
def _served(command: list[str]) -> Iterator[str]:
    """Runs a server and gives the first line it prints."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=_environment()
    )
    try:
        assert process.stdout is not None, "its output is piped"
        line = process.stdout.readline()
        if not line:
            raise ValueError(f"{' '.join(command)} ended at once")
        yield line
    finally:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'broker'}:{ROOT / 'scripts'}"}


def _ended(command: list[str], timeout_s: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)


def _fetched(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=BUILD_S, env=_go_environment()
    )
    if done.returncode:
        raise NotHere(f"{command[0]} failed: {(done.stderr or done.stdout)[-SAID_MAX:]}")


def _go_environment() -> dict[str, str]:
    return {**os.environ, "GOBIN": str(CACHE / "bin")}


def _go_installed(program: str, package: str) -> Path:
    """Returns a Go program, fetched and built where that was not done before."""
    found = CACHE / "bin" / program
    if not found.exists():
        _need("go", f"install Go 1.26 or newer; it fetches {package}")
        _fetched(["go", "install", package])
    return found


def _need(program: str, how: str) -> None:
    if shutil.which(program) is None:
        raise NotHere(f"{program} is not on the PATH; {how}")
