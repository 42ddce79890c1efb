"""Consumes orders until Enter is pressed: python examples/push_consumer.py [HOST:PORT]."""

import sys

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    PushConsumer,
)


def say(line: str) -> None:
    """Prints a line in one write, as several threads of the consumer print."""
    print(f"{line}\n", end="", flush=True)


class Shipping(MessageListener):
    """Ships orders; order 41 fails at its first attempt, and is redelivered."""

    def consume(self, message: Message) -> ConsumeResult:
        """Returns SUCCESS, or FAILURE for redelivery."""
        order, attempt = message.body.decode(), message.delivery_attempt
        if attempt == 1 and "41" in order:
            say(f"{order}: no truck, again later")
            return ConsumeResult.FAILURE
        say(f"{order}: shipped at attempt {attempt}")
        return ConsumeResult.SUCCESS


endpoint = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"
consumer = PushConsumer(
    ClientConfiguration(endpoint, Credentials()),
    "shippers",
    Shipping(),
    {"orders": FilterExpression()},
)
consumer.startup()
say("Press Enter to end.")
sys.stdin.readline()
consumer.shutdown()
