"""RocketMQ's own client for Node.js works as it is, on a broker as a user starts it."""

from pocketmq.cli.output import Exit
from tests.e2e.official.cases import Cases


class TestNode(Cases):
    """The cases."""

    language = "node"
    stack = "stack"
    verifies = Exit.REFUSED
