"""Remedies whose statement stands in another function than the one that failed: a hook, a checkpoint, a forward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from backsight.diagnosis.errors.remedies.functions import forward_of
from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, anew, remedy
from backsight.diagnosis.evidence.custom import definition
from backsight.diagnosis.evidence.reentrant import reentrant_call, without_reentry
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import a_kind, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, only, read_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Spot, bound, spots, uses
from backsight.source.body import SCOPES, callee, calls_in, dotted, functions, keyword, last_name, statements
from backsight.source.callables import Callable, callables
from backsight.source.cut_rules import grad_mode
from backsight.source.definitions import values_of
from backsight.source.edits import on_line, put, remove, sentence, unwrap, write
from backsight.source.rewriting import rewritten, rewritten_line, simple
from backsight.story.failure import function_of, owner_of
from backsight.story.files import user_files
from backsight.story.sections import run_by
from backsight.text import lines_at


@remedy(r"saved tensor unpack_hook expected to be a Tensor but got result of type (\S+)")
def _unpacking(found: Refusal, match: Match) -> Remedy | None:
    """The unpack hook of saved_tensors_hooks returns what pack made, or nothing."""
    hooks = {(each.body.file, each.position): each for each in _unpack_hooks(found)}
    if len(hooks) != 1:
        return None
    (hook,) = hooks.values()
    body, given = hook.body, last_parameter(hook.body)
    wrong, sure = returned(body, match[1])
    dropped = [
        each
        for each in statements(body.node)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and dotted(callee(each.value)[0]) == given
    ]
    what = a_kind(match[1])
    lines: list[Fact] = [shown(body.place(each), "computes a value that is not used.") for each in dropped[:1]]
    at = body.place(wrong) if wrong else definition(body)
    at = body.place(hook.node) if isinstance(hook.node, ast.Lambda) else at
    lines.append(shown(at, f"returns {what}.", None if sure or wrong is None else "read"))
    if dropped and given:
        place = body.place(dropped[0])
        new = f"return {place.text}"
        edit = write(place, new) if "…" not in place.text else ""
        return Remedy(f"On line {place.line}, write `{new}`{edit}.", tuple(lines), place)
    name = "the lambda" if isinstance(hook.node, ast.Lambda) else f"{getattr(body.node, 'name', 'the unpack hook')}()"
    return Remedy(
        _as_tensor(hook, wrong, match[1])
        or f"Return a tensor from {name}: the one that backward is to use in place of what was packed.",
        tuple(lines),
        at,
    )


def _as_tensor(hook: Callable, wrong: ast.Return | None, kind: str) -> str:
    """A return of an array as one of a tensor that shares its memory."""
    value = wrong.value if wrong is not None and kind == "numpy.ndarray" else None
    if wrong is None or value is None:
        return ""
    new = f"torch.from_numpy({ast.unparse(value)})"
    is_lambda = isinstance(hook.node, ast.Lambda)
    line = rewritten_line(hook.body, value, new) if is_lambda else rewritten(hook.body, wrong, {value: new})
    same = "the tensor must have the dtype, the shape and the device of the one that was packed"
    return f"On line {wrong.lineno}, write `{line}`: {same}{anew(hook.body, wrong, line)}." if line else ""


def _unpack_hooks(found: Refusal) -> Iterator[Callable]:
    """The functions that the program's files give as the second hook, as their text shows."""
    bodies = [body for file in user_files(found.failure) for body in functions(file)]
    for body in bodies:
        classes = [node for node in ast.walk(body.node) if isinstance(node, ast.ClassDef)]
        contexts = (each for each in classes if "saved_tensors_hooks" in map(last_name, each.bases))
        own = {id(call) for each in contexts for call in ast.walk(each)}
        for call in (node for node in ast.walk(body.node) if isinstance(node, ast.Call)):
            hook = keyword(call, "unpack_hook") or next(iter(call.args[1:]), None)
            made = callee(call)[1] == "saved_tensors_hooks" or (id(call) in own and callee(call)[1] == "__init__")
            if made and hook is not None:
                yield from callables(hook, body, bodies)


