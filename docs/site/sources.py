"""Pages link to programs, benchmarks and tests, as on GitHub: the site shows each of these files as a page of its own.

A hook of MkDocs. What is linked outside of the pages becomes `source/PATH.md`, with the file as a block of code, a
notebook as its cells, and a README as it is; links are turned to it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)\s#]+)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_WITH_LINKS = (".md", ".ipynb")
_LANGUAGES = {".py": "python", ".c": "c", ".yml": "yaml", ".toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file that pages link to, and that is none itself."""
    waiting = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    while waiting:
        for target in _targets(waiting.pop()):
            shown = _uri(target)
            if shown.startswith("source/") and files.get_file_from_path(shown) is None:
                files.append(File.generated(config, shown, content=_page(target)))
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository to the pages that show them."""
    uri = page.file.src_uri
    if uri in ("index.md", "tutorial.md"):
        page.meta["hide"] = ["navigation"]  # each is alone in its part
    path = _path(uri)
    if path.suffix not in _WITH_LINKS:
        return markdown  # a file shown as code
    folder = os.path.dirname(uri) or "."

    def turned(found: re.Match[str]) -> str:
        target = (path.parent / found[1]).resolve()
        return os.path.relpath(_uri(target), folder) if target.is_file() or target.is_dir() else found[1]

    return "".join(part if number % 2 else _LINK.sub(turned, part) for number, part in enumerate(_CODE.split(markdown)))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a pattern into the navigation."""
    config.nav = [_spread(entry) for entry in config.nav or []]
    return config


def _spread(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry
    ((title, below),) = entry.items()
    if isinstance(below, list):
        return {title: [_spread(each) for each in below]}
    return {title: _pages(below) if "*" in below else below}


def _pages(pattern: str) -> list[str]:
    return [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.glob(pattern))]


def _targets(path: Path) -> list[Path]:
    """Return the files that a page links to."""
    if path.suffix not in _WITH_LINKS:
        return []
    text = _CODE.sub("", _page(path))
    found = ((path.parent / link).resolve() for link in _LINK.findall(text))
    return [target for target in found if target.is_file() or (target / "README.md").is_file()]


def _uri(target: Path) -> str:
    """Return where the site shows a file: pages and pictures where they are, all else below `source`."""
    if target.is_dir():
        target = target / "README.md"
    if target.is_relative_to(DOCS) and target.suffix in (".md", ".svg", ".png"):
        return target.relative_to(DOCS).as_posix()
    shown = target.relative_to(ROOT).as_posix()
    return f"source/{shown}" if target.suffix == ".md" else f"source/{shown}.md"


def _path(uri: str) -> Path:
    """Return the file that a page is made of."""
    if not uri.startswith("source/"):
        return DOCS / uri
    path = ROOT / uri.removeprefix("source/")
    return path if path.exists() else path.with_suffix("")


def _page(target: Path) -> str:
    """Return a file as Markdown."""
    if target.is_dir():
        target = target / "README.md"
    text, name = target.read_text(encoding="utf-8"), target.relative_to(ROOT).as_posix()
    if target.suffix == ".md":
        return text
    if target.suffix == ".ipynb":
        cells = [_cell(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
        return "\n\n".join([f"`{name}`, a notebook without its outputs", *cells])
    return f"# {target.name}\n\n`{name}`\n\n{_fenced(text, _LANGUAGES.get(target.suffix, 'text'))}"


def _cell(kind: str, source: str) -> str:
    return source if kind == "markdown" else _fenced(source, "python")


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"
