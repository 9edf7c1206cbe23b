"""Remedies for modules: attention without a kernel, tensors assigned as parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, contexts, remedy
from backsight.diagnosis.evidence.refused import Refusal, called_when_built
from backsight.diagnosis.wording import described, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, calls_of, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import parameters_of, uses
from backsight.source.body import callee, calls_in, dotted, expressions, functions, keyword, statements
from backsight.source.edits import OR, Edit, on_line, on_line_with, unwrap, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.story.modes import disabled_at
from backsight.tape import registered
from backsight.tape.rows import dtype_name
from backsight.text import lines_at

_SPOKEN = {
    "FLASH_ATTENTION": "flash attention",
    "EFFICIENT_ATTENTION": "memory-efficient attention",
    "CUDNN_ATTENTION": "cuDNN attention",
    "MATH": "the math kernel",
}
_TAKE_ALL = ("EFFICIENT_ATTENTION", "MATH")
"""What is to be allowed besides: the fast kernel that takes a mask and float32, and the one that takes everything."""

_WIDEST = {"FLASH_ATTENTION": 256, "CUDNN_ATTENTION": 256}


@remedy(r"Boolean value of Tensor with more than one value is ambiguous")
def _built_of_inputs(found: Refusal, match: Match) -> Remedy | None:
    """A loss of PyTorch's that is constructed with the inputs of its forward: it takes them for settings."""
    level, call = found.level, found.expression
    cls = value_of(level, call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or getattr(cls, "__module__", "") != torch.nn.modules.loss.__name__:
        return None
    new = called_when_built(level, call)
    line = on_line_with(level.body, level.statement, {call: new}) if new else ""
    return Remedy(f"Construct it, and call that: {line}. Settings belong in the first parentheses.") if line else None


@remedy(r"No available kernel|No viable backend for scaled_dot_product_attention")
def _no_kernel(found: Refusal, match: Match) -> Remedy | None:
    """Every kernel that `with sdpa_kernel(...)` allows refuses what it is given."""
    every_block = ((level.body, *each) for level in found.failure.users for each in contexts(level))
    for body, statement, call in every_block:
        given = call.args[0] if call.args and callee(call)[1] == "sdpa_kernel" else None
        every = given.elts if isinstance(given, ast.List | ast.Tuple) else [given] if given is not None else []
        known = [each for each in every if isinstance(each, ast.Attribute) and each.attr in _SPOKEN]
        if body is None or given is None or not known or len(known) != len(every):
            continue
        allowed, at = [each.attr for each in known], body.place(statement)
        more = [f"{body.text(known[0].value)}.{name}" for name in _TAKE_ALL if name not in allowed]
        written = ", ".join([*map(body.text, known), *more])
        line = rewritten(body, statement, {given: f"({written})" if isinstance(given, ast.Tuple) else f"[{written}]"})
        reasons = list(_reasons(found, allowed))
        how = on_line(at, line) if line and more else f"on line {at.line}, allow more kernels"
        left = unwrap(at) if len(statement.items) == 1 else ""
        why = "" if reasons else " The warnings of PyTorch above the traceback say why each of them refuses."
        return Remedy(
            f"Allow more kernels: {how}. {OR}Or remove this `with`{left}: PyTorch then takes the fastest kernel that "
            f"can.{why}",
            (shown(at, f"allows only {listed([_SPOKEN[each] for each in allowed])}."), *reasons),
            at,
        )
    return None


def _reasons(found: Refusal, allowed: list[str]) -> Iterator[Fact]:
    """Why the kernels that are allowed refuse these operands, as far as that is known of all of them."""
    call = found.expression
    if not isinstance(call, ast.Call) or callee(call)[1] != "scaled_dot_product_attention" or not call.args:
        return
    query: Any = value_of(found.level, call.args[0])
    given = keyword(call, "attn_mask") or (call.args[3] if len(call.args) > 3 else None)
    mask, text = value_of(found.level, given), ast.unparse(given) if given is not None else ""
    for name in allowed:
        spoken = _SPOKEN[name][0].upper() + _SPOKEN[name][1:]
        if name == "FLASH_ATTENTION" and isinstance(mask, torch.Tensor):
            yield f"{spoken} takes no attn_mask, and {text} is one."
        elif name not in _WIDEST or not isinstance(query, torch.Tensor):
            continue
        elif query.dtype not in (torch.float16, torch.bfloat16):
            yield f"{spoken} takes float16 and bfloat16, and {ast.unparse(call.args[0])} is {dtype_name(query.dtype)}."
        elif query.shape[-1] > _WIDEST[name]:
            yield f"{spoken} takes heads of at most {_WIDEST[name]} features, and here they have {query.shape[-1]}."


# A parameter is given a tensor: a module takes its values, or another parameter, and what is computed from it by
# another name.


_MOST = 4


class _Copy(NamedTuple):
    """A statement that assigns to a parameter, as one that copies the values."""

    place: Place
    value: str
    text: str
    sure: bool


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _registered_by_an_assignment(found: Refusal, match: Match) -> Remedy | None:
    """One parameter under two names, as an assignment of what dropout returns in eval() registers it again."""
    inside = found.below[-1].variables if found.below else {}
    module, name, body = inside.get("self"), inside.get("name"), found.level.body
    every = registered(module, "_parameters") if is_module(module) else {}
    held = every.get(name) if isinstance(name, str) else None
    first = next((each for each, value in every.items() if value is held and each != name), None)
    if held is None or first is None or body is None:
        return None
    setting = [(each, _set(each)) for each in statements(body.node)]
    failing = _set(found.level.statement)
    same = [(each, value) for each, (target, value) in setting if value is not None and target == failing[0]]
    known = [(each, value) for each, value in same if value_of(found.level, value) is held]
    known = known or [(each, value) for each, value in same if each is found.level.statement]
    why = f"{name} is the same parameter as {first}: an assignment was given {first} itself, and registered it again"
    statement, value = known[0] if len(known) == 1 else (None, None)
    text = body.text(value) if value is not None else ""
    made = ancestors(body, text, statement.lineno).get(text) if statement is not None else None
    bound = list(made.bound) if made is not None else []
    dropped = next((each for each in bound if "dropout" in each.text and "training" in each.text), None)
    given = [value, *(getattr(statement_at(body, *each.position), "value", None) for each in bound)]
    arms = [arm for each in given for arm in ((each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,))]
    is_it = any(arm is not None and value_of(found.level, arm) is held for arm in arms)
    if statement is None or value is None or not (dropped or is_it):
        return Remedy(f"{why}. If that was not meant, assign {first}.clone() there, which is no parameter.")
    new = rewritten(body, statement, {value: f"{simple(text)}.clone()"})
    at = dropped or (body.place(statement) if statement is not found.level.statement else None)
    says = f"returns its input, {first}, where training is False." if dropped else f"assigns {first} itself."
    fix = f"{why}. A copy is no parameter: {on_line(body.place(statement), new)}."
    return Remedy(fix, (shown(at, says),) if at is not None else (), at)


def _set(statement: ast.stmt | None) -> tuple[str, ast.expr | None]:
    """What a statement sets an attribute of, as it is written, and the value: `m.w = w` and `setattr(m, "w", w)`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute() as target], value=value):
            return ast.unparse(target), value
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[holder, name, value])):
            attribute = f".{name.value!s}" if isinstance(name, ast.Constant) else ast.unparse(name)
            return f"{ast.unparse(holder)}{attribute}", value
    return "", None


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _of_plain_values(found: Refusal, match: Match) -> Remedy | None:
    """The statement as one that copies, in the words of the program, and what follows it that fails alike."""
    inside = found.below[-1].variables if found.below else {}
    module, name, value = (inside.get(each) for each in ("self", "name", "value"))
    parameter = registered(module, "_parameters").get(name) if is_module(module) and isinstance(name, str) else None
    if not is_module(module) or not is_tensor(parameter) or not is_tensor(value) or needs_gradient(value):
        return None
    copies, line = list(_copies(found, module, value)), found.level.place.line
    if not copies or copies[0].place.line != line or shape_of(parameter) != shape_of(value):
        return None
    first, *others = copies
    edits = "".join(str(write(each.place, each.text)) for each in copies if each is first or each.sure)
    also = [f"`{each.text}` on line {each.place.line}" for each in others if each.sure]
    maybe = [each.place.line for each in others if not each.sure]
    written = listed([f"`{first.text}` on line {first.place.line}", *also], _MOST)
    fix = f"Copy the values into the parameter: write {written}{edits}."
    if maybe:
        fix += f" The same goes for {lines_at(maybe, _MOST)}, if what is assigned there is no parameter either."
    told = any(name == first.value for name, _ in found.tensors)
    plain = () if told else (f"{first.value} is a {described(value)} without a graph, and no parameter.",)
    target = _set(found.level.statement)[0]
    title = f"{target} is a parameter, and a plain tensor cannot take its place: its values can be copied into it."
    return Remedy(fix, plain, None, title if target and "…" not in target else "")


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _computed_from_itself(found: Refusal, match: Match) -> Remedy | None:
    """The statements that are to give the result a name of its own, and to read it by that name."""
    level, failing = found.level, found.level.statement
    body, value = level.body, found.below[-1].variables.get("value") if found.below else None
    target = dotted(failing.targets[0]) if isinstance(failing, ast.Assign) and len(failing.targets) == 1 else None
    if body is None or not isinstance(failing, ast.Assign) or target is None or not needs_gradient(value):
        return None
    if level.function.rpartition(".")[2] == "__init__":
        return None
    if not any(dotted(node) == target for node in ast.walk(failing.value)):
        return None
    after = [each for each in statements(body.node) if each.lineno > failing.lineno]
    taken = {use.name for each in statements(body.node) for use in uses(each)} | parameters_of(body.node)
    attribute = target.rpartition(".")[2]
    name = next(each for each in (attribute, f"{attribute}_now", f"{attribute}_of_this_pass") if each not in taken)
    new: dict[ast.stmt, str] = {failing: rewritten(body, failing, {failing.targets[0]: name})}
    every: dict[ast.stmt, dict[ast.expr, str]] = {}
    owner = target.rpartition(".")[0]
    for each in after:
        changes: dict[ast.expr, str] = {node: name for node in expressions(each) if dotted(node) == target}
        running = (call for call in calls_in(each) if dotted(call.func) == owner)
        changes |= {call: _with_weight(body, call, attribute, name) for call in running}
        if changes:
            new[each] = rewritten(body, each, changes) if all(changes.values()) else ""
            every[each] = changes
    called = {callee(call)[1] for each in after for call in calls_in(each) if dotted(callee(call)[0]) == "self"}
    others = {each.name: list(map(uses, statements(each.node))) for each in functions(body.file) if each.name in called}
    reading = [at for at, read in others.items() if any(use.name == target for each in read for use in each)]
    given = [f"{at}()" for at in reading]
    if len(new) == 1 and not given:
        return None  # what reads it is elsewhere, a forward that is to compute with the parameter
    texts = {each.lineno: f"`{text}`" if text else name for each, text in new.items()}
    written = listed([f"{text} on line {line}" for line, text in texts.items()], _MOST)
    edits = "".join(str(write(body.place(each), text)) for each, text in new.items())
    if given:
        edits = _passed_on(body, reading, target, name, {each: every.get(each, {}) for each in after})
        edits += str(write(found.level.place, new[failing])) if edits else ""
    shared = f", and pass {name} to {listed(given)}, which computes with it" if given else ""
    shared += edits if all(new.values()) else ""
    return Remedy(
        f"Give the result a name of its own, and leave {target} as it is, to be trained: write {written}{shared}.",
        (f"What is assigned is computed from {target}: a result with a graph, and no nn.Parameter.",),
    )


def _passed_on(
    body: Body, methods: Sequence[str], target: str, name: str, changes: Mapping[ast.stmt, Mapping[ast.expr, str]]
) -> str:
    """The edits that pass a variable to methods which read an attribute; empty where others call them, too."""
    written = list[Edit]()
    for inner in (each for each in functions(body.file) if each.name in methods):
        node = inner.node
        taken = {use.name for each in statements(node) for use in uses(each)} | parameters_of(node)
        if not isinstance(node, ast.FunctionDef) or name in taken or _are_more(node.args) or node.returns is not None:
            return ""
        head = f"def {inner.name}({', '.join([*(each.arg for each in node.args.args), name])}):"
        written.append(write(inner.place(node), head))
        for each in statements(node):
            if any(use.name == target for use in uses(each)):
                line = rewritten(inner, each, {n: name for n in expressions(each) if dotted(n) == target})
                written.append(write(inner.place(each), line))
    calls = [call for each in changes for call in calls_in(each) if callee(call)[1] in methods]
    anywhere = [call for _, _, call in calls_of(body.file) if callee(call)[1] in methods]
    if len(calls) != len(anywhere) or any(call.keywords or call.args for call in calls):
        return ""
    for each, own in changes.items():
        inside = [call for call in calls_in(each) if callee(call)[1] in methods]
        new: dict[ast.expr, str] = {**own, **{call: f"{body.text(call.func)}({name})" for call in inside}}
        if new:
            written.append(write(body.place(each), rewritten(body, each, new)))
    return "".join(map(str, written)) if all(each.code for each in written) else ""


def _are_more(arguments: ast.arguments) -> bool:
    """Whether a function has other parameters than plain ones without a default."""
    return any(getattr(arguments, kind) for kind in ("vararg", "kwarg", "kwonlyargs", "posonlyargs", "defaults"))


def _with_weight(body: Body, call: ast.Call, attribute: str, name: str) -> str:
    """The call of a module, computed with something else in place of a parameter; empty where it has keywords."""
    given = ", ".join(map(body.text, call.args)) + "," * (len(call.args) == 1)
    if call.keywords:
        return ""
    return f"torch.func.functional_call({body.text(call.func)}, {{'{attribute}': {name}}}, ({given}))"


def _copies(found: Refusal, module: torch.nn.Module, value: torch.Tensor) -> Iterator[_Copy]:
    """The failing statement and those after it that assign to a parameter, surely alike where written alike."""
    level, failing = found.level, found.level.statement
    for each in statements(level.body):
        if not isinstance(each, ast.Assign) or not isinstance(failing, ast.Assign) or each.lineno < failing.lineno:
            continue
        target, body = each.targets[0], level.body
        known = value if each is failing else value_of(level, each.value)
        plain = is_tensor(known) and not needs_gradient(known)
        if (
            len(each.targets) > 1
            or not isinstance(target, ast.Attribute)
            or not isinstance(_held(level, target, failing, module), torch.nn.Parameter)
            or isinstance(known, torch.nn.Parameter)
            or (is_tensor(known) and not plain)
            or body is None
        ):
            continue
        alike = ast.dump(each.value) == ast.dump(failing.value)
        assigned = body.text(each.value)
        copied = f"{body.text(target)}.copy_({assigned})"
        text = copied if disabled_at(body, each.lineno) is not None else f"with torch.no_grad(): {copied}"
        computed = isinstance(each.value, ast.BinOp | ast.UnaryOp)  # never a parameter
        yield _Copy(body.place(each), assigned, text, plain or alike or computed)


def _held(level: Level, target: ast.Attribute, failing: ast.Assign, module: torch.nn.Module) -> object:
    """What an attribute holds: of the module that refused its value, however the statement comes to it."""
    refused = failing.targets[0]
    if isinstance(refused, ast.Attribute) and ast.dump(target.value) == ast.dump(refused.value):
        return registered(module, "_parameters").get(target.attr)
    return value_of(level, target)
