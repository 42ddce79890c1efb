"""The pages of the console, and the order in which the navigation lists them."""

from typing import Final

from pocketmq.console.pages import (
    groups,
    messages,
    operating,
    overview,
    repair,
    send,
    store,
    tail,
    topics,
)
from pocketmq.console.web import NavigationEntry, Route

NAVIGATION: Final = (
    NavigationEntry("/", "Overview", "o"),
    NavigationEntry("/topics", "Topics", "t"),
    NavigationEntry("/messages", "Messages", "m"),
    NavigationEntry("/tail", "Live tail", "l"),
    NavigationEntry("/send", "Send", "s", "pub", "topic"),
    NavigationEntry("/groups", "Groups", "g"),
    NavigationEntry("/clients", "Clients", "c"),
    NavigationEntry("/dead-letters", "Dead letters", "d"),
    NavigationEntry("/delayed", "Delayed", "y"),
    NavigationEntry("/transactions", "Transactions", "x"),
    NavigationEntry("/access", "Access", "a"),
    NavigationEntry("/settings", "Settings", "e", "get", "cluster"),
)
OFFLINE_NAVIGATION: Final = (
    NavigationEntry("/", "Store", "o"),
    NavigationEntry("/topics", "Topics", "t"),
    NavigationEntry("/messages", "Messages", "m"),
    NavigationEntry("/groups", "Groups", "g"),
)
"""Entries for a directory."""
MODULES: Final = (overview, topics, messages, tail, send, groups, operating)
ROUTES: Final[list[Route]] = [route for module in MODULES for route in module.ROUTES]
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
