"""Selects compiled modules, if their sources are those that were compiled.

mypyc compiles the modules of COMPILED into one shared library (scripts/compile):

    built/modules__mypyc.TAG.so         library with all modules
    built/pocketmq.format.x.TAG.so      entry point of one module
    built/sources.TAG                   SHA-256 and path of each source, a line each

TAG identifies the interpreter. Either all modules run compiled or none, as calls between them are
bound at compile time. Constants of imported modules are compiled in too, so `sources` also lists
the modules that compiled ones import.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

PROBE: Final = "pocketmq.native.probe"
COMPILED: Final = (
    PROBE,
    "pocketmq.files.mapped_file",
    "pocketmq.format.addresses",
    "pocketmq.format.end_records",
    "pocketmq.format.end_request",
    "pocketmq.format.half_record",
    "pocketmq.format.index_links",
    "pocketmq.format.journal_records",
    "pocketmq.rpc.codec.protobuf_scan",
    "pocketmq.rpc.codec.protobuf_write",
    "pocketmq.rpc.codec.v1_end_request",
    "pocketmq.rpc.codec.v1_send_request",
    "pocketmq.rpc.codec.v2_ack",
    "pocketmq.rpc.codec.v2_messages",
    "pocketmq.rpc.codec.v2_send_reply",
    "pocketmq.rpc.codec.v2_send_request",
    "pocketmq.format.order_changes",
    "pocketmq.format.order_row",
    "pocketmq.format.system_records",
    "pocketmq.format.plain_text",
    "pocketmq.format.pop_records",
    "pocketmq.format.receipt_handle",
    "pocketmq.format.record_chain",
    "pocketmq.format.record_heads",
    "pocketmq.format.dispatch_batch",
    "pocketmq.format.put_records",
    "pocketmq.format.run_records",
    "pocketmq.format.send_records",
    "pocketmq.format.topic_frame",
    "pocketmq.format.properties",
    "pocketmq.rpc.codec.send_reply",
    "pocketmq.format.send_request",
    "pocketmq.rpc.codec.stored_messages",
    "pocketmq.log.commit_log",
    "pocketmq.log.unit_buffer",
    "pocketmq.model.batch",
    "pocketmq.model.decimal",
    "pocketmq.model.stats",
    "pocketmq.rpc.classic.plain_send",
    "pocketmq.rpc.classic.plain_send_answer",
    "pocketmq.rpc.classic.pull_answer",
    "pocketmq.rpc.classic.pull_shortcut",
    "pocketmq.rpc.classic.send_shortcut",
    "pocketmq.rpc.own.remoting_fast_path",
    "pocketmq.rpc.pending_reply",
    "pocketmq.rpc.own.flush_waiters",
    "pocketmq.rpc.own.pending_replies",
    "pocketmq.rpc.own.unary_fast_path",
    "pocketmq.rpc.v1.end_shortcut",
    "pocketmq.rpc.v1.send_shortcut",
    "pocketmq.rpc.v2.send_shortcut",
    "pocketmq.services.consume.handles",
    "pocketmq.services.consume.leases",
    "pocketmq.services.consume.fifo.message_groups",
    "pocketmq.services.consume.fifo.queue",
    "pocketmq.services.produce.fast_send",
    "pocketmq.services.produce.rules",
    "pocketmq.services.transaction.fast_end",
    "pocketmq.store.marks",
    "pocketmq.store.dispatch.dispatch_buffer",
    "pocketmq.store.watermark",
    "pocketmq.store.read.known_pull",
    "pocketmq.store.read.known_records",
    "pocketmq.store.read.read_plan",
    "pocketmq.store.read.record_check",
    "pocketmq.store.write.flush_group",
    "pocketmq.store.write.write_admission",
    "pocketmq.store.write.put_lock",
    "pocketmq.store.write.writer",
    "pocketmq.wire.blocks",
    "pocketmq.wire.connection",
    "pocketmq.wire.fields",
    "pocketmq.wire.flow",
    "pocketmq.wire.frames",
    "pocketmq.wire.headers",
    "pocketmq.wire.hpack",
    "pocketmq.wire.huffman",
    "pocketmq.wire.messages",
    "pocketmq.wire.remoting_header",
    "pocketmq.wire.metadata",
    "pocketmq.wire.outbound",
    "pocketmq.wire.peer",
    "pocketmq.wire.requests",
    "pocketmq.wire.stream",
    "pocketmq.wire.streams",
)
PURE_VARIABLE: Final = "POCKETMQ_PURE"
"""Environment variable that makes the sources run, unless it is empty or 0."""
ROOT: Final = Path(__file__).parents[2]
BUILT: Final = Path(__file__).parent / "built"
SUFFIX: Final = EXTENSION_SUFFIXES[0]
SOURCES: Final = BUILT / f"sources{Path(SUFFIX).stem}"
_NUMBER: Final = -(2**40)


class CompiledModules:
    """Import finder for compiled modules. It precedes Python's finder of sources."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a compiled module; None: Python loads the source."""
        return _built(name) if name in COMPILED and not why_not_compiled() else None


