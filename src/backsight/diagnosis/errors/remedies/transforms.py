"""Remedies for what torch.func and torch.autograd.functional refuse: shapes, structures and what a function returns."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from torch.nn.modules.batchnorm import _NormBase

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy, source_of
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import listed, shaped, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name
from backsight.source import Body, assignments, calls_of, only, read_at
from backsight.source.bindings import spots
from backsight.source.body import body_around, callee, calls_in, dotted, keyword, statements
from backsight.source.definitions import definitions
from backsight.source.edits import OR, Edit, alternatives, on_line, on_line_with, put_at, write
from backsight.source.imports import meaning
from backsight.source.out_of_place import arguments
from backsight.source.rewriting import rewritten, simple, with_flag
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.memory import is_tensor, shape_of

_Shapes: TypeAlias = list[tuple[int, ...] | None]


@remedy(r"don't yet support saved tensor hooks")
def _checkpointed(found: Refusal, match: Match) -> Remedy | None:
    """torch.func differentiates what a checkpoint runs: without it."""
    call, body, statement = found.expression, found.level.body, found.level.statement
    if not isinstance(call, ast.Call) or callee(call)[1] != "checkpoint" or body is None or statement is None:
        return None
    own = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug")
    inner = ast.Call(call.func, call.args[1:], [each for each in call.keywords if each.arg not in own])
    given = ", ".join(arguments(body, inner))
    line = rewritten(body, statement, {call: f"{simple(body.text(call.args[0]))}({given})"})
    return Remedy(
        f"torch.func cannot differentiate through checkpoint(): {on_line(body.place(statement), line)} where "
        "torch.func transforms the model. To save memory instead, pass chunk_size to torch.func.vmap or jacrev."
    )


@remedy(r"would mutate a captured Tensor")
def _statistics(found: Refusal, match: Match) -> Remedy | None:
    """A batch norm in training counts and averages in its buffers, which a function that is transformed must not."""
    held: Iterator[Any] = (each.variables.get("self") for each in reversed(found.failure.levels))
    norm = next((each for each in held if issubclass(type(each), _NormBase)), None)
    if norm is None or not norm.training or not norm.track_running_stats:
        return None
    calls = ((level, each) for level in found.failure.users for each in calls_in(level.statement))
    level, call = next((pair for pair in calls if callee(pair[1])[1] == "functional_call"), (found.level, None))
    kind, name = class_name(type(norm)), names_of(found.failure, [norm])[0]
    counts = f"{name or f'A {kind}'} is in training mode, where it updates its running statistics, buffers, in place."
    evidence: list[Fact] = [counts]
    batch = "with the running statistics in place of those of the batch"
    body, weights = level.body, call.args[1] if call is not None and len(call.args) > 1 else None
    if call is None or body is None or weights is None:
        fix = f"Give the function copies of the buffers: torch.func.functional_call. Or call it under eval(), {batch}."
        return Remedy(fix, tuple(evidence))
    given, model = body.text(weights), body.text(call.args[0])
    outer = (callee(each)[1] for each in (c for one in found.failure.users for c in calls_in(one.statement)))
    if any(each in ("jvp", "jacfwd", "hessian", "linearize") for each in outer):
        fix = f"Forward mode cannot update them. Put `{model}.eval()` before it: then it runs {batch}."
        return Remedy(fix, tuple(evidence))
    new = f"({given}, {{k: b.clone() for k, b in {model}.named_buffers()}})"
    match weights:
        case ast.Tuple(elts=[params, buffers]):
            new = f"({body.text(params)}, {{k: b.clone() for k, b in {body.text(buffers)}.items()}})"
        case ast.Tuple() | ast.Dict():
            return Remedy(
                f"Give the function copies of the buffers, made inside it with .clone(). Or use eval(), {batch}."
            )
    evidence.append(shown(level.place, f"gives the function {given}, and no buffers of its own."))
    passes = on_line_with(body, level.statement, {weights: new})
    return Remedy(
        f"Let the function have copies of the buffers: {passes}; those of {model} stay as they are. Under "
        f"{model}.eval() it runs as well, {batch}.",
        tuple(evidence),
        level.place,
    )


@remedy(r"compiled with non-empty donated buffers")
def _donated(found: Refusal, match: Match) -> Remedy | None:
    """A compiled graph reuses the memory of what it has saved, unless told not to, and is asked to keep it."""
    calls = calls_of(*user_files(found.failure))
    compiled = only((body, each) for body, each, call in calls if meaning(call.func) == "torch.compile")
    if compiled is None:
        return None
    at = compiled[0].place(compiled[1])
    new = "from torch._functorch import config as functorch; functorch.donated_buffer = False"
    return Remedy(
        f"Where a graph is kept for another backward, it must not reuse its buffers: {put_at(new, 'above', at)}. Where "
        "no other backward follows, remove retain_graph=True and create_graph=True instead.",
        (shown(at, "compiles it, so that the backward reuses the memory of saved tensors."),),
        at,
    )


@remedy(r"grad_output\[(\d+)\] has a shape of .* and output\[\d+\] has a shape of")
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
    if output is not None and given is not None and (known := _of_each(level, call, output, given)) is not None:
        return known
    like, element = (_element(each, int(match[1])) for each in (output, given))
    sizes = [tuple(map(int, re.findall(r"\d+", each))) for each in re.findall(r"Size\((.*?)\)", match.string)]
    plain = _in_shape(level, "gradient", like, element, sizes[::-1])
    by = next((each.arg for each in call.keywords if each.value is given), None)
    if plain is None or alternatives(plain.fix) or by is None or element is None or like is None:
        return plain
    return _weights(found, by, like, element, sizes[::-1])


def _weights(found: Refusal, by: str, like: ast.expr, given: ast.expr, sizes: Sequence[tuple[int, ...]]) -> Remedy:
    """What `grad_outputs` is: ones of another shape, made elsewhere, are meant as the gradient of the sum."""
    level, body, statement = found.level, found.level.body, found.level.statement
    text, of = ast.unparse(given), ast.unparse(like)
    held = value_of(level, given)
    origin = made(Held(found.failure, level, text, held)) if is_tensor(held) and dotted(given) else None
    _, making = read_at(origin.place if origin else None)
    ones = isinstance(making, ast.Assign) and _all_ones(making.value)
    line = rewritten(body, statement, {given: f"torch.ones_like({of})"}) if ones and body and statement else ""
    then = f" For the gradient of their sum, {on_line(level.place, line)}." if line else ""
    due, got = (shaped(each) for each in sizes)
    return Remedy(f"{by} is one weight for each entry of {of}, in its shape, {due}, and {text} has {got}.{then}")


def _of_each(level: Level, call: ast.Call, outputs: ast.expr, given: ast.expr) -> Remedy | None:
    """Every gradient in the shape of its own output, where two lists are given: ones anew, others reshaped."""
    body, statement = level.body, level.statement
    sizes = [_shapes_in(level, each) for each in (outputs, given)]
    if body is None or statement is None or not sizes[0]:
        return None
    name, text = dotted(given), body.text(outputs)
    above = [each for each in spots(body.node) if each.node.lineno < level.line]
    filled = [each for each in above if name and any(definitions(each, name))]
    made = filled[-1].node if filled else statement
    value = made.value if isinstance(made, ast.Assign) else given
    ones = _all_ones(value)
    if len(sizes[0]) != len(sizes[1]) and not ones:
        return None
    read = {dotted(each) or "" for each in ast.walk(outputs) if isinstance(each, ast.expr)}
    late = any(any(definitions(each, of)) for each in above if each.node.lineno > made.lineno for of in read)
    if isinstance(outputs, ast.List | ast.Tuple) and isinstance(value, ast.List | ast.Tuple):
        new = _listed_anew(body, outputs.elts, value.elts, *sizes)
    elif ones:
        new = f"[torch.ones_like(each) for each in {text}]"
    elif all(a is not None and b is not None and math.prod(a) == math.prod(b) for a, b in zip(*sizes, strict=True)):
        new = f"[each.reshape(of.shape) for each, of in zip({body.text(given)}, {text})]"
    else:
        new = ""
    at, old = (made, value) if ones and not late else (statement, given)
    line = rewritten(body, at, {old: new}) if new else ""
    if not line:
        return None
    whole = rewritten(body, statement, {call: f"sum({text}).backward()"})
    alone = isinstance(statement, ast.Expr) and len(call.args) + len(call.keywords) == 2
    scalars = alone and ones and all(each is not None and math.prod(each) == 1 for each in sizes[0])
    scalars &= callee(call)[1] == "backward"
    adding = f" {OR}Or add them: {on_line(body.place(statement), whole)}." if scalars and whole else ""
    says = f"makes gradients that do not have the shapes of {text}."
    return Remedy(
        f"Each gradient must have the shape of its own output: {on_line(body.place(at), line)}.{adding}",
        (shown(body.place(made), says),) if made is not statement else (),
        body.place(made),
    )


def _listed_anew(body: Body, outputs: list[ast.expr], given: list[ast.expr], due: _Shapes, got: _Shapes) -> str:
    """A list with each gradient in the shape of its output; empty where one has another number of entries."""
    if len(outputs) != len(given) or any(isinstance(each, ast.Starred) for each in (*outputs, *given)):
        return ""
    new = list[str]()
    for of, each, shape, has in zip(outputs, given, due, got, strict=True):
        text = body.text(each)
        if shape is not None and has is not None and math.prod(shape) != math.prod(has):
            return ""
        anew = _like(each, body.text(of)) if isinstance(each, ast.Call) else ""
        new.append(text if shape == has is not None else anew or f"{simple(text)}.reshape({body.text(of)}.shape)")
    return f"[{', '.join(new)}]"


def _shapes_in(level: Level, node: ast.expr) -> _Shapes:
    """The shape of each tensor in a list, None for one that is made there; empty where there is no list."""
    match node:
        case ast.BinOp(left, ast.Add(), right):
            parts = [_shapes_in(level, each) for each in (left, right)]
            return [*parts[0], *parts[1]] if all(parts) else []
    written = node.elts if isinstance(node, ast.List | ast.Tuple) else None
    held: Any = value_of(level, node) if written is None else [value_of(level, each) for each in written]
    return [shape_of(each) for each in held] if type(held) in (list, tuple) else []


def _all_ones(value: ast.expr) -> bool:
    """Whether a list is of ones alone: `[torch.ones(1) for _ in losses]`, `[torch.ones(1)] * 2`."""
    match value:
        case ast.List(elts) | ast.Tuple(elts):
            return bool(elts) and all(map(_all_ones, elts))
        case ast.ListComp(elt=each) | ast.BinOp(left=ast.List() as each, op=ast.Mult()):
            return _all_ones(each)
        case ast.Call():
            return meaning(value.func) == "torch.ones"
    return False


def _vjp(body: Body, call: ast.Call) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that has made the function which is called, by vjp(), and what it assigns the output to."""
    for each in statements(body.node):
        match each:
            case ast.Assign(targets=[ast.Tuple(elts=[output, ast.Name(id=made), *_])], value=ast.Call() as making):
                if made == dotted(call.func) and callee(making)[1] == "vjp":
                    return each, output
    return None


