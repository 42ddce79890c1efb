"""RocketMQ's own clients: a program for each language, which do the same for a test.

A program is told commands, and tells what happened, as a JSON document a line; all commands go on
at once, each with clients of its own:

    send          topic, messages            {message_id, recall_handle} each
    recall        topic, recall_handle       {message_id}
    transact      topic, bodies              {sent, message_id} each; a body "commit" or "roll back"
                                             is decided at once, others when the broker asks:
                                             {checked}
    receive       topic, group, count, then  what it gets; then "ack", "back" in 1 s, or "nothing"
    push          topic, group, consumers,   {started}, what they get; they fail the first `fails`
                  fails                      times that a message comes
    keep_sending  topic, begin, pause_s      {sent} or {failed, why} each; bodies are numbers
    stop          which                      ends transact, push, keep_sending

Consumers take `kind` ("tag", "sql") and `expression`, receive also `at_once` and `invisible_s`; a
message has body, times (it is repeated), tag, keys, group, priority, deliver_at_ms, properties.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Self

OWN: Final = Path(__file__).parent
ROOT: Final = OWN.parents[2]
CACHE: Final = ROOT / ".cache" / "official"
INSTALL_S: Final = 420
BUILD_S: Final = 1_800
ANSWER_S: Final = 60
SAID_MAX: Final = 2_000

Row = dict[str, Any]


class Missing(Exception):
    """A program cannot be run on this machine; the text begins with what it has not."""


class Failed(Exception):
    """A command ended with an error, which is the text, of the client."""


class Program(NamedTuple):
    """How a client is run, and what it needs besides."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


# -- what is run -----------------------------------------------------------------------------------


def python() -> Program:
    """Returns the client for Python, which is among what the tests are installed with."""
    return Program((sys.executable, str(OWN / "client.py")), {})


def node() -> Program:
    """Returns the client for Node.js, installed by its lock file.

    Errors   Missing
    """
    need("node", "npm")
    sources = [OWN / "node" / name for name in ("package.json", "package-lock.json")]
    modules = built("node", sources, _install_node)
    return Program(("node", str(OWN / "node" / "client.mjs")), {"OFFICIAL_MODULES": str(modules)})


def java() -> Program:
    """Returns the client for Java, fetched by Maven and compiled.

    Errors   Missing
    """
    need("java", "javac", "mvn")
    made = built("java", [OWN / "java" / name for name in ("pom.xml", "Client.java")], _build_java)
    classes = f"{made}{os.pathsep}{(made / 'classpath').read_text('utf-8').strip()}"
    quiet = f"-Drocketmq.log.root={made / 'logs'}"
    options = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", quiet)
    return Program(("java", *options, "-cp", classes, "Client"), {})


def go() -> Program:
    """Returns the client for Go, fetched and built.

    Errors   Missing
    """
    need("go")
    names = ("go.mod", "go.sum", "main.go")
    made = built("go", [OWN / "go" / name for name in names], _build_go)
    return Program((str(made / "client"),), {"rocketmq.client.logRoot": str(made / "logs")})


def rust() -> Program:
    """Returns the client for Rust, fetched and built, which takes minutes.

    Errors   Missing
    """
    need("cargo", "cc")
    sources = [OWN / "rust" / name for name in ("Cargo.toml", "src/main.rs")]
    return Program((str(built("rust", sources, _build_rust) / "client"),), {})


PROGRAMS: Final[Mapping[str, Callable[[], Program]]] = {
    one.__name__: one for one in (python, node, java, go, rust)
}


def need(*tools: str) -> None:
    """Raises Missing if a tool is not on the PATH."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not on the PATH, which the official client needs")


def built(language: str, sources: list[Path], make: Callable[[Path], None]) -> Path:
    """Returns a folder with what is made of sources, made now where it was not before.

    Errors   Missing
    """
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    made = CACHE / f"{language}-{digest}"
    if not made.exists():
        scratch = CACHE / f"{language}-{digest}.{os.getpid()}"
        scratch.mkdir(parents=True)
        try:
            make(scratch)
            scratch.rename(made)
        except OSError:
            assert made.exists(), "another process was quicker"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return made


def _install_node(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(OWN / "node" / name, folder)
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--omit-lockfile-registry-resolved")
    run("npm", "ci", *options, where=folder)


def _build_java(folder: Path) -> None:
    classpath = folder / "classpath"
    project = ("-f", str(OWN / "java" / "pom.xml"))
    run("mvn", "-q", "-B", *project, "dependency:build-classpath", f"-Dmdep.outputFile={classpath}")
    needed = classpath.read_text("utf-8").strip()
    run("javac", "-d", str(folder), "-cp", needed, str(OWN / "java" / "Client.java"))


def _build_go(folder: Path) -> None:
    run("go", "build", "-o", str(folder / "client"), ".", where=OWN / "go")


def _build_rust(folder: Path) -> None:
    """Builds where Cargo may write its lock; what it made of others' crates is used again."""
    shutil.copytree(OWN / "rust", folder, dirs_exist_ok=True)
    made = CACHE / "rust-crates"
    run("cargo", "build", "--target-dir", str(made), where=folder, wait_s=BUILD_S)
    shutil.copy(made / "debug" / "official", folder / "client")


