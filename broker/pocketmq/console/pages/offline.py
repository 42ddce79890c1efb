"""The pages of a directory, which need the offline tools; a broker's console never imports them."""

from typing import Final

from pocketmq.console.pages import groups, messages, repair, store, topics
from pocketmq.console.web import NavigationEntry, Route

OFFLINE_NAVIGATION: Final = (
    NavigationEntry("/", "Store", "o"),
    NavigationEntry("/topics", "Topics", "t"),
    NavigationEntry("/messages", "Messages", "m"),
    NavigationEntry("/groups", "Groups", "g"),
)
"""Entries for a directory."""
OFFLINE_ROUTES: Final[list[Route]] = [
    *store.ROUTES,
    *repair.ROUTES,
    *(
        route
        for module in (topics, messages, groups)
        for route in module.ROUTES
        if not route.is_action
    ),
]
"""Pages of a directory, which change nothing."""
