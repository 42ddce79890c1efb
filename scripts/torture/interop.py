"""Foreign gRPC clients on PocketMQ's transport: gRPC's interop cases, and four clients' calls.

gRPC's interop client calls the interop test service (interop_service.py) on this transport.
grpcurl, grpc-python, grpc-go and grpc-js call the daemon, all by the same plan (foreign/calls.py).
For a missing client the battery prints how to install it.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from harness.budget import Budget, NotHere
from harness.figures import table
from harness.process import CACHE, ROOT, Failed, ended, module, need, running, serve
from torture.foreign.calls import TOPIC, plan

PROGRAMS: Final = CACHE / "foreign"
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
    """Runs every client and prints a table; returns the number of correct calls by client.

    Errors   AssertionError: a call had a wrong result; NotHere: no client is installed
    """
    ran: dict[str, Verdicts] = {}
    for transport in ("own", "own, TLS", "grpcio"):
        ran[f"gRPC's interop cases, {transport}"] = verdicts_of(_interop, transport, str(place))
    for transport in ("own", "grpcio"):
        with running(serve(place / transport, f"rpc.transport={transport}")) as broker:
            for name, client in CLIENTS.items():
                target = str(broker.ready["grpc"])
                ran[f"{name}, {transport}"] = verdicts_of(client, target, f"{TOPIC}-{name}")
    print(f"\n{table(('client', 'calls', 'not as it must be'), cells(ran))}\n", flush=True)
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


def cells(ran: dict[str, Verdicts]) -> Iterator[tuple[str, str, str]]:
    """Yields a row for each client, with its failed calls."""
    for name, verdicts in ran.items():
        if "here" in verdicts:
            yield name, "not run", verdicts["here"]
            continue
        wrong = [f"{what}: {verdict}" for what, verdict in verdicts.items() if verdict != OK]
        count = f"{len(verdicts) - len(wrong)} of {len(verdicts)} ok"
        yield name, count, "; ".join(wrong) or "–"


def verdicts_of(run: Callable[..., Verdicts], *arguments: str) -> Verdicts:
    """Runs a client and returns its verdicts; if it cannot run, the reason is under "here"."""
    try:
        return run(*arguments)
    except NotHere as why:
        return {"here": str(why)}
    except (OSError, ValueError, Failed, subprocess.SubprocessError) as error:
        return {"the client": f"{type(error).__name__}: {error}"[:SAID_MAX]}


# --- gRPC's interop client ----------------------------------------------------------------------


def _interop(transport: str, place: str) -> Verdicts:
    client = _go_installed("client", INTEROP)
    name, _, tls = transport.partition(", ")
    cert = _certificate(Path(place)) if tls else []
    options = ["--use_tls", "--use_test_ca", "--ca_file", *cert[:1]] if tls else []
    options += ["--server_host_override", HOST] if tls else []
    with running(module("torture.interop_service", name, *cert)) as server:
        command = [str(client), "--server_host", "127.0.0.1", "--server_port", server.line.strip()]
        return {case: _case([*command, *options, "--test_case", case]) for case in CASES}


def _certificate(place: Path) -> list[str]:
    """Returns the files of a self-signed certificate and its key."""
    need("openssl", "it makes a certificate; install it with your system's packages")
    files = [str(place / "cert.pem"), str(place / "key.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
    made += ["-addext", f"subjectAltName=DNS:{HOST}"]
    _fetched([*made, "-out", files[0], "-keyout", files[1]])
    return files


def _case(command: list[str]) -> str:
    try:
        ended(command, timeout_s=CASE_S)
    except subprocess.TimeoutExpired:
        return f"no end after {CASE_S} s"
    except Failed as why:
        return str(why)[-SAID_MAX:]
    return OK


# --- clients of the daemon ----------------------------------------------------------------------


def _judged(command: list[str], target: str, topic: str, where: Path = ROOT) -> Verdicts:
    """Makes a client run the calls of the plan; returns a verdict for each."""
    calls = plan(topic)
    asked = json.dumps([call.document() for call in calls])
    told = ended([*command, target], timeout_s=CASE_S * 2, cwd=where, given=asked)
    results = {result["name"]: result for result in json.loads(told)}
    return {call.name: call.verdict(results[call.name]) for call in calls}


def _python(target: str, topic: str) -> Verdicts:
    return _judged(module("torture.foreign.client"), target, topic)


def _go(target: str, topic: str) -> Verdicts:
    program = PROGRAMS / "go-client"
    need("go", "install Go 1.26 or newer")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    _fetched(["go", "-C", str(FOREIGN / "go"), "build", "-o", str(program), "."])
    return _judged([str(program)], target, topic)


def _node(target: str, topic: str) -> Verdicts:
    need("npm", "install Node.js 20 or newer, with npm")
    place = PROGRAMS / "node"
    place.mkdir(parents=True, exist_ok=True)
    for source in (FOREIGN / "node").iterdir():
        shutil.copy(source, place)
    if not (place / "node_modules" / "@grpc").exists():
        _fetched(["npm", "install", "--silent", "--no-package-lock", "--prefix", str(place)])
    return _judged(["node", str(place / "client.js")], target, topic, place)


def _grpcurl(target: str, topic: str) -> Verdicts:
    """Runs grpcurl by reflection, without a proto file, as an operator does."""
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
        done = subprocess.run(
            [str(program), "-plaintext", *words], capture_output=True, text=True, check=False,
            timeout=CASE_S,
        )  # fmt: skip
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


def _fetched(command: list[str]) -> None:
    try:
        ended(command, timeout_s=BUILD_S, variables={"GOBIN": str(PROGRAMS / "bin")})
    except Failed as why:
        raise NotHere(str(why)[-SAID_MAX:]) from why


def _go_installed(program: str, package: str) -> Path:
    """Returns a Go program; fetches and builds it the first time."""
    found = PROGRAMS / "bin" / program
    if not found.exists():
        need("go", f"install Go 1.26 or newer; it fetches {package}")
        _fetched(["go", "install", package])
    return found
