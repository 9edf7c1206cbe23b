"""Remedies for what the program has given to autograd: a custom Function, a hook of a tensor or of saved tensors."""

from __future__ import annotations

import ast
import copy
import itertools
import math

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, anew, contexts, remedy, source_of
from backsight.diagnosis.evidence.custom import Applied, applied, body_of, definition, elements, every_applied, returned
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, is_class
from backsight.source import Body, Place, calls_of, function_at, only, statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, dotted, keyword, statements
from backsight.source.changes import changed_names
from backsight.source.cut_rules import rule_of
from backsight.source.definitions import gathers, values_of
from backsight.source.edits import OR, change, on_line, without_marks
from backsight.source.imports import is_gradient_call, library
from backsight.source.out_of_place import arguments, out_of_place
from backsight.source.rewriting import rewritten, simple, with_flag
from backsight.story.enabling import computing, enabled, switches
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, method
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.story.sections import undecorated
from backsight.tape import forward_class


@remedy(r"marked as dirty during the forward method were not returned")
def _not_returned(found: Refusal, match: Match) -> Remedy | None:
    """A custom Function changes its inputs in place, says so, and does not return all of them."""
    body = forward_of(found)
    marks = [(s, c) for s in statements(body) for c in calls_in(s) if callee(c)[1] == "mark_dirty"]
    if body is None or not marks or not marks[0][1].args:
        return None
    marking, mark = marks[0]
    marked, every = [*map(body.text, mark.args)], returned(body)
    back = [{_changed(body, node, each.lineno) for node in elements(each)} for each in every]
    returning, own = next(
        ((each, own) for each, own in zip(every, back, strict=True) if {*marked} - own), (None, set())
    )
    names = [each for each in marked if each not in own]
    kept = [each for each in marked if each in own]
    shorter = rewritten(body, marking, {mark: f"{body.text(mark.func)}({', '.join(kept)})"}) if kept else ""
    without = on_line(body.place(marking), shorter) if shorter else removed(body.place(marking))
    lines = [shown(body.place(marking), f"declares that forward modifies {listed(names)} in place.")]
    if returning is not None:
        lines.append(shown(body.place(returning), f"does not return {'them' if names[1:] else f'{names[0]} itself'}."))
    place = body.place(returning or marking)
    if not any(_may_need_gradient(found, body, each) for each in names):
        too = "it as a further output" if len(names) == 1 else "them as further outputs"
        return Remedy(
            f"What does not require grad needs no mark, as {listed(names)}: {without}. Or return {too}, of which "
            "backward gets gradients, too.",
            tuple(lines),
            body.place(marking),
        )
    changing = only(each for each in statements(body.node) if names[0] in changed_names(each))
    instead = _without_underscore(body, changing) if changing is not None and len(names) == 1 else ""
    new = "a new tensor" if len(names) == 1 else "new tensors"
    plain = f"Or {without_marks(without)}, and compute {new} instead of changing {listed(names)}."
    if instead and changing is not None:
        written = f"write `{instead}` on line {changing.lineno}{anew(body, changing, instead)}"
        what = f"do not modify {names[0]}" if kept else "modify nothing"
        plain = f"{OR}Or {what} in place: {without} and {written}."
    outputs = f"{names[0]} itself as one of the outputs" if len(names) == 1 else f"{listed(names)} as outputs"
    return Remedy(f"Return {outputs}. {plain}", tuple(lines), place)


def _changed(body: Body, node: ast.expr, line: int) -> str:
    """The tensor that an expression is, behind the methods that modify it in place, and another name for it."""
    while isinstance(node, ast.Call) and callee(node)[1].endswith("_") and callee(node)[0] is not None:
        node = callee(node)[0] or node
    value = only(values_of(body, node.id, line)) if isinstance(node, ast.Name) else None
    is_same = isinstance(value, ast.Name) or (isinstance(value, ast.Call) and callee(value)[1].endswith("_"))
    return _changed(body, value, value.lineno) if value and is_same and value.lineno < line else body.text(node)


def _may_need_gradient(found: Refusal, forward: Body, name: str) -> bool:
    """Whether what a Function is given for a parameter of its forward may require grad."""
    names, call = list(getattr(getattr(forward.node, "args", None), "args", [])), found.expression
    given = call.args if isinstance(call, ast.Call) else []
    k = next((k for k, each in enumerate(names[1:]) if each.arg == name), len(given))
    if k >= len(given) or any(isinstance(each, ast.Starred) for each in given[: k + 1]):
        return True
    value = value_of(found.level, given[k])
    return not is_tensor(value) or needs_gradient(value)


