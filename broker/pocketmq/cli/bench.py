"""`pocketmq bench`: the rate and the latency of a broker, measured by one client.

The figures include the client, which is a Python process: they are a lower bound of what the
broker can do, and a check that a machine, a disk or a network is as expected.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Final

import click

from pocketmq.cli.charts import bar, can_draw_blocks, sparkline
from pocketmq.cli.connection import BrokerConnection, ConnectedGroup
from pocketmq.cli.latencies import Latencies
from pocketmq.cli.options import DURATION, SIZE, examples
from pocketmq.cli.output import Output, amount, safe, talk, write
from pocketmq.client import AsyncClient, ClientError, Message, Wait, errors
from pocketmq.client.values import ReceiveQuery

LINE_S: Final = 1.0
"""Interval between two lines of progress."""
BODY_MAX: Final = 4 * 1024 * 1024
IN_FLIGHT_MAX: Final = 10_000
BATCH_MAX: Final = 1_024
GROUP: Final = "pocketmq-bench"
QUEUES: Final = 8
ACKED_MAX: Final = 32
"""Upper limit of messages in one receive."""
SENT_AT: Final = "sent-ns"
"""Property with the monotonic time in ns at which the message was due to be sent."""

Work = Callable[["Run"], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Run:
    """Counts of a measurement.

    begin_ns   monotonic time from which on finished calls count
    end_ns     monotonic time from which on tasks begin no further call
    """

    begin_ns: int
    end_ns: int
    messages: int = 0
    size_bytes: int = 0
    errors: int = 0
    first_error: str = ""
    latencies: Latencies = field(default_factory=Latencies)
    rates: list[float] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the measurement has ended; tasks then begin no further call."""
        return perf_counter_ns() >= self.end_ns

    def count(self, messages: int, size_bytes: int, latency_ns: int) -> None:
        """Counts one finished call; calls of the warm-up are dropped."""
        assert latency_ns >= 0, "a call that ended before it began"
        if perf_counter_ns() >= self.begin_ns:
            self.messages += messages
            self.size_bytes += size_bytes
            self.latencies.add(latency_ns // 1_000)

    def failed(self, error: ClientError) -> None:
        """Counts a failed call."""
        self.errors += 1
        self.first_error = self.first_error or str(error)

    def document(self) -> dict[str, Any]:
        """Returns the figures; latencies in µs."""
        seconds = (min(perf_counter_ns(), self.end_ns) - self.begin_ns) / 1e9
        found = self.latencies
        return {
            "messages": self.messages,
            "seconds": round(seconds, 3),
            "messages_per_s": round(self.messages / seconds),
            "bytes_per_s": round(self.size_bytes / seconds),
            "calls": found.count,
            "errors": self.errors,
            "first_error": self.first_error,
            "mean_us": found.mean_us,
            "p50_us": found.percentile(50),
            "p90_us": found.percentile(90),
            "p99_us": found.percentile(99),
            "p999_us": found.percentile(99.9),
            "max_us": found.max_us,
            "histogram": [one._asdict() for one in found.histogram()],
        }


@click.group(
    cls=ConnectedGroup,
    epilog=examples("pocketmq bench produce --seconds 30s", "pocketmq bench latency --rate 500"),
)
def bench() -> None:
    """Measure the rate and the latency of a broker.

    A missing topic is created by the broker, or refused where broker.auto_create_topics is off. It
    stays afterwards: pocketmq topic rm removes it.
    """


IN_FLIGHT: Final = click.option(
    "--in-flight", type=click.IntRange(1, IN_FLIGHT_MAX), default=64, show_default=True,
    help="Calls that wait for their reply at any time.",
)  # fmt: skip


def _shared(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of all measurements."""
    for option in reversed((
        click.option("--topic", default="pocketmq-bench", show_default=True, help="Topic."),
        click.option(
            "--seconds", type=DURATION, default="10s", show_default=True, metavar="TIME",
            help="Time of the measurement, as 10s or 5m.",
        ),
        click.option(
            "--warm-up", type=DURATION, default="1s", show_default=True, metavar="TIME",
            help="Time before the measurement that does not count.",
        ),
    )):  # fmt: skip
        function = option(function)
    return function


@bench.asks(
    "Send as fast as the broker replies.",
    "pocketmq bench produce --seconds 30s",
    "pocketmq bench produce --batch 100",
)
@_shared
@IN_FLIGHT
@click.option("--size", type=SIZE, default="1KiB", show_default=True, help="Bytes of a body.")
@click.option(
    "--batch", type=click.IntRange(1, BATCH_MAX), default=1, show_default=True,
    help="Messages of one call.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Do not wait for the flush to disk.")
def produce(
    broker: BrokerConnection, out: Output, topic: str, size: int, batch: int, no_wait: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Send messages as fast as the broker replies, with a fixed number of calls in flight."""
    messages = [Message(topic, _body(size))] * batch
    wait = Wait.APPENDED if no_wait else Wait.DURABLE

    async def work(run: Run) -> None:
        while not run.is_over:
            begin_ns = perf_counter_ns()
            try:
                await broker.client.send_many(messages, wait=wait)
            except ClientError as error:
                run.failed(error)
                raise
            run.count(batch, size * batch, perf_counter_ns() - begin_ns)

    _measure(broker, out, work, **given)


@bench.asks(
    "Receive and acknowledge messages.",
    "pocketmq bench consume",
    "pocketmq bench consume --topic orders --group audit",
)
@_shared
@IN_FLIGHT
@click.option("--group", default=GROUP, show_default=True, help="Consumer group.")
def consume(broker: BrokerConnection, out: Output, topic: str, group: str, **given: Any) -> None:
    """Receive and acknowledge the messages of a topic; bench produce sends some.

    The latency is that of a receive with its acknowledgement.
    """
    broker.ask(_prepared(broker.client, topic, group))

    async def work(run: Run) -> None:
        query = ReceiveQuery(group, topic, ACKED_MAX, wait_ms=1_000)
        while not run.is_over:
            begin_ns = perf_counter_ns()
            try:
                found = await broker.client.receive(query)
                handles = [one.receipt_handle for one in found]
                if handles:
                    await broker.client.ack(group, topic, handles)
            except ClientError as error:
                run.failed(error)
                raise
            if found:
                size = sum(len(one.message.body) for one in found)
                run.count(len(found), size, perf_counter_ns() - begin_ns)

    _measure(broker, out, work, **given)


@bench.asks("Measure the time from a send to its receipt.", "pocketmq bench latency --rate 500")
@_shared
@click.option("--size", type=SIZE, default="1KiB", show_default=True, help="Bytes of a body.")
@click.option(
    "--rate", type=click.IntRange(1, 100_000), default=200, show_default=True,
    help="Messages a second.",
)  # fmt: skip
def latency(
    broker: BrokerConnection, out: Output, topic: str, size: int, rate: int, seconds: int,
    warm_up: int,
) -> None:  # fmt: skip
    """Measure the time from a send to its receipt by a waiting consumer, at a fixed rate.

    The consumer has a group of its own, which is removed afterwards.
    """
    body, mark = _body(size), f"{os.getpid()}-{perf_counter_ns()}"
    group = f"{GROUP}-{mark}"

    async def send(run: Run) -> None:
        first_ns, number = perf_counter_ns(), 0
        async with asyncio.TaskGroup() as tasks:
            while not run.is_over:
                due_ns = first_ns + number * 1_000_000_000 // rate
                await asyncio.sleep(max(due_ns - perf_counter_ns(), 0) / 1e9)
                # The due time, not the time of the send: a late client must not hide latency.
                properties = {SENT_AT: str(due_ns), "bench": mark}
                message = Message(topic, body, properties=properties)
                tasks.create_task(_sent(broker.client, message, run))
                number += 1

    async def receive(run: Run) -> None:
        query = ReceiveQuery(group, topic, ACKED_MAX, wait_ms=1_000, begin="max")
        while not run.is_over:
            found = await broker.client.receive(query)
            for one in found:
                if one.message.properties.get("bench") == mark:
                    sent_ns = int(one.message.properties[SENT_AT])
                    run.count(1, len(one.message.body), max(perf_counter_ns() - sent_ns, 0))
            if found:
                await broker.client.ack(group, topic, [one.receipt_handle for one in found])

    broker.ask(_prepared(broker.client, topic, group))
    try:
        # The first receive sets where the group begins, before anything is sent.
        first = ReceiveQuery(group, topic, ACKED_MAX, wait_ms=1, begin="max")
        broker.ask(broker.client.receive(first))
        run = broker.ask(_run([send, receive], seconds, warm_up))
    finally:
        broker.ask(broker.admin.delete_group(group))
    _report(run, out)


async def _sent(client: AsyncClient, message: Message, run: Run) -> None:
    try:
        await client.send(message)
    except ClientError as error:
        run.failed(error)


async def _prepared(client: AsyncClient, topic: str, group: str) -> None:
    """Creates the topic and the group, unless they exist."""
    try:
        await client.admin.describe_topic(topic)
    except errors.TopicNotFound:
        await client.admin.create_topic(topic, queue_count=QUEUES)
    try:
        await client.admin.describe_group(group)
    except errors.GroupNotFound:
        await client.admin.create_group(group)


def _body(size: int) -> bytes:
    if not 1 <= size <= BODY_MAX:
        raise click.BadParameter(f"{size} is outside 1 to {BODY_MAX} bytes", param_hint="--size")
    return (b"pocketmq " * (size // 9 + 1))[:size]


def _measure(
    broker: BrokerConnection, out: Output, work: Work, seconds: int, warm_up: int, in_flight: int
) -> None:
    _report(broker.ask(_run([work] * in_flight, seconds, warm_up)), out)


async def _run(workers: list[Work], time_ms: int, warm_up_ms: int) -> Run:
    """Runs tasks until the time is over; the first error ends all.

    Errors   ClientError
    """
    assert workers, "a measurement without tasks"
    begin_ns = perf_counter_ns() + warm_up_ms * 1_000_000
    run = Run(begin_ns, begin_ns + time_ms * 1_000_000)
    try:
        async with asyncio.TaskGroup() as both:
            lines = both.create_task(_lines(run))
            async with asyncio.TaskGroup() as tasks:
                for work in workers:
                    tasks.create_task(work(run))
            lines.cancel()
    except* ClientError as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return run


async def _lines(run: Run) -> None:
    """Writes a line a second to a terminal: the rate, as a number and as a sparkline."""
    counted, begun_ns = 0, run.begin_ns
    while True:
        await asyncio.sleep(LINE_S)
        now_ns = perf_counter_ns()
        if now_ns < run.begin_ns:
            continue
        seconds = max((now_ns - begun_ns) / 1e9, 1e-3)
        run.rates.append((run.messages - counted) / seconds)
        counted, begun_ns = run.messages, now_ns
        if sys.stderr.isatty():
            graph = sparkline(run.rates, blocks=can_draw_blocks())
            p99 = run.latencies.percentile(99)
            line = f"{run.rates[-1]:>9,.0f} messages/s  p99 {_duration(p99):>8}  {graph}"
            click.echo(f"\r\x1b[K{safe(line)}", nl=False, err=True)


def _report(run: Run, out: Output) -> None:
    if sys.stderr.isatty() and run.rates:
        talk("")
    document = run.document()
    if not out.is_table:
        out.show(document)
        return
    bars = document.pop("histogram")
    readable = {
        "messages": f"{run.messages:,} in {document['seconds']:g} s",
        "rate": f"{document['messages_per_s']:,} messages/s, {amount(document['bytes_per_s'])}/s",
        "calls": f"{run.latencies.count:,}, {run.errors} failed",
        "latency": ", ".join(
            f"{name} {_duration(document[f'{name}_us'])}"
            for name in ("mean", "p50", "p90", "p99", "p999", "max")
        ),
    }
    out.show(readable)
    if run.first_error:
        talk(f"Note: first error: {run.first_error}")
    largest = max((one["calls"] for one in bars), default=0)
    blocks = can_draw_blocks()
    for one in bars:
        share = bar(one["calls"], largest, blocks=blocks)
        write(f"{_duration(one['to_us']):>8}  {one['calls']:>10,}  {share}".rstrip() + "\n")


def _duration(time_us: int) -> str:
    """Returns a time in a unit that people read: 950 µs, 3.2 ms, 1.50 s."""
    if time_us < 1_000:
        return f"{time_us} µs"
    if time_us < 1_000_000:
        return f"{time_us / 1_000:.1f} ms"
    return f"{time_us / 1_000_000:.2f} s"
