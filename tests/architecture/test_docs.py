"""Statements of the documents about the code are true: names of files, lengths, links, layouts."""

import re
import struct
import tomllib
from pathlib import Path

import pytest

from pocketmq import __version__
from pocketmq.format.checkpoint_layout import CHECKPOINT
from pocketmq.format.consume_unit import CONSUME_UNIT, EXTENSION_UNIT
from pocketmq.format.index_layout import INDEX_ENTRY, INDEX_HEADER
from pocketmq.format.layout import Layout
from pocketmq.format.record import RECORD_HEAD
from pocketmq.log.checkpoint import MARK

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README_LINES_MAX = 120
TOUR_LINES_MAX = 1_500
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py|(?:[a-z_0-9]+/)+)`")


def lines_of(path: Path) -> int:
    return path.read_text().count("\n")


def test_the_readme_is_one_page_with_two_set_up_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= README_LINES_MAX
    set_up = text.partition("## Set up")[2].partition("```sh\n")[2].partition("```")[0]
    assert [line.split()[0] for line in set_up.splitlines()] == ["scripts/serve", "scripts/test"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    gone = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert gone == []


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\d\S+) - \d{4}-\d\d-\d\d$", text, re.MULTILINE)[0] == __version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__


def test_the_changelog_has_one_kind_of_change_a_heading() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds


def test_every_module_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(MODULE.findall(text))
    assert len(named) > 30
    assert [
        name for name in sorted(named) if not (ROOT / "broker" / "pocketmq" / name).exists()
    ] == []


def test_the_tour_is_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    tour = text.partition("## A tour")[2].partition("A test keeps")[0]
    modules = MODULE.findall(tour)
    assert len(modules) > 8
    assert (
        sum(lines_of(ROOT / "broker" / "pocketmq" / module) for module in modules) <= TOUR_LINES_MAX
    )


@pytest.mark.parametrize(
    ("page", "layout"),
    [
        ("commit-log", RECORD_HEAD),
        ("consume-queue", CONSUME_UNIT),
        ("consume-queue", EXTENSION_UNIT),
        ("index-file", INDEX_HEADER),
        ("index-file", INDEX_ENTRY),
        ("checkpoint", CHECKPOINT),
        ("own-files", MARK),
    ],
)
def test_every_field_of_a_layout_stands_in_its_page(page: str, layout: Layout) -> None:
    text = (ROOT / "docs" / "reference" / "formats" / f"{page}.md").read_text()
    for field in layout.fields:
        size, position = struct.calcsize(">" + field.code), layout.positions[field.name]
        assert f"| {position} | {size} | `{field.name}` | {field.meaning} |" in text
