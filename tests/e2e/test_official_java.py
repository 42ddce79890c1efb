"""RocketMQ's own client for Java works as it is, on a broker as a user starts it."""

from tests.e2e.official.cases import Cases


class TestJava(Cases):
    """The cases."""

    language = "java"
    stack = "TID"
    verifies = 0
