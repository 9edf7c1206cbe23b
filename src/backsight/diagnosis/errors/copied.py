"""What was being copied when a tensor refused, every other result that it keeps, and how all of them are detached."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from backsight.diagnosis.wording import listed
from backsight.naming import search
from backsight.naming.plain import class_dict, class_name, mro, namespace
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, calls_of, only, statements_of
from backsight.source.body import (
    body_around,
    callee,
    calls_in,
    expressions,
    functions,
    last_name,
    parsed,
    statements,
)
from backsight.source.edits import OR, Edit, on_line, put, write
from backsight.source.imports import meaning
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, maker_of
from backsight.tape import modules_in, registered
from backsight.text import as_code

_MOST = 4
_NAMES = 16


def copied_in(failure: Failure) -> str:
    """What the user's line gives to `deepcopy`, or to a class that copies, as `AveragedModel(model)` does."""
    level = failure.user
    given = argument(level, "deepcopy") if level else ""
    if given or level is None:
        return given
    outermost = next((each for each in failure.levels if each.frame.f_code is copy.deepcopy.__code__), None)
    held = outermost.variables.get("x") if outermost else None
    names = search([held], frames=(level.frame,)).names[0] if held is not None else ()
    return names[0].path if names else ""


def held_as(failure: Failure, copied: str, tensor: torch.Tensor) -> str:
    """The path by which the object that is copied holds a tensor; empty if none is found."""
    level = failure.user
    names = search([tensor], frames=(level.frame,), limit=_NAMES).names[0] if copied and level is not None else ()
    named = (each.path for each in names if each.path.startswith((f"{copied}.", f"{copied}[")))
    kept = results_kept(level, copied) if level is not None else []  # a search ends with the variables, if one holds it
    entries = ((each.path, *entry) for each in kept for entry in _entries(level.value(each.path) if level else None))
    return next(named, "") or next((f"{path}{at}" for path, at, value in entries if value is tensor), "")


def argument(level: Level, function: str) -> str:
    """What the statement gives to the first call of a function by this name."""
    for node in calls_in(level.statement):
        if node.args and callee(node)[1] == function:
            return level.body.text(node.args[0]) if level.body else ""
    return ""


class Kept(NamedTuple):
    """A result with a graph that an object keeps under a name: a tensor, or a list or dict with some.

    by_module: whether it is one of the modules of what is copied that keeps it.
    """

    owner: str
    name: str
    kind: type
    by_module: bool = False

    @property
    def path(self) -> str:
        return f"{self.owner}.{self.name}"

    @property
    def detached(self) -> str:
        """The statement that detaches it."""
        return f"{self.path} = {_DETACHED.get(self.kind, '{0}.detach()').format(self.path)}"


_DETACHED: dict[type, str] = {
    dict: "{{key: value.detach() for key, value in {0}.items()}}",
    list: "[value.detach() for value in {0}]",
    tuple: "tuple(value.detach() for value in {0})",
}


def results_kept(level: Level, copied: str) -> list[Kept]:
    """The results that what is copied keeps: itself, in its modules, or in the user's objects that it holds."""
    held = value_of(level, parsed(copied)) if copied else None
    queue: list[tuple[str, object]] = [(copied, held)] if held is not None else []
    modules = {id(each) for _, each in modules_in(held)} if is_module(held) else set()
    found, seen = list[Kept](), {id(held)}
    for path, one in queue:  # grows as we go
        attributes = list(_attributes(one))
        kinds = [(name, kind) for name, value in attributes if (kind := _kind(value)) is not None]
        found += [Kept(path, name, kind, id(one) in modules) for name, kind in kinds]
        inside: list[tuple[str, object]] = list(modules_in(one, path)) if is_module(one) else []
        inside += [(f"{path}.{name}{entry}", each) for name, value in attributes for entry, each in _entries(value)]
        for at, each in inside:
            if id(each) not in seen and (is_module(each) or _is_users(each)):
                seen.add(id(each))
                queue.append((at, each))
    return found


def _entries(value: object) -> list[tuple[str, object]]:
    """A value itself, or what a list, tuple or dict has in it, each with the index that leads there."""
    if isinstance(value, dict) and type(value) is dict:
        return [(f"[{key!r}]", each) for key, each in value.items() if type(key) in (str, int)]
    listed = isinstance(value, list | tuple) and type(value) in (list, tuple)
    return [(f"[{k}]", each) for k, each in enumerate(cast("list[object]", value))] if listed else [("", value)]


def _is_users(value: object) -> bool:
    """Whether it is an object of the user's that is copied attribute by attribute."""
    kind = type(value)
    return is_user_class(class_dict(kind).get("__module__")) and method(kind, "__deepcopy__") is None


