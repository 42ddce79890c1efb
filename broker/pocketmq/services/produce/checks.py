"""Validates the messages of a request: all at once if they are plain, else one by one.

Source: AbstractSendMessageProcessor.msgCheck, GrpcValidator.
"""

from typing import Final

from pocketmq.model.errors import BodyEmpty, MixedTopics, PropertiesTooLarge, TooManyProperties
from pocketmq.model.message import KEY_SEPARATOR
from pocketmq.model.names import (
    PROPERTY_COUNT_MAX,
    check_key,
    check_message_id,
    check_property,
    check_tag,
)
from pocketmq.services.produce.drafts import Drafts

PLAIN_ID_LENGTH: Final = 64
"""Letters and digits up to here are an id without a closer look."""


def are_plain(topic: str, drafts: Drafts, keys: list[str]) -> bool:
    """Returns whether nothing in these messages needs a closer look: letters and digits mostly."""
    ids, tags, text = "".join(drafts.message_ids), "".join(drafts.tags), "".join(keys)
    if not (ids.isalnum() or not ids) or not (tags.isalnum() or not tags):
        return False
    if len(ids) > PLAIN_ID_LENGTH and max(map(len, drafts.message_ids)) > PLAIN_ID_LENGTH:
        return False
    if drafts.topics.count(topic) != len(keys) or any(drafts.properties):
        return False
    key_count = sum(map(len, drafts.keys))
    has_separator = KEY_SEPARATOR in text
    if has_separator or "" in keys or key_count != len(keys):
        with_keys = sum(map(bool, drafts.keys))
        if text.count(KEY_SEPARATOR) != key_count - with_keys or not all(map(all, drafts.keys)):
            return False
    return all(drafts.bodies) and text.isprintable()


def check_each(topic: str, drafts: Drafts, blocks: list[bytes], size_max: int) -> None:
    """Raises the error of the first message that has one.

    blocks, size_max   the property block of each, and the most bytes of one
    Errors             MixedTopics, BodyEmpty, IllegalMessageId, IllegalKey, IllegalTag,
                       TooManyProperties, IllegalProperty, PropertiesTooLarge
    """
    for number, block in enumerate(blocks):
        if drafts.topics[number] != topic:
            raise MixedTopics(topic=topic, other=drafts.topics[number])
        if not drafts.bodies[number]:
            raise BodyEmpty(position=number)
        if drafts.message_ids[number]:
            check_message_id(drafts.message_ids[number])
        for key in drafts.keys[number]:
            check_key(key)
        if drafts.tags[number]:
            check_tag(drafts.tags[number])
        properties = drafts.properties[number]
        if len(properties) > PROPERTY_COUNT_MAX:
            raise TooManyProperties(count=len(properties), limit=PROPERTY_COUNT_MAX)
        for name, value in properties.items():
            check_property(name, value)
        if len(block) > size_max:
            raise PropertiesTooLarge(size_bytes=len(block), limit_bytes=size_max)