@remedy(r"incompatible with \.grad\(\)")
def _reentrant(found: Refusal, match: Match) -> Remedy | None:
    call = reentrant_call(found.failure)
    if call is None:
        return None
    return Remedy(
        without_reentry(found.failure, call),
        (shown(call.place, "is a reentrant checkpoint, which only backward() without inputs can go through."),),
        call.place,
    )


@remedy(r"none of output has requires_grad=True")
def _nothing_recorded(found: Refusal, match: Match) -> Remedy | None:
    """A reentrant checkpoint of a function that records no graph: what in it cuts off what the checkpoint was given."""
    every = (each.variables.get("ctx") for each in found.failure.levels)
    function = next((run for each in every if (run := getattr(each, "run_function", None)) is not None), None)
    run, owner = function_of(function), owner_of(function)
    cuts = [each for section in run_by(run, owner) for each in _cutting(section.body)] if run is not None else []
    if len({place for place, _, _ in cuts}) != 1:
        return None
    place, does, how = cuts[0]
    call = reentrant_call(found.failure)
    body, statement = read_at(call.place if call is not None else None)
    node = next((each for each in calls_in(statement) if callee(each)[1] == "checkpoint" and each.args), None)
    outside = ""
    if body is not None and statement is not None and node is not None:
        own = [body.text(each) for each in node.args[1:]]
        own += [
            f"{each.arg}={body.text(each.value)}"
            for each in node.keywords
            if each.arg and each.arg not in _OF_CHECKPOINT
        ]
        outside = rewritten(body, statement, {node: f"{simple(body.text(node.args[0]))}({', '.join(own)})"})
    alone = f": `{outside}` on line {statement.lineno}" if outside and statement is not None else ""
    fix = (
        f"{how}; freeze what must not train in there with requires_grad_(False). If nothing that comes before is to "
        f"be trained, call the function without checkpoint{alone}. It then saves nothing for backward anyway."
    )
    evidence = [shown(place, does)]
    if call is not None:
        evidence.append(shown(call.place, "reruns that in backward, and has no graph to go through."))
    return Remedy(fix, tuple(evidence), place)


_OF_CHECKPOINT = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")


def _cutting(body: Body) -> Iterator[tuple[Place, str, str]]:
    """The statements of a function that end a gradient on its way out: what each does, and how it is taken back."""
    for each in getattr(body.node, "decorator_list", ()):
        if grad_mode(each) not in (None, "on"):
            place = replace(body.place(each), text=f"@{body.text(each)}")
            yield (
                place,
                "disables gradients in the function.",
                f"Remove line {each.lineno}, `{place.text}`{remove(place)}",
            )
    for statement in statements(body.node):
        place = body.place(statement)
        items = [each.context_expr for each in statement.items] if isinstance(statement, ast.With) else []
        if any(grad_mode(each) not in (None, "on") for each in items):
            edit = unwrap(place) if len(items) == 1 else ""
            yield (
                place,
                "disables gradients for all that is in it.",
                f"Remove line {place.line}, `{place.text}`, and dedent what is in it{edit}",
            )
            return
        cut = [node for node in calls_in(statement) if callee(node)[1] == "detach" and not node.args]
        parts: dict[ast.expr, str] = {
            node: body.text(receiver) for node in cut if (receiver := callee(node)[0]) is not None
        }
        if parts and isinstance(statement, ast.Return):
            new = rewritten(body, statement, parts)
            yield place, "detaches what it returns.", sentence(on_line(place, new)) if new else "Remove the detach()"


