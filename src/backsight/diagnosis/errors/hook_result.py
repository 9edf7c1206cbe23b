"""BS225: a hook returned what cannot take the place of the gradient that it was given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.registered import OF_MODULES, OF_TENSORS, Registered, is_none, keeps, registrations
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, counted, shaped, shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, assignments, loop_facts, only, parsed, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.source.callables import callables
from backsight.source.definitions import FILLING, values_of
from backsight.source.edits import OR, change, lines_of, on_line, sentence, write
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, rewritten_line, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, function_of
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.memory import is_tensor, shape_of
from backsight.tracing import current, shapes_inside

_DTYPES = re.compile(r"(?:torch\.)?(?:cuda\.)?(\w+?)Tensor")


_UNKNOWN = Registered(Place("", 0, ""), "", "", ast.Constant(None), (), None)
"""A hook that is not known, or that is one of several."""


@explains(
    "BS225",
    r"hook '(?P<name>[^']*)' has changed the (?P<what>size|type) of value(?: \(was (?P<was>.*?) got (?P<got>.*?)\))?",
    r"hook '(?P<counted>[^']*)' has returned an incorrect number of values \(got (?P<many>\d+), but expected "
    r"(?P<due>\d+)",
    r"expected (?P<expected>Variable|tuple), but hook returned '(?P<returned>[^']*)'",
    r"Backward (?P<pre>pre )?hook returned an invalid number of (?P<grads>grad_\w+), got (?P<got_many>\d+), "
    r"but expected (?P<due_many>\d+)",
    r"Backward hook for Modules where no input requires gradient should always return None",
)
def hook_result(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the hook, where it was registered, what it returns, and what it must return."""
    said = {key: value for key, value in match.groupdict().items() if value is not None}
    found = _candidates(failure, said)
    one = only(found) or _UNKNOWN
    returning = next((place for place, value in one.results if not keeps(value, one.first)), one.place)
    return explanation(
        _title(failure, said, one),
        _evidence(failure, said, found),
        _fix(failure, said, one),
        source=failure.source if one is _UNKNOWN else returning,
        exact=one is not _UNKNOWN,
    )


def _candidates(failure: Failure, said: dict[str, str]) -> list[Registered]:
    """The hooks that the message may mean."""
    every = [each for file in user_files(failure) for each in registrations(file)]
    function = _called(failure)
    if function is not None:
        return [each for each in every if each.is_of(function.__code__)][:1]
    name = said.get("name", said.get("counted"))
    if name is not None:
        fitting = [each for each in every if each.fits(name)]
    elif said.get("expected") == "tuple":
        fitting = [each for each in every if each.on.endswith("grad_fn")]
    else:
        fitting = [each for each in every if each.method == "register_hook" and not each.on.endswith("grad_fn")]
    fitting = [each for each in fitting if each.may_return]
    casting = [each for each in fitting if _casts(each)] if said.get("what") == "type" else []
    return casting or fitting


_CASTS = frozenset({"to", "type", "type_as", "half", "float", "double", "bfloat16", "cpu", "cuda"})


def _casts(one: Registered) -> bool:
    """Whether a hook converts something to another dtype or device."""
    calls = (each for each in ast.walk(one.function) if isinstance(each, ast.Call)) if one.function is not None else ()
    return any(callee(each)[1] in _CASTS for each in calls)


def _called(failure: Failure) -> Any:
    """The hook that PyTorch's own code for hooks of modules has just called, from its frame."""
    for level in reversed(failure.levels):
        for name in ("user_pre_hook", "user_hook", "hook"):
            held = level.variables.get(name)
            if held is not None and "self" in level.variables and level not in failure.users:
                return function_of(held)
    return None