def _in_shape(
    level: Level, what: str, like: ast.expr | None, given: ast.expr | None, sizes: Sequence[tuple[int, ...]] = ()
) -> Remedy | None:
    """Give what was passed the shape of a tensor: where it is made, or else where it is passed.

    sizes: their shapes, where the message has them.
    """
    if level.body is None or level.statement is None or like is None or given is None:
        return None
    text = level.body.text(like)
    must = f"The {what} must have the shape of {text}"
    if any(_is_list(level, each) for each in (like, given)):  # no shape of its own
        return None
    here = _made(level, given)
    if here and (factory := _like(here[1], text)):
        line = rewritten(level.body, here[0], {here[1]: factory})
        place = level.body.place(here[0])
        return Remedy(f"{must}: {on_line(place, line)}.", (), place)
    due, got = sizes if len(sizes) == 2 else [shape_of(value_of(level, each)) for each in (like, given)]
    same = due is not None and got is not None and math.prod(due) == math.prod(got)
    if same or _broadcasts(got, due):
        shaping = f"reshape({simple(text)}.shape)" if same else f"expand_as({text})"
        new = f"{simple(level.body.text(given))}.{shaping}"
        line = rewritten(level.body, level.statement, {given: new})
        return Remedy(f"{must}: {on_line(level.place, line)}.") if line else None
    return Remedy(f"{must}: {shaped(due)}.") if due else None


