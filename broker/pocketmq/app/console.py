"""The web console of a serving broker, in a process of its own.

The process starts at the first request for a page of the console, and ends when it is idle. So an
unused console costs neither memory nor time. It calls the broker as any client does. The broker
passes requests on to it over a unix socket (metrics/tunnel.py).
"""

import asyncio
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from secrets import token_urlsafe
from shutil import rmtree
from typing import Final, NamedTuple

from pocketmq.app.access import AccessControl
from pocketmq.app.certificate import Certificate
from pocketmq.app.ports import Ports
from pocketmq.config.addresses import split_address
from pocketmq.config.sections import Config
from pocketmq.metrics.site import Site
from pocketmq.metrics.tunnel import OtherProcess
from pocketmq.model.endpoint import ROOTS, TLS_NAME
from pocketmq.native import PURE_VARIABLE

PACKAGES: Final = ("jinja2", "starlette", "uvicorn")
START_S: Final = 20.0
"""Upper limit of the time to the process's first line."""
STOP_S: Final = 2.0
TOKEN: Final = "POCKETMQ_CONSOLE_TOKEN"
"""Environment variable with the secret of the tunnel."""
ROOTS_FILE: Final = "roots.pem"
ARENAS: Final = "MALLOC_ARENA_MAX"
"""Environment variable that limits the number of malloc's heaps. With a heap for each thread, free
memory of one thread would not serve the others."""
SERVER: Final = Path(__file__).parents[1] / "console" / "server.py"
"""A module that each console imports."""
RETURNED: Final = {
    "MALLOC_MMAP_THRESHOLD_": "32768",
    "MALLOC_TRIM_THRESHOLD_": "32768",
    "MALLOC_TOP_PAD_": "16384",
}
"""Environment variables by which malloc returns the memory of a page to the system once it is sent.
By default it keeps up to 64 MiB for the next large page."""
VARIABLES: Final = {ARENAS: "1", **RETURNED, PURE_VARIABLE: "1"}
"""Variables for less memory: the console does not need the speed of compiled modules."""
BACKLOG: Final = 64
LOCAL: Final = "127.0.0.1"
ANYWHERE: Final = frozenset({"0.0.0.0", "::", ""})

logger = logging.getLogger(__name__)


def start_command(module: Path = SERVER) -> tuple[str, ...]:
    """Returns the command of a Python that has no columns of code, docstrings and asserts.

    That takes 2 MiB less memory. The console is a client: the broker checks what it asks for.
    Without docstrings, Python has byte code of its own. If that can be neither read nor written,
    compiling would take more memory.
    module   source file whose byte code shows that
    """
    cached = Path(cache_from_source(str(module), optimization=2))
    folder = cached.parent if cached.parent.exists() else cached.parent.parent
    can_write = not sys.dont_write_bytecode and os.access(folder, os.W_OK)
    level = ("-OO",) if cached.exists() or can_write else ()
    return sys.executable, *level, "-X", "no_debug_ranges"


def is_offered(config: Config, ports: Ports, *, is_checked: bool) -> bool:
    """Returns whether a broker serves the console.

    A console that other machines reach needs users, unless the operator has turned their check off.
    Behind a balancer with PROXY headers the console could not call its broker.
    """
    if not config.console.enabled or config.rpc.proxy_protocol:
        return False
    is_open = bool(ports.opened(config)) and not is_checked and config.access.check != "off"
    return not is_open and all(find_spec(name) is not None for name in PACKAGES)


class Trusted(NamedTuple):
    """The certificate that the broker shows.

    content   PEM
    name      a name that the certificate is for; "": none is known
    """

    content: bytes
    name: str


class ConsoleProcess:
    """The console's process, which `path` starts if it is not running."""

    __slots__ = (
        "_base", "_endpoint", "_folder", "_options", "_process", "_start", "_told", "_trusted",
        "token",
    )  # fmt: skip

    def __init__(
        self,
        endpoint: str,
        base: str,
        trusted: Callable[[], Trusted] | None,
        *,
        needs_login: bool = False,
        backup_path: str = "",
    ) -> None:
        assert not base.endswith("/"), "the base ends with /"
        self._endpoint = endpoint
        self._base = base
        self._trusted = trusted
        """Returns the certificate of the broker; None: the console calls the broker without TLS."""
        self._told: Trusted | None = None
        """The certificate that the running process trusts."""
        login = ("--changes-need-login",) if needs_login else ()
        self._options = (*login, *((f"--backup={backup_path}",) if backup_path else ()))
        self._folder: Path | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._start = asyncio.Lock()
        self.token = token_urlsafe()

    def owns(self, path: str) -> bool:
        """Returns whether a path is below the console's."""
        return path == self._base or path.startswith(f"{self._base}/")

    async def path(self) -> str:
        """Returns the path of the process's socket; starts the process if necessary.

        Errors   OSError, TimeoutError: the process does not start
        """
        async with self._start:
            trusted = None if self._trusted is None else self._trusted()
            is_over = self._process is None or self._process.returncode is not None
            if is_over or trusted != self._told:
                await self.close()
                self._told = trusted
                await self._begin()
            assert self._folder is not None, "the process has no socket"
            return str(self._folder / "socket")

    async def _begin(self) -> None:
        self._forget()
        self._folder = Path(tempfile.mkdtemp(prefix="pocketmq-console-"))
        if self._told is not None:
            (self._folder / ROOTS_FILE).write_bytes(self._told.content)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(self._folder / "socket"))
            listener.listen(BACKLOG)
            arguments = (self._endpoint, self._base, str(listener.fileno()), *self._options)
            self._process = await asyncio.create_subprocess_exec(
                *start_command(), "-m", "pocketmq.console", *arguments,
                env=self._environment(), pass_fds=(listener.fileno(),),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
        assert self._process.stdout is not None, "the process has no output"
        line = await asyncio.wait_for(self._process.stdout.readline(), START_S)
        if not line:
            raise OSError("the console's process ended at its start")
        logger.info("console.started", extra={"pid": self._process.pid})

    def _environment(self) -> Mapping[str, str]:
        hidden = ("POCKETMQ_ACCESS_KEY", "POCKETMQ_SECRET_KEY", "POCKETMQ_SECRET_KEY_FILE")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        assert self._folder is not None, "the process has no directory"
        told = self._told
        roots = {} if told is None else {ROOTS: str(self._folder / ROOTS_FILE), TLS_NAME: told.name}
        own = {TOKEN: self.token, "PYTHONPATH": os.pathsep.join(sys.path), **VARIABLES}
        return {**kept, **roots, **own}

    def _forget(self) -> None:
        if self._folder is not None:
            rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        self._forget()


def offer_console(
    up: AsyncExitStack,
    config: Config,
    ports: Ports,
    site: Site,
    certificate: Certificate,
    door: AccessControl,
) -> str | None:
    """Offers the console on a site until `up` ends.

    Returns  the address for a browser; None: the console is not offered
    """
    if not is_offered(config, ports, is_checked=door.is_checked):
        return None
    scheme = "tls://" if config.rpc.tls_only else ""
    base = config.console.path.rstrip("/")
    made = ConsoleProcess(
        f"{scheme}{_near(ports.grpc)}",
        base,
        (lambda: Trusted(*certificate.in_use(LOCAL))) if config.rpc.tls_only else None,
        needs_login=config.console.changes_need_login,
        backup_path=config.console.backup_path,
    )
    site.console = OtherProcess(made.token, made.owns, made.path)
    up.push_async_callback(made.close)
    return f"http://{_near(ports.pages)}{base}/"


def _near(address: str) -> str:
    """Returns an address by which this machine reaches a bound one."""
    host, port = split_address(address)
    host = LOCAL if host in ANYWHERE else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