def _title(failure: Failure, said: dict[str, str], one: Registered) -> str:
    who = f"The hook on {_owner(one)}" if one.on else "A hook"
    if said.get("what") == "size":
        given, result = _shapes(one)
        if given is not None and result is not None and given != result:
            shape = f"of shape {shaped(result)}" if result else "without dimensions"
            return f"{who} returns a gradient {shape}, but it received one of shape {shaped(given)}."
        if one.method in OF_MODULES and not _is_tuple(one):
            wanted = "grad_output" if "pre_hook" in one.method else "grad_input"
            return f"{who} must return a tuple like {wanted}, each gradient in its shape, and does not."
        return f"{who} returns a gradient of a different shape than it received{_due(failure, one)}."
    if said.get("what") == "type":
        got, was = _dtype(said.get("got", "")), _dtype(said.get("was", ""))
        both = f"{got} instead of {was}" if got and was else "another dtype or device"
        return f"{who} returns a gradient of a different type than it received: {both}."
    if "expected" in said:
        wanted = "a tuple of gradients" if said["expected"] == "tuple" else "a tensor or None"
        return f"{who} returns {a_kind(said['returned'])}; it must return {wanted}."
    if many := said.get("many", said.get("got_many")):
        expected = int(said.get("due", said.get("due_many", "0")))
        if returned := _returned_tensor(failure):
            return f"{who} returns a {returned}; it must return a tuple of {counted(expected, 'gradient')}."
        return f"{who} returns {counted(int(many), 'gradient')}; it received {expected} and must return as many."
    return f"{who} returns a gradient for an input that needs none."


def _owner(one: Registered) -> str:
    """What a hook is registered on; of `self`, its class: which of the objects it was is not known."""
    whole = (node for body in functions(one.place.file) for node in ast.walk(body.node))
    classes = (node for node in whole if isinstance(node, ast.ClassDef))
    around = [each for each in classes if each.lineno < one.place.line <= (each.end_lineno or 0)]
    return f"a {around[-1].name}" if one.on == "self" and around else one.on


def _is_tuple(one: Registered) -> bool:
    """Whether what a hook of a module returns is written as a tuple, or is one of the two that it is given."""
    arguments: Any = getattr(one.function, "args", None)
    match one.returned:
        case ast.Tuple() | ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="tuple")):
            return True
        case ast.Name(id=name) if isinstance(arguments, ast.arguments):
            return name in [each.arg for each in arguments.args]
    return False


def _returned_tensor(failure: Failure) -> str:
    """What a hook of a module returned in place of a tuple, from the frame that has refused it."""
    for level in reversed(failure.levels):
        held = next((level.variables[each] for each in ("out", "hook_grad_outputs") if each in level.variables), None)
        if is_tensor(held) and level not in failure.users:
            return f"tensor of shape {shaped(shape_of(held))}"
    return ""


def _shapes(one: Registered) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """The shapes of the gradient that a hook was given and of what it returned, as a watch has seen them."""
    watch = current()
    place, value, body = one.refused or (None, None, None)
    if place is None or value is None or body is None or watch is None:
        return None, None
    if (name := dotted(value)) is not None:  # computed by the statement that assigns it
        made = assignments(body, name, before=place.line)
        statement = statement_at(body, *made[-1].position) if made else None
        if not isinstance(statement, ast.Assign) or [*map(dotted, statement.targets)] != [name]:
            return None, None
        place, value = made[-1], statement.value
    return shapes_inside(watch, place.file, place.line, place.last) if is_an_operation(value) else (None, None)


def _due(failure: Failure, one: Registered) -> str:
    """The shape that is due, where the tensor is still at hand."""
    levels = failure.users if one.method in OF_TENSORS and one.on and "…" not in one.on else ()
    for level in levels:
        value = value_of(level, parsed(one.on)) if level.body is not None and _is_kept(level.body, one) else None
        if is_tensor(value):
            return f": {one.on} has shape {shaped(shape_of(value))}"
    return ""


def _is_kept(body: Body, one: Registered) -> bool:
    """Whether the name that a hook was registered on has one value in a function: no loop's, none assigned later."""
    base = one.on.partition(".")[0].partition("[")[0]
    places = assignments(body, base) if body.file == one.place.file else ()
    made = statement_at(body, *places[0].position) if len(places) == 1 else None
    return isinstance(made, ast.Assign) and made.lineno < one.place.line and loop_facts(body, made.lineno) is None


def _dtype(text: str) -> str:
    """`float32` for `torch.FloatTensor`, `torch.cuda.HalfTensor on the GPU` as it is."""
    known = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16"}
    match = _DTYPES.fullmatch(text)
    return known.get(match[1], text) if match else text


