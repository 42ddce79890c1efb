"""The composition root: settings become objects, objects run, and stop in reverse.

    gRPC port ── HTTP served ── store recovered ── gRPC served ── ready line
    drain: health says no, sends refused, parked polls answered ── calls end ── store ── HTTP

Nothing is decided here about messages. The first SIGTERM or SIGINT drains and ends with 0, a second
one ends the process at once, which the store survives as it survives a crash.
Source: BrokerStartup, BrokerController.
"""

import asyncio
import faulthandler
import gc
import logging
import os
import resource
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import Final

from broker import __version__
from broker.config.addresses import advertised_address, held_port
from broker.config.sections import KNOBS, Config
from broker.files.disk import Disk
from broker.format.hosts import pack_host
from broker.format.message_id import UniqueKeyMaker
from broker.format.names import zone_from_name
from broker.log.store_manifest import FORMAT_VERSION
from broker.metrics.exposition import Exposition, build_info
from broker.metrics.health import Health
from broker.metrics.logs import start_logs
from broker.metrics.numbers import Numbers
from broker.model.clock import SystemClock
from broker.model.errors import IllegalConfig, Recovering, StoreFailed
from broker.model.stats import Stat
from broker.model.topic import PERMISSION_WRITE
from broker.rpc.call import current_request_id
from broker.rpc.grpcio.server import GrpcioServer
from broker.rpc.v1.admin import Admin
from broker.rpc.v1.messaging import Messaging
from broker.services.administration.status import Process
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.retention import Retention, is_wanted
from broker.services.send import Send, SendRules
from broker.store.message_store import MessageStore
from broker.store.runner import Runner

EXIT_OK: Final = 0
EXIT_STORE_FAILED: Final = 74
"""EX_IOERR: the disk refused something; a supervisor should not restart blindly."""
SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread that reads old messages may keep the interpreter from the event loop. Python's
5 ms would be the p99 of every send meanwhile."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
FAILED_GRACE_S: Final = 1.0  # a failed store acknowledges nothing; callers only need to hear that

Announce = Callable[[Mapping[str, object]], None]

logger = logging.getLogger(__name__)


def run_broker(config: Config, announce: Announce, *, accept_damage: bool = False) -> int:
    """Run a broker until it is told to stop, and return the exit code of the process.

    accept_damage   give up what is damaged below what was durable, and take messages
    announce   is called once with the addresses bound, when clients may come
    Errors     StorageError kinds: the broker did not start
    """
    if sys.flags.optimize:
        raise IllegalConfig(field="python -O", why="the broker needs its assertions; leave it out")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # shows where every thread stands, without ending
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS calls "unlimited" a maximum and refuses it
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    logs = config.logs
    start_logs(sys.stderr, logs.level, logs.format, request_id=current_request_id)
    for doubt in config.warnings:
        logger.warning("config.doubted", extra={"doubt": doubt})
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            return runner.run(_serve_until_signalled(config, announce, accept_damage))
    except StoreFailed as error:  # while it opened or closed
        logger.critical("store.failed", extra={"reason": str(error)})
        return EXIT_STORE_FAILED


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop as loops
    except ImportError:
        return asyncio.new_event_loop()
    return loops.new_event_loop()


async def _serve_until_signalled(config: Config, announce: Announce, accept_damage: bool) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, request_stop, stop, number)
    return await serve(config, announce, stop, accept_damage=accept_damage)


def request_stop(stop: asyncio.Future[str], number: signal.Signals) -> None:
    """Ask for an end in order; asked again, end the process at once."""
    if stop.done():
        os._exit(128 + number)
    stop.set_result(number.name)


