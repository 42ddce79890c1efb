"""Build hook of hatchling: adds the compiled modules to a wheel.

    POCKETMQ_COMPILE=auto   a wheel for this platform; without a C compiler py3-none-any
                     1      a wheel for this platform; without a C compiler no wheel
                     0      py3-none-any

An editable installation is not changed: in a checkout use scripts/compile.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE: Final = "POCKETMQ_COMPILE"
NEEDED: Final = ("mypy>=2.4.1", "setuptools>=84")
BUILT: Final = Path("pocketmq", "native", "built")


class CompiledWheel(BuildHookInterface[Any]):
    """Adds the library to a wheel; hatchling creates one object for each build."""

    def dependencies(self) -> list[str]:
        """Returns the packages that an isolated build must install."""
        return [] if self._wanted() == "0" else [*NEEDED]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the modules, and adds the files to the wheel.

        Errors   SystemExit: compilation is required and failed
        """
        wanted = self._wanted()
        if wanted == "0" or version == "editable":
            return
        command = [sys.executable, str(Path(self.root, "scripts", "compile_modules.py"))]
        done = subprocess.run([*command, "--list"], capture_output=True, text=True, check=False)
        if done.returncode:
            if wanted == "1":
                sys.exit(f"{done.stderr}{VARIABLE}=1 asks for a compiled wheel")
            self.app.display_warning(f"{done.stderr}the wheel holds the sources alone")
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
