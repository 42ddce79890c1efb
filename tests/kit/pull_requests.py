"""Pull requests of all kinds, common and rare."""

from random import Random
from typing import Final

from google.protobuf.message import DecodeError

from pocketmq.rpc.pb import broker_pb2 as pb
from tests.kit.mutated import mutated

TOPICS: Final = ("orders", "orders", "orders", "narrow", "T" * 127)
ODD_TOPICS: Final = ("", "fresh", "SELF_TEST_TOPIC", "%RETRY%g", "sealed", "orders\xfc")
TAGS: Final = ("", "*", "TagA", "TagA || !~", "nobody")
SQL: Final = ("colour = 'red'", "x IS NULL", "TAGS = 'TagA' AND a.b <> 'q'", "a >", "1 = 1")
LONGEST: Final = 1_100
"""More messages than a pull may request."""


class PullMaker:
    """Makes requests from a seed; none of them waits."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def some(self, end: int) -> bytes:
        """Returns a request for a random part of a queue of about this many messages."""
        raw = self._request(end).SerializeToString()
        if self._random.random() < 0.9:
            return raw
        changed = mutated(self._random, raw)
        try:
            waits = pb.PullMessageRequest.FromString(changed).wait_ms > 0
        except DecodeError:
            waits = False
        return raw if waits else changed

    def _request(self, end: int) -> pb.PullMessageRequest:
        random = self._random
        topic = random.choice(ODD_TOPICS if random.random() < 0.03 else TOPICS)
        begin = random.randrange(end + 1) if random.random() < 0.9 else end + random.randrange(3)
        request = pb.PullMessageRequest(
            topic=topic,
            queue_id=random.choice((0, 0, 0, 1, 1, 2, 7)),
            offset=begin,
            max_messages=random.choice((0, 1, 2, 8, 32, 32, LONGEST)),
            shape=random.choice((pb.MESSAGES, pb.RECORDS)),
        )
        if random.random() < 0.3:
            request.max_bytes = random.choice((1, 500, 5_000, 50_000, 1 << 30))
        if random.random() < 0.3:
            is_sql = random.random() < 0.5
            request.filter.kind = pb.Filter.SQL if is_sql else pb.Filter.TAG
            request.filter.expression = random.choice(SQL if is_sql else TAGS)
        if random.random() < 0.2:
            request.group = random.choice(("g", "a b", "readers"))
            if random.random() < 0.5:
                request.commit_offset = random.randrange(end + 2)
        return request
