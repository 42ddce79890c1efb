"""Statements of the documents about the code are true: names of files, lengths, links, layouts."""

import json
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
from tidy_prose import DIALECT

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README_LINES_MAX = 120
TOUR_LINES_MAX = 1_550
CELL_LENGTH_MAX = 120
STYLE_GUIDE = "CONTRIBUTING.md"
FIGURES_MAX = 26
METHOD_LINES_MAX = 11
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_the_actor(page: Path) -> None:
    if page.name != STYLE_GUIDE:
        assert DIALECT.findall(page.read_text()) == []


def test_no_text_installs_the_package_from_an_index() -> None:
    """There is no such project on one, and others may register the name."""
    asked = re.compile(r"pip3? install[^`\n]*[ '\"]pocketmq(?![\w/.-]|\[\S*\] @)")
    folders = ("broker", "conf", "examples", "scripts")
    texts = [
        path for name in folders for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    ]  # fmt: skip
    found = [
        f"{path.relative_to(ROOT)}: {hit.group()}"
        for path in (*PAGES, ROOT / "Dockerfile", *texts)
        for hit in asked.finditer(path.read_text("utf-8", errors="replace"))
    ]
    assert found == []


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_table_cells_are_short(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [re.sub(r"\]\([^)]*\)", "]", cell) for row in rows for cell in row.split("|")]
    assert [cell for cell in cells if len(cell) > CELL_LENGTH_MAX] == []


def test_figures_are_one_table_of_some_rows() -> None:
    text = (ROOT / "docs" / "figures.md").read_text()
    table, _, method = text.partition("## Method")
    assert len(re.findall(r"^\| (?!figure)", table, re.MULTILINE)) <= FIGURES_MAX
    assert len(re.findall(r"^\* ", method, re.MULTILINE)) <= METHOD_LINES_MAX


def test_the_site_loads_nothing_from_elsewhere() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    assert "  font: false\n" in site
    assert "\nplugins: [search]\n" in site
    assert "://" not in site
    pictures = [path.read_text() for path in ROOT.glob("docs/**/*.svg")]
    assert len(pictures) == 6
    assert [text for text in pictures if "href" in text or "@import" in text] == []


@pytest.mark.parametrize("name", ["figures", "proof"])
def test_raw_results_are_tables_with_names(name: str) -> None:
    (path,) = ROOT.glob(f"docs/results/{name}-*.json")
    sections = json.loads(path.read_text())
    assert all(section["heading"] for section in sections)
    assert all(row for section in sections for table in section["tables"] for row in table)


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
