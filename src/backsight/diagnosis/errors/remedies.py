"""What to write instead, for errors of PyTorch whose message has no variable: read from the statement that failed."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import torch

from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.wording import counted, listed, shaped, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name
from backsight.source import Body, Place, function_at
from backsight.source.bindings import spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.changes import changed_names
from backsight.source.out_of_place import out_of_place
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, method
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.story.sections import function_called, undecorated
from backsight.tape import parameters_in


class Remedy(NamedTuple):
    """What to do, what else was read for it, and the statement that is to be changed, if it is not the failing one."""

    fix: str
    evidence: tuple[Fact, ...] = ()
    place: Place | None = None


Match: TypeAlias = "re.Match[str]"
_REMEDIES: list[tuple[re.Pattern[str], Callable[[Refusal, Match], Remedy | None]]] = []


def mends(
    pattern: str,
) -> Callable[[Callable[[Refusal, Match], Remedy | None]], Callable[[Refusal, Match], Remedy | None]]:
    """Enter a function that proposes a remedy for messages that fit a pattern."""

    def enter(function: Callable[[Refusal, Match], Remedy | None]) -> Callable[[Refusal, Match], Remedy | None]:
        _REMEDIES.append((re.compile(pattern, re.DOTALL), function))
        return function

    return enter


def remedy_of(found: Refusal) -> Remedy | None:
    """Return what to do about an error, where the program's text shows it; else None."""
    for pattern, function in _REMEDIES:
        if (match := pattern.search(found.failure.message)) and (told := function(found, match)) is not None:
            return told
    return None


@mends(r"don't yet support saved tensor hooks")
def _checkpointed(found: Refusal, match: Match) -> Remedy | None:
    """torch.func differentiates what a checkpoint runs: without it."""
    call, body, statement = found.expression, found.level.body, found.level.statement
    if not isinstance(call, ast.Call) or callee(call)[1] != "checkpoint" or body is None or statement is None:
        return None
    own = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug")
    given = [
        *map(body.text, call.args[1:]),
        *(f"{k.arg}={body.text(k.value)}" for k in call.keywords if k.arg not in own),
    ]
    line = rewritten(body, statement, {call: f"{simple(body.text(call.args[0]))}({', '.join(given)})"})
    return Remedy(
        f"torch.func cannot differentiate through checkpoint(): on line {statement.lineno}, write `{line}` where "
        "torch.func transforms the model. To save memory instead, pass chunk_size to torch.func.vmap or jacrev."
    )


@mends(r"grad_output\[(\d+)\] has a shape of .* and output\[\d+\] has a shape of")
def _shape_of_gradient(found: Refusal, match: Match) -> Remedy | None:
    """The gradient that backward starts from has another shape than the output."""
    call, level = found.expression, found.level
    if not isinstance(call, ast.Call) or level.body is None:
        return None
    receiver, name = callee(call)
    of_tensor = name == "backward" and is_tensor(value_of(level, receiver))
    output = receiver if of_tensor else next(iter(call.args), keyword(call, "outputs", "tensors"))
    position = 0 if of_tensor else 1 if name == "backward" else 2
    if (of_vjp := _vjp(level.body, call)) is not None:
        output, position = of_vjp[1], 0
    given = keyword(call, "grad_outputs", "gradient", "grad_tensors") or next(iter(call.args[position:]), None)
    pair = [_element(each, int(match[1])) for each in (output, given)]
    return _in_shape(level, "gradient", *pair)


