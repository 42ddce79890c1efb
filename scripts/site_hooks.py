"""Hooks of mkdocs: pages and files outside of docs/ become part of the site.

Links in documents point from file to file of the checkout, so that they work there. The top-level
pages become pages of the site, below `project/`. Any other linked file is copied below `files/`. A
link to a folder becomes a link to a list of its files.
"""

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
TOP_PAGES: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK: Final = re.compile(r"(?<!!)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
README: Final = "README.md"


def in_site(path: str) -> str:
    """Returns the path in the site's sources for a path of the checkout."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == README:
        return "index.md"
    if path in TOP_PAGES:
        return f"project/{path}"
    return f"files/{path}.md" if (ROOT / path).is_dir() else f"files/{path}"


def in_checkout(site_path: str) -> str:
    """Returns the path in the checkout of a page of the site."""
    kind, _, rest = site_path.partition("/")
    return rest if kind in {"project", "files"} else f"docs/{site_path}"


def targets(text: str, path: str) -> list[str]:
    """Returns the paths in the checkout to which a page links."""
    folder = posixpath.dirname(path)
    return [posixpath.normpath(posixpath.join(folder, found[1])) for found in LINK.finditer(text)]


def with_site_links(text: str, path: str) -> str:
    """Returns a page of the checkout with links for the site."""
    here = posixpath.dirname(in_site(path))

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
        return f"]({posixpath.relpath(in_site(target), here or '.')}{found[2] or ''})"

    return LINK.sub(moved, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the top-level pages, and linked files outside of docs/."""
    for name in TOP_PAGES:
        files.append(File.generated(config, in_site(name), abs_src_path=str(ROOT / name)))
    linked = {path for file in files.documentation_pages() for path in _linked(file)}
    folders = {path for path in linked if (ROOT / path).is_dir()}
    for path in sorted(linked | {inner for folder in folders for inner in files_of(folder)}):
        files.append(_generated(path, config))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replaces links of the checkout by links of the site."""
    return with_site_links(markdown, in_checkout(page.file.src_uri))


def files_of(folder: str) -> list[str]:
    """Returns the paths of a folder's files, without its folders."""
    return sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / folder).iterdir() if path.is_file()
    )


def _linked(file: File) -> list[str]:
    """Returns the existing paths outside of docs/ to which a page links."""
    path = in_checkout(file.src_uri)
    found = targets((ROOT / path).read_text("utf-8"), path)
    return [path for path in found if in_site(path).startswith("files/") and (ROOT / path).exists()]


def _generated(path: str, config: MkDocsConfig) -> File:
    where, inclusion = in_site(path), InclusionLevel.NOT_IN_NAV
    if not (ROOT / path).is_dir():
        return File.generated(config, where, abs_src_path=str(ROOT / path), inclusion=inclusion)
    name = posixpath.basename(path)
    rows = [f"* [{inner}]({name}/{posixpath.basename(inner)})\n" for inner in files_of(path)]
    content = f"# {path}\n\n{''.join(rows)}"
    return File.generated(config, where, content=content, inclusion=inclusion)
