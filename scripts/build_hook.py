"""Build hook of hatchling: adds the commit, and to a wheel the compiled modules where possible.

    POCKETMQ_COMPILE=auto   a wheel for this platform; without a C compiler py3-none-any
                     1      a wheel for this platform; without a C compiler no wheel
                     0      py3-none-any

The commit is taken from an sdist's file, else from POCKETMQ_COMMIT, else from git's files. The
compiler step prints its progress on standard error, which pip shows with -v.

An editable installation is not changed: in a checkout use scripts/compile.
"""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST: Final = (3, 11)
VARIABLE: Final = "POCKETMQ_COMPILE"
NEEDED: Final = ("mypy>=2.4.1", "setuptools>=84")
BUILT: Final = Path("pocketmq", "native", "built")
COMMIT_VARIABLE: Final = "POCKETMQ_COMMIT"


class CompiledWheel(BuildHookInterface[Any]):
    """Adds commit and library; hatchling creates one object for each target."""

    _scratch: TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Returns the packages that an isolated build must install."""
        return [] if self._wanted() == "0" or self.target_name != "wheel" else [*NEEDED]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the files of this target to the archive.

        Errors   SystemExit: compilation is required and failed, or Python is too old
        """
        if sys.version_info < OLDEST:
            # An old pip compares it last, and reports a dependency that needs a newer Python.
            sys.exit(f"PocketMQ needs Python 3.11 or newer; this is {sys.version.split()[0]}")
        if version == "editable":
            return
        self._add_commit(build_data)
        if self.target_name == "wheel" and self._wanted() != "0":
            self._add_compiled(build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what was written for the archive."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def _add_commit(self, build_data: dict[str, Any]) -> None:
        package = Path(self.root, "broker", "pocketmq")
        module = _module(package / "native" / "commit.py")
        commit = (
            module.recorded(package / module.FILE)
            or os.environ.get(COMMIT_VARIABLE)
            or module.checked_out(Path(self.root))
        )
        if not commit:
            return
        self._scratch = TemporaryDirectory(prefix="pocketmq-build-")
        written = Path(self._scratch.name, module.FILE.name)
        written.write_text(f"{commit}\n")
        source_root = "" if self.target_name == "wheel" else "broker"
        place = Path(source_root, "pocketmq", module.FILE)
        build_data["force_include"][str(written)] = str(place)

    def _add_compiled(self, build_data: dict[str, Any]) -> None:
        command = [sys.executable, str(Path(self.root, "scripts", "compile_modules.py"))]
        done = subprocess.run([*command, "--list"], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            if self._wanted() == "1":
                sys.exit(f"{VARIABLE}=1 asks for a compiled wheel")
            self.app.display_warning("the wheel holds the sources alone")
            return
        for name in done.stdout.split():
            place = BUILT / name
            build_data["force_include"][str(Path(self.root, "broker", place))] = str(place)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def _wanted(self) -> str:
        wanted = os.environ.get(VARIABLE, "auto")
        if wanted not in ("auto", "0", "1"):
            sys.exit(f"{VARIABLE} is {wanted}; it may be auto, 1 or 0")
        return wanted


def _module(path: Path) -> Any:
    """Loads a source file by itself: the package around it needs what a build does not have."""
    spec = spec_from_file_location("build_commit", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
