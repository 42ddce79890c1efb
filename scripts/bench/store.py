"""Creates a commit log for measurements: messages of about 1 KiB with three index entries each.

    python -m bench.store DIR COUNT [--body BYTES] [--file-size BYTES] [--keys ascii|cjk]
        [--topics COUNT]

The broker's encoder encodes the records, which are written directly to the log's files. Each
message goes to a random queue of the topics, which have 8 queues each. Equal arguments give equal
bytes.
"""

import argparse
import random
from pathlib import Path

from pocketmq.format.addresses import host_from_text
from pocketmq.format.names import COMMIT_LOG_DIRECTORY, offset_file_name
from pocketmq.format.properties import encode_properties
from pocketmq.format.record import BLANK_SIZE, encode_blank, encode_records, record_sizes
from pocketmq.model.batch import Destination, batch_of

TOPIC_COUNT = 50
QUEUE_COUNT = 8
TIME_MS = 1_795_000_000_000
HOST = host_from_text("127.0.0.1:10911")
BORN_HOST = host_from_text("10.0.0.7:4711")
KEY_FORMS = {"ascii": "order-{:09d}", "cjk": "订单号码甲乙丙{:09d}"}


class LogFiles:
    """The files of a log, filled one after the other."""

    def __init__(self, directory: Path, file_size: int) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._file_size = file_size
        self._parts: list[bytes] = []
        self._wrote = 0
        self._base = 0

    @property
    def end(self) -> int:
        """Physical offset of the next record."""
        return self._base + self._wrote

    def make_room(self, size: int) -> None:
        """Closes the file if a record of `size` bytes does not fit."""
        left = self._file_size - self._wrote
        if size + BLANK_SIZE > left:
            self._parts.append(encode_blank(left))
            self.close()
            self._base += self._file_size

    def add(self, record: bytes) -> None:
        """Appends a record that fits."""
        self._parts.append(record)
        self._wrote += len(record)

    def close(self) -> None:
        """Writes the file at its full length."""
        with (self._directory / offset_file_name(self._base)).open("wb") as file:
            file.writelines(self._parts)
            file.truncate(self._file_size)
        self._parts = []
        self._wrote = 0


def write_log(
    directory: Path, count: int, *, body: int, file_size: int, keys: str = "ascii",
    topics: int = TOPIC_COUNT,
) -> None:  # fmt: skip
    """Writes a store's commit log with `count` messages."""
    chance = random.Random(1)
    pool = chance.randbytes(64 * 1024 + 2 * body)
    files = LogFiles(directory / COMMIT_LOG_DIRECTORY, file_size)
    ends = [[0] * QUEUE_COUNT for _ in range(topics)]
    addresses = [
        [Destination(f"bench-topic-{topic:02d}", queue, HOST) for queue in range(QUEUE_COUNT)]
        for topic in range(topics)
    ]
    for number in range(count):
        topic, queue = chance.randrange(topics), chance.randrange(QUEUE_COUNT)
        begin, size = chance.randrange(64 * 1024), body + chance.randrange(-20, 21)
        unique = f"7F000001{number:08X}0BE0A67EA4D2{number & 0xFFFF:04X}"
        key, tag = KEY_FORMS[keys].format(number), f"Tag{number % 7}"
        properties = {
            "UNIQ_KEY": unique, "KEYS": key, "TAGS": tag, "WAIT": "true",
            "CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
        }  # fmt: skip
        block, born_ms = encode_properties(properties), TIME_MS + number // 20
        made = batch_of(
            pool[begin : begin + size], property_block=block, born_ms=born_ms, born_host=BORN_HOST
        )
        sizes = record_sizes(addresses[topic][queue], made)
        files.make_room(sizes[0])
        files.add(
            encode_records(
                addresses[topic][queue], made, sizes, queue_offset=ends[topic][queue],
                physical_offset=files.end, store_timestamp_ms=born_ms + 1,
            )
        )  # fmt: skip
        ends[topic][queue] += 1
    files.close()


def main() -> None:
    """Creates the log that the arguments describe."""
    parser = argparse.ArgumentParser(description="Make a commit log to measure with.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--file-size", type=int, default=256 * 1024 * 1024)
    parser.add_argument("--keys", choices=KEY_FORMS, default="ascii")
    parser.add_argument("--topics", type=int, default=TOPIC_COUNT)
    given = vars(parser.parse_args())
    write_log(given.pop("directory"), given.pop("count"), **given)


if __name__ == "__main__":
    main()
