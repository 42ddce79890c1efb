"""Imports uvicorn without its command line, which would take 1.5 MiB of memory.

`uvicorn/__init__.py` imports the command line with click and multiprocessing, so it is not run.
Only the console's own process imports this module, before any other that imports uvicorn.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec


def _prepare(spec: ModuleSpec | None) -> None:
    if spec is None or "uvicorn" in sys.modules:
        return
    package = sys.modules["uvicorn"] = module_from_spec(spec)
    from uvicorn.config import Config
    from uvicorn.server import Server

    vars(package).update(Config=Config, Server=Server)


_prepare(find_spec("uvicorn"))