def _kept_as(failure: Failure, name: str, tensor: object) -> list[Kept]:
    """What an assignment can detach of a tensor kept under a name: where its key is no code, its dict or list."""
    owner, _, attribute = name.rpartition(".")
    kind: type = torch.Tensor
    if parsed(name) is None:
        name, bracket, _ = name.rpartition("[")
        owner, _, attribute = name.rpartition(".")
        held = next((value for each in failure.users if (value := each.value(name)) is not None), None)
        kind = type(held) if bracket and _kind(held) in (dict, list) else type(None)
    code = parsed(name) is not None and "_hooks[" not in name and owner != ""
    return [Kept(owner, attribute, kind)] if code and kind is not type(None) else []


def _taken_out(failure: Failure, name: str) -> str:
    """How the only line that reads an entry of a dict takes it out, where its function empties the dict before."""
    attribute, found = name.rpartition("[")[0].rpartition(".")[2], list[tuple[Body, ast.stmt, ast.Subscript]]()
    every = [*statements_of(*user_files(failure))]
    for body, each in every if attribute else ():
        for node in expressions(each):
            if isinstance(node, ast.Subscript) and last_name(node.value) == attribute:
                found += [(body, each, node)] if isinstance(node.ctx, ast.Load) else []
    if len(found) != 1:
        return ""
    body, statement, node = found[0]
    cleared = f"{body.text(node.value)}.clear()"
    if not any(at is body and each.lineno < statement.lineno and body.text(each) == cleared for at, each in every):
        return ""
    new = rewritten(body, statement, {node: f"{body.text(node.value)}.pop({body.text(node.slice)})"})
    return f"Take it out where it is read: {on_line(body.place(statement), new)}" if new else ""


def _is_returned(failure: Failure, attribute: str) -> bool:
    """Whether a function returns what an attribute of this name holds, so that a loss may be computed from it."""
    every = (each for _, each in statements_of(*user_files(failure)) if isinstance(each, ast.Return))
    nodes = (node for each in every for node in expressions(each))
    return any(isinstance(node, ast.Attribute) and node.attr == attribute.partition("[")[0] for node in nodes)


def _attributes(held: object) -> Iterator[tuple[str, object]]:
    yield from (namespace(held) or {}).items()
    if is_module(held):
        yield from registered(held, "_buffers").items()


def _kind(value: object) -> type | None:
    """What sort of value holds results; None where it holds none, or other things, too."""
    if is_tensor(value):
        return torch.Tensor if maker_of(value) is not None else None
    if type(value) not in (list, tuple, dict) or not value:
        return None
    every = list(value.values()) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    plain = all(is_tensor(each) for each in every) and any(maker_of(each) is not None for each in every)
    return type(value) if plain else None


def detaching(copied: str, kept: list[Kept], beside: str = "") -> str:
    """`detachments` in one line."""
    parts = detachments(copied, kept, beside)
    return (" and " if any(each.startswith("for ") for each in parts) else "; ").join(parts)


def detachments(copied: str, kept: list[Kept], beside: str = "") -> list[str]:
    """The statements that detach all of these; `beside` is an attribute that only their modules have, and not on every
    pass: before it is pruned, a weight is a parameter, to which no result can be assigned."""
    parts, together = list[str](), dict[str, list[str]]()
    for attribute in dict.fromkeys(each.name for each in kept):
        alike = [each for each in kept if each.name == attribute]
        if len(alike) == 1 or any(each.kind is not torch.Tensor for each in alike):
            when = f"if hasattr({alike[0].owner}, '{beside}'): " if beside else ""
            parts += [f"{when}{each.detached}" for each in alike]
            continue
        every = f"({', '.join(each.owner for each in alike)})"
        many = len(alike) > _MOST and all(each.by_module for each in alike)
        if beside or many:
            among = f"{copied}.modules()" if many else every
            every = f"(m for m in {among} if hasattr(m, '{beside or attribute}'))"
        together.setdefault(every, []).append(f"each.{attribute} = each.{attribute}.detach()")
    return parts + [f"for each in {every}: {'; '.join(cuts)}" for every, cuts in together.items()]


def pruned(module: object, attribute: str) -> bool:
    """Whether torch.nn.utils.prune computes an attribute before each forward pass: `weight` of `weight_orig`."""
    kinds = ((each, {class_name(base) for base in mro(type(each))}) for each in pre_hooks(module))
    pruning = (namespace(each) or {} for each, kind in kinds if "BasePruningMethod" in kind)
    return any(each.get("_tensor_name") == attribute for each in pruning)


def pre_hooks(module: object) -> list[object]:
    """The hooks that run before each forward pass of a module."""
    hooks = (namespace(module) or {}).get("_forward_pre_hooks")
    return list(hooks.values()) if isinstance(hooks, dict) else []