def _evidence(failure: Failure, said: dict[str, str], found: list[Registered]) -> Iterator[Fact]:
    may = "" if len(found) == 1 else "may be the one: "
    for each in found[:3]:
        yield shown(each.place, f"{may}registers the hook{f' on {_owner(each)}' if each.on else ''}.")
        for place, value in each.results:
            if place != each.place and not keeps(value, each.first):
                flat = _flattened(each) if said.get("what") == "size" else None
                if flat is not None and flat.line != place.line:
                    yield shown(flat, f"flattens {each.first} to one dimension.")
                is_flat = ", which is flat" if flat is not None else ""
                yield shown(place, f"is the value it returns{is_flat}.")
    if failure.user:
        yield shown(failure.user.place, "runs the hook.")
    if not found and (name := said.get("name", said.get("counted"))) not in (None, "<unknown>", "<lambda>", "hook"):
        yield f"PyTorch calls the hook '{name}'; the source text registers none by that name."


def _fix(failure: Failure, said: dict[str, str], one: Registered) -> str:
    grad = one.first or "grad"
    if one.method == "register_post_accumulate_grad_hook":
        return "Return nothing from it: such a hook changes param.grad in place."
    if one.method in OF_MODULES and "pre_hook" in one.method:
        return "Return nothing, or a tuple like grad_output: one gradient for each output of the module."
    if one.method in OF_MODULES:
        return _fix_of_module(failure, one, int(said.get("due") or said.get("due_many") or 0))
    same = f"A returned tensor replaces {grad}, so it must have the same shape."
    if said.get("what") == "size":
        if _flattened(one) is not None and (how := _returning(one, f"{{}}.view_as({grad})")):
            return f"Give the result the shape of {grad}: {how}."
        call, whole = _reduced(one)
        if call and (how := _returning(one, whole)):
            return f"Leave out {call}, which reduces the result to another shape than that of {grad}: {how}. {same}"
        return (
            f"If the hook only inspects {grad}, {_nothing(one)}: keep {grad}.norm(), {grad}[0] and the like in a "
            f"variable. {same}"
        )
    if said.get("what") == "type":
        how = _uncast(one) or _returning(one, f"{{}}.to({grad})") or f"(...).to({grad})"
        return f"Return it with the dtype and device of the incoming gradient: {how}."
    if said.get("expected") == "tuple" or "many" in said:
        return "Return a tuple with a gradient or None for each input of the node, or return nothing."
    if said.get("returned") == "tuple":
        alone = _only_gradient(one) or f"Return only the tensor that is to replace {grad}"
        return f"{alone}, not a tuple: a tensor has one gradient."
    how = _returning(one, f"torch.full_like({grad}, {{}})") or f"such as torch.full_like({grad}, ...)"
    return (
        f"If the hook only inspects {grad}, {_nothing(one)}. {OR}To replace it, return a tensor with the shape of "
        f"{grad}: {how}."
    )


def _fix_of_module(failure: Failure, one: Registered, due: int) -> str:
    what = "a tuple like grad_input, with one gradient for each input of the module"
    each, keep = "tuple(g if g is None else 2 * g for g in grad_input)", "Keep None for inputs without a gradient."
    written, forward = _as_many(failure, one, due), _forward(one)
    if forward is not None:
        written = f"{_apart(one)}, as line {forward.line} registers the hook on activations, too"
    if _changes(one):
        return f"The hook changes the gradient, so it must return {what}: {written or f'return {each}'}. {keep}"
    how = f"{written}, {what}" if written else f"return {what}: {each}"
    only = f"If the hook only inspects gradients, {'return nothing' if forward else _nothing(one)}."
    return f"{only} {OR}Otherwise{',' * how.startswith('if ')} {how}. {keep}"


def _only_gradient(one: Registered) -> str:
    """The one element of a returned tuple that is computed from the gradient, not reduced; empty where several are."""
    place, value, body = one.refused or (None, None, None)
    if place is None or body is None or not isinstance(value, ast.Tuple):
        return ""
    every = [each for each in value.elts if not is_reduced(each, one.first)]
    others = [node for each in value.elts if each not in every for node in ast.walk(each)]
    if any(isinstance(node, ast.Call) and callee(node)[1] in FILLING | {"print"} for node in others):
        return ""
    statement = statement_at(body, *place.position)
    new = rewritten(body, statement, {value: ast.unparse(every[0])}) if statement and len(every) == 1 else ""
    return sentence(on_line(place, new))


