"""The lines around the rows: what is shown, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from backsight.tape.cells import Style, cells, cut, harmless, paint
from backsight.tape.fold import Fold
from backsight.tape.graph import Graph
from backsight.tape.remarks import NO_MODULE
from backsight.tape.rows import Rows, together
from backsight.text import size

MARKS = {"op": "●", "leaf": "○", "custom": "◆", "compiled": "■", "checkpoint": "■"}
ROOT = "◉"

GUESSED = "modules guessed from parameters; bs.watch() records the real ones"
"""What is said where no call of a module was seen: operations are shown in the modules whose parameters they use."""


SAME = "blank or dim: same module as above"
"""How an empty place in the column of modules is read."""


def heading(graph: Graph, rows: Rows, width: int, *, color: bool) -> str:
    """Return `loss · 5 operations, 2 leaves, 1.2 KB saved for backward`, and what is wrong if something is."""
    parts: list[tuple[str, Style]] = [(cut(title(rows), width), "bold")]
    parts += [(f" · {text}", style) for text, style in facts(graph)]
    return _line(parts, width, color=color)


def title(rows: Rows) -> str:
    """Return the names of the roots, or `graph` if they have none."""
    names = [harmless(name) for name in together(chain(*rows.roots.values()))]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "") or "graph"


def facts(graph: Graph) -> Iterator[tuple[str, Style]]:
    """Yield how large the graph is, and what is wrong with it if something is."""
    counts = [_count(len(graph) - len(graph.leaves), "operation"), _count(len(graph.leaves), "leaf", "leaves")]
    if graph.saved_bytes:
        counts.append(f"{size(graph.saved_bytes)} saved for backward")
    yield ", ".join(counts), "plain"
    freed = sum(any(s.state == "freed" for s in saved) for saved in graph.saved.values())
    modified = sum(any(s.state == "modified" for s in saved) for saved in graph.saved.values())
    if freed:
        yield f"{_count(freed, 'operation')} freed by a backward", "yellow"
    if modified:
        yield f"{modified:,} modified in place: will raise", "red"


def is_guessed(graph: Graph, rows: Rows) -> bool:
    """Whether modules are shown that no logged call confirms."""
    return any(rows.module) and not graph.calls


def _dashed(rows: Rows) -> bool:
    """Whether a row without a module stands below one that has one."""
    return any(above and not below for above, below in pairwise(rows.called))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _line(parts: Sequence[tuple[str, Style]], room: int, *, color: bool) -> str:
    out = []
    for text, style in parts:
        text = cut(text, room)
        room -= cells(text)
        out.append(paint(text, style) if color else text)
    return "".join(out)


def legend(graph: Graph, rows: Rows, folds: Sequence[Fold], *, lanes_cut: bool, width: int) -> list[str]:
    """Return the legend, of what occurs only, in lines of at most `width` columns."""
    kinds = {graph.types[t].kind for t in set(rows.type)}
    parts = ["# is the index in g.nodes"]
    parts += ["◆ custom Function"] if "custom" in kinds else []
    parts += ["■ whole region"] if kinds & {"compiled", "checkpoint"} else []
    parts += ["‹leaf›"] if any(rows.chips) else []
    parts += [SAME] if any(a and a == b for a, b in pairwise(rows.called)) else []
    parts += [f"{NO_MODULE}: {'unknown' if is_guessed(graph, rows) else 'none'}"] if _dashed(rows) else []
    parts += ["saved: kept for backward, counted once"] if any(rows.saved) else []
    parts += ["hooked: packed, size unknown"] if "hooked" in rows.state else []
    parts += [GUESSED] if is_guessed(graph, rows) else []
    parts += ["… more lanes"] if lanes_cut else []
    parts += ["⟳ unfold: g.text(fold=False)"] if folds else []
    parts += [f"{_count(rows.hidden, 'view')} hidden: g.text(views=True)"] if rows.hidden else []
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 3 + len(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(cut(part, width))
    return lines
