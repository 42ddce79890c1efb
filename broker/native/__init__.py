"""Which modules run compiled, and that they do so only where their sources are what was compiled.

The modules of COMPILED are typed Python that mypyc turns into one shared library (scripts/compile).
The same files run as they are wherever there is no library, or none that fits:

    built/modules__mypyc.TAG.so         the library, of all modules together
    built/broker.format.x.TAG.so        one entry a module, some lines of C that lead into it
    built/sources.TAG                   what it was made of: SHA-256 and path, a line each

TAG is of the interpreter, so libraries for several lie side by side. All modules run compiled or
none does: calls between them are bound when they are compiled. Values that a compiled module has
from others (constants above all) are part of it too, so `sources` names the modules it imports.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

PROBE: Final = "broker.native.probe"
COMPILED: Final = (
    PROBE,
    "broker.files.mapped_file",
    "broker.format.addresses",
    "broker.format.end_records",
    "broker.format.end_request",
    "broker.format.half_record",
    "broker.format.index_links",
    "broker.format.journal_records",
    "broker.format.official_ack",
    "broker.format.official_messages",
    "broker.format.official_reply",
    "broker.format.official_request",
    "broker.format.order_changes",
    "broker.format.order_row",
    "broker.format.own_records",
    "broker.format.plain_fields",
    "broker.format.pop_records",
    "broker.format.receipt_handle",
    "broker.format.record_heads",
    "broker.format.runs",
    "broker.format.send_records",
    "broker.format.send_reply",
    "broker.format.send_request",
    "broker.format.stored_messages",
    "broker.log.commit_log",
    "broker.log.unit_buffer",
    "broker.model.batch",
    "broker.model.stats",
    "broker.rpc.late_reply",
    "broker.rpc.own.late_calls",
    "broker.rpc.own.quick_calls",
    "broker.rpc.v1.end_shortcut",
    "broker.rpc.v1.send_shortcut",
    "broker.rpc.v2.send_shortcut",
    "broker.services.consume.handles",
    "broker.services.consume.leases",
    "broker.services.consume.order_groups",
    "broker.services.consume.order_queue",
    "broker.services.sending.plain",
    "broker.services.sending.rules",
    "broker.services.transaction.plain",
    "broker.store.marks",
    "broker.store.views.remembered",
    "broker.store.watermark",
    "broker.store.writing.flush_group",
    "broker.store.writing.gate",
    "broker.store.writing.put_lock",
    "broker.store.writing.put_path",
    "broker.store.writing.writer",
    "broker.wire.blocks",
    "broker.wire.connection",
    "broker.wire.fields",
    "broker.wire.flow",
    "broker.wire.frames",
    "broker.wire.headers",
    "broker.wire.hpack",
    "broker.wire.huffman",
    "broker.wire.messages",
    "broker.wire.metadata",
    "broker.wire.outbound",
    "broker.wire.peer",
    "broker.wire.requests",
    "broker.wire.stream",
    "broker.wire.streams",
)
"""What is compiled, all together; the sources are the same program, several times slower."""
PURE_VARIABLE: Final = "POCKETMQ_PURE"
"""Set to anything but 0 or nothing, the sources run: to debug, and to compare."""
ROOT: Final = Path(__file__).parents[2]
BUILT: Final = Path(__file__).parent / "built"
SUFFIX: Final = EXTENSION_SUFFIXES[0]
SOURCES: Final = BUILT / f"sources{Path(SUFFIX).stem}"
_NUMBER: Final = -(2**40)


class CompiledModules:
    """Finds the compiled form of a module where there is one that fits; the sources come after."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of COMPILED is loaded from; None: as any other module."""
        return _built(name) if name in COMPILED and not why_not_compiled() else None


def install() -> None:
    """Have compiled modules found from here on; done once, before any of them is imported."""
    if not any(isinstance(finder, CompiledModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, CompiledModules())


def running() -> tuple[str, ...]:
    """Return the names of the modules that run compiled: all of COMPILED, or none."""
    return () if why_not_compiled() else COMPILED


def form() -> str:
    """Return in which form the modules run, for people: `compiled`, or `sources` and why."""
    why = why_not_compiled()
    return f"sources ({why})" if why else "compiled"


@cache
def why_not_compiled() -> str:
    """Return why the sources run, for people; empty: the compiled modules do.

    Cost     a millisecond or so, once a process: each source is read and its digest taken
    """
    if os.environ.get(PURE_VARIABLE, "0") not in ("", "0"):
        return f"{PURE_VARIABLE} is set"
    try:
        changed = stale()
    except (FileNotFoundError, NotADirectoryError):  # The latter: all of us lie in an archive.
        return "not compiled"
    why = f"{changed} is not what was compiled" if changed else _fault()
    if why:
        sys.stderr.write(f"pocketmq: {why}: the sources run until scripts/compile has run\n")
    return why


def is_compiled() -> bool:
    """Return whether the modules of COMPILED run compiled."""
    return not why_not_compiled()


def stale() -> str:
    """Return the path of the first source that is not as it was compiled; empty: none.

    Errors   FileNotFoundError: nothing was compiled
    """
    rows = [line.split("  ", 1) for line in SOURCES.read_text().splitlines()]
    known = {path: digest for digest, path in rows}
    built = {path.name.removesuffix(SUFFIX) for path in BUILT.glob(f"broker.*{SUFFIX}")}
    for name in (*COMPILED, *sorted(built.difference(COMPILED))):  # Each is bound to all others.
        if name not in COMPILED or name not in built or source_of(name) not in known:
            return source_of(name)
    return next((path for path, digest in known.items() if digest_of(path) != digest), "")


def source_of(name: str) -> str:
    """Return the path of a module's source from the root of the checkout or the installation."""
    return f"{name.replace('.', '/')}.py"


def digest_of(path: str) -> str:
    """Return the SHA-256 of a source, in hexadecimal; empty where there is none."""
    try:
        return sha256((ROOT / path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _built(name: str) -> ModuleSpec | None:
    place = str(BUILT / f"{name}{SUFFIX}")
    return spec_from_file_location(name, place, loader=ExtensionFileLoader(name, place))


def _fault() -> str:
    """Load the probe out of the library and use it; return what is wrong with it, if anything.

    It may be that the library, or the librt that is installed, does not fit.
    """
    spec = _built(PROBE)
    assert spec is not None, PROBE
    assert spec.loader is not None, PROBE
    try:
        probe = module_from_spec(spec)
        spec.loader.exec_module(probe)
    except (ImportError, ValueError) as error:
        return f"the library does not load ({error})"
    return "" if probe.echo(_NUMBER) == _NUMBER else "the library does not count"
