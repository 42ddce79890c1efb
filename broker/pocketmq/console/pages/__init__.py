"""The pages of the console, and the order in which the navigation lists them."""

from typing import Final

from pocketmq.console.pages import groups, messages, overview, send, topics
from pocketmq.console.web import NavigationEntry, Route

NAVIGATION: Final = (
    NavigationEntry("/", "Overview", "o"),
    NavigationEntry("/topics", "Topics", "t"),
    NavigationEntry("/messages", "Messages", "m"),
    NavigationEntry("/groups", "Groups", "g"),
    NavigationEntry("/send", "Send", "s"),
)
ROUTES: Final[list[Route]] = [
    *overview.ROUTES, *topics.ROUTES, *messages.ROUTES, *groups.ROUTES, *send.ROUTES,
]  # fmt: skip
