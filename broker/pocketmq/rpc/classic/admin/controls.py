"""Functions of the running broker that operators of the classic protocol can call."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pocketmq.services.access.access import Access


def _off() -> bool:
    return False


class Controls(NamedTuple):
    """Functions of the running broker.

    read_settings   returns (key, value, origin) of every setting
    expire_soon     makes retention delete expired files at any hour; returns False if it is off
    access          users and their rules; None: calls are not signed
    """

    read_settings: Callable[[], Iterable[tuple[str, str, str]]] = tuple
    expire_soon: Callable[[], bool] = _off
    access: Access | None = None
