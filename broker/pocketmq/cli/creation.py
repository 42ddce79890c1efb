"""Reports a topic that a command's first send creates, as its name may be mistyped."""

from pocketmq.cli.connection import BrokerConnection
from pocketmq.cli.nearness import nearest
from pocketmq.cli.output import talk
from pocketmq.client import ClientError


def is_missing(broker: BrokerConnection, topic: str) -> bool:
    """Returns whether a topic does not exist; False if the caller may not ask.

    Errors   ClientError
    """
    try:
        broker.ask(broker.admin.describe_topic(topic))
    except ClientError as error:
        if error.status not in ("NOT_FOUND", "PERMISSION_DENIED"):
            raise
        return error.status == "NOT_FOUND"
    return False


def report_creation(broker: BrokerConnection, topic: str) -> None:
    """Reports that a topic was created, and suggests the existing topic with the nearest name."""
    near = nearest(topic, broker.names("topic"))
    hint = f"; did you mean {near}?" if near else ""
    talk(f"Note: topic {topic} did not exist and was created now{hint}")