def _flattened(one: Registered) -> Place | None:
    """The statement of a hook that makes its gradient flat, where what it returns has as many entries; else None."""
    place, value, body = one.refused or (None, None, None)
    if place is None or value is None or body is None or isinstance(value, ast.Subscript) or reduces(value):
        return None
    every = ancestors(body, body.text(value), value.lineno)
    lines = [place.line, *(place.line for each in every.values() for place in each.bound)]
    flat = next((each for line in lines if (each := statement_at(body, line)) and _makes_flat(each, one.first)), None)
    return body.place(flat) if flat is not None else None


def _reduced(one: Registered) -> tuple[str, str]:
    """The call that reduces what a hook has computed from its gradient, `.sum(0)`, and what it is called on, as a form
    without fields; empty where it reduces the gradient itself, as hooks do that only look at it."""
    match one.returned:
        case ast.Call(func=ast.Attribute(value=ast.BinOp() as whole, attr=name)) as call if name in REDUCING:
            written = ast.unparse(call)
            return written[written.rindex(f".{name}(") :], _form(whole)
    return "", ""


def _form(node: ast.expr) -> str:
    """An expression as a form without fields."""
    return ast.unparse(node).replace("{", "{{").replace("}", "}}")


def _makes_flat(statement: ast.stmt, gradient: str) -> bool:
    for call in calls_in(statement):
        receiver, name = callee(call)
        whole = name in ("flatten", "ravel") and not call.args
        whole = whole or (name in ("reshape", "view") and [*map(ast.unparse, call.args)] == ["-1"])
        if whole and receiver is not None and any(dotted(node) == gradient for node in ast.walk(receiver)):
            return True
    return False


def _nothing(one: Registered) -> str:
    """How a hook returns nothing."""
    place, value, body = one.refused or (None, None, None)
    if place is None or body is None:
        return "return nothing"
    match value:
        case ast.BoolOp(op=ast.Or(), values=[ast.Call() as call, _]) if callee(call)[1] in ("append", "print"):
            statement = statement_at(body, *place.position)  # of a lambda, which calls another function first
            written = rewritten(body, statement, {value: body.text(call)}) if statement else ""
            at = write(body.place(statement), written) if statement else ""
            return f"return nothing: write `{written}`{at}" if written else "return nothing"
    if not place.text.startswith("return"):
        return "return nothing"
    if isinstance(value, ast.Call) and not is_an_operation(value) and not _only_computes(place.file, value):
        return f"return nothing: {on_line(place, body.text(value))}"
    return f"return nothing: {removed(place)}, `{place.text}`"


def _only_computes(file: str, call: ast.Call) -> bool:
    """Whether what a call runs is a function of the file that is one expression: it logs nothing."""
    named = (each for each in functions(file) if each.name and each.name == dotted(call.func))
    return any(isinstance(each.node.body[0], ast.Return) for each in named)


def _uncast(one: Registered) -> str:
    """What to write where a hook only converts its gradient last: `grad * 2` for `(grad * 2).half()`."""
    match one.returned:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _CASTS:
            every = [*ast.walk(inner)]
            if not any(isinstance(node, ast.Call) for node in every) and one.first in map(dotted, every):
                return _returning(one, _form(inner))
    return ""


def _as_many(failure: Failure, one: Registered, due: int) -> str:
    """Where and what a hook of a module must return: its gradients without the None beside them, or its tensor in a
    tuple; empty where neither makes as many as are due."""
    value = one.returned
    if isinstance(value, ast.Tuple):
        kept = [each for each in value.elts if not is_none(each)]
        return _returning(one, _form(ast.Tuple(kept, ast.Load()))) if len(kept) == due else ""
    new = _returning(one, "({},)")
    if due == 1 and _returned_tensor(failure):
        return new
    if due or value is None or _is_tuple(one) or not new:
        return ""
    return new if is_an_operation(value) or _changes(one) else f"if that is one tensor, {new}"