def _vjp(body: Body, call: ast.Call) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that has made the function which is called, by vjp(), and what it assigns the output to."""
    for each in statements(body.node):
        match each:
            case ast.Assign(targets=[ast.Tuple(elts=[output, ast.Name(id=made), *_])], value=ast.Call() as making):
                if made == dotted(call.func) and callee(making)[1] == "vjp":
                    return each, output
    return None


def _in_shape(level: Level, what: str, like: ast.expr | None, given: ast.expr | None) -> Remedy | None:
    """Give what was passed the shape of a tensor: where it is made, or else where it is passed."""
    if level.body is None or level.statement is None or like is None or given is None:
        return None
    text = level.body.text(like)
    must = f"The {what} must have the shape of {text}"
    made = _made(level, given)
    if made and (factory := _like(made[1], text)):
        line = rewritten(level.body, made[0], {made[1]: factory})
        place = level.body.place(made[0])
        return Remedy(f"{must}: on line {place.line}, write `{line}`.", (), place)
    sizes = [shape_of(value_of(level, each)) for each in (like, given)]
    if _broadcasts(sizes[1], sizes[0]):
        new = f"{simple(level.body.text(given))}.expand_as({text})"
        line = rewritten(level.body, level.statement, {given: new})
        return Remedy(f"{must}: on line {level.line}, write `{line}`.") if line else None
    return Remedy(f"{must}: {shaped(sizes[0])}.") if sizes[0] else None


def _element(node: ast.expr | None, index: int) -> ast.expr | None:
    elements = node.elts if isinstance(node, ast.List | ast.Tuple) else None
    return node if elements is None else elements[index] if index < len(elements) else None


def _made(level: Level, node: ast.expr) -> tuple[ast.stmt, ast.Call] | None:
    """The statement that makes a tensor in this function, and the call that does; the call itself where it stands."""
    if isinstance(node, ast.Call):
        return (level.statement, node) if level.statement else None
    name = dotted(node)
    before = [each for each in statements(level.body.node) if each.lineno < level.line] if level.body else []
    for each in reversed(before):
        if isinstance(each, ast.Assign) and [*map(dotted, each.targets)] == [name]:
            return (each, each.value) if isinstance(each.value, ast.Call) else None
    return None


def _like(call: ast.Call, text: str) -> str:
    receiver, name = callee(call)
    known = {"ones", "zeros", "rand", "randn"}
    return f"torch.{name}_like({text})" if name in known and dotted(receiver) == "torch" else ""


def _broadcasts(small: tuple[int, ...] | None, large: tuple[int, ...] | None) -> bool:
    if small is None or large is None or len(small) > len(large):
        return False
    return all(a in (1, b) for a, b in zip(reversed(small), reversed(large), strict=False))


@mends(r"marked as dirty during the forward method were not returned")
def _not_returned(found: Refusal, match: Match) -> Remedy | None:
    """A custom Function changes its input in place, says so, and returns something else."""
    body = forward_of(found)
    marks = [(s, c) for s in statements(body.node) for c in calls_in(s) if callee(c)[1] == "mark_dirty"] if body else []
    if body is None or not marks or not marks[0][1].args:
        return None
    name = body.text(marks[0][1].args[0])
    changing = next((each for each in statements(body.node) if name in changed_names(each)), None)
    returning = next((each for each in statements(body.node) if isinstance(each, ast.Return)), None)
    instead = _without_underscore(body, changing) if changing is not None else ""
    plain = (
        f"Or modify nothing in place: remove line {marks[0][0].lineno} and write `{instead}` on line {changing.lineno}."
        if instead and changing is not None
        else f"Or remove line {marks[0][0].lineno}, and compute a new tensor instead of changing {name}."
    )
    lines = [shown(body.place(marks[0][0]), f"declares that forward modifies {name} in place.")]
    lines += [shown(body.place(returning), f"does not return {name} itself.")] if returning else []
    return Remedy(
        f"Return {name} itself as one of the outputs. {plain}", tuple(lines), body.place(returning or marks[0][0])
    )


def forward_of(found: Refusal) -> Body | None:
    """The forward of the custom Function that failed."""
    cls = _function(found)
    forward = undecorated(method(cls, "forward")) if cls is not None else None
    return function_at(forward.__code__) if forward is not None else None


def _function(found: Refusal) -> type | None:
    call = found.expression
    receiver, name = callee(call) if isinstance(call, ast.Call) else (None, "")
    cls = value_of(found.level, receiver) if name == "apply" else None
    return cls if isinstance(cls, type) else None


@mends(r"Can't detach views in-place")
def _detached_view(found: Refusal, match: Match) -> Remedy | None:
    """`s.detach_()` of what chunk() or an index gave: detach() instead, and for the parts of a state a new state."""
    call, body, statement = found.expression, found.level.body, found.level.statement
    receiver = callee(call)[0] if isinstance(call, ast.Call) else None
    if receiver is None or body is None or statement is None:
        return None
    name = body.text(receiver)
    loop = next((arm for s in spots(body.node) if s.node is statement for arm, _ in reversed(s.arms)), None)
    if isinstance(loop, ast.For) and dotted(loop.target) == name and (whole := dotted(loop.iter)):
        kind = "tuple(" if type(found.level.value(whole)) is tuple else "["
        end = ")" if kind == "tuple(" else "]"
        alone = len(loop.body) == 1
        where = f"lines {loop.lineno} to {statement.lineno}" if alone else f"line {statement.lineno}, below the loop"
        return Remedy(
            f"{name} is a view, which cannot be detached in place: write `{whole} = {kind}{name}.detach() for "
            f"{name} in {whole}{end}` instead of {where}."
        )
    return Remedy(f"{name} is a view: on line {statement.lineno}, write `{name} = {name}.detach()`.")


@mends(r"vmap: Expected all tensors to have the same size in the mapped dimension")
def _not_mapped(found: Refusal, match: Match) -> Remedy | None:
    """One argument has another size than all others: it is the same for each."""
    call, level, body = found.expression, found.level, found.level.body
    inner = call.func if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or body is None or level.statement is None:
        return None
    sizes = [_sizes(value_of(level, each)) for each in call.args]
    common = Counter(size for each in sizes for size in each).most_common(1)
    odd = [k for k, each in enumerate(sizes) if each and common and common[0][0] not in each]
    if not odd:
        return None
    names = [body.text(call.args[k]) for k in odd]
    given = keyword(inner, "in_dims") if isinstance(inner, ast.Call) else None
    old = [body.text(each) for each in given.elts] if isinstance(given, ast.Tuple) else ["0"] * len(call.args)
    dims = f"({', '.join('None' if k in odd else each for k, each in enumerate(old))})"
    line = ""
    if isinstance(inner, ast.Call) and callee(inner)[1] == "vmap":
        new = {given: dims} if given is not None else {inner: f"{body.text(inner)[:-1]}, in_dims={dims})"}
        line = rewritten(body, level.statement, new)  # type: ignore[arg-type]  # expressions, both
    how = f"on line {level.statement.lineno}, write `{line}`" if line else f"pass in_dims={dims} to vmap"
    return Remedy(
        f"The first dimension of the other mapped tensors has size {common[0][0]}; {listed(names, 3)} "
        f"{'has' if len(names) == 1 else 'have'} {', '.join(str(sizes[k][0]) for k in odd)}. If every call takes all "
        f"of {listed(names, 3)}, {how}. If not, give {'it' if len(names) == 1 else 'them'} {common[0][0]} rows."
    )


def _sizes(value: Any) -> list[int]:
    """The sizes of the first dimension of a tensor, or of those in a plain dict or tuple."""
    held = [*value.values()] if type(value) is dict else [*value] if type(value) in (list, tuple) else [value]
    return [shape[0] for each in held if (shape := shape_of(each))]


@mends(r"Expected f\(\*args\) to return a scalar|[Ee]xpected .*grad.* to return a scalar|grad.*to return a scalar")
def _not_a_number(found: Refusal, match: Match) -> Remedy | None:
    """The function that torch.func.grad differentiates returns several numbers: its return, with their mean."""
    for call in calls_in(found.level.statement):
        asked = callee(call)[1] in ("grad", "grad_and_value") and call.args
        body = _source_of(found.level, call.args[0]) if asked else None
        if body is None:
            continue
        returns = [each for each in statements(body.node) if isinstance(each, ast.Return)]
        if len(returns) != 1 or returns[0].value is None:
            return None
        value = returns[0].value
        value = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
        line = rewritten(body, returns[0], {value: f"{simple(body.text(value))}.mean()"})
        place = body.place(returns[0])
        lines = (shown(place, "returns several numbers."),)
        return Remedy(
            f"Return one number: on line {place.line}, write `{line}`. For the derivative of each of them, use "
            "torch.func.jacrev instead.",
            lines,
            place,
        )
    return None


@mends(r"implement the jvp function for custom autograd.Function")
def _without_jvp(found: Refusal, match: Match) -> Remedy | None:
    """Forward mode reaches a custom Function: its plain forward, which PyTorch differentiates itself, or a jvp."""
    cls, body, call, statement = _function(found), found.level.body, found.expression, found.level.statement
    forward = forward_of(found)
    if cls is None or body is None or forward is None or statement is None or not isinstance(call, ast.Call):
        return None
    name = class_name(cls)
    first = next(iter(getattr(getattr(forward.node, "args", None), "args", [])), None)
    with_context = first is not None and first.arg in ("ctx", "context", "self", "_")
    define = (
        f"define `@staticmethod def jvp(ctx, *tangents)` in {name}, which returns the derivative of the output along "
        "the tangents, from tensors that forward saves with `ctx.save_for_forward(...)` as well"
    )
    if with_context:
        return Remedy(
            f"To use forward mode, {define}. Or take the derivative in reverse mode: torch.func.vjp or jacrev."
        )
    line = rewritten(body, statement, {call.func: f"{body.text(call.func).removesuffix('apply')}forward"})
    return Remedy(
        f"If forward uses only PyTorch operations that have a derivative, let PyTorch differentiate it: on line "
        f"{statement.lineno}, write `{line}`. Otherwise, {define}."
    )


@mends(r"post accumulate grad hooks cannot be registered on non-leaf")
def _hook_of_leaves(found: Refusal, match: Match) -> Remedy | None:
    """A hook that runs once a gradient has been accumulated: on the leaves behind a computed tensor."""
    call, body, level = found.expression, found.level.body, found.level
    receiver = callee(call)[0] if isinstance(call, ast.Call) else None
    if receiver is None or body is None or not isinstance(call, ast.Call) or level.statement is None:
        return None
    name, hook = body.text(receiver), ", ".join(map(body.text, call.args))
    owner = receiver.value if isinstance(receiver, ast.Attribute) else None
    if owner is not None and is_module(value_of(level, owner)):
        each = f"for p in {body.text(owner)}.parameters(): p.register_post_accumulate_grad_hook({hook})"
        return Remedy(
            f"{name} is computed anew each time it is read, and has no .grad. Register the hook on the parameters that "
            f"it is computed from: on line {level.statement.lineno}, write `{each}`."
        )
    return Remedy(
        f"{name} is a result, and has no .grad. For its gradient, {name}.register_hook(...), whose hook receives the "
        "gradient; for an update in backward, register this hook on the parameters."
    )


@mends(r"saved tensor pack hook is modifying its input in place")
def _packing(found: Refusal, match: Match) -> Remedy | None:
    """The pack hook of saved_tensors_hooks, and its statement that works in place."""
    for level in found.failure.users:
        for call in _contexts(level):
            if callee(call)[1] != "saved_tensors_hooks" or not call.args or level.body is None:
                continue
            body = _source_of(level, call.args[0])
            for each in statements(body.node) if body is not None else ():
                if body is None or not (names := changed_names(each)):
                    continue
                new = _without_underscore(body, each)
                place, name = body.place(each), min(names)
                how = f"write `{new}` on line {place.line}" if new else f"compute with a copy, {name}.clone()"
                return Remedy(
                    f"Leave {name} unchanged, because the program still uses it: {how}.",
                    (shown(place, f"modifies {name}, the program's own tensor, in place."),),
                    place,
                )
    return None


def _contexts(level: Level) -> Iterator[ast.Call]:
    """The calls in the `with` statements around a level's line."""
    around = next((s.arms for s in spots(level.body.node) if s.node is level.statement), ()) if level.body else ()
    for arm, _ in around:
        if isinstance(arm, ast.With):
            yield from (item.context_expr for item in arm.items if isinstance(item.context_expr, ast.Call))


