"""Functions of the running broker that operators' classic requests call."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pocketmq.services.access.access import Access
from pocketmq.services.replication.leader import SlaveRow


def _off() -> bool:
    return False


class Controls(NamedTuple):
    """Functions of the running broker.

    read_settings   returns (key, value, origin) of every setting
    expire_soon     makes retention delete expired files soon, at any hour; returns False if
                    retention is off
    access          users and their rules; None: the broker does not check signatures
    change_settings applies lines of a properties file (config/remote.py); None: changes are refused
    replicas        returns the slaves that copy the log
    read_rocketmq   returns (name, value) of settings as RocketMQ's tools expect them
    """

    read_settings: Callable[[], Iterable[tuple[str, str, str]]] = tuple
    expire_soon: Callable[[], bool] = _off
    access: Access | None = None
    change_settings: Callable[[str], None] | None = None
    replicas: Callable[[], list[SlaveRow]] = list
    read_rocketmq: Callable[[], Iterable[tuple[str, str]]] = tuple
