"""Request codes that are not served, with their replacements.

Source: RequestCode.
"""

from collections.abc import Mapping
from typing import Final

from pocketmq.model.errors import UnsupportedFeature

_CONFIG: Final = "pocketmq config, or the file of settings and SIGHUP"
_TOPICS: Final = "pocketmq topic"
_FILTER: Final = "filters by tags or SQL92"

NAMES: Final[Mapping[int, tuple[str, str]]] = {
    301: ("REGISTER_FILTER_SERVER", _FILTER),
    318: ("UPDATE_NAMESRV_CONFIG", _CONFIG),
    513: ("UPDATE_AND_CREATE_STATIC_TOPIC", _TOPICS),
    200052: ("PEEK_MESSAGE", "pocketmq msg get"),
}
"""Code -> (RocketMQ's name of the code, the replacement)."""


def refusal_of(code: int) -> UnsupportedFeature:
    """Returns the error that refuses a request code; its text names the replacement, if any."""
    found = NAMES.get(code)
    if found is None:
        feature = f"request code {code}; docs/howto/clients.md lists those of classic clients"
    else:
        feature = f"request code {code} ({found[0]}); use {found[1]}"
    return UnsupportedFeature(feature=feature)