def forward_of(found: Refusal) -> Body | None:
    """The forward of the custom Function that failed."""
    cls = _function(found)
    forward = undecorated(method(cls, "forward")) if cls is not None else None
    return function_at(forward.__code__) if forward is not None else None


def _function(found: Refusal) -> type | None:
    call = found.expression
    receiver, name = callee(call) if isinstance(call, ast.Call) else (None, "")
    cls = value_of(found.level, receiver) if name == "apply" else None
    return cls if is_class(cls) else None


@remedy(r"implement the jvp function for custom autograd.Function")
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
        f"If forward uses only PyTorch operations that have a derivative, let PyTorch differentiate it: "
        f"{on_line(body.place(statement), line)}. {OR}Otherwise, {define}."
    )


@remedy(r"post accumulate grad hooks cannot be registered on non-leaf")
def _hook_of_leaves(found: Refusal, match: Match) -> Remedy | None:
    """A hook that runs once a gradient has been accumulated: on the leaves behind a computed tensor."""
    call, body, level = found.expression, found.level.body, found.level
    receiver = found.receiver
    if receiver is None or body is None or not isinstance(call, ast.Call) or level.statement is None:
        return None
    name, hook = body.text(receiver), ", ".join(map(body.text, call.args))
    owner = receiver.value if isinstance(receiver, ast.Attribute) else None
    if owner is not None and is_module(value_of(level, owner)):
        each = f"for p in {body.text(owner)}.parameters(): p.register_post_accumulate_grad_hook({hook})"
        return Remedy(
            f"{name} is computed anew each time it is read, and has no .grad. Register the hook on the parameters that "
            f"it is computed from: {on_line(level.place, each)}."
        )
    return Remedy(
        f"{name} is a result, and has no .grad. For its gradient, {name}.register_hook(...), whose hook receives the "
        "gradient; for an update in backward, register this hook on the parameters."
    )


@remedy(r"saved tensor pack hook is modifying its input in place")
def _packing(found: Refusal, match: Match) -> Remedy | None:
    """The pack hook of saved_tensors_hooks, and its statement that works in place."""
    for level in found.failure.users:
        for _, call in contexts(level):
            if callee(call)[1] != "saved_tensors_hooks" or not call.args or level.body is None:
                continue
            body = source_of(level, call.args[0])
            for each in statements(body):
                if body is None or not (names := changed_names(each)):
                    continue
                new = _without_underscore(body, each)
                place, name = body.place(each), min(names)
                how = f"compute with a copy, {name}.clone()"
                how = f"write `{new}` on line {place.line}{anew(body, each, new)}" if new else how
                return Remedy(
                    f"Leave {name} unchanged, because the program still uses it: {how}.",
                    (shown(place, f"modifies {name}, the program's own tensor, in place."),),
                    place,
                )
    return None


