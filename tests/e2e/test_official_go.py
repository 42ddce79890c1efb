"""RocketMQ's own client for Go works as it is, on a broker as a user starts it."""

from pocketmq.cli.output import Exit
from tests.e2e.official.cases import Cases


class TestGo(Cases):
    """The cases."""

    language = "go"
    stack = "goroutine"
    verifies = Exit.REFUSED
