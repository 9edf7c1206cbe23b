"""The last column of a row: which module it is in, its leaves, and what is remarkable about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from backsight.tape.cells import Style, cells, cut, cut_left, harmless, paint
from backsight.tape.fold import Fold
from backsight.tape.graph import Graph
from backsight.tape.rows import Rows, together

MOST_CHIPS = 8

NO_MODULE = "–"
"""Stands below a path where a row has none, since an empty place means the same path again."""


class Piece(NamedTuple):
    """A stretch of text in one style. `ditto` marks what the row above says too: dim, or blank without colour."""

    text: str
    style: Style = "plain"
    ditto: bool = False


def of_row(graph: Graph, rows: Rows, row: int) -> list[Piece]:
    """Return the remarks on a row, without its module: the most urgent first."""
    out = []
    if "modified" in rows.state[row]:
        out.append(Piece("✗ " + harmless(rows.state[row]), "red"))
    kind = graph.types[rows.type[row]]
    indices = rows.leaves[row]
    for text, k in list(zip(rows.chips[row], indices, strict=False))[:MOST_CHIPS]:
        leaf = graph.leaves[k]
        sure = leaf.name and leaf.kind != "overwritten"
        out.append(Piece(f"‹{harmless(text)}›", "green" if sure else "yellow"))
    if len(rows.chips[row]) > MOST_CHIPS:
        out.append(Piece(f"and {len(rows.chips[row]) - MOST_CHIPS:,} more leaves", "dim"))
    if kind.kind == "custom":
        out.append(Piece(harmless(PurePath(kind.source).name) if kind.source else "custom", "dim"))
    elif kind.kind in ("compiled", "checkpoint"):
        out.append(Piece(kind.kind, "dim"))
    if rows.roots.get(row):
        out.append(Piece("◉ " + harmless(", ".join(together(rows.roots[row]))), "bold"))
    return out


@lru_cache(maxsize=65536)
def module_pieces(module: str, above: str) -> tuple[Piece, ...]:
    """Return a module's path, split where it begins to differ from that of the row above: what comes before is dim.

    The same path is not repeated. One that goes on otherwise is whole: without color, `.attn` alone says little.
    """
    if not module:
        return (Piece(NO_MODULE, "dim"),) if above else ()
    if module == above:
        return (Piece(harmless(module), ditto=True),)
    parts, others = module.split("."), above.split(".")
    same = 0
    while same < min(len(parts) - 1, len(others)) and parts[same] == others[same]:
        same += 1
    if 0 < same == len(parts) - 1 and parts[-1].isdigit():  # `.h.0` tells more than `.0`
        same -= 1
    if not same:
        return (Piece(harmless(module)),)
    return Piece(harmless(".".join(parts[:same])), "dim"), Piece(harmless("." + ".".join(parts[same:])))


def span(rows: Rows, fold: Fold) -> str:
    """Return what goes up from repetition to repetition: `h.0 … h.11`, `‹w[0]› … ‹w[4]›`, or nothing."""
    moved = fold.period * (fold.count - 1)
    ends = [
        _moving_ends(rows.called[row], rows.called[row + moved])
        for row in fold.body
        if rows.called[row] != rows.called[row + moved]
    ]
    if ends:
        (first, _), (_, last) = ends[0], ends[-1]
        parent = first.rpartition(".")[0]
        return f"{first} … {last.removeprefix(f'{parent}.') if _own_name(first) else _short(last)}"
    chips = [(a, b) for row in fold.body for a, b in zip(rows.chips[row], rows.chips[row + moved], strict=True)]
    differ = [(a, b) for a, b in chips if a != b]
    return f"‹{differ[0][0]}› … ‹{differ[-1][1]}›" if differ else ""


def _moving_ends(first: str, last: str) -> tuple[str, str]:
    """Cut both paths behind the part in which they first differ."""
    a, b = first.split("."), last.split(".")
    k = next(k for k, (x, y) in enumerate(zip(a, b, strict=True), 1) if x != y)
    return ".".join(a[:k]), ".".join(b[:k])


def _own_name(path: str) -> bool:
    return not path.rpartition(".")[2].isdigit()


def _short(path: str) -> str:
    return ".".join(path.split(".")[-2:])


def joined(module: Sequence[Piece], others: Sequence[Piece], room: int, *, color: bool) -> str:
    """Return module and remarks side by side in at most `room` columns; a path gives up its beginning first."""
    needed = sum(cells(p.text) + 1 for p in others)
    path = sum(cells(p.text) for p in module)
    if path + (1 if path and others else 0) + needed - (1 if others else 0) > room and module:
        own = module[-1]
        text = cut_left(own.text, max(room - needed, room // 2, 8))
        module = () if own.ditto else (Piece(text, own.style),)
    pieces: list[Piece] = [*module]
    for piece in others:
        pieces += [Piece(" "), piece] if pieces else [piece]
    out = []
    for piece in pieces:
        if room <= 0:
            break
        text = cut(piece.text, room)
        room -= cells(text)
        if piece.ditto:
            text = paint(text, "dim") if color else " " * cells(text)
        out.append(paint(text, piece.style) if color else text)
    return "".join(out)
