"""`python -m pocketmq.console`: the console of a serving broker, in its process (app/console.py).

It does not import the command line, which would take 5 MiB of memory.

    arguments   endpoint, base path, file descriptor of the listening socket, then options:
                "--changes-need-login", "--backup=DIRECTORY"
"""

import os
import signal
import sys

import pocketmq.console.lean_uvicorn  # noqa: F401 - before the modules that import uvicorn
from pocketmq.console import server

TOKEN = "POCKETMQ_CONSOLE_TOKEN"
"""Environment variable with the secret of the tunnel."""
BACKUP = "--backup="


def main(endpoint: str, base: str, number: str, *options: str) -> None:
    """Serves until SIGTERM, until it is idle, or until the broker ends; prints the path to open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which ends this.
    paths = [one.removeprefix(BACKUP) for one in options if one.startswith(BACKUP)]
    served = server.Served(
        endpoint, base, token=os.environ.pop(TOKEN, ""),
        needs_login="--changes-need-login" in options, backup_path="".join(paths),
    )  # fmt: skip
    server.run(served, server.inherited(int(number)), _report)


def _report(path: str) -> None:
    sys.stdout.write(f"{path}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
