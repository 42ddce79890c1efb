"""Recipes of docs/howto/containers.md: the environment, ports and health page of each."""

import re
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "howto" / "containers.md"
LANGUAGES: Final = ("java", "go", "js", "py")
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIABLE: Final = re.compile(r"\b(POCKETMQ_\w+)\"?[:,] *\"?(\w+)")
_PORT: Final = re.compile(r"\b(8081|5557)\b")
_PATH: Final = re.compile(r"\"(/\w+)\"")


class Recipe(NamedTuple):
    """A recipe: variables of the container, its ports, and the page that shows it is ready."""

    environment: dict[str, str]
    ports: set[str]
    ready_page: str


def recipes() -> dict[str, Recipe]:
    """Returns the recipes for containers in tests by language, and those for CI as "ci 1", …"""
    found: dict[str, Recipe] = {}
    for language, text in _BLOCK.findall(PAGE.read_text("utf-8")):
        if "IMAGE" not in text:
            continue
        name = language if language != "yaml" else f"ci {len(found) - len(LANGUAGES) + 1}"
        paths = _PATH.findall(text)
        variables = dict(_VARIABLE.findall(text))
        found[name] = Recipe(variables, set(_PORT.findall(text)), paths[0] if paths else "")
    return found
