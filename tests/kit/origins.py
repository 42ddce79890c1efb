"""Origins of retried and dead-lettered messages, read from their properties."""

from collections.abc import Mapping

from pocketmq.model.message import ORIGIN_MESSAGE_ID, RETRY_TOPIC


def origin_of(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns (topic, offset message id) of a retried or dead-lettered message, else None.

    For a message that was sent back several times, it is the first origin.
    """
    topic, message_id = properties.get(RETRY_TOPIC), properties.get(ORIGIN_MESSAGE_ID)
    return (topic, message_id) if topic and message_id else None