def _without_underscore(body: Body, statement: ast.stmt) -> str:
    """A statement with each method that works in place replaced by its namesake; empty where one has none."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        receiver, name = callee(statement.value)
        given = body.text(statement.value)[len(body.text(statement.value.func)) :]
        if dotted(receiver) not in (None, "torch", "F") and hasattr(torch.Tensor, name[:-1]) and name.endswith("_"):
            return f"{dotted(receiver)} = {dotted(receiver)}.{name[:-1]}{given}"
    if not isinstance(statement, ast.Return | ast.Assign):
        return out_of_place(body, statement.lineno) or ""
    changes: dict[ast.expr, str] = {}
    for call in calls_in(statement):
        receiver, name = callee(call)
        if receiver is not None and name.endswith("_") and not name.startswith("_"):
            if not hasattr(torch.Tensor, name[:-1]):
                return ""
            given = body.text(call)[len(body.text(call.func)) :]
            changes[call] = f"{body.text(receiver)}.{name[:-1]}{given}"
    return rewritten(body, statement, changes) if changes else ""


@mends(r"[Oo]utput (?P<output>\d+|\S+) of the user-provided function .*independent of input (?P<input>\d+)")
def _independent(found: Refusal, match: Match) -> Remedy | None:
    """strict=True refuses an output that does not depend on an input."""
    call, level = found.expression, found.level
    strict = keyword(call, "strict") if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or level.body is None or level.statement is None or strict is None:
        return None
    line = rewritten(level.body, level.statement, {strict: "False"})
    body = _source_of(level, call.args[0]) if call.args else None
    at = int(match["output"]) if match["output"].isdigit() else 0
    parts = [
        (each, each.value.elts[at])
        for each in (statements(body.node) if body else ())
        if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple) and at < len(each.value.elts)
    ]
    lines = [shown(body.place(r), f"returns {body.text(p)} as output {at}.") for r, p in parts if body]
    which = f"{body.text(parts[0][1])}, output {at}," if parts and body else f"output {at}"
    return Remedy(
        f"If {which} should depend on input {match['input']}, compute it from that. If not, its derivative is zero: on "
        f"line {level.statement.lineno}, write `{line}`, which returns zeros for it.",
        tuple(lines),
    )


def _source_of(level: Level, node: ast.expr) -> Body | None:
    """The function that an expression stands for: a name, a method, a module's forward."""
    function, _ = function_called(level, ast.Call(node, [], []))
    found = undecorated(function) if function is not None else None
    return function_at(found.__code__) if found is not None else None