async def serve(
    config: Config,
    announce: Announce,
    stop: asyncio.Future[str],
    *,
    accept_damage: bool = False,
) -> int:
    """Run a broker until `stop` is done (its result is the cause) or its store fails.

    Errors   StorageError kinds: the broker did not start
    """
    settings = replace(config.store_settings(), accept_damage=accept_damage)
    store = MessageStore(settings, SystemClock(), Disk())
    with held_port(config.rpc.listen) as grpc:
        parts = _parts(store, config, grpc, lambda: _ask_to_stop(stop))
        parts.server.add_port(grpc)
    async with AsyncExitStack() as up:
        http = await up.enter_async_context(_http_served(config, store, parts))
        await parts.server.start(Recovering())
        up.push_async_callback(parts.server.stop, 0)
        if not await _open_unless_stopped(store, stop):
            return EXIT_OK
        up.push_async_callback(store.close)
        parts.retention = retention = retention_of(store, config)
        store.tell_retention = lambda: retention.status
        runner = Runner(store.clock)
        up.push_async_callback(runner.close)
        runner.run(retention.step)
        may_write = bool(config.broker.permission & PERMISSION_WRITE)
        parts.server.show_ready(writable=lambda: may_write and store.is_writable)
        where = str(store.settings.directory.resolve())
        ready = {"grpc": grpc, "grpc_tls": None, "http": http, "store": where}
        announce({**ready, "pid": os.getpid(), "version": __version__})
        try:
            await asyncio.wait((stop, store.failure), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _drain(config, store, parts)
    if not store.failure.done():
        logger.info("broker.stopped", extra={"signal": stop.result()})
    return EXIT_STORE_FAILED if store.failure.done() else EXIT_OK


async def _open_unless_stopped(store: MessageStore, stop: asyncio.Future[str]) -> bool:
    """Open the store; False when told to stop before it is open, for recovery can take minutes.

    Effects  what is there by then is left out of all garbage collections: it is nearly all there
             will be, and walking over ten thousand queues stops everybody for a while
    """
    gc.disable()
    try:
        opening = asyncio.create_task(store.open())
        await asyncio.wait((opening, stop), return_when=asyncio.FIRST_COMPLETED)
        with suppress(asyncio.CancelledError):
            opening.cancel()  # Does nothing to one that is done.
            await opening
        gc.freeze()
    finally:
        gc.enable()
    return not opening.cancelled()


@dataclass
class _Parts:
    """What runs on a store; retention from when it is open."""

    send: Send
    pull: Pull
    server: GrpcioServer
    retention: Retention | None = None

    @property
    def stats(self) -> list[Stat]:
        """What metrics show of them."""
        retention = self.retention.stats if self.retention is not None else []
        return [*self.send.stats, *self.pull.stats, *self.server.stats, *retention]


def retention_of(store: MessageStore, config: Config) -> Retention:
    """Return what lets an open store's old messages go."""
    settings, zone = config.retention_settings(), zone_from_name(store.settings.time_zone)
    return Retention(
        store.expiry,
        settings,
        is_on=store.damage is None
        and is_wanted(
            settings,
            made_here=store.structures.made_here,
            is_configured=config.retention_is_set,
        ),
        disk_space=store.disk_space,
        refuse=store.refuse,
        hour_of=lambda now_ms: datetime.fromtimestamp(now_ms / 1000, zone).hour,
    )


def _ask_to_stop(stop: asyncio.Future[str]) -> None:
    if not stop.done():
        stop.set_result("drain")


def _parts(store: MessageStore, config: Config, bound: str, drain: Callable[[], None]) -> _Parts:
    address, port = advertised_address(config.broker, bound)
    rules = SendRules(
        store_host=pack_host(address, port),
        cluster=config.broker.cluster,
        permission=config.broker.permission,
        accept_from_ms=config.broker.accept_from_ms,
        auto_create_topics=config.broker.auto_create_topics,
        default_queue_count=config.broker.default_queue_count,
        max_message_size_bytes=config.limits.max_message_size_bytes,
    )
    keys = UniqueKeyMaker(
        address=address.packed, process_id=os.getpid(), random_bytes=secrets.token_bytes(4)
    )
    send = Send(store, rules, store.clock, key_maker=keys, random=Random(secrets.randbits(64)))
    pull, query = Pull(store), Query(store)
    messaging = Messaging(store, send, pull, query)
    process = Process(
        lambda: [
            (key, knob.text_of(config.value(key)), config.origin(key))
            for key, knob in KNOBS.items()
        ],
        drain,
    )
    admin = Admin(store, pull, query, process)
    return _Parts(send, pull, GrpcioServer([messaging.service(), admin.service()]))


@asynccontextmanager
async def _http_served(config: Config, store: MessageStore, parts: _Parts) -> AsyncIterator[str]:
    """Serve metrics and health, from before recovery until the store is closed."""
    # Here, because loading it would keep gRPC clients waiting for the port.
    from broker.metrics.endpoint import HttpServer, application

    build = build_info(__version__, FORMAT_VERSION)
    numbers = Numbers(
        store,
        lambda: parts.stats,
        read_positions=store.offsets.positions,
        permission=config.broker.permission,
        detail=config.metrics.detail,
    )
    exposition = Exposition(
        lambda: [*numbers.stats(), build],
        cluster=config.broker.cluster,
        broker=config.broker.name,
        profiles=config.metrics.profile.split(","),
        max_series=config.metrics.max_series,
        find_names=numbers.names,
    )
    health = Health(lambda: store.state, read_progress=lambda: store.recovered_share)
    version = {"version": __version__, "store_version": FORMAT_VERSION}
    http = HttpServer(application(exposition, health, version, numbers.refresh), config.http.listen)
    numbers.loop_lag.start()
    running = asyncio.create_task(http.run())
    try:
        yield http.address
    finally:
        numbers.loop_lag.end()
        http.end()
        await running


async def _drain(config: Config, store: MessageStore, parts: _Parts) -> None:
    """Take nothing new, send home who waits, and let calls under way end."""
    logger.info("broker.stopping")
    parts.server.drain()
    store.drain()
    parts.pull.drain()
    grace_s = FAILED_GRACE_S if store.failure.done() else config.rpc.shutdown_grace_ms / 1000
    await parts.server.stop(grace_s)
