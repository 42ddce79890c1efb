"""The pages of the console, and the order in which the navigation lists them."""

from typing import Final

from pocketmq.console.pages import (
    groups,
    messages,
    operating,
    overview,
    send,
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
    NavigationEntry("/store", "Store", "f", "get", "cluster"),
    NavigationEntry("/access", "Access", "a"),
    NavigationEntry("/settings", "Settings", "e", "get", "cluster"),
)
MODULES: Final = (overview, topics, messages, tail, send, groups, operating)
ROUTES: Final[list[Route]] = [route for module in MODULES for route in module.ROUTES]