@mends(r"parameter group that doesn't match the size of optimizer's group|different number of parameter groups")
def _state_of_others(found: Refusal, match: Match) -> Remedy | None:
    """The state of an optimizer was saved for other parameters than this one has."""
    below = found.below[-1].variables if found.below else {}
    sizes = [_lengths(below, "saved_groups"), _lengths(below, "groups")]
    if not all(sizes) or found.level.statement is None:
        return None
    line = found.level.statement.lineno
    return Remedy(
        f"It was saved with {_groups(sizes[0])}, and this optimizer has {_groups(sizes[1])}. To train other parameters "
        f"from here, start with a new state: remove line {line}. To go on with the old one, make the optimizer over "
        "the same parameters in the same groups as when it was saved."
    )


def _lengths(variables: Any, name: str) -> list[int]:
    """The number of parameters in each group of an optimizer, or of its saved state."""
    groups = variables.get(name)
    if not isinstance(groups, list):
        return []
    return [len(each["params"]) for each in groups if isinstance(each, dict) and isinstance(each.get("params"), list)]


def _groups(sizes: list[int]) -> str:
    if len(sizes) == 1:
        return counted(sizes[0], "parameter")
    return f"{len(sizes)} groups of {listed([*map(str, sizes)], 6)} parameters"


_KEYS = re.compile(r"(Missing|Unexpected) key\(s\): (.*?)(?:\n|$)")