def _is_list(level: Level, node: ast.expr) -> bool:
    """Whether an expression is a list of tensors, as its text or its value shows: `[a] + rest`."""
    inside = [node.left, node.right] if isinstance(node, ast.BinOp) else [node]
    kinds = ast.List | ast.Tuple | ast.ListComp
    return any(isinstance(each, kinds) or type(value_of(level, each)) in (list, tuple) for each in inside)


def _element(node: ast.expr | None, index: int) -> ast.expr | None:
    elements = node.elts if isinstance(node, ast.List | ast.Tuple) else None
    return node if elements is None else elements[index] if index < len(elements) else None


def _made(level: Level, node: ast.expr) -> tuple[ast.stmt, ast.Call] | None:
    """The statement that makes a tensor in this function, and the call that does; the call itself where it stands."""
    if isinstance(node, ast.Call):
        return (level.statement, node) if level.statement else None
    name = dotted(node)
    before = [each for each in statements(level.body) if each.lineno < level.line]
    for each in reversed(before):
        if isinstance(each, ast.Assign) and [*map(dotted, each.targets)] == [name]:
            return (each, each.value) if isinstance(each.value, ast.Call) else None
    return None


def _like(call: ast.Call, text: str) -> str:
    _, name = callee(call)
    known = {"ones", "zeros", "rand", "randn"}
    return f"torch.{name}_like({text})" if name in known and meaning(call.func) == f"torch.{name}" else ""


