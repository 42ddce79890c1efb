"""A relay between client and broker that can be cut, byte by byte."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

CHUNK_BYTES: Final = 65_536


class Relay:
    """Connections to a broker over an endpoint of its own, inside a `with`."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._to = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.endpoint = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._listening)
        self._threads[0].join()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()

    def cut(self) -> None:
        """Ends all connections; new ones are taken."""
        with self._lock:
            ending, self._open = self._open, []
        for one in ending:
            _end(one)

    def _begin(self, work: Callable[..., None], *given: socket.socket) -> None:
        thread = threading.Thread(target=work, args=given)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with self._listening, suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(self._to)
                with self._lock:
                    self._open += [client, broker]
                self._begin(_pass_on, client, broker)
                self._begin(_pass_on, broker, client)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with source, suppress(OSError):
        while chunk := source.recv(CHUNK_BYTES):
            target.sendall(chunk)
        _end(source)
    _end(target)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