def _changes(one: Registered) -> bool:
    """Whether what a hook of a module returns is a gradient that it, or each function that it may call, has computed
    from the one that it was given: then it does not only look."""
    _, value, body = one.refused or (None, None, None)
    return value is not None and body is not None and is_computed(value, body, [*functions(body.file)])


def _forward(one: Registered) -> Place | None:
    """Where the function of a hook is registered as one on activations, too."""
    every = registrations(one.place.file, "register_forward_hook", "register_forward_pre_hook")
    same = (each for each in every if one.function is not None and each.function is one.function)
    return next((each.place for each in same if "forward" in each.method), None)


def _apart(one: Registered) -> str:
    """The registration of a hook that returns what another function does, in a tuple."""
    body, statement = read_at(one.place)
    hook = ast.unparse(one.hook)
    new = rewritten(body, statement, {one.hook: f"lambda *given: ({hook}(*given),)"}) if body and statement else ""
    return on_line(one.place, new) if new else f"register `lambda *given: ({hook}(*given),)`"


def _returning(one: Registered, form: str) -> str:
    """`on line 13, write return (...).to(grad)`, of what a hook returns; empty where no one statement shows."""
    place, returned, _ = one.refused or (None, None, None)
    body, statement = read_at(place)
    if returned is None or body is None or statement is None:
        return ""
    value = body.text(returned)
    new = form.format(value if form[-1:] == ")" and "({" in form else simple(value))
    if statement.lineno == statement.end_lineno or isinstance(statement, ast.Return):
        line = rewritten(body, statement, {returned: new})
        return on_line(body.place(statement), line)
    line, at = rewritten_line(body, returned, new), returned.lineno
    edit = change(lines_of(body.file, at), body.lines[at - 1].strip(), line)
    return f"on line {at}, write `{line}`{edit}" if line else ""


# How an expression that a hook returns is made from the gradient that it was given, as the text shows.


_DEEPEST = 5
REDUCING = frozenset({"sum", "mean", "norm", "max", "min", "topk", "item", "median", "std", "var", "cat", "stack"})


def is_an_operation(value: ast.expr) -> bool:
    """Whether PyTorch computes the value of an expression last, and no function of the program's."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.BinOp | ast.UnaryOp | ast.Subscript)
    receiver, name = callee(value)
    return library(value.func) == "torch" or (receiver is not None and hasattr(torch.Tensor, name))


def is_reduced(value: ast.expr, gradient: str) -> bool:
    """Whether an expression is not computed from a gradient entry by entry: `grad.norm()` is not, `grad / norm` is."""
    match value:
        case ast.Name(id=name):
            return name != gradient
        case ast.Call(args=args) if callee(value)[1] not in REDUCING:
            return all(is_reduced(each, gradient) for each in (callee(value)[0], *args) if each is not None)
        case ast.BinOp(left=left, right=right):
            return is_reduced(left, gradient) and is_reduced(right, gradient)
        case ast.UnaryOp(operand=operand) | ast.Subscript(value=operand):
            return is_reduced(operand, gradient)
    return True


def reduces(value: ast.expr) -> bool:
    """Whether an expression has fewer entries than what it is computed from."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return any(callee(call)[1] in REDUCING for call in calls)


def is_computed(value: ast.expr, body: Body, bodies: Sequence[Body], depth: int = _DEEPEST) -> bool:
    """Whether an expression is a new gradient, `0.5 * grad`, or calls only functions that return such a one."""
    match value:
        case ast.Name(id=name):
            given = [*values_of(body, name, value.lineno)] if depth else []
            return bool(given) and all(is_computed(each, body, bodies, depth - 1) for each in given)
        case ast.Call() if not is_an_operation(value):
            called = [*callables(value.func, body, bodies)] if depth else []
            ends = all(isinstance(each.body.node.body[-1], ast.Return) for each in called)
            results = [(each, one.body) for one in called for each in statements(one.body.node)]
            returned = [(each.value, its) for each, its in results if isinstance(each, ast.Return)]
            return (
                bool(called)
                and ends
                and all(each is not None and is_computed(each, its, bodies, depth - 1) for each, its in returned)
            )
        case ast.BinOp() | ast.UnaryOp() | ast.Call():
            names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            return any(not is_reduced(value, name) for name in names)
    return False
