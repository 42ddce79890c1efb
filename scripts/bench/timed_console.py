"""A console that reports its longest turn for SIGUSR1; it imports no more than a console does.

Arguments   endpoint of the broker, file descriptor of the listening socket
"""

import asyncio
import json
import signal
import sys
from time import thread_time
from typing import Any

from pocketmq.console.__main__ import main


def _serve(endpoint: str, number: str) -> None:
    """Serves a console, each turn of which is timed."""
    longest: dict[str, Any] = {"ms": 0.0, "what": ""}
    kind: Any = asyncio.Handle
    run = kind._run

    def timed(handle: Any) -> None:
        begun = thread_time()
        run(handle)
        took_ms = 1000 * (thread_time() - begun)
        if took_ms > longest["ms"]:
            callback = handle._callback
            longest.update(ms=took_ms, what=str(getattr(callback, "__self__", callback))[:300])

    def report(*_: object) -> None:
        print(json.dumps(longest), flush=True)
        longest.update(ms=0.0, what="")

    kind._run = timed
    signal.signal(signal.SIGUSR1, report)
    main(endpoint, "", number)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
