"""Runs a broker: builds its objects from settings, serves, and stops in reverse order.

    ports ── HTTP served ── store recovered ── gRPC served ── ready line
    drain: health not serving, sends refused, parked polls answered ── calls end ── store ── HTTP

The first SIGTERM or SIGINT drains and ends with exit code 0. A second one ends the process at once,
like a crash, which the store survives. SIGHUP reloads the settings, or drains if they cannot be
reloaded. During a drain SIGHUP has no effect, as a closing terminal may send several.
Source: BrokerStartup, BrokerController.
"""

import asyncio
import faulthandler
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pocketmq import __version__
from pocketmq.app.access import AccessControl, door_of
from pocketmq.app.certificate import Certificate
from pocketmq.app.console import offer_console
from pocketmq.app.container import container_of
from pocketmq.app.inherited import inherited_socket
from pocketmq.app.long_lived import long_lived_of
from pocketmq.app.parts import SWITCH, Parts, parts_of
from pocketmq.app.ports import Ports, bind
from pocketmq.app.replication import Replication
from pocketmq.app.stage import WORLD, Opened, Stage
from pocketmq.app.supervisor import Supervisor, is_journal, supervisor_of
from pocketmq.app.telemetry import FindFamilies, exports_of
from pocketmq.config.live import LiveConfig
from pocketmq.config.sections import Config
from pocketmq.log.store_directory import FORMAT_VERSION
from pocketmq.metrics.endpoint import ProbeAnswers, site_pages
from pocketmq.metrics.exposition import Exposition, build_info, compiled_modules, proxy_up
from pocketmq.metrics.http_port import HttpPort, connection_to
from pocketmq.metrics.logs import start_logs
from pocketmq.metrics.numbers import LoopLag, Numbers
from pocketmq.metrics.site import Site
from pocketmq.metrics.text_format import Family, Gone
from pocketmq.model.errors import IllegalConfig, Recovering, StoreFailed
from pocketmq.model.stats import Stat
from pocketmq.model.step import Step
from pocketmq.model.topic import PERMISSION_WRITE
from pocketmq.rpc.call import current_request_id
from pocketmq.rpc.classic.service_table import TABLE as CLASSIC
from pocketmq.rpc.own.listener import Transport
from pocketmq.rpc.own.server import OwnServer
from pocketmq.rpc.own.tls import Tls
from pocketmq.rpc.replication.follower_port import FollowerPort
from pocketmq.rpc.service import Service
from pocketmq.rpc.transports import new_server
from pocketmq.rpc.v1.service_table import closed_faces
from pocketmq.rpc.v2.service_table import TABLE as OFFICIAL
from pocketmq.store.message_store import MessageStore, open_store
from pocketmq.store.recovery.progress import Starting
from pocketmq.store.runner import Runner

if TYPE_CHECKING:
    from pocketmq.rpc.grpcio.server import GrpcioServer

