"""The pages for operators, as one list of routes."""

from typing import Final

from pocketmq.console.pages import (
    access,
    clients,
    dead_letters,
    delayed,
    running_store,
    settings,
    transactions,
)
from pocketmq.console.web import Route

MODULES: Final = (clients, dead_letters, delayed, transactions, running_store, access, settings)
ROUTES: Final[list[Route]] = [route for module in MODULES for route in module.ROUTES]
