"""The composition root: settings become objects, objects run, and stop in reverse.

    gRPC port ── HTTP served ── store recovered ── gRPC served ── ready line
    drain: health says no, sends refused, parked polls answered ── calls end ── store ── HTTP

Nothing is decided here about messages. The first SIGTERM or SIGINT drains and ends with 0, a second
one ends the process at once, which the store survives as it survives a crash.
Source: BrokerStartup, BrokerController.
"""

import asyncio
import faulthandler
import logging
import os
import resource
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Final, NamedTuple

from broker import __version__
from broker.config.addresses import advertised_address, held_port
from broker.config.sections import Config
from broker.files.disk import Disk
from broker.format.hosts import pack_host
from broker.format.message_id import UniqueKeyMaker
from broker.log.store_manifest import FORMAT_VERSION
from broker.metrics.exposition import Exposition, build_info
from broker.metrics.health import Health
from broker.metrics.logs import start_logs
from broker.model.clock import SystemClock
from broker.model.errors import IllegalConfig, StoreFailed
from broker.rpc.admin import Admin
from broker.rpc.grpcio_server import GrpcioServer
from broker.rpc.messaging import Messaging
from broker.services.pull import Pull
from broker.services.query import Query
from broker.services.send import Send, SendRules
from broker.store.message_store import MessageStore
from broker.store.metadata import PERMISSION_WRITE

EXIT_OK: Final = 0
EXIT_STORE_FAILED: Final = 74
"""EX_IOERR: the disk refused something; a supervisor should not restart blindly."""
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
FAILED_GRACE_S: Final = 1.0  # a failed store acknowledges nothing; callers only need to hear that

Announce = Callable[[Mapping[str, object]], None]

logger = logging.getLogger(__name__)


def run_broker(config: Config, announce: Announce) -> int:
    """Run a broker until it is told to stop, and return the exit code of the process.

    announce   is called once with the addresses bound, when clients may come
    Errors     StorageError kinds: the broker did not start
    """
    if sys.flags.optimize:
        raise IllegalConfig(field="python -O", why="the broker needs its assertions; leave it out")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # shows where every thread stands, without ending
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS calls "unlimited" a maximum and refuses it
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    start_logs(sys.stderr)
    for doubt in config.warnings:
        logger.warning("config.doubted", extra={"doubt": doubt})
    try:
        with asyncio.Runner(loop_factory=_new_event_loop) as runner:
            return runner.run(_serve_until_signalled(config, announce))
    except StoreFailed as error:  # while it opened or closed
        logger.critical("store.failed", extra={"reason": str(error)})
        return EXIT_STORE_FAILED


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop as loops
    except ImportError:
        return asyncio.new_event_loop()
    return loops.new_event_loop()


async def _serve_until_signalled(config: Config, announce: Announce) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, request_stop, stop, number)
    return await serve(config, announce, stop)


def request_stop(stop: asyncio.Future[str], number: signal.Signals) -> None:
    """Ask for an end in order; asked again, end the process at once."""
    if stop.done():
        os._exit(128 + number)
    stop.set_result(number.name)


async def serve(config: Config, announce: Announce, stop: asyncio.Future[str]) -> int:
    """Run a broker until `stop` is done (its result is the cause) or its store fails.

    Errors   StorageError kinds: the broker did not start
    """
    store = MessageStore(config.store_settings(), SystemClock(), Disk())
    with held_port(config.rpc.listen) as grpc:
        parts = _parts(store, config, grpc)
        parts.server.add_port(grpc)
    async with AsyncExitStack() as up:
        http = await up.enter_async_context(_http_served(config, store, parts))
        if not await _open_unless_stopped(store, stop):
            return EXIT_OK
        up.push_async_callback(store.close)
        await parts.server.start()
        parts.server.show_ready(writable=bool(config.broker.permission & PERMISSION_WRITE))
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
    """Open the store; False when told to stop before it is open, for recovery can take minutes."""
    opening = asyncio.create_task(store.open())
    await asyncio.wait((opening, stop), return_when=asyncio.FIRST_COMPLETED)
    with suppress(asyncio.CancelledError):
        opening.cancel()  # Does nothing to one that is done.
        await opening
    return not opening.cancelled()


class _Parts(NamedTuple):
    """What runs on a store."""

    send: Send
    pull: Pull
    server: GrpcioServer


def _parts(store: MessageStore, config: Config, bound: str) -> _Parts:
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
    messaging = Messaging(send, pull, query, topics=store.topics, offsets=store.offsets)
    admin = Admin(pull, query, store=store, topics=store.topics, offsets=store.offsets)
    return _Parts(send, pull, GrpcioServer([messaging.service(), admin.service()]))


@asynccontextmanager
async def _http_served(config: Config, store: MessageStore, parts: _Parts) -> AsyncIterator[str]:
    """Serve metrics and health, from before recovery until the store is closed."""
    # Here, because loading it would keep gRPC clients waiting for the port.
    from broker.metrics.endpoint import HttpServer, application

    build = build_info(__version__, FORMAT_VERSION)
    exposition = Exposition(
        lambda: [*store.stats, *parts.send.stats, *parts.pull.stats, *parts.server.stats, build],
        cluster=config.broker.cluster,
        broker=config.broker.name,
    )
    version = {"version": __version__, "store_version": FORMAT_VERSION}
    pages = application(exposition, Health(lambda: store.state), version)
    http = HttpServer(pages, config.http.listen)
    running = asyncio.create_task(http.run())
    try:
        yield http.address
    finally:
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
