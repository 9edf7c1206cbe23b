"""Prints what the changelog says of a tag, and fails where the tag is not this version or the changelog has none of it.

    python tests/packaging/notes.py v0.2.0

The workflow *release* asks before it builds anything, and gives the release this text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def notes(tag: str, root: Path = ROOT) -> str:
    """Return the section of the version that a tag names.

    Raises:
        ValueError: if the tag is not v and the version of the package, or the changelog has no dated section of it, or
            CITATION.cff has another version.
    """
    (version,) = re.findall(r'__version__ = "(.+)"', _text(root / "src/backsight/_version.py"))
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, and src/backsight/_version.py says {version}")
    if f"\nversion: {version}\n" not in _text(root / "CITATION.cff"):
        raise ValueError(f"CITATION.cff is not of version {version}")
    for section in re.split(r"^## ", _text(root / "CHANGELOG.md"), flags=re.MULTILINE):
        heading, _, text = section.partition("\n")
        if re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", heading):
            return text.strip()
    raise ValueError(f"CHANGELOG.md has no section '## [{version}] - ' and a date")


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


if __name__ == "__main__":
    try:
        print(notes(sys.argv[1]))
    except (ValueError, IndexError) as why:
        sys.exit(f"notes: {why}")
