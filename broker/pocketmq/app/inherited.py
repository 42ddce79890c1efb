"""A listening socket inherited from a supervisor, so that a restart refuses no connection.

systemd and other supervisors open the port and keep it open. Clients that connect between the stop
of one broker and the start of the next wait in the socket's backlog. Source: sd_listen_fds(3).
"""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

from pocketmq.model.errors import IllegalConfig

COUNT: Final = "LISTEN_FDS"
PROCESS: Final = "LISTEN_PID"
NAMES: Final = "LISTEN_FDNAMES"
FIRST: Final = 3


def inherited_socket(
    environment: MutableMapping[str, str], first: int = FIRST
) -> socket.socket | None:
    """Returns the inherited socket, or None; removes its environment variables.

    Errors   IllegalConfig: there are several, or the socket does not listen for TCP
    """
    given = {name: environment.pop(name, "") for name in (COUNT, PROCESS, NAMES)}
    if given[PROCESS] != str(os.getpid()) or given[COUNT] in {"", "0"}:
        return None
    if given[COUNT] != "1":
        why = f"{given[COUNT]} sockets were passed; the broker accepts one, for rpc.listen"
        raise IllegalConfig(field=COUNT, why=why)
    try:
        found = socket.socket(fileno=first)
        is_right = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise IllegalConfig(field=COUNT, why=f"descriptor {first}: {error.strerror}") from error
    if not is_right or found.family not in {socket.AF_INET, socket.AF_INET6}:
        found.detach()
        why = f"descriptor {first} is no socket that listens for TCP (ListenStream=)"
        raise IllegalConfig(field=COUNT, why=why)
    found.set_inheritable(False)
    return found


def address_of(listening: socket.socket) -> str:
    """Returns the address of a listening socket, "host:port"."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if listening.family == socket.AF_INET6 else f"{host}:{port}"
