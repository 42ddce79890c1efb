"""Cost of a scrape of /metrics when a broker has 1,000 topics."""

import json
import sys
from statistics import median
from time import perf_counter

from bench.servers import ASYNC, BROKER, Server, broker_server, load
from bench.table import Extent, Figure
from pocketmq.rpc.pb import broker_pb2 as pb

TOPIC_COUNT = 1_000
QUEUE_COUNT = 1
SCRAPE_COUNT = 20


def scrape_figures(extent: Extent) -> list[Figure]:
    """Time and size of a page; every topic holds a message, and so has all of its series."""
    topics = [f"bench-{number:04d}" for number in range(extent.count(TOPIC_COUNT))]
    with broker_server(ASYNC) as server:
        server.create_topics(dict.fromkeys(topics, QUEUE_COUNT))
        requests = [
            pb.SendMessageRequest(messages=[pb.Message(topic=topic, body=b"x")]) for topic in topics
        ]
        sends = [request.SerializeToString() for request in requests]
        load(server, BROKER + "SendMessage", *sends, in_flight=8, count=len(topics))
        server.check_stored(dict.fromkeys((topics[0], topics[-1]), 1))
        times, size = [], 0
        for number in range(extent.rounds):
            run = [_seconds(server) for _ in range(SCRAPE_COUNT)]
            size = max(size, *(length for _, length in run))
            times.append(1000 * median(seconds for seconds, _ in run))
            print(json.dumps({"round": number, "scrape_ms": times[-1]}), file=sys.stderr)
    many = f"{len(topics):,} topics"
    return [
        Figure.of("scrape", f"a scrape of /metrics with {many}", times, "ms", "≤ 20"),
        Figure.of("scrape_size", f"the page with {many}", [size / 1024], "KiB"),
    ]


def _seconds(server: Server) -> tuple[float, int]:
    begun = perf_counter()
    page = server.page("/metrics")
    return perf_counter() - begun, len(page)