@mends(r"Error\(s\) in reparametrizing for")
def _other_keys(found: Refusal, match: Match) -> Remedy | None:
    """functional_call is given weights under other names than the module's."""
    kinds = {kind: re.findall(r"'([^']+)'", keys) for kind, keys in _KEYS.findall(found.failure.message)}
    missing, unknown = kinds.get("Missing", []), kinds.get("Unexpected", [])
    call, level = found.expression, found.level
    if not isinstance(call, ast.Call) or level.body is None or level.statement is None or len(call.args) < 2:
        return None
    given = level.body.text(call.args[1])
    told = [
        f"missing: {listed(missing, 3)}." if missing else "",
        f"unknown: {listed(unknown, 3)}." if unknown else "",
    ]
    lines: tuple[Fact, ...] = tuple(f"Of the names in {given}, {each}" for each in told if each)
    for one, other, adding in ((missing, unknown, True), (unknown, missing, False)):
        prefix = next((m.removesuffix(other[0]) for m in one if other and m.endswith(other[0])), "")
        if prefix and sorted(one) == sorted(prefix + each for each in other):
            key = f"f'{prefix}{{k}}'" if adding else f"k.removeprefix('{prefix}')"
            new = f"{{{key}: v for k, v in {given}.items()}}"
            line = rewritten(level.body, level.statement, {call.args[1]: new}) or new
            return Remedy(
                f"The names in {given} {'lack the prefix' if adding else 'have the extra prefix'} {prefix!r}: on line "
                f"{level.statement.lineno}, write `{line}`.",
                lines,
            )
    return Remedy(f"Give {given} the names of named_parameters() and named_buffers() of the module.", lines)


