"""What to do about a result that cannot be copied: it is detached before the copy, or where it is stored."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from backsight.diagnosis.errors.copied import detaching, detachments, is_returned, kept_as, taken_out
from backsight.naming.plain import class_name, namespace
from backsight.source import Body, Place, calls_of, only
from backsight.source.body import body_around, callee, calls_in, functions, statements
from backsight.source.edits import OR, Edit, on_line, put, write
from backsight.source.imports import meaning
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor

if TYPE_CHECKING:
    from backsight.diagnosis.errors.result_refused import Refused


def fix_of_copy(refused: Refused, plain: str) -> str:
    """Say how an attribute that a module keeps is dropped, or kept without its graph, and how a tensor is copied."""
    owner, _, attribute = refused.name.rpartition(".")
    holder = refused.failure.user.value(owner) if owner and refused.failure.user else None
    old = _reparametrized(holder) if is_module(holder) else ""
    new = _parametrized(refused.failure, old) if old else ""
    if old:
        return (
            f"torch.nn.utils.{old} stores {attribute} as a computed tensor. Use "
            f"torch.nn.utils.parametrizations.{old}{new}, whose modules can be copied."
        )
    if refused.are_several and not refused.is_pruned:
        before = detaching(refused.copied, refused.kept)
        edit = _put_above(refused, *detachments(refused.copied, refused.kept))
        return f"Detach each before the copy{_above(refused)}: {before}{edit}."
    if several := _held_together(refused):
        filled = refused.filled
        how = "store each detached"
        if filled and filled[1]:
            how = f"write `{filled[1]}` on line {filled[0].line}{write(*filled)}"
        return (
            f"Detach all of them before the copy{_above(refused)}: {several}{_put_above(refused, several)}. {OR}Or, if "
            f"no loss is computed from them there, {how}."
        )
    if owner:
        kept = refused.kept or kept_as(refused.failure, refused.path, refused.tensor)
        beside = f"{attribute}_orig" if refused.is_pruned else ""
        before = detaching(refused.copied, kept, beside)
        edit = _put_above(refused, *detachments(refused.copied, kept, beside)) if before else ""
        if refused.is_pruned:
            line = _above(refused).removeprefix(",")
            which = "it" if len(kept) == 1 else "each"
            return f"Detach {which} before the copy: put `{before}`{line}{edit}. {_PRUNED}"
        which, detached = "it" if len(kept) < 2 else "each", _detached(refused.stored, attribute)
        before = f"etach {which} before the copy{_above(refused)}: {before}{edit}." if before else ""
        detached = refused.filled[1] if refused.filled and refused.filled[1] else detached
        stored = refused.filled[0] if refused.filled and refused.filled[1] else refused.stored
        there = on_line(stored, detached) if stored and " = " in detached else detached
        if refused.stored is not None and not _is_read(refused, attribute):
            other = f" {OR}Or d{before}" if before else ""
            return f"Store it detached, as no line of the program needs its graph: {there}.{other}"
        if taken := taken_out(refused.failure, refused.name):
            return f"{taken}.{f' {OR}Or d{before}' if before else ''}"
        # What goes on from there would have no gradient.
        on = refused.is_carried or _is_read_there(refused, attribute) or is_returned(refused.failure, attribute)
        if before and on:
            return f"D{before}"
        hedged = f"if no loss is computed from it there, store it detached: {there}."
        return f"D{before} {OR}Or, {hedged}" if before else f"I{hedged[1:]}"
    copy = f"{plain}.detach().clone()"
    return f"Copy its values: {copy}, which .requires_grad_() makes a leaf{_copied_as(refused, copy)}."


def _copied_as(refused: Refused, copy: str) -> Edit | str:
    """The failing statement, with a copy of the values instead of what it copies."""
    level = refused.failure.user
    calls = (each for each in calls_in(level.statement) if callee(each)[1] == "deepcopy") if level is not None else ()
    call = only(each for each in calls if each.args)
    if level is None or level.body is None or level.statement is None or call is None:
        return ""
    is_it = level.body.text(call.args[0]) == refused.name
    new = rewritten(level.body, level.statement, {call: copy}) if is_it else ""
    return write(level.place, new) if new else ""


def _level_above(refused: Refused) -> Level | None:
    """The function whose line something goes above: that of the failing line; of what another function calls by this
    name, that one."""
    root = refused.path.partition(".")[0].partition("[")[0]
    levels = (each for each in refused.failure.users if root in each.variables)
    return next(levels, refused.failure.user)


def _above(refused: Refused) -> str:
    level = _level_above(refused)
    return f", above line {level.line}" if level else ""


def _put_above(refused: Refused, *codes: str) -> Edit | str:
    level = _level_above(refused)
    return put("\n".join(codes), "above", level.place) if level else ""


_PRUNED = (
    "The next forward pass computes it anew, so nothing is lost. prune.remove() would make it a leaf, too, but the "
    "entries that were pruned would be trained again."
)


def _held_together(refused: Refused) -> str:
    """The statement that detaches a dict or a list of results, where the refused one is one of several in it."""
    container, bracket, _ = refused.path.rpartition("[")
    value = refused.failure.user.value(container) if bracket and refused.failure.user else None
    held = list(dict.values(value)) if type(value) is dict else value if type(value) is list else []
    if len(held) < 2 or not all(is_tensor(each) for each in held):
        return ""
    if type(value) is dict:
        return f"{container} = {{key: value.detach() for key, value in {container}.items()}}"
    return f"{container} = [value.detach() for value in {container}]"


def _is_read_there(refused: Refused, attribute: str) -> bool:
    """Whether the function that stores an attribute reads it, too: `self.code = z; return self.code`."""
    body = body_around(refused.stored.file, refused.stored.line) if refused.stored else None
    inside = [node for each in statements(body.node) for node in ast.walk(each)] if body else []
    attribute = attribute.partition("[")[0]
    filled = {id(n.value) for n in inside if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    read = (n for n in inside if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in filled)
    return any(each.attr == attribute for each in read)


def _is_read(refused: Refused, attribute: str) -> bool:
    """Whether any line of the user's files reads an attribute of this name, or an entry of it, but to detach it."""
    held = attribute.partition("[")[0]
    for body in (each for file in user_files(refused.failure) for each in functions(file)):
        inside = [node for each in statements(body.node) for node in ast.walk(each)]
        spared = {id(node.value) for node in inside if isinstance(node, ast.Attribute) and node.attr == "detach"}
        spared |= {id(n.value) for n in inside if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
        for node in inside:
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()) if name == held and id(node) not in spared:
                    return True
    return False


