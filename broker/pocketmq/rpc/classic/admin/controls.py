"""Functions of the running broker that operators of the classic protocol can call."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


def _off() -> bool:
    return False


class Controls(NamedTuple):
    """Functions of the running broker.

    read_settings   returns (key, value, origin) of every setting
    expire_soon     makes retention delete expired files at any hour; returns False if it is off
    """

    read_settings: Callable[[], Iterable[tuple[str, str, str]]] = tuple
    expire_soon: Callable[[], bool] = _off