@mends(r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False")
def _of_frozen(found: Refusal, match: Match) -> Remedy | None:
    """A gradient is asked for of what a frozen model computes: its input, where the program has it."""
    call, body = found.expression, found.level.body
    receiver = callee(call)[0] if isinstance(call, ast.Call) else None
    held = (value for level in found.failure.users for value in level.variables.values() if is_module(value))
    own = [*parameters_in(module)] if (module := next(held, None)) is not None else []
    if receiver is None or body is None or not own or any(needs_gradient(each) for each in own):
        return None  # gradients may have been disabled
    name = body.text(receiver)
    for level in found.failure.users:
        for each in calls_in(level.statement):
            if not is_module(value_of(level, each.func)) or level.body is None:
                continue
            given = [dotted(arg) for arg in each.args]
            data = [(text, level.value(text)) for text in given if text]
            plain = [text for text, value in data if is_tensor(value) and value.is_floating_point()]
            if plain and not any(needs_gradient(value) for _, value in data):
                return Remedy(
                    f"To get a gradient although all parameters behind {name} are frozen, make the input require grad: "
                    f"put `{plain[0]}.requires_grad_()` above line {level.line}. Where none is needed, call it only "
                    f"under `if {name}.requires_grad:`.",
                    (shown(level.place, f"runs the model on {plain[0]}, which does not require grad."),)
                    if level is not found.level
                    else (),
                )
    return None


_CASTS = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16"}


@mends(r"same dtype|expected scalar type|dtypes match|[Ii]nput type .* should be the same|Found dtype")
def _other_dtype(found: Refusal, match: Match) -> Remedy | None:
    """Data of another dtype than the weights: cast where the program gets it, with what comes with it."""
    every = [each for _, each in found.tensors]
    weights = [each for each in every if isinstance(each, torch.nn.Parameter)]
    weight = next(iter([*weights, *filter(needs_gradient, every)]), None)
    if found.is_custom or weight is None or weight.dtype not in _CASTS or torch.is_autocast_enabled(weight.device.type):
        return None
    odd = [each for _, each in found.tensors if each.dtype != weight.dtype and each.is_floating_point()]
    if not odd or any(needs_gradient(each) for each in odd):
        return None
    casts = (_cast_at(level, odd, _CASTS[weight.dtype]) for level in reversed(found.failure.users))
    return next((each for each in casts if each is not None), None) or _cast_here(found, odd, _CASTS[weight.dtype])


def _cast_here(found: Refusal, odd: list[torch.Tensor], cast: str) -> Remedy | None:
    """The failing statement with each of these tensors cast."""
    body, statement = found.level.body, found.level.statement
    named = [text for text, each in found.tensors if any(each is one for one in odd)]
    read = {node: body.text(node) for node in expressions(statement)} if body is not None else {}
    nodes = [next((node for node, text in read.items() if text == name), None) for name in named]
    if body is None or statement is None or not all(nodes):
        return None
    line = rewritten(body, statement, {node: f"{simple(read[node])}.{cast}()" for node in nodes if node is not None})
    dtypes = listed(sorted({str(each.dtype).removeprefix("torch.") for each in odd}), 3)
    are = "is" if len(named) == 1 else "are"
    return Remedy(f"{listed(named, 3)} {are} {dtypes}: on line {statement.lineno}, write `{line}`.") if line else None


def _cast_at(level: Level, odd: list[torch.Tensor], cast: str) -> Remedy | None:
    """Where a loop or an assignment gives variables these tensors: what to put below it."""
    tensor = odd[0]
    names = [name for name, value in level.variables.items() if value is tensor]
    for each in (each for each in statements(level.body.node) if each.lineno <= level.line) if level.body else ():
        bound_here = _targets(each)
        if level.body is None or not any(name in bound_here for name in names):
            continue
        values = {name: level.value(name) for name in bound_here}
        alike = [name for name, value in values.items() if is_tensor(value) and value.dtype == tensor.dtype]
        if any(all(values[name] is not each for name in alike) for each in odd):
            continue
        line = f"{', '.join(alike)} = {', '.join(f'{name}.{cast}()' for name in alike)}"
        if isinstance(each, ast.For):
            where = f"as the first line of the loop on line {each.lineno}, put"
        elif isinstance(each, ast.Assign) and each is not level.statement:
            where = f"below line {each.end_lineno or each.lineno}, put"
        else:
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        by = ", as NumPy's numbers are" if tensor.dtype == torch.float64 else ""
        return Remedy(
            f"{listed(alike, 3)} {'is' if len(alike) == 1 else 'are'} {dtype}{by}: {where} `{line}`.",
            (shown(level.body.place(each), f"gets {listed(alike, 3)}, of dtype {dtype}."),),
            level.body.place(each),
        )
    return None


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a loop or an assignment gives a value to, those of a tuple in their order."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.For) else targets
    inside = (node for each in targets for node in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each]))
    flat = (node for each in inside for node in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each]))
    return [each.id for each in flat if isinstance(each, ast.Name)]