def install() -> None:
    """Installs the finder; must precede the import of any module of COMPILED."""
    if not any(isinstance(finder, CompiledModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, CompiledModules())


def running() -> tuple[str, ...]:
    """Returns the names of the modules that run compiled: all of COMPILED, or none."""
    return () if why_not_compiled() else COMPILED


def form() -> str:
    """Returns `compiled`, or `sources` with the reason, for display."""
    why = why_not_compiled()
    return f"sources ({why})" if why else "compiled"


@cache
def why_not_compiled() -> str:
    """Returns the reason why the sources run, "" if the compiled modules run.

    Cost     one millisecond, once per process: each source is read and hashed
    """
    if os.environ.get(PURE_VARIABLE, "0") not in ("", "0"):
        return f"{PURE_VARIABLE} is set"
    try:
        changed = stale()
    except (FileNotFoundError, NotADirectoryError):  # The latter if the package is in an archive.
        return "not compiled"
    why = f"{changed} is not what was compiled" if changed else _fault()
    if why:
        sys.stderr.write(f"pocketmq: {why}: the sources run until scripts/compile has run\n")
    return why


def is_compiled() -> bool:
    """Returns whether the modules of COMPILED run compiled."""
    return not why_not_compiled()


def stale() -> str:
    """Returns the path of a source that differs from the compiled one, "" if all are equal.

    Errors   FileNotFoundError: there is no library
    """
    rows = [line.split("  ", 1) for line in SOURCES.read_text().splitlines()]
    known = {path: digest for digest, path in rows}
    built = {path.name.removesuffix(SUFFIX) for path in BUILT.glob(f"pocketmq.*{SUFFIX}")}
    for name in (*COMPILED, *sorted(built.difference(COMPILED))):  # All modules must match.
        if name not in COMPILED or name not in built or source_of(name) not in known:
            return source_of(name)
    return next((path for path, digest in known.items() if digest_of(path) != digest), "")


def source_of(name: str) -> str:
    """Returns the path of a module's source, relative to the source root."""
    return f"{name.replace('.', '/')}.py"


def digest_of(path: str) -> str:
    """Returns the SHA-256 of a source in hexadecimal, "" if it cannot be read."""
    from hashlib import sha256  # OpenSSL, which a command without compiled modules does not need

    try:
        return sha256((ROOT / path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _built(name: str) -> ModuleSpec | None:
    place = str(BUILT / f"{name}{SUFFIX}")
    return spec_from_file_location(name, place, loader=ExtensionFileLoader(name, place))


def _fault() -> str:
    """Returns why the library does not work with this interpreter and librt, "" if it works."""
    spec = _built(PROBE)
    assert spec is not None, PROBE
    assert spec.loader is not None, PROBE
    try:
        probe = module_from_spec(spec)
        spec.loader.exec_module(probe)
    except (ImportError, ValueError) as error:
        return f"the library does not load ({error})"
    return "" if probe.echo(_NUMBER) == _NUMBER else "the library computes wrongly"
