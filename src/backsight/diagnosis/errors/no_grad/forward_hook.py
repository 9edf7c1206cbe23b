"""A forward hook that was to look at an output, and replaces it by what it returns: `return out.detach()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.naming.plain import namespace
from backsight.source import Body, Cut, Place, calls_of, cuts, function_at, only
from backsight.source.bindings import assigned
from backsight.source.body import callee, statements
from backsight.source.definitions import FILLING
from backsight.story.cut_fixes import silenced
from backsight.story.failure import function_of
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.tape import modules_in


@dataclass(frozen=True, eq=False)
class Hook:
    """A forward hook of a module that is trained: its function, what that returns, and what cuts that off.

    modules: what the program calls those that it is on.
    """

    body: Body
    returns: ast.Return
    cut: Cut
    modules: list[str]


def by_forward_hook(scene: Scene) -> Finding | None:
    """A forward hook returns its output without its graph, and so replaces the output of its module."""
    found = list(_hooks(scene))
    seen = [each for each in found if scene.saw(each.cut.place)]
    if not found or (scene.seen and not seen):
        return None
    hook = (seen or found)[-1]
    on, place = listed(hook.modules, 3), hook.body.place(hook.returns)
    registered = _registered(scene)
    does = f"is a forward hook: what it returns replaces the output of {on}."
    return explanation(
        scene.title(f"the forward hook on {on} replaces the output by {hook.cut.expression}"),
        (
            *([shown(registered, "registers the hook.")] if registered else ()),
            shown(place, does, None if seen else "read"),
            *fails(scene),
        ),
        f"{_nothing(hook)} {silenced(scene.loss)}",
        source=str(place),
        exact=bool(seen),
    )


def _hooks(scene: Scene) -> Iterator[Hook]:
    """The forward hooks that cut off what they return, of modules that are trained; each function once."""
    found: dict[tuple[str, int, int], Hook] = {}
    for name, model in scene.sources.modules.items():
        for path, module in modules_in(model) if scene.trained.carries(model) else ():
            hooks = (namespace(module) or {}).get("_forward_hooks")
            for value in hooks.values() if isinstance(hooks, dict) else ():
                hook = _hook(value, f"{name}.{path}" if path else name)
                if hook is not None:
                    key = (hook.body.file, hook.returns.lineno, hook.returns.col_offset)
                    found.setdefault(key, hook)
                    found[key].modules.extend(each for each in hook.modules if each not in found[key].modules)
    return iter(found.values())


def _hook(value: Any, module: str) -> Hook | None:
    code = getattr(function_of(value.func if type(value) is partial else value), "__code__", None)
    body = function_at(code) if code is not None else None
    for each in statements(body.node) if body is not None else ():
        if body is not None and isinstance(each, ast.Return) and each.value is not None:
            cut = next(iter(_cuts(body, each.value)), None)
            if cut is not None:
                return Hook(body, each, cut, [module])
    return None


def _cuts(body: Body, value: ast.expr) -> tuple[Cut, ...]:
    """What cuts off what a hook returns; `seen.setdefault(name, out.detach())` returns what it stores."""
    if isinstance(value, ast.Call) and callee(value)[1] == "setdefault" and len(value.args) > 1:
        value = value.args[1]
    return cuts(body, body.text(value), value.lineno)


def _registered(scene: Scene) -> Place | None:
    """The only statement of the program that registers a forward hook."""
    return only(
        body.place(each)
        for body, each, call in calls_of(*user_files(scene.failure))
        if callee(call)[1] == "register_forward_hook"
    )


def _nothing(hook: Hook) -> str:
    """How the hook returns nothing, where it keeps what it returns; else what it may return."""
    value, line, body = hook.returns.value, hook.returns.lineno, hook.body
    if isinstance(value, ast.Call) and callee(value)[1] in FILLING:
        text = ast.unparse(value)
        if body.name == "<lambda>":
            given = ast.unparse(body.node.args) if isinstance(body.node, ast.FunctionDef) else ""
            return (
                f"Let the hook return nothing: above line {line}, define `def look({given}): {text}`, and use look in "
                "place of the lambda."
            )
        return f"Let the hook return nothing: on line {line}, write `{text}`, without return."
    kept = {ast.unparse(target) for each in statements(body.node) for target, _ in assigned(each)}
    if isinstance(value, ast.Attribute | ast.Subscript) and ast.unparse(value) in kept:
        return f"Let the hook return nothing: {removed(body.place(hook.returns))}, `{body.text(hook.returns)}`."
    return (
        f"If the hook is to look only, let it store {hook.cut.expression} and return nothing. If it is to replace the "
        f"output, it must return it with its graph, without {hook.cut.expression}."
    )