def _broadcasts(small: tuple[int, ...] | None, large: tuple[int, ...] | None) -> bool:
    if small is None or large is None or len(small) > len(large):
        return False
    return all(a in (1, b) for a, b in zip(reversed(small), reversed(large), strict=False))


@remedy(r"vmap: Expected all tensors to have the same size in the mapped dimension")
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
        line = with_flag(body, level.statement, inner, "in_dims", dims)
    how = on_line(level.place, line) if line else f"pass in_dims={dims} to vmap{_mapped_by(level, inner, dims)}"
    return Remedy(
        f"The first dimension of the other mapped tensors has size {common[0][0]}; {listed(names, 3)} "
        f"{'has' if len(names) == 1 else 'have'} {', '.join(str(sizes[k][0]) for k in odd)}. If every call takes all "
        f"of {listed(names, 3)}, {how}. If not, give {'it' if len(names) == 1 else 'them'} {common[0][0]} rows."
    )


def _mapped_by(level: Level, function: ast.expr | None, dims: str) -> Edit | str:
    """The only statement that makes a function by vmap, with these dimensions."""
    name, file = dotted(function) if function is not None else None, level.frame.f_code.co_filename
    for body in (level.body, body_around(file, 0)) if name else ():
        body, statement = read_at(only(assignments(body, name or "")))
        value = statement.value if isinstance(statement, ast.Assign) else None
        if body is not None and statement is not None and isinstance(value, ast.Call) and callee(value)[1] == "vmap":
            new = with_flag(body, statement, value, "in_dims", dims) if len(value.args) < 2 else ""
            new = new or rewritten(body, statement, dict.fromkeys(value.args[1:2], dims))
            return write(body.place(statement), new) if new else ""
    return ""