_TRANSFORMS = frozenset({"grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "linearize"})


@remedy(r"must override the setup_context")
def _without_setup(found: Refusal, match: Match) -> Remedy | None:
    """A custom Function whose forward takes ctx, which torch.func has not at hand."""
    body = forward_of(found)
    arguments = getattr(body.node, "args", None) if body is not None else None
    if body is None or not isinstance(arguments, ast.arguments) or not arguments.args or arguments.vararg:
        return None
    ctx, *given = [each.arg for each in arguments.args]
    saving = [each for each in statements(body.node) if any(use.name.split(".")[0] == ctx for use in uses(each))]
    inputs = ", ".join(given)
    unpacked = f"{inputs}{',' if len(given) == 1 else ''} = inputs"
    which = lines_at(each.lineno for each in saving)
    move = f", and move {which} into it, below `{unpacked}`" if saving else ""
    head = f"def {getattr(body.node, 'name', 'forward')}({inputs}):"
    setup = f"def setup_context({ctx}, inputs, output):"
    result, others = _made_and_saved(body, saving)
    made = (f" There, {result} is `output`." if result else "") + (
        f" Compute {listed(others)} from the inputs again there." if others else ""
    )
    edits, again = "", _computing(body, others, saving)
    if again is not None and all(each in body.node.body for each in saving):
        first = [unpacked, *([f"{result} = output"] if result else []), *map(ast.unparse, again)]
        edits = f"{write(definition(body), head)}{_moved(body, setup, first, saving)}"
    calls = ((level, call) for level in found.failure.users for call in calls_in(level.statement))
    transforming = next(((level, callee(call)[1]) for level, call in calls if callee(call)[1] in _TRANSFORMS), None)
    evidence: list[Fact] = [shown(definition(body), f"takes {ctx}, which torch.func does not pass.")]
    if transforming is not None and transforming[0] is not found.level:
        evidence.append(shown(transforming[0].place, f"transforms it with {transforming[1]}()."))
    return Remedy(
        f"On line {body.node.lineno if isinstance(body.node, SCOPES) else 0}, write `{head}`, without {ctx}. Add a "
        f"@staticmethod `{setup}`{move}{edits}.{made} For vmap, also set generate_vmap_rule = True in the class.",
        tuple(evidence),
        definition(body),
    )


def _moved(body: Body, setup: str, first: list[str], saving: Sequence[ast.stmt]) -> str:
    """The edits that make a static method of statements of forward, with these lines before them."""
    inside = (line for each in (*first, *map(ast.unparse, saving)) for line in each.split("\n"))
    code = "\n    ".join([f"\n@staticmethod\n{setup}", *inside])
    return f"{remove([*map(body.place, saving)]) if saving else ''}{put(code, 'beside', definition(body))}"


def _made_and_saved(body: Body, saving: Sequence[ast.stmt]) -> tuple[str | None, list[str]]:
    """What forward computed itself and saves: the name of its result, if that is saved, and the others."""
    own = {name for each in statements(body.node) for name in bound(each)}
    read = {use.name: None for each in saving for use in uses(each) if not use.binds and use.name in own}
    results = [each.value for each in statements(body.node) if isinstance(each, ast.Return)]
    result = dotted(results[0]) if len(results) == 1 else None
    return result if result in read else None, [each for each in read if each != result]


_DRAWS = re.compile(r"rand|dropout|bernoulli|multinomial|normal|_\b")


def _computing(body: Body, names: Sequence[str], saving: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """The assignments at the top of forward that lead to what it saves, which can run again; None where others do."""
    found = {each: ancestors(body, each, at.lineno) for at in saving for each in names}
    lines = {place.line for every in found.values() for each in every.values() for place in each.bound}
    every = [each for each in body.node.body if each.lineno in lines] if isinstance(body.node, ast.FunctionDef) else []
    drawn = any(_DRAWS.search(callee(call)[1]) for each in every for call in calls_in(each))
    simple_ones = all(isinstance(each, ast.Assign) and each not in saving for each in every)
    return every if len(every) == len(lines) and simple_ones and not drawn else None


# Which of its returns gave a function's result, by the type of that.


_OF_TENSORS = frozenset({"to", "cuda", "cpu", "clone", "detach", "contiguous", "float", "half", "double", "bfloat16"})
"""Methods that tensors have, and arrays have not."""

_TO_ARRAYS = frozenset({"numpy", "astype", "tobytes"})


def returned(body: Body, kind: str) -> tuple[ast.Return | None, bool]:
    """Return the statement that may have returned a value of this type, `numpy.ndarray`, and whether no other may have.

    None where several may have, and none is more likely than the others.
    """
    given = last_parameter(body)
    every = [each for each in spots(body.node) if isinstance(each.node, ast.Return)]
    may = [(each.node, _returns(body, each, given, kind)) for each in every]
    sure = [node for node, does in may if does]
    ends = kind == "NoneType" and body.name != "<lambda>"  # without a return
    open_ = [node for node, does in may if does is None and not ends]
    found = sure if len(sure) == 1 else [] if sure else open_
    node = only(found)
    return node if isinstance(node, ast.Return) else None, not (sure and open_)


def last_parameter(body: Body) -> str:
    """The last parameter of a function: of a hook, what it is given."""
    arguments = getattr(body.node, "args", None)
    return arguments.args[-1].arg if isinstance(arguments, ast.arguments) and arguments.args else ""


def _returns(body: Body, spot: Spot, given: str, kind: str) -> bool | None:
    """Whether a return gives a value of this type; None where its text does not tell."""
    value = spot.node.value if isinstance(spot.node, ast.Return) else None
    if value is None or isinstance(value, ast.Constant):
        return type(getattr(value, "value", None)).__name__ == kind
    return _is(body, spot, value, given, kind)


_DISPLAYS = ((ast.Tuple, "tuple"), ((ast.List, ast.ListComp), "list"), ((ast.Dict, ast.DictComp), "dict"))


def _is(body: Body, spot: Spot, value: ast.expr, given: str, kind: str) -> bool | None:
    for display, name in _DISPLAYS:
        if isinstance(value, display):
            return name == kind
    is_array = kind == "numpy.ndarray"
    if isinstance(value, ast.Name):
        values = values_of(body, value.id, spot.node.lineno)
        if len(values) == 1 and value.id != given:
            return _is(body, spot, values[0], given, kind)
        return _guarded(body, spot, given, kind) if value.id == given and not values else None
    if not isinstance(value, ast.Call):
        return None
    receiver, name = callee(value)
    root = (dotted(receiver) or "").partition(".")[0]
    if root in ("np", "numpy"):
        return is_array
    if root == "torch" or name in _OF_TENSORS:
        return False
    return is_array if name in _TO_ARRAYS else None


def _guarded(body: Body, spot: Spot, given: str, kind: str) -> bool | None:
    """Whether what a function was given is of a type where a statement stands, by `isinstance` around or before it."""
    last = kind.rpartition(".")[2]
    for test, holds in _tests(body, spot):
        kinds = _kinds(test, given)
        if kinds and holds and last not in kinds:
            return False
        if kinds and (holds or last in kinds):
            return holds if len(kinds) == 1 or not holds else None
    return None


def _tests(body: Body, spot: Spot) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions known where a statement stands, of blocks around or left before it, and whether each holds."""
    for arm, label in reversed(spot.arms):
        if isinstance(arm, ast.If):
            yield arm.test, label == "body"
    for each in spots(body.node):
        node = each.node
        if not isinstance(node, ast.If) or node.orelse or each.order > spot.order or (node, "body") in spot.arms:
            continue
        if isinstance(node.body[-1], ast.Return | ast.Raise) and all(arm in spot.arms for arm in each.arms):
            yield node.test, False


def _kinds(test: ast.expr, given: str) -> set[str]:
    """The types that `isinstance(given, ...)` asks for, by their last names; `torch.is_tensor(given)`: `Tensor`."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            every = [_kinds(each, given) for each in values]
            return set().union(*every) if all(every) else set()
        case ast.Call(args=[subject, *rest]) if dotted(subject) == given:
            if callee(test)[1] == "is_tensor":
                return {"Tensor"}
            if callee(test)[1] == "isinstance" and rest:
                classes = rest[0].elts if isinstance(rest[0], ast.Tuple) else [rest[0]]
                return {(dotted(each) or "").rpartition(".")[2] for each in classes}
        case ast.Compare(left=ast.Call(args=[subject]) as call, ops=[ast.Is() | ast.Eq()], comparators=[kind]):
            if callee(call)[1] == "type" and dotted(subject) == given:
                return {(dotted(kind) or "").rpartition(".")[2]}
    return set()
