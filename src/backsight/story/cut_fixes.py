"""What to do instead, for each way in which a gradient's way ends."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from backsight.source import Body, Place, assignments, parsed, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, names_read, parameters_of
from backsight.source.body import callee, calls_in, covers, dotted, expressions, given_to, keyword, statements
from backsight.source.cut_rules import Kind, grad_mode, rule_of
from backsight.source.definitions import gathers, values_of
from backsight.source.edits import (
    OR,
    alternatives,
    change,
    marks_of,
    move,
    on_line,
    on_line_with,
    put_at,
    remove,
    sentence,
    unwrap,
    without_marks,
    write,
)
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import rewritten, with_flag
from backsight.story.attached import (
    gathered,
    in_one_piece,
    in_place_of_cut,
    kept,
    of_accuracy,
    of_embedding,
    of_second_class,
    passed_through,
    probabilities,
    soft,
)
from backsight.story.cuts import CutOff, asked, has_graph, unrecorded
from backsight.story.decorated import kept_without, leaves_changed, of_a_caller, other_calls
from backsight.story.enabling import computing, enabled
from backsight.story.fixes import removed
from backsight.story.in_pytorch import beyond, in_pytorch
from backsight.story.memory import is_tensor, shape_of
from backsight.story.modes import headed, without_inference
from backsight.story.sections import Section
from backsight.text import listed


class Mend(NamedTuple):
    """How a cut is mended: what to write, without a full stop, and the end of the sentence, which says why.

    lines: further lines that this writes anew. scores: where nothing is written, what the loss is to be computed from.
    """

    edit: str
    why: str = "."
    lines: tuple[int, ...] = ()
    scores: tuple[str, ...] = ()


def fix(cut: CutOff, loss: str, further: Sequence[CutOff] = (), *, derivative: Place | None = None) -> str:
    """Return the fix for what ends a gradient's way; never `loss.requires_grad_()`.

    further: what else ends it on the same way. derivative: the statement that asks autograd.grad, which evaluation may
    need too.
    """
    place, text = cut.cut.place, cut.cut.place.text
    ungraded = without_inference(text)  # of inference mode, the tensors stay without a graph
    anew = headed(place, ungraded) if ungraded != text else ""
    if cut.enabled is not None:
        how = f"Write `{ungraded}`" if ungraded != text else "Use torch.no_grad() instead of inference mode"
        inside = f"torch.enable_grad() on line {cut.enabled.line}"
        return f"{how} on line {place.line}{anew}: {inside} overrides that, but not inference mode. {silenced(loss)}"
    trains = cut.trains if cut.trains and not (text.startswith("@") and of_a_caller(cut)) else None
    if (derivative or trains) and cut.cut.kind == "no_grad" and text.startswith(("@", "with ")):
        changed, both = leaves_changed(cut), f"write `{ungraded}` on line {place.line}{anew}, and "
        gone = f"{_lifted(cut)}{kept_without(changed)}"
        if text.startswith("@"):
            name = getattr(cut.section.body.node, "name", "")
            gone = f"Remove @{cut.cut.expression} from {name}{remove(place)}{kept_without(changed)}"
        body, asking = read_at(derivative or trains)
        needs = "a derivative needs a graph even when nothing is trained."
        if derivative and not (cut.around or cut.in_function) and _is_given(body, asking):
            return f"{gone}: {needs}"
        if trains and any(covers(asking, each.line) and each.file == trains.file for each in changed if asking):
            return f"{gone}: what runs backward needs a graph. {silenced(loss)}"
        if derivative:
            edit = enabled(computing(body, asking), body) if body and asking else "enable gradients for the derivative"
            if cut.in_function and body and asking:
                edit = f"{_leaf_first(body, asking)}{edit}"
            why = needs
        else:
            edit = put_at("@torch.enable_grad()", "above", trains) if trains else ""
            why = f"what runs backward needs a graph. {silenced(loss)}"
        if ungraded != text:
            edit = f"{both if body and asking else without_marks(both)}{edit}"
        elif cut.around or cut.in_function:  # to remove one of them would leave the other
            return f"{sentence(edit)}: {why}"
        if changed:  # of an optimizer's step, all else belongs where gradients are disabled
            return f"{sentence(edit)}: {why} {OR}Or {gone[0].lower()}{gone[1:]}."
        return f"{gone}{',' if text.startswith('@') else ';'} {OR}or {edit}: {why}"
    mend = mended(cut, *further)
    return f"{mend.edit}{mend.why} {silenced(loss)}"


def _leaf_first(body: Body, asking: ast.stmt) -> str:
    """Make a leaf of what a function is given and asks the gradient for, where that has no graph."""
    call = next((each for each in calls_in(asking) if is_gradient_call(each)), None)
    of = dotted(call.args[1]) if isinstance(call, ast.Call) and len(call.args) > 1 else None
    if of is None or of not in parameters_of(body.node) or assignments(body, of):
        return ""
    new = f"{of} = {of} if {of}.requires_grad else {of}.detach().requires_grad_()"
    return f"{put_at(new, 'above', body.place(computing(body, asking)[0]))}, and "


def _is_given(body: Body | None, asking: ast.stmt | None) -> bool:
    """Whether a function takes the derivative of what it was given: that has no graph by then."""
    call = next((each for each in calls_in(asking) if is_gradient_call(each)), None)
    of = next(iter(call.args), None) if isinstance(call, ast.Call) else None
    name = dotted(of) or ""
    return body is not None and name in parameters_of(body.node) and not assignments(body, name)


def mended(cut: CutOff, *further: CutOff) -> Mend:
    """Return how a cut is mended, and with it others on the same way, whoever asks."""
    mend = _mended(cut, further)
    mends = {each: _mended(each) for each in further if each.cut.place.line not in mend.lines}
    if any(each.cut.kind == "index" and cut.cut.place.line in other.lines for each, other in mends.items()):
        return mended(*mends)
    every = [mend, *mends.values()]
    scores = list(dict.fromkeys(name for each in every for name in each.scores))
    whole = next((each._replace(edit=of_positions(scores)) for each in every if each.scores), mend)
    first, *rest = list(dict.fromkeys(whole if each.scores else each for each in every))
    if not rest:
        return first
    parts = _together([first.edit, *(f"{each.edit[0].lower()}{each.edit[1:]}" for each in rest)])
    is_long = any("; " in each or ", and " in each for each in parts)
    edits = f"{'; '.join(parts[:-1])}; and {parts[-1]}" if is_long else ", and ".join(parts)
    if all(each.cut.kind == "gradient" for each in (cut, *further)):
        others = "With a graph for only some of them, the others would stay constants."
        return Mend(edits, f", so that each gradient has its own graph. {others}")
    return Mend(edits, first.why if {first.why} == {each.why for each in rest} else ".")


def _together(parts: list[str]) -> list[str]:
    """Sentences that ask for parts of one change: without their edits where one has none, or two write a line anew."""
    found = [[*alternatives(each)] for each in parts]
    lines = [line for each in found for edit in (*each[0],) for line in edit.lines] if all(found) else []
    return parts if lines and len({*lines}) == len(lines) else [*map(without_marks, parts)]


def _stacked(copied: CutOff) -> str:
    """The call that joins tensors where numbers were copied: `torch.stack([s.loss for s in steps])`."""
    names, node = copied.operands, copied.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    shapes = [shape_of(copied.section.value(each)) for each in names]
    join = "cat" if shapes and all(each is not None and len(each) == 1 for each in shapes) else "stack"
    joined = f"torch.{join}({gathered(given, join) or (names[0] if names else '...')})"
    return joined if len(joined) <= _WIDEST else f"torch.{join}([...]), of the same elements,"


_WIDEST = 120


_A_TENSOR = re.compile(r"[\w.]+(\[\w+\])*")
"""What a method can be called on as it is written: `g[0]`, no `the loss` and no `loss_of(x)`."""


def silenced(loss: str) -> str:
    """Say why the fix that people find first is none."""
    name = loss if _A_TENSOR.fullmatch(loss) else "loss"
    return f"{name}.requires_grad_() would only silence the error: nothing would be trained."


def _mended(cut: CutOff, further: Sequence[CutOff] = ()) -> Mend:
    if cut.cut.kind == "no_grad":
        return _of_decorator(cut) if cut.cut.place.text.startswith("@") and not _is_alone(cut) else Mend(_of_block(cut))
    operand = cut.held if cut.operand else next(iter(cut.operands), "") or "the values"
    function = _function(cut.cut.expression)
    if cut.cut.kind == "number" and function in _NUMPY:
        return _of_array(cut, operand, further)
    return _MENDS[cut.cut.kind](cut, operand, function)


def _of_index(cut: CutOff, operand: str, function: str) -> Mend:
    looked, lines = of_embedding(cut)
    if looked:
        return Mend(looked, f"; keep {function} for the accuracy.", lines)
    spread, lines = _of_classes(cut, function)
    if counted := of_accuracy(cut):
        return Mend(counted, f": an accuracy only counts, and has no gradient. Keep {function} for that.", _before(cut))
    written = _one_hot(cut) or spread or _cross_entropy(cut, operand) or of_second_class(cut)
    alike = (each for each in cut.beside if _function(each.cut.expression) == function)
    others = (each.held or next(iter(each.operands), "") for each in alike)
    every = list(dict.fromkeys([operand, *filter(None, others)]))
    if written:
        return Mend(written, lines=lines)
    return Mend(of_positions(every), f"; keep {function} for the accuracy.", _before(cut), tuple(every))


def _before(cut: CutOff) -> tuple[int, ...]:
    """The lines of the cuts that do not matter where the loss is computed anew from what there is before this one."""
    return tuple(each.place.line for each in cut.before if each.kind != "no_grad")


def _of_comparison(cut: CutOff, operand: str, function: str) -> Mend:
    if counted := of_accuracy(cut):
        return Mend(counted, ": an accuracy only counts, and has no gradient. Keep it for printing.", _before(cut))
    written, stays = soft(cut)
    if written:
        return Mend(written, f"{stays}. The comparison of {operand} jumps from 0 to 1, and has no gradient.")
    return Mend(
        f"Compute the loss from {operand} before the comparison, which jumps from 0 to 1 and has no gradient. For a "
        "soft step, use torch.sigmoid"
    )


def _of_integers(cut: CutOff, operand: str, function: str) -> Mend:
    written, value = passed_through(cut)
    if written:
        return Mend(written, f": the same values, with the gradient of {value}.")
    return Mend(f"Keep {operand} in floating point here; integers are for labels and indices")


def _of_detached(cut: CutOff, operand: str, function: str) -> Mend:
    used = listed([operand, *(each.held for each in cut.beside if each.held)], 3)
    written = kept(cut.section.body, cut.cuts) or f"Use {used}"
    return Mend(f"{written}{_without(cut, written)}", ": that is for logging and for what must not be trained.")


def _of_copy(cut: CutOff, operand: str, function: str) -> Mend:
    expression, joined, why = cut.cut.expression, _stacked(cut), ": it joins tensors and keeps their graphs."
    written = in_place_of_cut(cut, joined) if "..." not in joined else ""
    if is_several(cut.section, operand, cut.cut.place.line):
        why = f"{why} {operand} must hold the tensors themselves, not their numbers."
        return Mend(written or f"Replace {expression} with {joined}", why)
    if whole := in_one_piece(cut):
        return Mend(whole, ": it keeps its graph.")
    node = cut.node
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.List | ast.Tuple | ast.ListComp):
        return Mend(written or f"Write {joined} there", why)
    return Mend(
        f"If {operand} is one tensor, use it instead of {expression}. If it holds several, use torch.stack() on them"
    )


def _of_gradient(cut: CutOff, operand: str, function: str) -> Mend:
    why = ", so that this gradient has its own graph."
    if (call := asked(cut)) is not None:
        written = sentence(on_line(call.place, call.mended))
        return Mend(written or f"Pass {call.wanted} to {call.text} on line {call.place.line}", why)
    body, place, node, statement = cut.section.body, cut.cut.place, cut.node, cut.statement
    if has_graph(node):
        return Mend(
            f"create_graph=True is there already: {operand or 'what is differentiated'} is linear, its derivative a "
            "constant, and nothing can learn from that. Leave it out of the loss, or check what it is the derivative of"
        )
    new = with_flag(body, statement, node, "create_graph") if statement and isinstance(node, ast.Call) else ""
    written = sentence(on_line(place, new))
    return Mend(written or f"Pass create_graph=True where the gradient is computed on line {place.line}", why)


def of_positions(every: Sequence[str]) -> str:
    """What to do instead of taking the position of the largest in each of some scores, and the like."""
    own = "itself" if len(every) == 1 else "themselves"
    return f"Compute the loss from {listed(every, len(every))} {own}, as F.cross_entropy does for class scores"


def _one_hot(suspect: CutOff) -> str:
    """The probabilities, where the same statement spreads classes out again, `one_hot(probs.argmax(1), n)`."""
    body, made, cut = suspect.section.body, suspect.statement, suspect.node
    calls = [each for each in calls_in(made) if "one_hot" in callee(each)[1].lower()]
    if cut is None or not isinstance(made, ast.Assign) or not any(cut in ast.walk(each) for each in calls):
        return ""
    call = next((each for each in calls_in(made) if callee(each)[1] == "argmax"), None)
    if call is None or not (given := given_to(call)):
        return ""
    scores, dim = given[0], keyword(call, "dim") or next(iter(given[1:]), None)
    soft = probabilities(body, body.text(scores), body.text(dim) if dim is not None else "-1", made.lineno)
    target, axis = body.text(made.targets[0]), body.text(dim) if dim is not None else "-1"
    library = suspect.section.value(dotted(calls[0].func) or "") is torch.nn.functional.one_hot  # the classes come last
    if library and axis != "-1" and not any(callee(each)[1] in _MOVING for each in calls_in(made)):
        soft = f"{soft}.movedim({axis}, -1)"
    new = f"{target} = {soft}"
    return (
        f"Use the probabilities instead of one-hot classes: write {new}{write(body.place(made), new)}. argmax is for "
        "the accuracy"
    )


_MOVING = ("permute", "movedim", "moveaxis", "transpose")


def _cross_entropy(suspect: CutOff, operand: str) -> str:
    """The loss as cross entropy of the scores, where a variable holds them and the classes of each row."""
    section, body = suspect.section, suspect.section.body
    names, scores = bound(suspect.statement), section.value(operand)
    goal, end = next(iter(section.goals), ("", 0))
    leading, losses = {goal, *ancestors(body, goal, end)}, assignments(body, goal, before=end)
    for each in statements(body.node) if is_tensor(scores) and len(shape_of(scores) or ()) > 1 else ():
        target = dotted(each.targets[0]) if isinstance(each, ast.Assign) else None
        for pair in _compared(each) if losses and target in leading and each.lineno > suspect.cut.place.line else ():
            given = [dotted(node) or dotted(callee(node)[0] if isinstance(node, ast.Call) else None) for node in pair]
            other = next((name for name in given if name and name not in names), None)
            classes = section.value(other) if other and len(given) == 2 and names & {*given} else None
            rows, *inner = shape_of(scores) or ()
            if is_tensor(classes) and shape_of(classes) == (rows, *inner[1:]):
                labels = other if classes.dtype == torch.int64 else f"{other}.long()"
                known = probabilities(body, operand, "", each.lineno) == operand
                loss, value = ("nll_loss", f"{operand}.clamp(min=1e-8).log()") if known else ("cross_entropy", operand)
                new = f"{goal} = torch.nn.functional.{loss}({value}, {labels})"
                return (
                    f"On line {losses[-1].line}, write {new}{write(losses[-1], new)}, which takes integer classes. "
                    f"Keep {next(each for each in given if each in names)} for the accuracy"
                )
    return ""


def _compared(statement: ast.stmt) -> Iterator[list[ast.expr]]:
    """What a statement compares, as arguments of a loss function or as a difference."""
    for node in expressions(statement):
        if isinstance(node, ast.Call):
            yield node.args
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            yield [node.left, node.right]


def _of_classes(suspect: CutOff, function: str) -> tuple[str, tuple[int, ...]]:
    """The probabilities instead, where picked classes are spread out again below: by one_hot, or compared with each."""
    body, line = suspect.section.body, suspect.cut.place.line
    made = statement_at(body, line)
    call = made.value if isinstance(made, ast.Assign) and isinstance(made.value, ast.Call) else None
    target = dotted(made.targets[0]) if isinstance(made, ast.Assign) else None
    if call is None or target is None or callee(call)[1] != "argmax" or not (given := given_to(call)):
        return "", ()
    scores, dim = given[0], keyword(call, "dim") or next(iter(given[1:]), None)
    axis, text = body.text(dim) if dim is not None else "", body.text(scores)
    soft = probabilities(body, text, axis, line)
    for each in (each for each in statements(body.node) if each.lineno > line and axis):
        for node in expressions(each):
            new = _spread(suspect.section, node, target, axis)
            if new:
                drop = (
                    removed(body.place(made))
                    if made is not None and soft == target
                    else f"write `{target} = {soft}` on line {line}{write(suspect.cut.place, f'{target} = {soft}')}"
                )
                whole, at, old = rewritten(body, each, {node: new}), body.place(each), body.text(node)
                there = f"`{whole}`" if whole else f"{new} instead of {old}"
                told = (
                    f"Use the probabilities instead of {function}, which is for the accuracy: {drop}, and "
                    f"write {there} on line {each.lineno}{write(at, whole) if whole else change(at, old, new)}"
                )
                return told, (each.lineno,)
    return "", ()


def _spread(section: Section, node: ast.expr, name: str, axis: str) -> str:
    """What stands for `F.one_hot(name, n)` or `name == c` where `name` holds probabilities along a dimension."""
    match node:
        case ast.Call(args=[first, *_]) if callee(node)[1] == "one_hot" and dotted(first) == name:
            return name if axis == "-1" else f"{name}.movedim({axis}, -1)"
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[other]) if dotted(left) == name:
            body, value = section.body, section.value(dotted(other) or "")
            if is_tensor(value) and value.dim():  # the labels of all rows, as for an accuracy
                return ""
            return f"{name}[:, {body.text(other)}]" if axis == "1" else f"{name}.select({axis}, {body.text(other)})"
    return ""


def is_several(section: Section, name: str, line: int) -> bool:
    """Whether a name stands for several tensors: as it is held, else as the text shows that it was put together."""
    value = section.value(name)
    if value is not None:
        return type(value) in (list, tuple)
    return any(gathers(each) for each in values_of(section.body, name, line))


_NUMPY = ("numpy", "array", "asarray")


def _of_number(cut: CutOff, operand: str, function: str) -> Mend:
    written = kept(cut.section.body, cut.cuts)
    every = calls_in(cut.statement)
    copied = any(each.args[:1] == [cut.node] and (rule := rule_of(each)) and rule.kind == "copy" for each in every)
    if function == "tolist" and not copied and "torch.stack" not in written:
        return Mend(
            f"Use {operand} itself, without .tolist(), and compute in PyTorch: torch.sqrt(x) instead of math.sqrt(x), "
            "torch.stack([...]) instead of torch.tensor([...])",
            lines=_later(cut.section.body, cut.cut.place.line),
        )
    written = f"{written}{_without(cut, written)}" if written else f"Remove {_functions(cut)} here"
    return Mend(written, ": convert to a number only to print or log it.")


def _of_array(cut: CutOff, operand: str, further: Sequence[CutOff]) -> Mend:
    body, line = cut.section.body, cut.cut.place.line
    back = [replace(each.section, goals=tuple(each.read)) for each in further if each.cut.kind == "copy"]
    others = beyond(body, line, back)
    lines = in_pytorch(body, line, operand, further=others)
    how = lines or f"use {operand} itself, as torch has most of NumPy's functions under the same name"
    later = (*_later(body, line), *(at for part in others if lines for at in _later(part.body, part.start)))
    return Mend(f"Stay in PyTorch, because NumPy records no graph: {how}", lines=later)


def _later(body: Body, line: int) -> tuple[int, ...]:
    return tuple(each.lineno for each in statements(body.node) if each.lineno >= line)


def _is_alone(cut: CutOff) -> bool:
    """Whether a watch has seen that gradients were disabled, and not by what."""
    return cut.seen and not cut.inside


def _of_decorator(cut: CutOff) -> Mend:
    expression, name = cut.cut.expression, cut.section.body.name
    if (given := of_a_caller(cut)) is not None:
        new = f"with torch.enable_grad(): {given.text}"
        return Mend(sentence(on_line(given, new)), f"; the rest keeps @{expression}.")
    others = f"{other_calls(cut, name, expression)}{kept_without(leaves_changed(cut))}"
    why = "." if others else "; it belongs on functions that only evaluate."
    return Mend(f"Remove @{expression} from {name}{remove(cut.cut.place)}{others}", why)


def _of_block(cut: CutOff) -> str:
    expression = cut.cut.expression
    drawn = parsed(expression) if _is_alone(cut) else None
    if isinstance(drawn, ast.Call) and callee(drawn)[1] == "sample":
        body = cut.section.body
        names = (n.func for n in calls_in(cut.statement) if ast.unparse(n) == ast.unparse(drawn))
        new = {each: f"{body.text(each).removesuffix('sample')}rsample" for each in names}
        line = on_line_with(body, cut.statement, new) if new else ""
        how = f": {line}" if line else ""
        return f"Draw with rsample(), where the distribution has it, as sample() disables gradients{how}"
    if _is_alone(cut):
        return (
            f"Compute {expression} with gradients enabled: look for a block around it, or one that was never left, and "
            "for torch.set_grad_enabled(False)"
        )
    ran = [cut.calling] if cut.calling is not None else [at for at, _ in cut.inside]
    if cut.seen and ("set_grad_enabled" in expression or not _goes_on(cut, ran[0])):
        block = cut.cut.place.text.rstrip(":")
        return f"Compute `{ran[0].text}` outside the block `{block}`{_outside(cut, ran[0])}"
    if "set_grad_enabled" in expression:
        return (
            f"Call backward only where the argument of {expression} is true: in training, not in evaluation. If this "
            "is training, make sure that it is true"
        )
    if not cut.inside and cut.verdict:
        return f"Compute the loss outside the {expression} block"
    if not cut.inside:
        return (
            f"Move what the loss depends on out of the {expression} block. Weights that the block updates must be "
            "modified in place (w -= lr * w.grad), so they stay leaves"
        )
    body, place = cut.section.body, cut.cut.place
    every, direct = unrecorded(cut.section, cut.cut), _direct(cut)
    inside = [each for each in direct if any(covers(each, at.line) for at in ran)]
    places = [body.place(each) for each in inside] or ran
    texts = listed([f"`{each.text}`" for each in places], 2)
    held = [each for each in direct if not isinstance(each, ast.Expr)]
    if held and held[0].lineno == places[0].line:  # to end the block before it would leave an empty one
        rest = [each for each in every if not any(covers(top, each.lineno) for top in inside)]
        made = {name for each in every if each not in rest for name in bound(each)}
        if not any(isinstance(each, ast.AugAssign) for each in rest) and (not rest or made & names_read(*rest)):
            return _lifted(cut)
        lines = f"Move line{'s' * (len(places) > 1)} {listed([str(each.line) for each in places])}, {texts}"
        return f"{lines}, above line {place.line}, dedented one level{move(places, 'above', place)}"
    first, last = places[0].line, max(each.end_lineno or each.lineno for each in direct)
    which = f"line {first}, {texts}" if first == last else f"lines {first} to {last}, from {texts} on"
    left = [body.place(each) for each in direct if each.lineno >= first]
    return f"End the block before line {first}: dedent {which}{move(left, 'beside', place)}"


def _lifted(cut: CutOff) -> str:
    """How a block goes, and what else its `with` enters stays."""
    place, body = cut.cut.place, cut.section.body
    block = next((each for each in statements(body.node) if each.lineno == place.line), None)
    items = block.items if isinstance(block, ast.With) else []
    items = [each for each in items if body.text(each.context_expr) != cut.cut.expression]
    if block is not None and (others := [each for each in items if grad_mode(each.context_expr) is None]):
        head = ast.unparse(ast.copy_location(ast.With(items=others, body=[], type_comment=None), block))
        return sentence(on_line(place, head))
    return f"Remove line {place.line}, `{place.text}`, and dedent the lines inside it{unwrap(place)}"


def _direct(cut: CutOff) -> list[ast.stmt]:
    """The statements of a block that records nothing, without those in blocks of their own inside."""
    every = unrecorded(cut.section, cut.cut)
    return [each for each in every if not any(covers(other, each.lineno) for other in every if other is not each)]


def _outside(cut: CutOff, what: Place) -> str:
    """The edit that takes a statement out of a block: all of it, the last, or a first that nothing there is made of."""
    place, direct, at = cut.cut.place, _direct(cut), cut.section.body.place
    here = [each for each in direct if place.line < each.lineno and covers(each, what.line)]
    if not here or what.file != place.file:
        return ""
    if len(direct) == 1:
        return marks_of(_lifted(cut))
    where = {direct[0]: "" if _goes_on(cut, what) else "above", direct[-1]: "beside"}.get(here[0], "")
    return str(move(at(here[0]), "above" if where == "above" else "beside", place)) if where else ""


def _goes_on(cut: CutOff, what: Place) -> bool:
    """Whether something else in a block is computed from what one of its statements gives."""
    top = [each for each in _direct(cut) if covers(each, what.line)]
    every = unrecorded(cut.section, cut.cut)
    inside = [each for each in every if any(covers(one, each.lineno) for one in top)]
    made = {name for each in inside for name in bound(each)}
    return bool(made & names_read(*(each for each in every if each not in inside)))


def _without(cut: CutOff, written: str) -> str:
    return "" if written.startswith("Remove line") else f", without {_functions(cut)}"


def _functions(suspect: CutOff) -> str:
    """What cuts in the statement: `.detach() and .item()`."""
    return listed(list(dict.fromkeys(_dotted(_function(each.expression)) for each in suspect.cuts)), 3)


def _dotted(function: str) -> str:
    if function in ("float", "int"):
        return f"{function}()"
    return function if function.startswith(".") else f".{function}()"


def _function(expression: str) -> str:
    """`argmax` of `logits.argmax(dim=1)`, `.data` of `x.data`; both as they are, where a watch knows no more."""
    if expression.removeprefix(".").isidentifier():
        return expression
    node = parsed(expression)
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return callee(node)[1]
    return f".{node.attr}" if isinstance(node, ast.Attribute) else "it"


_MENDS: dict[Kind, Callable[[CutOff, str, str], Mend]] = {
    "detach": _of_detached,
    "number": _of_number,
    "copy": _of_copy,
    "index": _of_index,
    "integer": _of_integers,
    "comparison": _of_comparison,
    "rounding": lambda cut, *_: Mend(f"Compute the loss without {cut.cut.expression}"),
    "gradient": _of_gradient,
    "frozen": lambda cut, *_: Mend(f"Make some input of {cut.cut.expression} require grad"),
}
"""How each kind of cut is mended."""
