"""What was being copied when a tensor refused: the object, its name, and every other result that it keeps."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch

from backsight.diagnosis.wording import listed
from backsight.naming import search
from backsight.naming.plain import class_dict, class_name, mro, namespace
from backsight.naming.roots import is_user_class
from backsight.source.body import Body, callee, calls_in, expressions, functions, last_name, parsed, statements
from backsight.source.edits import on_line
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, maker_of
from backsight.tape import modules_in, registered
from backsight.text import as_code

_MOST = 4
_NAMES = 16


def copied_in(failure: Failure) -> str:
    """What the user's line calls the object that is copied: what it gives to `deepcopy`, or what a class of PyTorch's
    copies, as `AveragedModel(model)` does."""
    level = failure.user
    given = argument(level, "deepcopy") if level else ""
    if given or level is None:
        return given
    outermost = next((each for each in failure.levels if each.frame.f_code is copy.deepcopy.__code__), None)
    held = outermost.variables.get("x") if outermost else None
    names = search([held], frames=(level.frame,)).names[0] if held is not None else ()
    return names[0].path if names else ""


def held_as(failure: Failure, copied: str, tensor: torch.Tensor) -> str:
    """The path by which the object that is copied holds a tensor, which other variables may hold, too; empty if none
    is found."""
    level = failure.user
    names = search([tensor], frames=(level.frame,), limit=_NAMES).names[0] if copied and level is not None else ()
    return next((each.path for each in names if each.path.startswith((f"{copied}.", f"{copied}["))), "")


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
        if self.kind is dict:
            return f"{self.path} = {{key: value.detach() for key, value in {self.path}.items()}}"
        whole = f"{self.kind.__name__}(value.detach() for value in {self.path})"
        if self.kind is list:
            whole = f"[value.detach() for value in {self.path}]"
        return f"{self.path} = {whole if self.kind in (list, tuple) else f'{self.path}.detach()'}"


def results_kept(level: Level, copied: str) -> list[Kept]:
    """The results that what is copied keeps, as attributes and buffers of its modules, of itself, or of the user's
    objects that it holds: each one would be refused."""
    held = level.value(copied) if copied else None
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


def kept_as(failure: Failure, name: str, tensor: object) -> list[Kept]:
    """What an assignment can detach of one tensor that is kept under a name: of an entry whose key cannot be written,
    all of the dict or list; nothing where the name is no code, or the way to it goes through a hook."""
    owner, _, attribute = name.rpartition(".")
    kind: type = torch.Tensor
    if parsed(name) is None:
        name, bracket, _ = name.rpartition("[")
        owner, _, attribute = name.rpartition(".")
        held = next((value for each in failure.users if (value := each.value(name)) is not None), None)
        kind = type(held) if bracket and _kind(held) in (dict, list) else type(None)
    code = parsed(name) is not None and "_hooks[" not in name and owner != ""
    return [Kept(owner, attribute, kind)] if code and kind is not type(None) else []


def taken_out(failure: Failure, name: str) -> str:
    """How the only line that reads an entry of a dict takes it out, where its function empties the dict before: then
    nothing else needs it. Empty for anything else."""
    attribute, found = name.rpartition("[")[0].rpartition(".")[2], list[tuple[Body, ast.stmt, ast.Subscript]]()
    every = [(body, each) for file in user_files(failure) for body in functions(file) for each in statements(body.node)]
    for body, each in every if attribute else ():
        for node in expressions(each):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and last_name(node.value) == attribute
            ):
                found.append((body, each, node))
    if len(found) != 1:
        return ""
    body, statement, node = found[0]
    cleared = f"{body.text(node.value)}.clear()"
    if not any(at is body and each.lineno < statement.lineno and body.text(each) == cleared for at, each in every):
        return ""
    new = rewritten(body, statement, {node: f"{body.text(node.value)}.pop({body.text(node.slice)})"})
    return f"Take it out where it is read: {on_line(body.place(statement), new)}" if new else ""


def is_returned(failure: Failure, attribute: str) -> bool:
    """Whether a function returns what an attribute of this name holds, so that a loss may be computed from it."""
    every = (each for file in user_files(failure) for body in functions(file) for each in statements(body.node))
    nodes = (node for each in every if isinstance(each, ast.Return) for node in expressions(each))
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
    """Whether torch.nn.utils.prune computes an attribute of a module before each forward pass: what is trained is
    `weight_orig`, and `weight` its product with `weight_mask`."""
    hooks = (namespace(module) or {}).get("_forward_pre_hooks")
    found = list(hooks.values()) if isinstance(hooks, dict) else []
    return any(
        any(class_name(base) == "BasePruningMethod" for base in mro(type(each)))
        and (namespace(each) or {}).get("_tensor_name") == attribute
        for each in found
    )


def told_of_pruning(kept: list[Kept], attribute: str) -> str:
    """That the attribute is computed, and in which modules."""
    owners = [as_code(each.owner) for each in kept if each.name == attribute]
    where = f" in {listed(owners, 4)}" if owners else ""
    return f"Pruning computes {attribute} as {attribute}_orig * {attribute}_mask{where}, before each forward pass."
