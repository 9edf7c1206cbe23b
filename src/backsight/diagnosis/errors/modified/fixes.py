"""What to write instead of the statement that changed a saved tensor."""

from __future__ import annotations

import ast
import re

from backsight.diagnosis.errors.modified.case import Case
from backsight.diagnosis.errors.modified.scenes import Scene
from backsight.diagnosis.evidence.memory import is_tensor, needs_gradient, storage_of
from backsight.diagnosis.evidence.written import without_inplace
from backsight.source import Place, loop_facts, statement_at
from backsight.source.body import dotted
from backsight.source.out_of_place import out_of_place

_OUT = re.compile(r",\s*out\s*=\s*([\w.]+)")


def fix(case: Case, scene: Scene, name: str, place: Place, module: str, changes: int, whole: str) -> str:
    """Say what to write instead of the statement at `place`, one of `changes` that change `name`, a view of `whole`."""
    body = scene.section.body
    statement = statement_at(body, place.line)
    if module:
        return f"Make that {module} without inplace=True."
    if whole:
        return f"Change a copy: put {whole} = {whole}.clone() before {name} is taken from it."
    if case.leaf is not None:
        move = (
            f"Move line {(scene.call or place).line} below every backward() that needs the original {case.leaf.label}."
        )
        if case.leaf.owner or case.leaf.kind != "parameter":
            return move
        return f"{move} If {case.leaf.label} is not to be trained by it: compute with it under torch.no_grad()."
    if _is_state(scene, name):
        return f"Compute with a copy, {name}.clone(): then {name} may change. Or update {name} after backward()."
    fixed = without_inplace(place.text)
    if fixed:
        return f"Leave out inplace=True: {fixed}"
    out = _OUT.search(place.text)
    if out and isinstance(statement, ast.Expr):
        return f"Write {out[1]} = {_OUT.sub('', place.text)}: that makes a new tensor."
    if _fills(statement, name) and loop_facts(body, place.line) is not None:
        return f"Collect the parts in a list, and join them after the loop: {name} = torch.stack(parts)."
    if isinstance(statement, ast.AugAssign) and not is_tensor(scene.section.value(name)) and scene.section.level:
        new = ast.unparse(ast.BinOp(statement.target, statement.op, statement.value))
        return f"Put a new tensor in its place: {body.text(statement.target)} = {new}."
    instead = out_of_place(body, place.line) if changes == 1 and not scene.call else None
    if instead and instead.startswith(f"{name} ="):
        return f"Write {instead}: that makes a new tensor and leaves the saved one as it was."
    outer = scene.given.get(name, name)
    before = f"line {scene.call.line}" if scene.call else f"line {place.line}"
    return f"Change a copy: put {outer} = {outer}.clone() before {before}."


def _is_state(scene: Scene, name: str) -> bool:
    """Whether the name is an attribute that holds a tensor without history: a buffer or a running statistic."""
    value = scene.section.value(name)
    return "." in name and storage_of(value) is not None and not needs_gradient(value)


def _fills(statement: ast.stmt | None, name: str) -> bool:
    """Whether the statement assigns a part of `name`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) and dotted(target.value) == name for target in targets)
