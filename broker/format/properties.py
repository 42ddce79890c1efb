"""The property block of a record: name, 0x01, value, 0x02, one pair behind the other.

    K E Y S 01 k 1   k 2 02 T A G S 01 T a g A 02

There is no escaping: a name or value with one of the separators cannot be stored. The last
separator may be missing (4.9.1 to 5.1.4 wrote none). A pair with an empty name or an empty value
is dropped by every reader; of duplicates the last one wins.
Source: MessageDecoder.messageProperties2String, string2messageProperties.
"""

from typing import Final

from broker.format.buffers import Buffer

NAME_SEPARATOR: Final = "\x01"
PAIR_SEPARATOR: Final = "\x02"
PROPERTIES_SIZE_MAX: Final = 32_767
"""The length field is a signed i16."""


def encode_properties(properties: dict[str, str]) -> bytes:
    """Return the block of the pairs in the order given, with a separator behind the last one."""
    return "".join(
        f"{name}{NAME_SEPARATOR}{value}{PAIR_SEPARATOR}" for name, value in properties.items()
    ).encode()


def decode_properties(block: Buffer) -> dict[str, str]:
    """Return the pairs of a block; bytes that are not UTF-8 become replacement characters."""
    properties: dict[str, str] = {}
    for pair in bytes(block).decode("utf-8", "replace").split(PAIR_SEPARATOR):
        name, _, value = pair.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties
