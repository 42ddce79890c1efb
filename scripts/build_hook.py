"""Build hook of hatchling: adds the compiled modules to a wheel where they can be built.

    POCKETMQ_COMPILE=auto   with a C compiler a wheel for this platform, without one py3-none-any
                     1      the former, or no wheel
                     0      the latter

An editable installation is left alone: scripts/compile is for a checkout.
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
    """Adds the library to a wheel; hatchling makes one object a build."""

    def dependencies(self) -> list[str]:
        """Returns what a build in an environment of its own installs first."""
        return [] if self._wanted() == "0" else [*NEEDED]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files for the wheel.

        Errors   SystemExit: it was asked for and could not be done
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