def run(*command: str, where: Path = OWN, wait_s: float = INSTALL_S) -> None:
    """Runs a command that installs or builds.

    Errors   Missing
    """
    done = subprocess.run(
        command, cwd=where, capture_output=True, text=True, check=False, timeout=wait_s
    )
    if done.returncode:
        said = (done.stderr or done.stdout)[-SAID_MAX:]
        raise Missing(f"the official client, by {' '.join(command[:2])}: {said}")


# -- talking to it ---------------------------------------------------------------------------------


class Talk:
    """A command under way, and what it told so far."""

    def __init__(self, number: int, name: str, stop: Callable[[], None]) -> None:
        self.rows: list[Row] = []
        self.number = number
        self._name = name
        self._stop = stop
        self._lines: SimpleQueue[Row] = SimpleQueue()
        self._is_done = False

    def hear(self, line: Row) -> None:
        """Takes a line about it, from whatever thread."""
        self._lines.put(line)

    def look(self) -> list[Row]:
        """Returns what was told by now."""
        while not self._lines.empty():
            self._take(self._lines.get())
        return self.rows

    def until(self, is_enough: Callable[[list[Row]], object], wait_s: float = ANSWER_S) -> Self:
        """Waits until enough was told.

        Errors   Failed; AssertionError when it takes too long
        """
        end = time.monotonic() + wait_s
        while not is_enough(self.rows):
            assert not self._is_done, f"{self._name} has ended: {self.rows[-20:]}"
            self._wait(end)
        return self

    def until_count(self, count: int) -> list[Row]:
        """Returns so many rows, the first ones."""
        return self.until(lambda rows: len(rows) >= count).rows[:count]

    def stop(self) -> None:
        """Signals the program to end and returns at once."""
        self._stop()

    def ended(self, wait_s: float = ANSWER_S) -> list[Row]:
        """Returns all that was told when it has ended.

        Errors   Failed; AssertionError when it takes too long
        """
        end = time.monotonic() + wait_s
        while not self._is_done:
            self._wait(end)
        return self.rows

    def _wait(self, end: float) -> None:
        try:
            self._take(self._lines.get(timeout=max(end - time.monotonic(), 0.0)))
        except Empty:
            raise AssertionError(f"{self._name} takes too long: {self.rows[-20:]}") from None

    def _take(self, line: Row) -> None:
        if "told" in line:
            self.rows.append(line["told"])
        else:
            self._is_done = True
            if "failed" in line:
                raise Failed(line["failed"])


class Official:
    """A client's program, running inside a `with`.

    endpoint      the broker of all commands that name no other
    environment   what the program needs to know besides
    """

    def __init__(self, program: Program, endpoint: str, log: Path, **environment: str) -> None:
        self.endpoint = endpoint
        self._program = program
        self._log = log
        self._environment = {**os.environ, **program.environment, **environment}
        self._environment.pop("PYTHONPATH", None)  # The client shall find itself, not the broker.
        self._talks: dict[int, Talk] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._program.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=self._environment,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def begin(self, do: str, **given: Any) -> Talk:
        """Begins a command."""
        with self._lock:
            number = len(self._talks) + 1
            talk = Talk(number, do, lambda: self._write({"do": "stop", "which": number}))
            self._talks[number] = talk
            self._write({"endpoint": self.endpoint, **given, "do": do, "id": number})
        return talk

    def ask(self, do: str, **given: Any) -> list[Row]:
        """Returns what a command told, when it has ended.

        Errors   Failed
        """
        return self.begin(do, **given).ended()

    def _write(self, line: Row) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            if text.startswith(b"{"):
                line = json.loads(text)
                self._talks[line["id"]].hear(line)
        for talk in self._talks.values():
            talk.hear({"failed": f"the program has ended; {self._log} may say why"})
