"""Fill in the figures that pages show, from `bench/results`. See bench/performance.py for what is in there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "bench" / "results"

_WHERE_MEASURED = re.compile(r"(<!-- section if measured: (\w+), ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MARKED = re.compile(r"(<!-- bench: (\w+)(?: (\d+(?:-\d+)?))? -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return the text of a page with its figures: all that a benchmark has said, or the tables of these numbers."""
    text = _WHERE_MEASURED.sub(_section, text)
    return _MARKED.sub(lambda found: f"{found[1]}\n{_shown(found[2], found[3])}\n\n{found[4]}", text)


def _section(found: re.Match[str]) -> str:
    """Return a section with all that a benchmark has said, empty where it was not run: it may need a GPU."""
    if not (RESULTS / f"{found[2]}.json").exists():
        return f"{found[1]}{found[4]}"
    return f"{found[1]}\n## {found[3]}\n\n{_shown(found[2], None)}\n\n{found[4]}"


def _shown(name: str, number: str | None) -> str:
    result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    parts = [part for part in result["parts"] if number is None or "columns" in part]
    first, _, last = (number or "").partition("-")
    chosen = parts[int(first) : int(last or first) + 1] if first else parts
    return "\n\n".join(filter(None, [*map(_part, chosen), _where(result)]))


def _part(part: dict[str, Any]) -> str:
    if "columns" not in part:
        return ""
    first = part["rows"][0]
    rule = ["--:" if cell[:1].isdigit() or cell[:1] in ("+", "-") else "---" for cell in first]
    rows = [part["columns"], rule, *part["rows"]]
    table = "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)
    return f"{part['title']}:\n\n{table}" if part["title"].strip() else table


def _cell(text: str) -> str:
    spans = re.split(r"(`[^`]+`)", text.strip())  # in code, a backslash is one
    escaped = "".join(re.sub(r"([|])" if at % 2 else r"([|*_<])", r"\\\1", each) for at, each in enumerate(spans))
    return escaped.replace("\n", "<br>") or " "


def _where(result: dict[str, Any]) -> str:
    """Say by what this was measured, where and when."""
    machine, versions = result["machine"], result["versions"]
    packages = {name: version for name, version in versions.items() if name not in ("python", "torch", "backsight")}
    device = f"{machine['device']}, " if "device" in machine else ""
    used = [f"{name} {version}" for name, version in packages.items() if name in json.dumps(result["parts"])]
    words = [
        f"`{result['command']}`, {result['date']}: {device}{machine['processor']}, {machine['cores']} cores",
        f"Python {versions['python']}, PyTorch {versions['torch']}",
        *used,
    ]
    busy = (machine.get("load") or 0) > machine["cores"]  # what is measured now is not kept of a busy machine
    after = f". The machine was busy (load {machine['load']})" if busy else ""
    spread = result.get("spread")
    apart = "" if spread is None else f". {_percent(spread['typical'])} spread, {_percent(spread['widest'])} at worst"
    return f"<small>{', '.join(words)}{apart}{after}.</small>"


def _percent(share: float) -> str:
    """Return `3 %`, and of less than one `0.4 %`."""
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else f"{share:.1%}".replace("%", " %")
