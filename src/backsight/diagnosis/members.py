"""BS144: the members of an ensemble are one and the same network, as they began with the same weights."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import FrameType

import torch

from backsight.diagnosis.amending import around, instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, program_frames
from backsight.diagnosis.wording import counted, listed, shown, warning
from backsight.naming import search
from backsight.source import Body, Place, assignments
from backsight.source.bindings import target_names
from backsight.source.body import callee, dotted, expressions, statements
from backsight.tape import is_captured
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters

CODES = ("BS144",)

_LARGEST = 1 << 20
_ROUNDING = 1e-5
"""The relative difference of members that begin as one: a product of several matrices may round each in its own way."""

_LOADS = frozenset({"deepcopy", "copy"})


def one_for_all(optimizers: Iterable[torch.optim.Optimizer], since: int, frame: FrameType) -> list[Finding]:
    """Return the findings of optimizers all of whose parameters are stacked, with the same values for each member.

    One statement of the program has to repeat a network, or copies of it: `[net] * 5`, `[deepcopy(net) for ...]`.
    """
    for optimizer in optimizers:
        held = [p for p in parameters(optimizer) if p.requires_grad]
        if not _are_the_same(held):
            continue
        frames = list(program_frames(frame))
        found = [each for body in bodies(frame) for each in _repeated(body)]
        networks = [each for each in found if any(_is_network(frame, each[2]) for frame in frames)]
        if len(networks or found) == 1:
            return [_finding(held, *(networks or found)[0], since)]
    return []


def _is_network(frame: FrameType, name: str) -> bool:
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    return issubclass(type(value), torch.nn.Module)


def _are_the_same(held: list[torch.Tensor]) -> bool:
    """Whether all parameters have as many slices, the same but for rounding, and those of one differ within."""
    sizes = {p.shape[0] if p.dim() else 0 for p in held}
    if len(held) < 2 or len(sizes) != 1 or min(sizes) < 2 or is_captured() or all(p.dim() < 2 for p in held):
        return False
    if any(not is_readable(p) or p.numel() > _LARGEST or p.layout != torch.strided for p in held):
        return False
    with torch.no_grad():
        varied = any(p.dim() > 2 and bool((p[0] != p[0].reshape(-1)[0]).any()) for p in held if p[0].numel())
        return varied and all(float((p - p[:1]).abs().max()) <= _ROUNDING * float(p.abs().max()) for p in held)


def _repeated(body: Body) -> Iterator[tuple[Place, Body, str, ast.expr]]:
    """Yield the lists of one network, or of copies of it, with the name of that."""
    for statement in statements(body.node):
        for node in expressions(statement):
            match node:
                case ast.ListComp(elt=element, generators=[each]) if not each.ifs:
                    if isinstance(element, ast.Call) and callee(element)[1] in _LOADS and len(element.args) == 1:
                        element = element.args[0]
                    name = dotted(element)
                    if name is not None and name.split(".")[0] not in target_names(each.target):
                        yield body.place(statement), body, name, node
                case ast.BinOp(left=ast.List(elts=[element]), op=ast.Mult()) if dotted(element):
                    yield body.place(statement), body, dotted(element) or "", node


def _finding(held: list[torch.Tensor], place: Place, body: Body, name: str, node: ast.expr, since: int) -> Finding:
    size = held[0].shape[0]
    names = [n[0].path if n else "" for n in search(held[:2], limit=1).names]
    called = listed([*names, *[""] * len(held[2:])], 2) if all(names) else counted(len(held), "parameter")
    made = assignments(body, name)
    values = [each for each in statements(body.node) if isinstance(each, ast.Assign) and body.place(each) in made]
    of = body.text(values[0].value) if len(values) == 1 and isinstance(values[0].value, ast.Call) else "Net(...)"
    times = "range(n)"
    if isinstance(node, ast.ListComp):
        times = body.text(node.generators[0].iter)
    elif isinstance(node, ast.BinOp):
        times = f"range({body.text(node.right)})"
    new = f"[{of} for _ in {times}]"
    edit = instead(body, around(body, node), {node: new}) if of != "Net(...)" else ""
    return warning(
        "BS144",
        f"All {size} members of the ensemble are one network: their weights are the same.",
        (
            shown(place, f"repeats {name}, so every member begins with the same weights."),
            f"In {called}, all {size} slices are still equal after {since} steps: with the same data "
            "and loss they stay so.",
        ),
        f"Create each member by itself: [{of} for _ in {times}]{edit}.",
        place,
        since=since,
    )
