"""Remedies for tensors and states of another kind than is asked for: views, frozen ones, other dtypes and shapes."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from backsight.diagnosis.errors.copied import detaching, detachments, results_kept
from backsight.diagnosis.errors.optimizer_state import made_at
from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import counted, described, listed, shown, sure_if
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place, calls_of, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import parameters_of, spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, functions, keyword, statements
from backsight.source.edits import OR, Edit, on_line, put, remove, wrap, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.tape import parameters_in, registered
from backsight.text import as_code


@remedy(r"Can't detach views in-place")
def _detached_view(found: Refusal, match: Match) -> Remedy | None:
    """`s.detach_()` of what chunk() or an index gave: detach() instead, and for the parts of a state a new state."""
    receiver, body, statement = found.receiver, found.level.body, found.level.statement
    if receiver is None or body is None or statement is None:
        return None
    name = body.text(receiver)
    loop = next((arm for s in spots(body.node) if s.node is statement for arm, _ in reversed(s.arms)), None)
    if isinstance(loop, ast.For) and dotted(loop.target) == name and (whole := dotted(loop.iter)):
        kind = "tuple(" if type(found.level.value(whole)) is tuple else "["
        end = ")" if kind == "tuple(" else "]"
        new, at = f"{whole} = {kind}{name}.detach() for {name} in {whole}{end}", body.place(loop)
        if len(loop.body) == 1:
            where = f"lines {loop.lineno} to {statement.lineno}{write(at, new)}"
        else:
            where = f"line {statement.lineno}, below the loop{remove(found.level.place)}{put(new, 'beside', at)}"
        return Remedy(f"{name} is a view, which cannot be detached in place: write `{new}` instead of {where}.")
    return Remedy(f"{name} is a view: {on_line(found.level.place, f'{name} = {name}.detach()')}.")


@remedy(r"parameter group that doesn't match the size of optimizer's group|different number of parameter groups")
def _state_of_others(found: Refusal, match: Match) -> Remedy | None:
    """The state of an optimizer was saved for other parameters than this one has."""
    below = found.below[-1].variables if found.below else {}
    sizes = [_lengths(below, "saved_groups"), _lengths(below, "groups")]
    if not all(sizes) or found.level.statement is None:
        return None
    built = made_at(found)
    where = f" on line {built.line}" if built is not None else ""
    return Remedy(
        f"It was saved with {_groups(sizes[0])}{_settings(below)}, and this optimizer has {_groups(sizes[1])}. "
        f"To go on with the old state, make the optimizer{where} over the same parameters in the same groups, in the "
        f"same order. {OR}To train other parameters from here, start with a new state: {removed(found.level.place)}.",
        (shown(built, f"makes it with {_groups(sizes[1])}."),) if built is not None else (),
        built,
    )


def _settings(variables: Any) -> str:
    """The settings in which the saved groups differ, which tell them from each other."""
    saved = [each for each in variables["saved_groups"] if isinstance(each, dict)]
    plain = {key: [each.get(key) for each in saved] for key in saved[0]}
    told = [
        f"{key} {listed([*map(str, values)], 6)}"
        for key, values in plain.items()
        if all(type(each) in (int, float) for each in values) and len(set(values)) > 1
    ]
    return f" ({'; '.join(told)})" if told else ""


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


@remedy(r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False")
def _of_frozen(found: Refusal, match: Match) -> Remedy | None:
    """A gradient is asked for of what a frozen model computes: its input, where the program has it."""
    receiver, body = found.receiver, found.level.body
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
                asks, alone = f"if {name}.requires_grad:", isinstance(found.level.statement, ast.Expr)
                required = f"{plain[0]}.requires_grad_()"
                return Remedy(
                    f"To get a gradient although all parameters behind {name} are frozen, make the input require grad: "
                    f"put `{required}` above line {level.line}{put(required, 'above', level.place)}. {OR}Where none is "
                    f"needed, call it only under `{asks}`{wrap(found.level.place, asks) if alone else ''}.",
                    (shown(level.place, f"runs the model on {plain[0]}, which does not require grad."),)
                    if level is not found.level
                    else (),
                )
    return None


CASTS = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16"}


_FACTORIES = frozenset({"zeros", "ones", "empty", "full", "rand", "randn", "eye", "linspace"})
_HALVES = (torch.float16, torch.bfloat16)


@remedy(r"dtype|scalar type|should be the same")
def _made_without_dtype(found: Refusal, match: Match) -> Remedy | None:
    """What torch.zeros() makes is float32, and what autocast computes is not: give it the dtype of the other."""
    level, body, failing = found.level, found.level.body, found.level.statement
    low = [(text, each) for text, each in found.tensors if each.dtype in _HALVES and simple(text) == text]
    if body is None or failing is None or not low or found.is_custom:
        return None
    text, of = low[0][0], str(low[0][1].dtype).removeprefix("torch.")
    plain = [name for name, each in found.tensors if each.dtype == torch.float32 and not needs_gradient(each)]
    for statement in (failing, *(_assigning(body, name, level.line) for name in plain)):
        call = next(filter(_is_plain_factory, calls_in(statement)), None)
        if statement is None or call is None:
            continue
        known = statement is failing or any(
            each.lineno < statement.lineno and text in _targets(each) for each in statements(body.node)
        )
        known |= text.split(".")[0] in parameters_of(body.node)
        what = body.text(call.func)
        line = rewritten(body, statement, {call: f"{body.text(call)[:-1].rstrip(', ')}, dtype={text}.dtype)"})
        if not known:
            reads = {node: f"{text}.float()" for node in expressions(failing) if body.text(node) == text}
            line, statement = rewritten(body, failing, reads), failing
        if line:
            return Remedy(
                f"{what}() makes float32, and {text} is {of}, as autocast computes it: "
                f"{on_line(body.place(statement), line)}.",
                place=body.place(statement),
            )
    return None


def _assigning(body: Body, name: str, line: int) -> ast.stmt | None:
    """The last statement above a line that gives a name its value."""
    found = [each for each in statements(body.node) if each.lineno < line and name in _targets(each)]
    return found[-1] if found else None


def _is_plain_factory(call: ast.Call) -> bool:
    receiver, name = callee(call)
    return name in _FACTORIES and dotted(receiver) == "torch" and keyword(call, "dtype") is None


@remedy(r"same dtype|expected scalar type|dtypes match|[Ii]nput type .* should be the same|Found dtype")
def _other_dtype(found: Refusal, match: Match) -> Remedy | None:
    """Data of another dtype than the weights: cast where the program gets it, with what comes with it."""
    every = [each for _, each in found.tensors]
    weights = [each for each in every if isinstance(each, torch.nn.Parameter)]
    weight = next(iter([*weights, *filter(needs_gradient, every)]), None)
    if found.is_custom or weight is None or weight.dtype not in CASTS or torch.is_autocast_enabled(weight.device.type):
        return None
    odd = [each for _, each in found.tensors if each.dtype != weight.dtype and each.is_floating_point()]
    if not odd or any(needs_gradient(each) for each in odd):
        return None
    casts = (cast_at(level, odd, CASTS[weight.dtype]) for level in reversed(found.failure.users))
    return next((each for each in casts if each is not None), None)


def cast_at(level: Level, odd: list[torch.Tensor], cast: str) -> Remedy | None:
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
            f"{listed(alike, 3)} {'is' if len(alike) == 1 else 'are'} {dtype}{by}: {where} `{line}`"
            f"{put(line, 'below', level.body.place(each))}.",
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


@remedy(r"[Tt]arget size \(torch\.Size\(\[([\d, ]*)\]\)\).* input size \(torch\.Size\(\[([\d, ]*)\]\)\)")
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
    return Remedy(f"Give {body.text(target)} the shape of the input: {on_line(body.place(statement), line)}.")


# Remedies for what is sent to another process, which gets values alone: a graph stays where it was recorded.


@remedy(r"refusing to serialize non-leaf tensor")
def _sent(found: Refusal, match: Match) -> Remedy | None:
    """A result among what a process is given: by itself, or kept by a model."""
    tensor, level, body = found.below[-1].variables.get("tensor"), found.level, found.level.body
    if not is_tensor(tensor) or body is None or level.statement is None:
        return None
    name, line = names_of(found.failure, [tensor])[0], level.statement.lineno
    kept = results_kept(level, root := name.partition(".")[0])
    attribute = name.rpartition(".")[2]
    if "." in name and kept:
        by = next(_computing(found, tensor, attribute), "")
        made = [body.place(each) for body, each, call in calls_of(*user_files(found.failure)) if callee(call)[1] == by]
        says = f"lets {by}() compute {attribute} before each forward pass: it is not a leaf."
        then = f": each forward pass computes {attribute} anew" if by else ", if no loss is computed from it any more"
        detached = put("\n".join(detachments(root, kept)), "above", level.place)
        return Remedy(
            f"A process is sent values, without a graph. Put `{detaching(root, kept)}` above line {line}{then}"
            f"{detached}.",
            tuple(shown(each, says, sure_if(len(made) == 1)) for each in made[:2]),
            made[0] if len(made) == 1 else None,
        )
    reads = {node: f"{name}.detach()" for node in expressions(level.statement) if name and body.text(node) == name}
    sent = rewritten(body, level.statement, reads) if reads else ""
    how = on_line(level.place, sent) if sent else f"send {as_code(name) or 'the tensor'}.detach() in its place"
    return Remedy(f"A process is sent values, without a graph: {how}. Gradients do not come back from there.")


def _computing(found: Refusal, tensor: torch.Tensor, attribute: str) -> Iterator[str]:
    """The function of torch.nn.utils whose hook computes an attribute of a module before each of its passes."""
    for module, _ in search((), frames=found.failure.frames, collect=(torch.nn.Module,)).found:
        held = namespace(module) or {} if is_module(module) else {}
        hooks = held.get("_forward_pre_hooks")
        if held.get(attribute) is tensor and isinstance(hooks, dict):
            kinds = (type(each).__module__ for each in hooks.values())
            yield from (kind.rpartition(".")[2] for kind in kinds if kind.startswith("torch.nn.utils."))


# A parameter is given a tensor: a module takes its values, or another parameter, and what is computed from it by
# another name.


_MOST = 4


class _Copy(NamedTuple):
    """A statement that assigns to a parameter, as one that copies the values."""

    place: Place
    value: str
    text: str
    sure: bool

    @property
    def line(self) -> int:
        return self.place.line


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _registered_by_an_assignment(found: Refusal, match: Match) -> Remedy | None:
    """One parameter under two names: an assignment that was given the parameter itself has registered it again, as one
    of what dropout computes in eval() does. A copy is no parameter."""
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
            return ast.unparse(holder) + (
                f".{name.value!s}" if isinstance(name, ast.Constant) else ast.unparse(name)
            ), value
    return "", None


@remedy(r"cannot assign '.*' (?:object )?as parameter '\w+'")
def _of_plain_values(found: Refusal, match: Match) -> Remedy | None:
    """The statement as one that copies, in the words of the program, and what follows it that fails alike."""
    inside = found.below[-1].variables if found.below else {}
    module, name, value = (inside.get(each) for each in ("self", "name", "value"))
    parameter = registered(module, "_parameters").get(name) if is_module(module) and isinstance(name, str) else None
    if not is_module(module) or not is_tensor(parameter) or not is_tensor(value) or needs_gradient(value):
        return None
    copies = list(_copies(found, module, value))
    failing = found.level.statement
    if failing is None or not copies or copies[0].line != failing.lineno or shape_of(parameter) != shape_of(value):
        return None
    first, *others = copies
    edits = "".join(str(write(each.place, each.text)) for each in copies if each is first or each.sure)
    also = [f"`{each.text}` on line {each.line}" for each in others if each.sure]
    maybe = [str(each.line) for each in others if not each.sure]
    written = listed([f"`{first.text}` on line {first.line}", *also], _MOST)
    fix = f"Copy the values into the parameter: write {written}{edits}."
    if maybe:
        lines = f"line{'s' * (len(maybe) > 1)} {listed(maybe, _MOST)}"
        fix += f" The same goes for {lines}, if what is assigned there is no parameter either."
    told = any(name == first.value for name, _ in found.tensors)
    return Remedy(fix, () if told else (f"{first.value} is a {described(value)} without a graph, and no parameter.",))


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
        changes |= {
            call: _with_weight(body, call, attribute, name) for call in calls_in(each) if dotted(call.func) == owner
        }
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
    """The edits with which methods that read an attribute are given a variable for it, and these statements written as
    they are to be; empty where that is not plain, as where something else calls the methods, too."""
    written = list[Edit]()
    for inner in (each for each in functions(body.file) if each.name in methods):
        node, read = (
            inner.node,
            [each for each in statements(inner.node) if any(use.name == target for use in uses(each))],
        )
        taken = {use.name for each in statements(node) for use in uses(each)} | parameters_of(node)
        if not isinstance(node, ast.FunctionDef) or name in taken or _are_more(node.args) or node.returns is not None:
            return ""
        head = f"def {inner.name}({', '.join([*(each.arg for each in node.args.args), name])}):"
        lines = {
            each: rewritten(inner, each, {n: name for n in expressions(each) if dotted(n) == target}) for each in read
        }
        written += [write(inner.place(node), head), *(write(inner.place(each), text) for each, text in lines.items())]
    calls = [call for each in changes for call in calls_in(each) if callee(call)[1] in methods]
    anywhere = [call for _, _, call in calls_of(body.file) if callee(call)[1] in methods]
    if len(calls) != len(anywhere) or any(call.keywords or call.args for call in calls):
        return ""
    passing: dict[ast.expr, str] = {call: f"{body.text(call.func)}({name})" for call in calls}
    for each, own in changes.items():
        new = {**own, **{call: text for call, text in passing.items() if any(call is one for one in calls_in(each))}}
        written += [write(body.place(each), rewritten(body, each, new))] if new else []
    return "".join(map(str, written)) if all(each.code for each in written) else ""


def _are_more(arguments: ast.arguments) -> bool:
    """Whether a function has other parameters than plain ones without a default."""
    return bool(
        arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs or arguments.defaults
    )


def _with_weight(body: Body, call: ast.Call, attribute: str, name: str) -> str:
    """The call of a module, computed with something else in place of a parameter; empty where it has keywords."""
    given = ", ".join(map(body.text, call.args)) + "," * (len(call.args) == 1)
    if call.keywords:
        return ""
    return f"torch.func.functional_call({body.text(call.func)}, {{'{attribute}': {name}}}, ({given}))"


def _copies(found: Refusal, module: torch.nn.Module, value: torch.Tensor) -> Iterator[_Copy]:
    """The failing statement, and those after it that assign to a parameter: surely alike where their value is known to
    have no graph, or written in the same way."""
    level, failing = found.level, found.level.statement
    for each in statements(level.body.node) if level.body is not None else ():
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
        text = f"with torch.no_grad(): {body.text(target)}.copy_({assigned})"
        computed = isinstance(each.value, ast.BinOp | ast.UnaryOp)  # never a parameter
        yield _Copy(body.place(each), assigned, text, plain or alike or computed)


def _held(level: Level, target: ast.Attribute, failing: ast.Assign, module: torch.nn.Module) -> object:
    """What an attribute holds: of the module that refused its value, however the statement comes to it."""
    refused = failing.targets[0]
    if isinstance(refused, ast.Attribute) and ast.dump(target.value) == ast.dump(refused.value):
        return registered(module, "_parameters").get(target.attr)
    return value_of(level, target)