def told_of_pruning(kept: list[Kept], attribute: str) -> str:
    """That the attribute is computed, and in which modules."""
    owners = [as_code(each.owner) for each in kept if each.name == attribute]
    where = f" in {listed(owners, 4)}" if owners else ""
    return f"Pruning computes {attribute} as {attribute}_orig * {attribute}_mask{where}, before each forward pass."


if TYPE_CHECKING:
    from backsight.diagnosis.errors.result_refused import Refused


def fix_of_copy(refused: Refused, plain: str) -> str:
    """Say how an attribute that a module keeps is dropped, or kept without its graph, and how a tensor is copied."""
    owner, _, attribute = refused.name.rpartition(".")
    old = _reparametrized(_holder(refused, owner, attribute))
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
        kept = refused.kept or _kept_as(refused.failure, refused.path, refused.tensor)
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
        bodies = (body for file in user_files(refused.failure) for body in functions(file))
        if refused.stored is not None and not any(_reads(body, attribute, to_detach=False) for body in bodies):
            other = f" {OR}Or d{before}" if before else ""
            return f"Store it detached, as no line of the program needs its graph: {there}.{other}"
        if taken := _taken_out(refused.failure, refused.name):
            return f"{taken}.{f' {OR}Or d{before}' if before else ''}"
        # What goes on from there would have no gradient.
        storing = body_around(refused.stored.file, refused.stored.line) if refused.stored else None
        on = refused.is_carried or _reads(storing, attribute, to_detach=True)
        on = on or _is_returned(refused.failure, attribute)
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
    """The function above whose line something goes: the one that has the name, else that of the failing line."""
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
    several = len(held) > 1 and all(is_tensor(each) for each in held)
    return f"{container} = {_DETACHED[type(value)].format(container)}" if several else ""


def _reads(body: Body | None, attribute: str, *, to_detach: bool) -> bool:
    """Whether a function reads an attribute, or an entry of it; `to_detach`: that alone counts, too."""
    inside = [node for each in statements(body) for node in ast.walk(each)]
    spared = {id(n.value) for n in inside if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    if not to_detach:
        spared |= {id(n.value) for n in inside if isinstance(n, ast.Attribute) and n.attr == "detach"}
    loads = (n for n in inside if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in spared)
    return any(each.attr == attribute.partition("[")[0] for each in loads)


def _detached(stored: Place | None, attribute: str) -> str:
    """The statement that stores an attribute, with its value detached."""
    try:
        block = ast.parse(stored.text if stored else "").body
    except (SyntaxError, ValueError):
        block = []
    match block:
        case [ast.Assign([ast.Name() | ast.Attribute() as target], value)]:
            return f"{ast.unparse(target)} = {simple(ast.unparse(value))}.detach()"
    return f"call detach() on the value assigned to {attribute}"


def _holder(refused: Refused, owner: str, attribute: str) -> object:
    """The object that keeps the tensor, by its name, or among the modules of what is copied: `net.layers[0]`."""
    level = refused.failure.user
    held = level.value(owner) if level is not None and owner else None
    whole = value_of(level, parsed(refused.copied)) if level is not None and held is None and owner else None
    inside = (each for _, each in modules_in(whole)) if is_module(whole) else ()
    return next((each for each in inside if (namespace(each) or {}).get(attribute) is refused.tensor), held)


def _reparametrized(module: object) -> str:
    """The old function of torch.nn.utils that computes a parameter of a module before each call: `weight_norm`."""
    old = {"WeightNorm": "weight_norm", "SpectralNorm": "spectral_norm"}
    return next((old[name] for hook in pre_hooks(module) if (name := class_name(type(hook))) in old), "")


def _parametrized(failure: Failure, old: str) -> str:
    """The edits that call the new function of that name, wherever the program calls the old one."""
    files = user_files(failure)
    every = [(body, each) for body, each in statements_of(*files) if isinstance(each, ast.ImportFrom)]
    brings = [(b, s) for b, s in every if isinstance(s, ast.ImportFrom) and [n.name for n in s.names] == [old]]
    if brings and all(isinstance(call.func, ast.Name) for _, _, call in calls_of(*files) if callee(call)[1] == old):
        new = f"from torch.nn.utils.parametrizations import {old}"
        return "".join(str(write(body.place(each), new)) for body, each in brings)
    changes: dict[ast.stmt, tuple[Body, dict[ast.expr, str]]] = {}
    for body, statement, call in calls_of(*user_files(failure)):
        if meaning(call.func) in (f"torch.nn.utils.{old}", f"torch.nn.utils.{old}.{old}"):
            before = body.text(call.func).removesuffix(old) if isinstance(call.func, ast.Attribute) else ""
            new = f"{before or 'torch.nn.utils.'}parametrizations.{old}"
            changes.setdefault(statement, (body, {}))[1][call.func] = new
    lines = [(body.place(each), rewritten(body, each, new)) for each, (body, new) in changes.items()]
    return "".join(str(write(*each)) for each in lines) if all(line for _, line in lines) else ""