@mends(r"view size is not compatible with input tensor's size and stride")
def _not_contiguous(found: Refusal, match: Match) -> Remedy | None:
    """view() of what transpose() and the like gave: reshape(), which copies where it has to."""
    call, body, statement = found.expression, found.level.body, found.level.statement
    if not isinstance(call, ast.Call) or callee(call)[1] != "view" or body is None or statement is None:
        return None
    receiver = callee(call)[0]
    line = rewritten(body, statement, {call.func: f"{body.text(receiver)}.reshape"}) if receiver is not None else ""
    return (
        Remedy(f"On line {statement.lineno}, write `{line}`: it copies where a view cannot be had.") if line else None
    )


@mends(r"[Tt]arget size \(torch\.Size\(\[([\d, ]*)\]\)\).* input size \(torch\.Size\(\[([\d, ]*)\]\)\)")
def _target_of_another_shape(found: Refusal, match: Match) -> Remedy | None:
    """A target with as many numbers as the input, in another shape: the shape of the input."""
    given, due = (tuple(int(each) for each in text.split(",") if each.strip()) for text in match.groups())
    body, statement = found.level.body, found.level.statement
    if body is None or statement is None or math.prod(given) != math.prod(due):
        return None
    read = [(node, value_of(found.level, node)) for node in expressions(statement)]
    target = next((node for node, value in read if shape_of(value) == given and not needs_gradient(value)), None)
    known = next((node for node, value in read if shape_of(value) == due), None)
    shape = f"view_as({body.text(known)})" if known is not None else f"view({', '.join(map(str, ('-1', *due[1:])))})"
    line = rewritten(body, statement, {target: f"{simple(body.text(target))}.{shape}"}) if target is not None else ""
    if not line or target is None:
        return None
    return Remedy(f"Give {body.text(target)} the shape of the input: on line {statement.lineno}, write `{line}`.")


@mends(r"set a forward gradient that has a different size than that of the original Tensor")
def _tangent_of_another_shape(found: Refusal, match: Match) -> Remedy | None:
    """A direction that is to be that of each row: the shape of the tensor."""
    call, level = found.expression, found.level
    if not isinstance(call, ast.Call):
        return None
    first = 1 if callee(call)[1] == "jvp" else 0  # jvp(f, primals, tangents), make_dual(tensor, tangent)
    given = [each.elts if isinstance(each, ast.Tuple) else [each] for each in call.args[first : first + 2]]
    odd = []
    for pair in zip(*given, strict=False) if len(given) == 2 else ():
        sizes = [shape_of(value_of(level, each)) for each in pair]
        odd += [pair] if None in sizes or sizes[0] != sizes[1] else []
    return _in_shape(level, "tangent", *odd[0]) if len(odd) == 1 else None


@mends(r"Expected pytree structure of cotangents")
def _one_for_each(found: Refusal, match: Match) -> Remedy | None:
    """The function that vjp differentiates returns several results: a cotangent for each."""
    call, body, statement = found.expression, found.level.body, found.level.statement
    if not isinstance(call, ast.Call) or body is None or statement is None or len(call.args) != 1:
        return None
    match _vjp(body, call):
        case each, ast.Tuple(elts=outputs):
            names = [body.text(one) for one in outputs]
            read = body.text(call.args[0])
            meant = next((one for one in names if one in {use.name for use in uses(call.args[0])}), names[0])
            new = [read if one == meant else f"torch.zeros_like({one})" for one in names]
            line = rewritten(body, statement, {call.args[0]: f"({', '.join(new)})"})
            return Remedy(
                f"Give one cotangent for each of {listed(names, 3)}, zeros for what should not be differentiated: "
                f"on line {statement.lineno}, write `{line}`.",
                (shown(body.place(each), f"returns {listed(names, 3)}."),),
            )
    return Remedy("Give a tuple with one cotangent for each output of the function, zeros where none is wanted.")