def _without_underscore(body: Body, statement: ast.stmt) -> str:
    """A statement with each method that works in place replaced by its namesake; empty where one has none."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        receiver, name = callee(statement.value)
        given = ", ".join(arguments(body, statement.value))
        is_method = dotted(receiver) is not None and not library(receiver)
        if is_method and hasattr(torch.Tensor, name[:-1]) and name.endswith("_"):
            return f"{dotted(receiver)} = {dotted(receiver)}.{name[:-1]}({given})"
    if not isinstance(statement, ast.Return | ast.Assign):
        return out_of_place(body, statement.lineno) or ""
    changes: dict[ast.expr, str] = {}
    for call in calls_in(statement):
        receiver, name = callee(call)
        if receiver is not None and name.endswith("_") and not name.startswith("_"):
            if not hasattr(torch.Tensor, name[:-1]):
                return ""
            changes[call] = f"{body.text(receiver)}.{name[:-1]}({', '.join(arguments(body, call))})"
    return rewritten(body, statement, changes) if changes else ""


@remedy(r"expected Variable or None \(got tuple\)")
def _tuple_returned(found: Refusal, match: Match) -> Remedy | None:
    """The backward of a custom Function returns what torch.autograd.grad() gave, a tuple, in place of a gradient."""
    for each in every_applied(found.failure):
        body = body_of(each.cls, each.backward)
        for statement in returned(body) if body is not None else ():
            every = [(node, _derivative(body, node, statement)) for node in elements(statement)]
            odd = {node: call for node, call in every if call is not None}
            if body is not None and odd and len(every) > 1:
                return _unpacked(body, statement, odd)
    return None


def _derivative(body: Body | None, node: ast.expr, statement: ast.Return) -> ast.Call | None:
    value = only(values_of(body, node.id, statement.lineno)) if body and isinstance(node, ast.Name) else node
    return value if isinstance(value, ast.Call) and is_gradient_call(value) else None


def _unpacked(body: Body, statement: ast.Return, odd: dict[ast.expr, ast.Call]) -> Remedy | None:
    """Unpack each tuple, and record what is differentiated: backward runs with gradients disabled."""
    line = rewritten(body, statement, {node: f"*{body.text(node)}" for node in odd})
    asking = [(at, each) for each in odd.values() if (at := statement_at(body, each.lineno, each.col_offset))]
    if not line or not asking:
        return None
    edits = [on_line(body.place(statement), line)]
    computed = [computing(body, at) for at, _ in asking]
    within = {n for lines in computed for n in range(lines[0].lineno, (lines[-1].end_lineno or 0) + 1)}
    is_whole = True
    if not switches(body):
        edits += dict.fromkeys(enabled(lines, body) for lines in computed)
        flags = {f"{_root(body, call)}.requires_grad" for _, call in asking}  # of a result they cannot be set
        flagged = (each for each in statements(body.node) if isinstance(each, ast.Assign))
        edits += [removed(body.place(each)) for each in flagged if dotted(each.targets[0]) in flags]
    for (at, call), (_, after) in itertools.pairwise(asking):
        if _root(body, call) == _root(body, after) and keyword(call, "retain_graph", "create_graph") is None:
            new = with_flag(body, at, call, "retain_graph")
            edits.append(f"{on_line(body.place(at), new)}, as line {after.lineno} needs that graph too")
            is_whole &= bool(switches(body)) or at.lineno not in within  # else the line is written twice
    what = "; ".join(edits) if is_whole else without_marks("; ".join(edits))
    disabled = "" if switches(body) else ", and backward runs with gradients disabled"
    first = dict.fromkeys(lines[0] for lines in computed if not switches(body))
    return Remedy(
        f"torch.autograd.grad() returns a tuple, for one tensor too{disabled}: {what}.",
        (
            *(shown(body.place(each), "runs with gradients disabled, so it has no graph.") for each in first),
            *(shown(body.place(at), "gets a tuple.") for at, _ in asking if at is not statement),
            shown(body.place(statement), "returns a tuple where a gradient is due."),
        ),
        body.place(statement),
    )


def _root(body: Body, call: ast.Call) -> str:
    node = next(iter(call.args), keyword(call, "outputs"))
    return body.text(node) if node is not None else ""


@remedy(r"function (\w+) returned a gradient different than None at position (\d+)")
def _not_a_tensor(found: Refusal, match: Match) -> Remedy | None:
    """The backward of a custom Function returns a gradient of what was no tensor: a number, or a list of tensors."""
    one, k = applied(found.failure, match[1]), int(match[2]) - 1
    forward, backward = (body_of(one.cls, each) for each in ("forward", one.backward)) if one else (None, None)
    returning = only(each for each in returned(backward) if len(elements(each)) > k) if backward else None
    if one is None or forward is None or backward is None or returning is None:
        return None
    calls = calls_of(*user_files(found.failure))
    own = ((*each, callee(each[2])[0]) for each in calls if callee(each[2])[1] == "apply" and len(each[2].args) > k)
    call = only((body, at, each) for body, at, each, cls in own if (dotted(cls) or "").split(".")[-1] == one.name)
    name, back = one.arguments[k], elements(returning)[k]
    lines = [shown(call[0].place(call[1]), f"gives it for {name}.")] if call else []
    lines.append(shown(backward.place(returning), f"returns a gradient for {name}."))
    if _is_gone_through(forward, name) or (call is not None and gathers(call[2].args[k])):
        text = f"{name} is a list: apply() sees only tensors that it is given one by one, and trains no others"
        edits = _one_by_one(forward, name, call, (backward, returning, back), k)
        return Remedy(
            f"{text}. {edits or 'Give it each of them as an argument of its own, and return as many gradients.'}",
            tuple(lines),
            call[0].place(call[1]) if call else None,
        )
    none = on_line(backward.place(returning), rewritten(backward, returning, {back: "None"}))
    fix = f"apply() got no tensor for {name}, so backward returns None there: {none}."
    if call is not None and (rule := rule_of(call[2].args[k])) is not None and rule.kind == "number":
        body, at, number = call[0], call[1], call[2].args[k]
        receiver = callee(number)[0] if isinstance(number, ast.Call) else None
        tensor = receiver or next(iter(getattr(number, "args", [])), None)
        if tensor is not None and (new := rewritten(body, at, {number: body.text(tensor)})):
            given = on_line(body.place(at), new)
            fix = f"To train it, give it as a tensor: {given}. {OR}If it should not be trained, return None: {none}."
    return Remedy(fix, tuple(lines), backward.place(returning))


def _is_gone_through(body: Body, name: str) -> bool:
    """Whether a function goes through what it is given, in a loop or a comprehension."""
    every = [node for each in statements(body.node) for node in ast.walk(each)]
    iters = [node.iter for node in every if isinstance(node, ast.For | ast.comprehension)]
    given = [
        node.args if isinstance(node, ast.Call) and callee(node)[1] in ("zip", "enumerate") else [node]
        for node in iters
    ]
    return any(dotted(node) == name for nodes in given for node in nodes)


def _one_by_one(
    forward: Body,
    name: str,
    call: tuple[Body, ast.stmt, ast.Call] | None,
    back: tuple[Body, ast.Return, ast.expr],
    k: int,
) -> str:
    """How a list is given to a Function as its last arguments; empty where it is not the last."""
    head = copy.deepcopy(forward.node)
    if call is None or not isinstance(head, ast.FunctionDef) or head.args.defaults or head.args.kwonlyargs:
        return ""
    body, statement, node = call
    if k != len(node.args) - 1 or node.keywords or head.args.args[-1].arg != name or head.args.vararg:
        return ""
    head.args.vararg, head.body, head.decorator_list = ast.arg(head.args.args.pop().arg), [ast.Pass()], []
    given = node.args[k]
    inner = (
        given.args[0] if isinstance(given, ast.Call) and callee(given) in ((None, "list"), (None, "tuple")) else given
    )
    applying = rewritten(body, statement, {given: _starred(body, inner)})
    line = rewritten(back[0], back[1], {back[2]: _starred(back[0], back[2])})
    if not applying or not line:
        return ""
    first = ast.unparse(head).partition("\n")[0]
    taking = on_line(definition(forward), first)
    return f"O{on_line(body.place(statement), applying)[1:]}, {taking}, and {on_line(back[0].place(back[1]), line)}."


def _starred(body: Body, node: ast.expr) -> str:
    """The elements of a list as they are handed on: `*taps`, and of one that is written there each of them."""
    if isinstance(node, ast.List | ast.Tuple):
        return ", ".join(map(body.text, node.elts))
    return f"*{body.text(node) if isinstance(node, ast.ListComp) else simple(body.text(node))}"


@remedy(r"shape '\[(?P<due>[\d, ]*)\]' is invalid for input of size (?P<size>\d+)")
def _of_picked_entries(found: Refusal, match: Match) -> Remedy | None:
    """It has as many entries as the output, and is to have the shape of an argument."""
    node, call, level = next(iter(found.level.variables.values()), None), found.expression, found.level
    cls, receiver = forward_class(type(node)) if found.is_custom else None, found.receiver
    if cls is None or not isinstance(call, ast.Call) or receiver is None or level.body is None:
        return None
    function, size = Applied(node, cls), int(match["size"])
    due = tuple(int(each) for each in match["due"].split(","))
    name = only(name for name, shape in function.shapes.items() if shape == due)
    if name is None or size not in map(math.prod, function.outputs):
        return None
    read, count = level.body.text(receiver), math.prod(due)
    needs: Fact = f"{name} has {count} entries, each with a gradient of its own; {read} has the {size} of the output."
    shape = ", ".join(level.body.text(each) for each in call.args)
    place, index = _picked(function, name, due) or (None, "")
    if place is None and (chosen := _chosen(function, name, level)) is not None:
        place, index, read = *chosen, _in_order_of_output(level, read)
    held = level.value(index) if read else None
    if place is None or not is_tensor(held) or call.keywords:
        return Remedy(f"Compute a gradient for each entry of {name}.", (needs,))
    if held.dtype == torch.bool and shape_of(held) == due:
        new = f"{simple(read)}.new_zeros({shape}).masked_scatter({index}, {read})"
    elif held.dtype == torch.int64 and shape_of(held) == (size,):
        flat = read if shape_of(level.value(read)) == (size,) else f"{simple(read)}.reshape(-1)"
        new = f"{simple(read)}.new_zeros({shape}).view(-1).index_add_(0, {index}, {flat}).view({shape})"
    else:
        return Remedy(f"Compute a gradient for each entry of {name}.", (needs,))
    line = rewritten(level.body, level.statement, {call: new}) if level.statement is not None else ""
    return Remedy(
        f"Put it into zeros of the shape of {name}, at the entries that {index} picks: "
        f"{on_line(level.place, line) if line else f'`{new}`'}.",
        (needs, shown(place, f"picks {size} entries of {name}, and the gradient of the others is 0.", "read")),
    )


def _picked(function: Applied, name: str, due: tuple[int, ...]) -> tuple[Place, str] | None:
    """The statement of forward that picks what it returns out of an argument, and the index: `x[mask]`."""
    body = body_of(function.cls, "forward")
    every = [value for each in returned(body) for value in elements(each)] if body is not None else []
    picked = _meant(body, every[0]) if body is not None and len(every) == 1 else None
    index = dotted(picked.slice) if isinstance(picked, ast.Subscript) else None
    if body is None or not isinstance(picked, ast.Subscript) or index is None:
        return None
    whole = _meant(body, picked.value) if dotted(picked.value) != name else picked.value
    receiver, method = callee(whole) if isinstance(whole, ast.Call) else (None, "")
    is_flat = method in ("reshape", "view", "flatten", "ravel") and isinstance(whole, ast.Call) and len(whole.args) < 2
    if dotted(whole) != name and not (is_flat and dotted(receiver) == name):
        return None
    statement = statement_at(body, picked.lineno, picked.col_offset)
    return (body.place(statement), index) if statement is not None else None


def _chosen(function: Applied, name: str, level: Level) -> tuple[Place, str] | None:
    """The statement of forward that chooses what it returns out of all entries of an argument, `flat.topk(k)`, and what
    backward calls the indices that it has saved."""
    body = body_of(function.cls, "forward")
    every = [value for each in returned(body) for value in elements(each)] if body is not None else []
    output = dotted(_without_copies(every[0])) if len(every) == 1 else None
    for each in statements(body):
        call = each.value if isinstance(each, ast.Assign) else None
        receiver, method = callee(call) if isinstance(call, ast.Call) else (None, "")
        target = each.targets[0] if isinstance(each, ast.Assign) else None
        first = dotted(target.elts[0]) if isinstance(target, ast.Tuple) else None
        chooses = method in ("topk", "sort") and output is not None and first == output
        if body is None or not chooses or not isinstance(call, ast.Call) or receiver is None:
            continue
        whole = _meant(body, call.args[0] if library(receiver) else receiver)
        if whole is not None and dotted(_without_copies(whole, subscripts=False)) == name:
            saved = [
                one for at in statements(level.body) if "saved_tensors" in ast.dump(at) for one in sorted(bound(at))
            ]
            index = only(one for one in saved if getattr(level.value(one), "dtype", None) == torch.int64)
            return (body.place(each), index) if index is not None else None
    return None


def _in_order_of_output(level: Level, read: str) -> str:
    """The gradient that backward was given, if this is only that in another order; else itself, or nothing if its order
    is not known."""
    body = level.body
    given = [each.arg for each in body.node.args.args[1:2]] if body and isinstance(body.node, ast.FunctionDef) else []
    value = only(values_of(body, read, level.line)) if body is not None and [read] != given else None
    if value is None or [dotted(_without_copies(value))] == given:
        return given[0] if value is not None else read
    return "" if any(isinstance(node, ast.Subscript) for node in ast.walk(value)) else read


def _without_copies(node: ast.expr, subscripts: bool = True) -> ast.expr:
    """What an expression only lays out otherwise: `x` of `x.reshape(-1).contiguous()`, and of `x[order]`."""
    while True:
        receiver, method = callee(node) if isinstance(node, ast.Call) else (None, "")
        if receiver is not None and method in ("clone", "contiguous", "detach", "reshape", "view", "flatten", "ravel"):
            node = receiver
        elif subscripts and isinstance(node, ast.Subscript):
            node = node.value
        else:
            return node


def _meant(body: Body, value: ast.expr) -> ast.expr | None:
    """What a variable has been given, by the only statement that gives it a value; any other expression itself."""
    name = dotted(value)
    return only(values_of(body, name, value.lineno)) if name else value


@remedy(r"Cannot use both regular backward hooks and full backward hooks")
def _two_kinds_of_hooks(found: Refusal, match: Match) -> Remedy:
    old, new = ".register_backward_hook(", ".register_full_backward_hook("
    calls = calls_of(*user_files(found.failure))
    places = dict.fromkeys(body.place(each) for body, each, call in calls if f".{callee(call)[1]}(" == old)
    edits = "".join(str(change(each, old, new)) for each in places if each.last == each.line)
    return Remedy(
        f"Register all hooks of {found.module_name or 'module'} with register_full_backward_hook(){edits}: "
        "register_backward_hook() is deprecated, and both cannot be on one module."
    )
