"""A broker that a test controls over a socket, by one JSON request and reply per line.

    broker ─► {"ready": {"grpc": …}} or {"failed": "why"}
    test   ─► {"do": "advance", "ms": 60000}      broker ─► {"ok": null}

When the socket closes, the test's process has ended. The broker then exits at once, as its store is
no longer needed.
"""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Final

from pocketmq.app.serve import run_broker
from pocketmq.app.stage import Opened, Stage
from pocketmq.config.live import LiveConfig
from pocketmq.config.load import load
from pocketmq.model.errors import BrokerError, DiskFull
from pocketmq.model.step import SystemClock
from pocketmq.rpc.own.server import OwnServer
from pocketmq.store.job import Job
from pocketmq.testing.faults import CallFault, Faults, FillableDisk

# -- a movable clock ---------------------------------------------------------------------------
MACHINE: Final = SystemClock()


class MovableClock:
    """Wall and monotonic clock, which a test moves ahead of the system's by the same time.

    ahead_ms   initial lead
    """

    __slots__ = ("ahead_ms",)

    def __init__(self, ahead_ms: int = 0) -> None:
        assert ahead_ms >= 0, "the lead is negative"
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        """Returns milliseconds since 1970, plus the lead."""
        return MACHINE.wall_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        """Returns milliseconds since an arbitrary moment, plus the lead."""
        return MACHINE.monotonic_ms() + self.ahead_ms

    def advance(self, by_ms: int) -> None:
        """Advances both clocks."""
        assert by_ms >= 0, "the clock would go back"
        self.ahead_ms += by_ms


# -- the broker under test ---------------------------------------------------------------------
CHUNK: Final = 65_536
CATCH_UP_S: Final = 2.0
"""Upper limit of the wait for dispatch, as followers that are missing would hold it up."""
DEV: Final = "dev"
NO_TLS: Final = "rpc.tls=false"
"""TLS is off unless a test sets it: generating a certificate would double the time of a start."""
OWN_ORIGIN: Final = "of the fixture"
PORTS_ORIGIN: Final = "ports of the fixture"


class Controlled:
    """Executes a test's commands on its broker.

    control    the broker's end of the socket
    ahead_ms   initial lead of the broker's clock
    """

    def __init__(self, control: socket.socket, ahead_ms: int = 0) -> None:
        self._control = control
        self._clock = MovableClock(ahead_ms)
        self._disk = FillableDisk()
        self._faults = Faults(self.cut_off)
        self._opened: Opened | None = None
        self._pending = b""
        self._under_way: Job[None] | None = None
        self._commands: Mapping[str, Callable[..., Any]] = {
            "advance": self.advance,
            "now": self._clock.wall_ms,
            "inject": self.inject,
            "clear": self._faults.clear,
            "hits": self._faults.hits,
            "refusals": self._faults.refusals,
            "forget_refusals": self._faults.forget_refusals,
            "fill_disk": self.fill_disk,
            "free_disk": self.free_disk,
            "cut_off": self.cut_off,
            "catch_up": self.catch_up,
        }

    @property
    def stage(self) -> Stage:
        """The clock, disk, faults and hooks that the broker runs with."""
        return Stage(
            clock=self._clock, disk=self._disk, around=self._faults.around, prepare=self._prepare
        )

    @property
    def _broker(self) -> Opened:
        assert self._opened is not None, "the broker is not ready"
        return self._opened

    async def _prepare(self, opened: Opened) -> None:
        self._opened = opened
        self._control.setblocking(False)
        asyncio.get_running_loop().add_reader(self._control, self._read)

    def say(self, **document: Any) -> None:
        """Sends a line to the test; exits if the test has ended."""
        try:
            self._control.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            os._exit(0)

    def _read(self) -> None:
        chunk = self._control.recv(CHUNK)
        if not chunk:
            os._exit(0)
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        assert self._pending.count(b"\n") == 0, "a complete line is left"
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, command: dict[str, Any]) -> None:
        act = self._commands[command.pop("do")]
        try:
            answer = act(**command)
        except (KeyError, TypeError, ValueError) as error:
            self.say(wrong=str(error))
            return
        if isawaitable(answer):
            self._under_way = Job(self._say_later(answer))
        else:
            self.say(ok=answer)

    async def _say_later(self, answer: Awaitable[object]) -> None:
        self.say(ok=await answer)

    # -- commands ----------------------------------------------------------------------------------

    async def advance(self, ms: int) -> None:
        """Advances the clock, runs the steps that become due, and deletes expired messages.

        Accepted messages are dispatched before: a delay level that the clock makes due would
        otherwise not see them until its next check, up to 5 s later.
        """
        with suppress(BrokerError):  # The broker's log has the reason.
            await self._broker.store.all_dispatched()
        self._clock.advance(ms)
        self._broker.store.look()
        self._broker.runner.look()
        with suppress(BrokerError):  # The broker's log has the reason.
            await self._expire()

    async def _expire(self) -> None:
        """Deletes expired messages; before that, a checkpoint must cover their files."""
        store = self._broker.store
        if store.views.expiry.log_size_bytes > store.log.file_size_bytes:
            await store.caught_up()
            await store.all_durable()
            await store.views.flush.finish()
        await self._broker.retention.look(self._clock)

    async def catch_up(self) -> None:
        """Waits, for a short time, until all acknowledged messages are dispatched."""
        with suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                await asyncio.shield(self._broker.store.caught_up())

    def inject(self, **fault: Any) -> int:
        """Adds a fault for calls; returns its number."""
        methods = frozenset(fault.pop("methods"))
        return self._faults.add(CallFault(methods=methods, **fault))

    def fill_disk(self) -> None:
        """Refuses sends as if the disk were full."""
        store = self._broker.store
        self._disk.is_full = True
        store.writing.refuse(DiskFull(path=str(store.settings.directory)))

    def free_disk(self) -> None:
        """Accepts sends again."""
        self._disk.is_full = False
        self._broker.store.writing.refuse(None)

    def cut_off(self) -> None:
        """Breaks all connections of clients."""
        server = self._broker.server
        assert isinstance(server, OwnServer), "the transport is not `own`"
        server.cut_off()


def run_controlled(
    control: socket.socket, assignments: Mapping[str, list[str]], listen: str, ahead_ms: int
) -> int:
    """Runs a broker until its test ends; returns the exit code of its process.

    assignments   settings by origin, which override those of the preset `dev`
    listen        address of the gRPC port
    """
    controlled = Controlled(control, ahead_ms)
    ports = [f"rpc.listen={listen}", "http.listen=", "rpc.transport=own"]
    try:
        by_origin = {OWN_ORIGIN: [NO_TLS], **assignments, PORTS_ORIGIN: ports}
        config = load(assignments=by_origin, preset=DEV, force=True)

        def announce(addresses: Mapping[str, object]) -> None:
            controlled.say(ready=dict(addresses))

        return run_broker(LiveConfig(config), announce, stage=controlled.stage)
    except (BrokerError, OSError) as error:
        controlled.say(failed=str(error))
        return 1