def _sizes(value: Any) -> list[int]:
    """The sizes of the first dimension of a tensor, or of those in a plain dict or tuple."""
    held = [*value.values()] if type(value) is dict else [*value] if type(value) in (list, tuple) else [value]
    return [shape[0] for each in held if (shape := shape_of(each))]


@remedy(r"[Oo]utput (?P<output>\d+|\S+) of the user-provided function .*independent of input (?P<input>\d+)")
def _independent(found: Refusal, match: Match) -> Remedy | None:
    """strict=True refuses an output that does not depend on an input."""
    call, level = found.expression, found.level
    strict = keyword(call, "strict") if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or level.body is None or level.statement is None or strict is None:
        return None
    line = rewritten(level.body, level.statement, {strict: "False"})
    body = source_of(level, call.args[0]) if call.args else None
    at = int(match["output"]) if match["output"].isdigit() else 0
    parts = [
        (each, each.value.elts[at])
        for each in statements(body)
        if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple) and at < len(each.value.elts)
    ]
    lines = [shown(body.place(r), f"returns {body.text(p)} as output {at}.") for r, p in parts if body]
    which = f"{body.text(parts[0][1])}, output {at}," if parts and body else f"output {at}"
    return Remedy(
        f"If {which} should depend on input {match['input']}, compute it from that. If not, its derivative is zero: "
        f"{on_line(level.place, line)}, which returns zeros for it.",
        tuple(lines),
    )


_KEYS = re.compile(r"(Missing|Unexpected) key\(s\): (.*?)(?:\n|$)")


@remedy(r"Error\(s\) in reparametrizing for")
def _other_keys(found: Refusal, match: Match) -> Remedy | None:
    """functional_call is given weights under other names than the module's."""
    kinds = {kind: re.findall(r"'([^']+)'", keys) for kind, keys in _KEYS.findall(found.failure.message)}
    missing, unknown = kinds.get("Missing", []), kinds.get("Unexpected", [])
    call, level = found.expression, found.level
    if not isinstance(call, ast.Call) or level.body is None or level.statement is None or len(call.args) < 2:
        return None
    given = level.body.text(call.args[1])
    told = (("missing", missing), ("unknown", unknown))
    lines = tuple(f"Of the names in {given}, {kind}: {listed(names, 3)}." for kind, names in told if names)
    for one, other, adding in ((missing, unknown, True), (unknown, missing, False)):
        prefix = next((m.removesuffix(other[0]) for m in one if other and m.endswith(other[0])), "")
        if prefix and sorted(one) == sorted(prefix + each for each in other):
            key = f"f'{prefix}{{k}}'" if adding else f"k.removeprefix('{prefix}')"
            new = f"{{{key}: v for k, v in {given}.items()}}"
            line = rewritten(level.body, level.statement, {call.args[1]: new})
            how = on_line(level.place, line) if line else f"on line {level.line}, write `{new}`"
            return Remedy(
                f"The names in {given} {'lack the prefix' if adding else 'have the extra prefix'} {prefix!r}: {how}.",
                lines,
            )
    return Remedy(f"Give {given} the names of named_parameters() and named_buffers() of the module.", lines)


@remedy(r"set a forward gradient that has a different size than that of the original Tensor")
def _tangent_of_another_shape(found: Refusal, match: Match) -> Remedy | None:
    """A direction that is to be that of each row: the shape of the tensor."""
    call, level = found.expression, found.level
    if not isinstance(call, ast.Call):
        return None
    first = 1 if callee(call)[1] == "jvp" else 0  # jvp(f, primals, tangents), make_dual(tensor, tangent)
    given = [each.elts if isinstance(each, ast.Tuple) else [each] for each in call.args[first : first + 2]]
    pairs = [*zip(*given, strict=False)] if len(given) == 2 else []
    sizes = [[shape_of(value_of(level, each)) for each in pair] for pair in pairs]
    odd = only(pair for pair, (one, other) in zip(pairs, sizes, strict=True) if one is None or one != other)
    return _in_shape(level, "tangent", *odd) if odd is not None else None
