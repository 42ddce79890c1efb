"""Parsers of settings' texts: addresses, hours, percentages, lists of words.

units.py parses sizes and durations. Every parser returns the setting's value, or raises ValueError
with the reason.
"""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from pocketmq.format.names import zone_from_name
from pocketmq.model import endpoint
from pocketmq.model.begin import begin_from_text, begin_text
from pocketmq.model.decimal import number_of
from pocketmq.model.errors import IllegalBegin, IllegalConfig
from pocketmq.model.store_shape import DelayLevels

PORT_MAX: Final = 65_535
HOUR_MAX: Final = 23
TRUE_WORDS: Final = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS: Final = frozenset({"false", "no", "off", "0"})
METRIC_PROFILES: Final = frozenset({"native", "native-legacy"})
"""Selectable sets of metric names, as RocketMQ's releases use them (metrics/exposition.py)."""

KIND_NAMES: Final[Mapping[type, str]] = {int: "a number", str: "a text", bool: "true or false"}


def address_from_text(text: str) -> str:
    """Parses a listening address into "HOST:PORT"; if only a port is given, 127.0.0.1 is its host.

    Errors   ValueError
    """
    host, separator, port = text.rpartition(":")
    if not separator:
        host = "127.0.0.1"
    number = number_of(port, PORT_MAX)
    if host and number < 0 and port.isdecimal():
        raise ValueError(f"{text!r}: the port is not in the range 0 to {PORT_MAX}")
    if not host or number < 0:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8081 or 0.0.0.0:8081")
    return f"{host}:{number}"


def optional_address_from_text(text: str) -> str:
    """Parses a listening address into "HOST:PORT"; "" is unchanged.

    Errors   ValueError
    """
    return address_from_text(text) if text else ""


def leader_from_text(text: str) -> str:
    """Parses the endpoint of a leader, see model/endpoint.py; "" is unchanged.

    Errors   ValueError
    """
    return endpoint.leader_from_text(text) if text else ""


def host_doubt(read: object, given: object) -> str:
    """Returns a warning for a listening address without a host, "" for others."""
    is_address = read in (address_from_text, optional_address_from_text)
    if not is_address or not isinstance(given, str) or not given or ":" in given:
        return ""
    if not given.isdecimal():
        return ""  # It is no port either: the parser reports it.
    return (
        f"{given} names no host and is taken as 127.0.0.1:{given}, which only this machine "
        f"reaches; for others write 0.0.0.0:{given}"
    )


def otlp_endpoint_from_text(text: str) -> str:
    """Parses the URL of an OTLP receiver; HOST:PORT is completed by http://; "" is unchanged.

    Errors   ValueError
    """
    if not text:
        return ""
    scheme, separator, rest = text.rpartition("://")
    host, _, port = rest.removesuffix("/").rpartition(":")
    if (separator and scheme not in ("http", "https")) or not host or number_of(port, PORT_MAX) < 0:
        raise ValueError(f"{text!r} is not http://HOST:PORT or https://HOST:PORT")
    return f"{scheme or 'http'}://{host}:{port}"


def ip_from_text(text: str) -> str:
    """Parses an IP address; "" is unchanged.

    Errors   ValueError
    """
    return str(ip_address(text)) if text else ""


def networks_from_text(text: str) -> str:
    """Parses networks separated by commas: 10.0.0.0/8, or addresses; "" is unchanged.

    Errors   ValueError
    """
    return ",".join(str(ip_network(part.strip())) for part in text.split(",") if part.strip())


def name_from_text(text: str) -> str:
    """Checks a name that message records contain: not empty, only printable characters.

    Errors   ValueError
    """
    if not text or not text.isprintable():
        raise ValueError(f"{text!r} is not a name: it is empty or has unprintable characters")
    return text


def zone_from_text(text: str) -> str:
    """Checks the name of a time zone; "" is allowed.

    Errors   ValueError
    """
    try:
        zone_from_name(text)
    except IllegalConfig as error:
        raise ValueError(error.why) from error
    return text


def delay_levels_from_text(text: str) -> str:
    """Checks a list of delays such as "1s 5s 10s"; "" is allowed.

    Errors   ValueError
    """
    DelayLevels(text)
    return text


def hours_from_text(text: str) -> str:
    """Parses hours of the day such as "04;16" into a sorted list; "" is unchanged.

    Errors   ValueError
    """
    hours: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(";"))):
        hour = number_of(part, HOUR_MAX)
        if hour < 0:
            raise ValueError(f"{text!r} is not a list of hours from 0 to 23, such as 04;16")
        hours.add(hour)
    return ";".join(f"{hour:02}" for hour in sorted(hours))


def begin_setting(text: str) -> str:
    """Returns where groups begin: min, max, or a time in canonical form.

    Errors   ValueError
    """
    try:
        return begin_text(begin_from_text(text))
    except IllegalBegin as error:
        raise ValueError(str(error)) from error


def profiles_from_text(text: str) -> str:
    """Parses a list of metric profiles such as "native,native-legacy".

    Errors   ValueError
    """
    words = [part.strip() for part in text.split(",") if part.strip()]
    if not words or not set(words) <= METRIC_PROFILES:
        raise ValueError(f"{text!r} is not a list of {', '.join(sorted(METRIC_PROFILES))}")
    return ",".join(words)


def bool_from_text(text: str) -> bool:
    """Returns the value of a word such as "on".

    Errors   ValueError
    """
    word = text.strip().lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(f"{text!r} is not true or false")
    return word in TRUE_WORDS


def int_from_text(text: str) -> int:
    """Returns a whole number.

    Errors   ValueError
    """
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a number") from error


def percent_from_text(text: str) -> int:
    """Parses a whole number, with or without a percent sign.

    Errors   ValueError
    """
    return int_from_text(text.strip().removesuffix("%"))


def path_from_text(text: str) -> str:
    """Parses the path of pages; it begins with "/".

    Errors   ValueError
    """
    is_plain = all(part.isalnum() for part in text.replace("-", "").split("/") if part)
    if not text.isascii() or not text.startswith("/") or "//" in text or not is_plain:
        raise ValueError(f"{text!r} is no path of letters, digits, - and /, such as /console")
    return text