EXIT_OK: Final = 0
STDERR: Final = 2
EXIT_STORE_FAILED: Final = 74
"""EX_IOERR: the store failed; a supervisor should not restart without a check."""
SWITCH_INTERVAL_S: Final = 0.001
"""Time for which a thread that reads old messages may hold the GIL. With Python's default of 5 ms,
the p99 of sends would be 5 ms meanwhile."""
CONNECTION_FILES: Final = 3
"""The open-file limit divided by this is the limit of connections; the store uses the rest."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
HOLD_S: Final = 2.0
"""Time for which a call waits for the store to open before it is refused as recovering; official
clients time out after three seconds."""
QUIET_S: Final = 1.0  # upper limit of the time in which clients read the replies of ended calls
FAILED_GRACE_S: Final = 1.0  # after a failure, running calls only get errors

Announce = Callable[[Mapping[str, object]], None]

logger = logging.getLogger(__name__)


def run_broker(
    live: LiveConfig,
    announce: Announce,
    *,
    accept_damage: bool = False,
    stage: Stage | None = None,
) -> int:
    """Runs a broker until it receives a stop signal, and returns the exit code of the process.

    live            settings; SIGHUP reloads them if they are live
    accept_damage   whether to abandon damaged durable records, and to accept messages
    announce        called once with the bound addresses, when clients are served
    stage           environment of the broker; None: the machine
    Errors          StorageError subclasses: the broker did not start
    """
    if sys.flags.optimize:
        raise IllegalConfig(field="python -O", why="the broker needs assertions: run it without -O")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # prints the stack of every thread, without ending
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS reports "unlimited" as maximum, but refuses it
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    config, logs = live.config, live.config.logs
    to_journal = is_journal(os.environ, STDERR)
    start_logs(
        sys.stderr, logs.level, logs.format, request_id=current_request_id, to_journal=to_journal
    )
    for doubt in config.warnings:
        logger.warning("config.suspect", extra={"doubt": doubt})
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            stage = replace(
                stage or Stage(),
                listening=inherited_socket(os.environ),
                container=container_of(os.environ),
                supervisor=supervisor_of(os.environ),
            )
            return runner.run(_serve_until_signalled(live, announce, accept_damage, stage))
    except StoreFailed as error:  # while the store opened or closed
        logger.critical("store.failed", extra={"reason": str(error)})
        return EXIT_STORE_FAILED


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop as loops
    except ImportError:
        return asyncio.new_event_loop()
    return loops.new_event_loop()


async def _serve_until_signalled(
    live: LiveConfig, announce: Announce, accept_damage: bool, stage: Stage
) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, request_stop, stop, number)
    loop.add_signal_handler(signal.SIGHUP, hang_up, live, stop, stage.supervisor)
    live.follow(lambda config: logging.getLogger().setLevel(config.logs.level.upper()))
    try:
        return await serve(live, announce, stop, accept_damage=accept_damage, stage=stage)
    finally:  # Another SIGHUP must not end the rest of the stop.
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def hang_up(live: LiveConfig, stop: asyncio.Future[str], supervisor: Supervisor) -> None:
    """Reloads the settings; stops the broker in order if they are not live."""
    if live.is_live:
        supervisor.reloading()
        live.reload()
        supervisor.ready()
    elif not stop.done():
        stop.set_result(signal.SIGHUP.name)


def request_stop(stop: asyncio.Future[str], number: signal.Signals) -> None:
    """Requests a clean stop; the second request ends the process at once."""
    if stop.done():
        os._exit(128 + number)
    stop.set_result(number.name)


async def serve(
    live: LiveConfig,
    announce: Announce,
    stop: asyncio.Future[str],
    *,
    accept_damage: bool = False,
    stage: Stage | None = None,
) -> int:
    """Runs a broker until `stop` is done (its result is the cause) or its store fails.

    A change of its role in replication restarts everything but the listening socket.

    stage    environment of the broker; None: the machine
    Errors   StorageError subclasses: the broker did not start
    """
    stage = stage or Stage()
    try:
        while True:
            switch: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            stop.add_done_callback(partial(_pass_on, switch))
            code = await _serve_once(live, announce, switch, stage, accept_damage=accept_damage)
            if code != EXIT_OK or stop.done() or switch.result() != SWITCH:
                return code
            announce = _tell_nobody
    finally:
        stage.handover.close()


def _tell_nobody(addresses: Mapping[str, object]) -> None:
    """Announces nothing: after a restart of the services the addresses are the same."""


def _pass_on(switch: asyncio.Future[str], stop: asyncio.Future[str]) -> None:
    if not switch.done():
        switch.set_result(stop.result())


async def _serve_once(
    live: LiveConfig,
    announce: Announce,
    stop: asyncio.Future[str],
    stage: Stage,
    *,
    accept_damage: bool,
) -> int:
    """Runs a broker until `stop` is done (its result is the cause) or its store fails."""
    config, clock, disk = live.config, stage.clock, stage.disk
    site, tls, followers = Site(), Tls(), FollowerPort()
    server = new_server(*_carried(config, site, tls, followers))
    outside = _Outside(Starting(clock), server, config)
    async with AsyncExitStack() as up:
        up.push_async_callback(outside.server.stop, 0)
        up.callback(stage.supervisor.close)
        stage.supervisor.start(lambda: outside.line)
        ports = bind(config, server, stage.listening, site, stage.handover)
        up.push_async_callback(ports.close)
        door = door_of(live, disk, WORLD, ports, stage.container)
        directory = config.store_settings().directory
        certificate = Certificate(tls, directory, disk, WORLD, ports.hosts)
        certificate.show_what_is_there(config)
        url = _open_pages(up, config, ports, site, certificate, door)
        await up.enter_async_context(_http_served(live, outside, site, ports.http))
        await outside.server.start(Recovering(), HOLD_S)
        replication = Replication.read(stage, config, followers)
        settings = await replication.settings(config, accept_damage=accept_damage)
        opening = open_store(settings, clock, disk, outside.starting)
        store = await _open_unless_stopped(opening, stop)
        if store is None:
            return EXIT_OK
        up.push_async_callback(store.close)
        up.callback(door.access.table.close)
        await door.begin()
        await asyncio.to_thread(certificate.make_sure, config)
        live.follow(certificate.read_again)
        ask = partial(_ask_to_stop, stop)
        replicated = await replication.replicated(store, config, ask, door.reload)
        parts = parts_of(store, live, ports, ask, door, replicated)
        runner = Runner(clock)
        up.push_async_callback(parts.close)
        up.callback(runner.close)
        await parts.recover()
        runner.run(*_steps(store, parts, outside))
        await stage.prepare(Opened(store, runner, parts.retention, outside.server))
        await ports.serve_slaves(config, parts.leader)
        up.push_async_callback(followers.close)
        replication.begin(store, parts, config)
        outside.show(store, parts, live, stage.around(parts.services))
        await up.enter_async_context(outside.exports.running(outside.families))
        announce(_addresses(ports, tls, store.settings.directory, url))
        stage.supervisor.ready()
        try:
            await asyncio.wait((stop, store.failure), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stage.supervisor.stopping()
            _end_handover(stage, stop)
            await _drain(live.config, store, parts, outside.server)
    return _exit_code(store, stop)


def _steps(store: MessageStore, parts: Parts, outside: "_Outside") -> list[Step]:
    exports = outside.exports.steps(parts.backing)
    return [*parts.steps, long_lived_of(store).step, *exports]


def _open_pages(
    up: AsyncExitStack, config: Config, ports: Ports, site: Site, certificate: Certificate,
    door: AccessControl,
) -> str | None:  # fmt: skip
    """Lets users read pages; returns the address of the console, None if it is not offered."""
    site.admits = door.admits
    return offer_console(up, config, ports, site, certificate, door)


def _end_handover(stage: Stage, stop: asyncio.Future[str]) -> None:
    """Closes the kept socket unless the services start again: new clients must not wait in it."""
    if not (stop.done() and stop.result() == SWITCH):
        stage.handover.close()


def _exit_code(store: MessageStore, stop: asyncio.Future[str]) -> int:
    if store.failure.done():
        return EXIT_STORE_FAILED
    logger.info("broker.stopped", extra={"signal": stop.result()})
    return EXIT_OK


def _addresses(
    ports: Ports, tls: Tls, directory: Path, console: str | None
) -> Mapping[str, object]:
    secure = ports.grpc if tls.context is not None else None
    return {
        "grpc": ports.grpc, "grpc_tls": secure, "classic_vip": ports.classic_vip,
        "http": ports.pages, "console": console, "store": str(directory.resolve()),
        "pid": os.getpid(), "version": __version__,
    }  # fmt: skip


async def _open_unless_stopped(
    opening: Coroutine[Any, Any, MessageStore], stop: asyncio.Future[str]
) -> MessageStore | None:
    """Opens the store; returns None if a stop is requested meanwhile, as recovery can take minutes.

    Effects  excludes the present objects from garbage collections: they are long-lived, and
             visiting ten thousand queues would block all callers
    """
    gc.disable()
    try:
        task = asyncio.create_task(opening)
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        task.cancel()  # Has no effect on a task that is done.
        await asyncio.wait((task,))
        gc.freeze()
    finally:
        gc.enable()
    return None if task.cancelled() else task.result()


async def _no_families() -> list[Family]:
    return []


class _Outside:
    """Metrics and health of the broker, from before its store opens until after it closes."""

    __slots__ = (
        "_numbers",
        "_store",
        "exports",
        "families",
        "held",
        "loop_lag",
        "server",
        "starting",
    )

    def __init__(
        self, starting: Starting, server: "GrpcioServer | OwnServer", config: Config
    ) -> None:
        self.starting = starting
        self.server = server
        self.exports = exports_of(config)
        self.families: FindFamilies = _no_families
        """Returns the metrics of /metrics."""
        self.loop_lag = LoopLag()
        self._store: MessageStore | None = None
        self._numbers: Numbers | None = None
        self.held: Callable[[], str] = str
        """Returns what delays the deletion of expired files, "" for nothing."""

    def show(
        self, store: MessageStore, parts: Parts, live: LiveConfig, services: Sequence[Service]
    ) -> None:
        assert self.starting.progress == 1.0, "recovery is not complete"
        self._store = store
        self.held = lambda: parts.retention.held
        self._numbers = Numbers(
            store,
            parts.stats,
            read_positions=store.tables.offsets.positions,
            read_leased=parts.backing.consume.leased,
            read_receiving=parts.backing.members.receiving,
            permission=lambda: live.config.broker.permission,
            detail=live.config.metrics.detail,
        )
        self.server.serve(services, store.turns)
        self.server.show_ready(
            writable=lambda: (
                bool(live.config.broker.permission & PERMISSION_WRITE) and store.writing.is_writable
            ),
            replica=parts.roles.is_in_sync,
        )

    @property
    def state(self) -> str:
        return self.starting.state if self._store is None else self._store.state

    @property
    def line(self) -> str:
        percent = int(self.starting.progress * 100)
        return self.state if self._store is not None else f"{self.state}, {percent} %"

    def stats(self) -> list[Stat]:
        found = self.starting.stats if self._numbers is None else self._numbers.stats()
        return [self.loop_lag.seconds, *found, *self.server.stats, *self.exports.stats]

    def gone(self) -> Gone:
        return {} if self._numbers is None else self._numbers.gone()

    async def refresh(self) -> None:
        if self._numbers is not None:
            await self._numbers.refresh()


def _ask_to_stop(stop: asyncio.Future[str], why: str) -> None:
    if not stop.done():
        stop.set_result(why)


def _carried(
    config: Config, site: Site, tls: Tls, followers: FollowerPort
) -> tuple[str, list[Service], Transport]:
    rpc = config.rpc
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    transport = Transport(
        classic=rpc.offers_classic,
        http1=partial(connection_to, site),
        pages=site.answer,
        followers=followers.connection,
        tls=tls,
        tls_only=rpc.tls_only,
        proxy_protocol=rpc.proxy_protocol,
        connections_max=min(rpc.connections_max, files_max // CONNECTION_FILES),
        idle_ms=rpc.connection_idle_ms,
        age_ms=rpc.connection_age_ms,
    )
    services = [*closed_faces(), OFFICIAL.closed_face()]
    if rpc.offers_classic:
        services.append(CLASSIC.closed_face())
    return rpc.transport, services, transport


@asynccontextmanager
async def _http_served(
    live: LiveConfig, outside: _Outside, site: Site, port: HttpPort | None
) -> AsyncIterator[None]:
    config = live.config
    build = build_info(__version__, FORMAT_VERSION)
    exposition = Exposition(
        lambda: [*outside.stats(), *live.stats, build, compiled_modules(), proxy_up()],
        cluster=config.broker.cluster,
        broker=config.broker.name,
        profiles=config.metrics.profile.split(","),
        max_series=config.metrics.max_series,
        find_gone=outside.gone,
    )
    health = ProbeAnswers(
        lambda: outside.state,
        read_progress=lambda: outside.starting.progress,
        read_held=lambda: outside.held(),
    )
    version = {"version": __version__, "store_version": FORMAT_VERSION}
    site.pages.update(site_pages(exposition, health, version, outside.refresh))

    async def families() -> list[Family]:
        await outside.refresh()
        return await exposition.families_in_turns()

    outside.families = families
    outside.loop_lag.start()
    if port is not None:
        await port.start()
    try:
        yield
    finally:
        outside.loop_lag.end()
        site.close()


async def _drain(
    config: Config, store: MessageStore, parts: Parts, server: "GrpcioServer | OwnServer"
) -> None:
    logger.info("broker.stopping")
    server.turn_away()
    parts.drain()
    if not store.failure.done():
        await server.quiet(QUIET_S)
    server.drain()
    store.drain()
    grace_s = FAILED_GRACE_S if store.failure.done() else config.rpc.shutdown_grace_ms / 1000
    await server.stop(grace_s)
