"""Remedies for tensors that are not what is asked for: views, results without a graph, shared memory, other shapes."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.copied import detaching, detachments, pre_hooks, results_kept
from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, blocks_around, remedy
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import shaped, shown, sure_if
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, assignments, calls_of, statement_at, statements_of
from backsight.source.bindings import bound, targets
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.edits import OR, on_line, on_line_with, put, put_at, remove, sentence, unwrap, wrap, write
from backsight.source.freezing import freezings
from backsight.source.imports import is_gradient_call, library
from backsight.source.rewriting import rewritten, simple
from backsight.story.cuts import CutOff, around, unrecorded, unrecorded_in
from backsight.story.evaluated import value_of
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.story.sections import function_called, run_by
from backsight.tape import parameters_in
from backsight.text import as_code

_LOSSES = ("_loss", "cross_entropy", "_entropy_with_logits", "kl_div")


@remedy(r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False")
def _of_frozen_parameter(found: Refusal, match: Match) -> Remedy | None:
    """A hook, or retain_grad(), on a parameter that the program has frozen."""
    receiver, body, statement = found.receiver, found.level.body, found.level.statement
    tensor = value_of(found.level, receiver)
    if not isinstance(tensor, torch.nn.Parameter) or receiver is None or body is None or statement is None:
        return None
    text, at, full = body.text(receiver), found.level.place, names_of(found.failure, [tensor])[0]
    freezing = [each for file in user_files(found.failure) for each in freezings(file)]
    words = set(full.split(".")[1:]) - {"weight", "bias"}
    near = [each for each in freezing if words & set(re.findall(r"\w+", f"{each.loop or ''} {each.place.text}"))]
    every = [each.place for each in near or freezing]
    certainty = sure_if(len(every) == 1)
    which = f"{text}, {full}," if full and full != text else text
    does = f"sets requires_grad to False: {which} gets no gradient."
    evidence = tuple(shown(each, does, certainty) for each in every[:2])
    condition, names = f"if {text}.requires_grad:", bound(statement)
    plain = not isinstance(statement, ast.Expr | ast.Assign) or any(each.isidentifier() for each in names)
    asks = f"put line {at.line} under `{condition}`" if not plain else f"do so only where {text}.requires_grad is true"
    asks += "" if plain else str(wrap(at, condition))
    looped = any(isinstance(each, ast.For) and text in bound(each) for each in blocks_around(found.level))
    why = " A frozen parameter gets no gradient that a hook could see or change."
    if looped or plain:
        return Remedy(f"{sentence(asks)}.{why}", evidence, None)
    on = f"{text}.requires_grad_()"
    return Remedy(
        f"If it is to be trained, {put_at(on, 'above', at)}, and let an optimizer have it. {OR}Else {asks}.{why}",
        evidence,
        None,
    )


_LOSSES = ("_loss", "cross_entropy", "_entropy_with_logits", "kl_div")


@remedy(r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False")
def _of_disabled(found: Refusal, match: Match) -> Remedy | None:
    """A hook, or retain_grad(), on a result that was computed under torch.no_grad(), or from constants."""
    receiver, body, statement = found.receiver, found.level.body, found.level.statement
    if receiver is None or body is None or statement is None:
        return None
    name = body.text(receiver)
    running = next(iter(around([(level, level.line) for level in found.failure.users])), None)
    held = value_of(found.level, receiver)
    behind = unrecorded_in(found.failure, found.level, name, held) if is_tensor(held) else iter(())
    block = running or next(behind, None)
    if block is None:
        return _of_constants(found, name)
    place = block.cut.place
    evidence: list[Fact] = [
        shown(place, "disables gradients for everything inside it.", None if running or block.seen else "read")
    ]
    level = running.section.level if running is not None else None
    if level is not None and level is not found.level:
        evidence.append(shown(level.place, "runs inside it."))
    plain = isinstance(statement, ast.Expr) and statement.lineno == statement.end_lineno
    condition, at = f"if {name}.requires_grad:", found.level.place
    asks = on_line(at, f"{condition} {body.text(statement)}") if plain else f"on line {at.line}, write `{condition}`"
    asks += str(wrap(at, condition)) if isinstance(statement, ast.Expr) and not plain else ""
    removed = _removed(block)
    if running is None:
        code = f"{name}.requires_grad_()"
        leaf = f"For the gradient of {name} alone: write `{code}` above line {at.line}{put(code, 'above', at)}. {OR}"
        leaf = leaf if "inference" not in place.text else ""
        return Remedy(f"{leaf}To train what it is computed from as well: {removed}.", tuple(evidence), place)
    if _runs_backward(block):
        fix = f"{sentence(removed)}: backward runs there, and needs the graph of {name}."
        return Remedy(fix, tuple(evidence), place)
    only = f"Ask only where there is a gradient: {asks}."
    return Remedy(f"{only} {OR}To get one here as well, {removed}.", tuple(evidence), None)


def _of_constants(found: Refusal, name: str) -> Remedy | None:
    """The result can be a leaf itself, from where it is computed: what is computed from it since has no graph yet."""
    tensor = value_of(found.level, found.receiver)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return None
    origin = made(Held(found.failure, found.level, name, tensor))
    if origin is None or origin.place == found.level.place:
        return None
    code = f"{name}.requires_grad_()"
    fix = (
        f"For the gradient of {name}: put `{code}` below line {origin.place.last}{put(code, 'below', origin.place)}, "
        "so that it is a leaf. To train what it is computed from too, make that require grad first."
    )
    return Remedy(fix, (), None)


def _runs_backward(block: CutOff) -> bool:
    """Whether something inside takes gradients: itself, or in a function that it calls."""
    for call in (call for each in unrecorded(block.section, block.cut) for call in calls_in(each)):
        function, owner = function_called(block.section, call)
        inner = run_by(function, owner) if getattr(function, "__code__", None) is not None else ()
        called = (each for section in inner for each, _ in section.calls())
        if any(callee(each)[1] == "backward" or is_gradient_call(each) for each in (call, *called)):
            return True
    return False


def _removed(block: CutOff) -> str:
    """How gradients are enabled where a block disables them."""
    text, line = block.cut.place.text, block.cut.place.line
    if text.startswith("@"):
        return f"remove line {line}, `{text}`, from {block.section.body.name}(){remove(block.cut.place)}"
    if text.startswith("with ") and "," not in text and "set_grad_enabled" not in text:
        return f"remove line {line}, `{text}`, and dedent the lines inside it{unwrap(block.cut.place)}"
    return f"enable gradients on line {line}, `{text}`"


@remedy(r"Can't detach views in-place")
def _detached_view(found: Refusal, match: Match) -> Remedy | None:
    """`s.detach_()` of what chunk() or an index gave: detach() instead, and for the parts of a state a new state."""
    receiver, body, statement = found.receiver, found.level.body, found.level.statement
    if receiver is None or body is None or statement is None:
        return None
    name = body.text(receiver)
    loop = next(iter(blocks_around(found.level)), None)
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


_LOSSES = ("_loss", "cross_entropy", "_entropy_with_logits", "kl_div")


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
                    f"{put_at(required, 'above', level.place)}. {OR}Where none is "
                    f"needed, call it only under `{asks}`{wrap(found.level.place, asks) if alone else ''}.",
                    (shown(level.place, f"runs the model on {plain[0]}, which does not require grad."),)
                    if level is not found.level
                    else (),
                )
    return None


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


@remedy(r"Mismatch in shape: grad_output\[0\] has a shape of torch\.Size\(\[([\d, ]*)\]\)")
def _variable_as_gradient(found: Refusal, match: Match) -> Remedy | None:
    """`out.backward(x)`: what is given is the gradient of the output, and no variable to differentiate by."""
    body, statement, call = found.level.body, found.level.statement, found.expression
    receiver, method = callee(call) if isinstance(call, ast.Call) else (None, "")
    output = value_of(found.level, receiver)
    if body is None or statement is None or receiver is None or method != "backward" or not is_tensor(output):
        return None
    if not isinstance(call, ast.Call) or len(call.args) > 1:
        return None
    given = call.args[0] if call.args else keyword(call, "gradient")
    value = value_of(found.level, given)
    if given is None or not is_tensor(value) or (output.dim() and not needs_gradient(value)):
        return None
    text, name, has = body.text(given), body.text(receiver), needs_gradient(value)
    why = f"backward() takes a gradient in the shape of {name}, and not what to differentiate by"
    then = f" {text}.grad then has the gradient with respect to {text}." if has and value.is_leaf else ""
    if output.dim():
        ones = f"torch.ones_like({name})"
        line = on_line_with(body, statement, {given: ones}) if has else ""
        summed = f": {line}, for the gradient of the sum of {name}" if line else f". Give it a tensor of {name}'s shape"
        return Remedy(f"{why}{summed}.{then}")
    rest = [f"{each.arg}={body.text(each.value)}" for each in call.keywords if each.arg != "gradient"]
    line = on_line_with(body, statement, {call: f"{body.text(call.func)}({', '.join(rest)})"})
    if has or value.numel() < 2:
        return Remedy(f"{why}. {name} is a scalar, which needs none: {line}.{then}")
    weighed = _weighed(body, name, text, statement.lineno)
    how = f": {weighed}, and {line}" if weighed else f", multiply it by {text}, and take the mean of that"
    return Remedy(
        f"{why}; {name} is a scalar, which needs none. If {text} weighs the samples, make a loss for each of them"
        f"{how}. {OR}If it does not, {line}."
    )


def _weighed(body: Body, loss: str, weights: str, line: int) -> str:
    """How a loss that one call reduces is written as the mean, or the sum, of what the samples weigh."""
    places = assignments(body, loss, before=line)
    made = statement_at(body, *places[-1].position) if places else None
    call = made.value if isinstance(made, ast.Assign) else None
    if not isinstance(call, ast.Call) or library(call.func) != "torch" or not callee(call)[1].endswith(_LOSSES):
        return ""
    kind = keyword(call, "reduction")
    reduced = kind.value if isinstance(kind, ast.Constant) else "mean" if kind is None else ""
    if reduced not in ("mean", "sum"):
        return ""
    each = ast.unparse(ast.Call(call.func, call.args, [k for k in call.keywords if k.arg != "reduction"]))
    return on_line_with(body, made, {call: f'({weights} * {each[:-1]}, reduction="none")).{reduced}()'})


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
        if (namespace(module) or {}).get(attribute) is tensor:
            kinds = (type(each).__module__ for each in pre_hooks(module))
            yield from (kind.rpartition(".")[2] for kind in kinds if kind.startswith("torch.nn.utils."))


_EXPANDING = ("expand", "expand_as", "broadcast_to")


@remedy(r"more than one element of the written-to tensor refers to a single memory location")
def _expanded(found: Refusal, match: Match) -> Remedy | None:
    """What expand() gave is written in place: it has memory for one of its rows alone."""
    name, tensor = next(((text, each) for text, each in found.tensors if _repeats(each)), ("", None))
    if tensor is None:
        return None
    stored = tuple(1 if step == 0 else n for step, n in zip(tensor.stride(), tensor.shape, strict=True))
    own = f"{name} has the memory of {shaped(stored)} for its shape {shaped(shape_of(tensor) or ())}"
    every = list(dict.fromkeys(_expansions(found, name)))
    for body, statement, call in every if len(every) == 1 else ():
        line = rewritten(body, statement, {call: f"{body.text(call)}.clone()"})
        if line:
            at = body.place(statement)
            return Remedy(
                f"Give each entry memory of its own: {on_line(at, line)}.",
                (shown(at, f"repeats without a copy: {own}."),),
                at,
            )
    if name.isidentifier() and found.level.value(name) is tensor:
        copied = f"{name} = {name}.clone()"
        line = put_at(copied, "above", found.level.place)
        return Remedy(f"{own}, as expand() leaves it: {line}.")
    return Remedy(f"{own}, as expand() leaves it: use .clone() where {name} is given that tensor.")


def _repeats(tensor: torch.Tensor) -> bool:
    strided = tensor.layout is torch.strided
    return strided and any(step == 0 and n > 1 for step, n in zip(tensor.stride(), tensor.shape, strict=True))


def _expansions(found: Refusal, name: str) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """The statements that give a name, or an attribute of that name, or its values, what is expanded."""
    attribute = name.removesuffix("]").rpartition(".")[2]
    local = found.level.body if name.isidentifier() else None
    every = ((local, each) for each in statements(local.node)) if local else statements_of(*user_files(found.failure))
    for body, statement in every:
        for target, value, _ in targets(statement):
            held = (dotted(target) or "").removesuffix(".data")
            calls = [each for each in calls_in(statement) if callee(each)[1] in _EXPANDING and _is_in(each, value)]
            if calls and (held == name or (not local and "." in held and held.rpartition(".")[2] == attribute)):
                yield body, statement, calls[-1]


def _is_in(node: ast.expr, value: ast.expr) -> bool:
    """Whether an expression is all of another, or all that a constructor is given: `nn.Parameter(row.expand(4, 3))`."""
    inner = value.args[0] if isinstance(value, ast.Call) and callee(value)[1] == "Parameter" and value.args else value
    return node is inner