def _detached(stored: Place | None, attribute: str) -> str:
    """The statement that stores an attribute, with its value detached."""
    try:
        (statement,) = ast.parse(stored.text if stored else "").body
    except (SyntaxError, ValueError):
        statement = None
    is_one = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    if is_one and isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name | ast.Attribute):
        return f"{ast.unparse(statement.targets[0])} = {simple(ast.unparse(statement.value))}.detach()"
    return f"call detach() on the value assigned to {attribute}"


def _reparametrized(module: object) -> str:
    """The old function of torch.nn.utils that computes a parameter of a module before each call: `weight_norm`."""
    hooks = (namespace(module) or {}).get("_forward_pre_hooks")
    for hook in hooks.values() if isinstance(hooks, dict) else ():
        old = {"WeightNorm": "weight_norm", "SpectralNorm": "spectral_norm"}.get(class_name(type(hook)))
        if old:
            return old
    return ""


def _parametrized(failure: Failure, old: str) -> str:
    """The edits that call the new function of that name, wherever the program calls the old one."""
    changes: dict[ast.stmt, dict[ast.expr, str]] = {}
    bodies: dict[ast.stmt, Body] = {}
    for body, statement, call in calls_of(*user_files(failure)):
        if meaning(call.func) in (f"torch.nn.utils.{old}", f"torch.nn.utils.{old}.{old}"):
            before = body.text(call.func).removesuffix(old) if isinstance(call.func, ast.Attribute) else ""
            new = f"{before or 'torch.nn.utils.'}parametrizations.{old}"
            changes.setdefault(statement, {})[call.func] = new
            bodies[statement] = body
    lines = {each: rewritten(bodies[each], each, new) for each, new in changes.items()}
    edits = (write(bodies[each].place(each), line) for each, line in lines.items())
    return "".join(map(str, edits)) if all(lines.values()) else ""
