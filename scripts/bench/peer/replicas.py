"""Two brokers in sync on both sides: the same classic sends to PocketMQ's pair and to RocketMQ's.

PocketMQ acknowledges what is on the disks of both its brokers. RocketMQ's SYNC_MASTER acknowledges
what its slave has in memory, with its default asynchronous flush.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from bench.peer.classic import SHAPES, ClassicSide, generate, wait_until_ready
from bench.peer.content import TOPIC
from bench.peer.rocketmq import QUEUE_COUNT, broker_pair
from bench.peer.rows import Aim, Row, sides
from bench.peer.sends import told
from bench.peer.sides import Extent
from bench.replicas import synced_pair
from harness.figures import alternated, ratios

AIM: Final = Aim(1.5, 1.0)


def replica_rows(jars: Path, extent: Extent) -> Iterator[Row]:
    """Rates of sends and batches to two brokers in sync, to RocketMQ's."""
    warm_seconds = max(2.0, extent.jvm_calls / 15_000)
    with broker_pair(jars) as real, synced_pair(*extent.settings) as (leader, _):
        leader.create_topics({TOPIC: QUEUE_COUNT})
        both = {
            "PocketMQ": ClassicSide(leader.process.pid, leader.target),
            "RocketMQ": ClassicSide(real.pid, real.target),
        }
        for side in both.values():
            wait_until_ready(partial(generate, side.target, SHAPES[1], 0.0))
        generate(real.target, SHAPES[0], warm_seconds)
        for shape in SHAPES[:3]:
            for side in both.values():
                generate(side.target, shape, extent.seconds)
            runs = {name: partial(one.run, shape, extent.seconds) for name, one in both.items()}
            found = alternated(extent.rounds, runs, shape=shape.name)
            rates = tuple([one.per_second for one in found[name]] for name in both)
            what = f"{shape.what}, two brokers in sync; ours on both disks, theirs in memory"
            plain = sides(rates[0], rates[1], "/s")
            yield told(Row(f"replicas_{shape.name}", what, AIM, ratios(*rates), plain))
