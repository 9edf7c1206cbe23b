"""BS204: a gradient was asked for with respect to a tensor that the output does not depend on."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.errors.unused_input.again import written_again
from backsight.diagnosis.errors.unused_input.allowed import allowed
from backsight.diagnosis.errors.unused_input.anew import made_anew
from backsight.diagnosis.errors.unused_input.calls import another_model, ignored
from backsight.diagnosis.errors.unused_input.case import Unused, computed, is_in
from backsight.diagnosis.errors.unused_input.constant import constant
from backsight.diagnosis.errors.unused_input.copies import of_copies, rebound_in_loop
from backsight.diagnosis.errors.unused_input.late import (
    computed_before_loop,
    enabled_late,
    enabling,
    entry_enabled_late,
)
from backsight.diagnosis.errors.unused_input.replaced import replaced
from backsight.diagnosis.errors.unused_input.rows import of_row
from backsight.diagnosis.evidence.idle import left_idle, parameter_at
from backsight.diagnosis.evidence.spoken import called, differentiated, names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, listed, shown
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Place, assignments, loop_facts, only, parsed, statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.definitions import values_of
from backsight.source.edits import OR, Edit, lines_of, move, on_line, put, remove, write
from backsight.source.imports import is_gradient_call, library
from backsight.source.rewriting import rewritten
from backsight.story.behind import comes_of
from backsight.story.cut_fixes import mended
from backsight.story.cuts import CutOff, cuts, met_in, why
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, function_of
from backsight.story.handed import handed
from backsight.story.holders import results_in
from backsight.story.memory import is_module, is_tensor, shape_of, storage_of
from backsight.story.trained import trained
from backsight.tape import Graph

_REDUCED = re.compile(r"\.(sum|mean)\(\)$|\.requires_grad_\((True)?\)$")
_WEIGHTS = re.compile(r"param|weight|fast|vars|theta")
_GRADIENT = re.compile(r"\bgrad\(")


@explains("BS204", r"(?:at index (?P<index>\d+) )?appears to not have been used in the graph")
def unused_input(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the inputs that the output does not depend on, and say what stands in their place."""
    roots = [root for root in failure.roots if getattr(root, "requires_grad", True)]
    graph = survey(tuple(roots), frames=failure.frames).graph if roots else None
    found = _unused(failure, graph) if graph else []
    if graph is None or not found:
        return (constant(failure, graph, match) if graph else None) or _unlocated(failure)
    tensors, names = zip(*found, strict=True)
    output = _REDUCED.sub("", called(failure, roots[0])) or "the output"
    known = handed(failure, failure.user.value(output)) if failure.user and output.isidentifier() else None
    output = known.name if known and known.given else output
    case = Unused(failure, graph, output, tensors, names)
    return next(finding for clue in CLUES if (finding := clue(case)) is not None)


def _unused(failure: Failure, graph: Graph) -> list[tuple[torch.Tensor, str]]:
    """The inputs that no path of the graph leads to, with their names."""
    written = differentiated(failure)
    if len(written) != len(failure.inputs):  # parameters, or a list made elsewhere
        written = names_of(failure, failure.inputs)
    every = zip(failure.inputs, written, strict=True)
    bare = [(t, name) for t, name in every if isinstance(t, torch.Tensor) and not is_in(graph, t)]
    outer = {id(t): known.name for t, _ in bare if (known := handed(failure, t)) and known.given}
    return [(t, outer.get(id(t), name) or described(t)) for t, name in bare]


def made_beside(case: Unused) -> Finding | None:
    """The input is computed from the same tensors as the output, but the output is not computed from it."""
    tensor = case.tensors[0]
    if tensor.is_leaf:
        return None
    own = survey((tensor,), frames=case.failure.frames).graph
    common = {id(leaf.tensor()) for leaf in own.leaves} & {id(leaf.tensor()) for leaf in case.graph.leaves}
    names = [leaf.name or leaf.label for leaf in own.leaves if id(leaf.tensor()) in common]
    if not common:
        return None
    adapted = _with_adapted(case)
    place = case.made if adapted else case.caller and case.caller[1]
    return explanation(
        f"{case.output} is not computed from {case.name}: both are computed from {listed(names, 3)}.",
        (
            *computed(case),
            _own_tensor(case, own.roots[0].op),
            case.asked,
        ),
        adapted or _of_beside(case, names),
        source=str(place)
        if (place := case.made if adapted else case.caller and case.caller[1])
        else case.failure.source,
    )


def _own_tensor(case: Unused, op: str) -> Fact:
    level, base = case.failure.user, case.name.partition("[")[0]
    places = assignments(level.body, base, before=level.line) if level else ()
    if case.name in differentiated(case.failure) and not case.name.isidentifier():
        return f"{case.name} is a separate tensor ({op}): each such expression creates a new one."
    known = handed(case.failure, case.tensors[0])
    place = places[-1] if places else known.assigned if known else None
    facts = loop_facts(level.body, level.line) if level else None
    if place and facts and base in facts.carried and "parameters(" in place.text:  # whose values are leaves
        place = facts.carried[base][1]
    if place:
        return shown(place, f"creates {case.name}, a separate tensor ({op}).")
    return f"{case.name} is a separate tensor ({op})."


def _with_adapted(case: Unused) -> str:
    """Where the inputs are adapted weights of the model that computes the output: the call that uses them.

    To ask for the gradient of the model's own weights instead would run, and take the same step again and again.
    """
    level, base = case.failure.user, case.name.partition("[")[0]
    made = statement_at(level.body, *case.made.position) if level and level.body and case.made else None
    adapted = level.value(base) if level else None
    if level is None or level.body is None or not isinstance(adapted, dict) or not adapted:
        return ""
    for call in calls_in(made):
        model = level.value(dotted(call.func) or "")
        if not is_module(model) or not all(parameter_at(model, str(name)) is not None for name in adapted):
            continue
        text, given = level.body.text(call.func), [level.body.text(each) for each in call.args]
        name = _open_parameter(model, call)
        if call.keywords or name is None:
            how = f"torch.func.functional_call({text}, {base}, ({', '.join(given)},))"
        else:
            how = f"{text}({', '.join([*given, f'{name}={base}'])})"
        new = rewritten(level.body, made, {call: how}) if made is not None else ""
        there = on_line(level.body.place(made), new) if made and new else f"{how} instead of {level.body.text(call)}"
        return f"Compute {case.output} with the adapted weights: {there}."
    return ""


def _open_parameter(model: object, call: ast.Call) -> str | None:
    """The parameter of a model's forward that may take weights, `params=None`, which a call leaves open; None if it has
    none."""
    forward = function_of(model)
    code, defaults = getattr(forward, "__code__", None), getattr(forward, "__defaults__", None) or ()
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    left = list(zip(reversed(names), reversed(defaults), strict=False))
    found = [name for name, value in left if value is None and names.index(name) > len(call.args)]
    return found[0] if len(found) == 1 and _WEIGHTS.search(found[0]) else None


def _of_beside(case: Unused, names: list[str]) -> str:
    level = case.failure.user
    values = values_of(level.body, case.name, level.line) if level and level.body else []
    written = ast.unparse(values[0]) if len(values) == 1 and isinstance(values[0], ast.Subscript) else case.name
    base, bracket, rest = written.partition("[")
    if joined := _from_parts(case, names[0]):
        return joined
    if bracket and base in names:
        return (
            f"Take the gradient of {base}, then the part of it: torch.autograd.grad(..., {base})[0][{rest}"
            f"{_of_parts(level, base, rest[:-1])}.{_likewise(level, base)}"
        )
    return (
        of_row(case)
        or _of_view(case)
        or ((again := written_again(case)) and again.fix)
        or f"{_of_whole(case, names[0]) or 'C'}ompute {case.name} first, then {case.output} from {case.name}."
    )


def _of_whole(case: Unused, name: str) -> str:
    """To ask for the gradient of what both are computed from, where that has the shape of the input."""
    whole = next((leaf.tensor() for leaf in case.graph.leaves if name in (leaf.name, leaf.label)), None)
    if shape_of(whole) == shape_of(case.tensors[0]):
        return f"Take the gradient of {name}{_asked_for(case.failure.user, name, whole)}. {OR}Or c"
    return ""


def _asked_for(level: Level | None, name: str, whole: object) -> str:
    """The failing statement with another tensor asked for, as an edit, where that has the name there."""
    body, statement = (level.body, level.statement) if level else (None, None)
    asked = [node for call in calls_in(statement) if (node := _input(call)) is not None]
    if level is None or body is None or statement is None or len(asked) != 1 or level.value(name) is not whole:
        return ""
    line = rewritten(body, statement, {asked[0]: name})
    return str(write(body.place(statement), line)) if line else ""


def _input(call: ast.Call) -> ast.expr | None:
    """The one tensor whose gradient a call asks for."""
    if not is_gradient_call(call):
        return None
    asked = call.args[1] if len(call.args) > 1 else keyword(call, "inputs")
    return (only(asked.elts) if isinstance(asked, ast.Tuple | ast.List) else asked) if asked is not None else None


_VIEWS = frozenset(
    {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "swapaxes"}
    | {"t", "view_as", "reshape_as", "narrow", "select", "contiguous"}
)
"""Methods whose result has the same entries in another shape, as the gradient then has."""


def _of_view(case: Unused) -> str:
    """Where the input is another view of what the output is computed from, `x.view(n, -1)`: the gradient of that, in
    the shape of the view."""
    level = case.failure.user
    body, statement = (level.body, level.statement) if level else (None, None)
    written = differentiated(case.failure)
    if level is None or body is None or statement is None or len(written) != 1:
        return ""
    call = next((each for each in calls_in(statement) if is_gradient_call(each)), None)
    asked = _input(call) if call is not None else None
    value: ast.expr | None = asked
    if (name := dotted(asked)) is not None:
        found = values_of(body, name, level.line)
        value = only(found)
    base, methods = _viewed(value)
    held = value_of(level, base)
    if call is None or asked is None or base is None or not methods:
        return ""
    if not is_tensor(held) or not is_in(case.graph, held):
        return ""
    part = next((n for n in expressions(statement) if isinstance(n, ast.Subscript) and n.value is call), None)
    shaping, source = "".join(methods), body.text(base)
    inner = _with(call, asked, base)
    index = f"[{body.text(part.slice)}]" if part is not None else ""
    line = rewritten(body, statement, {part: f"{inner}{index}{shaping}"}) if part is not None else ""
    if line:
        last = statement.end_lineno or statement.lineno
        where = f"lines {statement.lineno} to {last}" if last > statement.lineno else f"line {statement.lineno}"
        how = f"write `{line}` instead of {where}{write(body.place(statement), line)}"
    else:
        how = f"pass {source} instead of {case.name}, and put `{shaping}` behind the result"
    return f"Take the gradient of {source}, and give it the shape of {case.name}: {how}."


def _with(call: ast.Call, asked: ast.expr, base: ast.expr) -> str:
    """A call as text with another tensor asked for."""
    return ast.unparse(copy.deepcopy(call, {id(asked): base}))


def _viewed(value: ast.expr | None) -> tuple[ast.expr | None, list[str]]:
    """What an expression is a view of, and the calls that make it: `x` and `.view(n, -1)` of `x.view(n, -1)`."""
    methods: list[str] = []
    while isinstance(value, ast.Call):
        receiver, name = callee(value)
        if receiver is None or name not in _VIEWS | {"requires_grad_"} or library(receiver):
            return None, []
        if name in _VIEWS:
            methods.insert(0, ast.unparse(value)[len(ast.unparse(receiver)) :])
        value = receiver
    return value, methods


def _from_parts(case: Unused, whole: str) -> str:
    """Where the input is one of the parts that a tensor is cut into: the output computed from all of them, joined."""
    for level in case.failure.users:
        body, base = level.body, level.value(whole)
        made = assignments(body, case.output, before=level.line)
        parts = {name: (index, line) for name, index, line in _parts(level, whole)} if is_tensor(base) else {}
        if body is None or not made or case.name not in parts or not is_tensor(base):
            continue
        axes = {_axis(index) for index, _ in parts.values()}
        axis = axes.pop() if len(axes) == 1 else None
        held = {name: value for name in parts if is_tensor(value := level.value(name))}
        if axis is None or len(held) < len(parts) or any(each.dim() != base.dim() for each in held.values()):
            continue
        joined = _in_their_order(held, base, axis)
        statement = statement_at(body, *made[-1].position)
        lines = sorted({line for _, line in parts.values() if line > made[-1].line})
        if statement is None or not joined:
            continue
        text = re.sub(
            rf"(?<![\w.]){re.escape(whole)}(?![\w.])",
            f"torch.cat([{', '.join(joined)}], dim={axis})",
            body.text(statement),
        )
        moved = (
            f"Move line{'s' * (len(lines) > 1)} {listed([*map(str, lines)])} above line {made[-1].line}"
            f"{move(lines_of(body.file, *lines), 'above', made[-1])}, and c"
            if lines
            else "C"
        )
        return (
            f"{moved}ompute {case.output} from the parts: {text}{write(made[-1], text)}. {OR}Or differentiate with "
            f"respect to {whole} and take the part of the gradient: torch.autograd.grad({case.output}, {whole}, ...)[0]"
            f"[{parts[case.name][0]}]{_of_parts(level, whole)}.{_likewise(level, whole)}"
        )
    return ""


def _in_their_order(parts: Mapping[str, torch.Tensor], base: torch.Tensor, axis: int) -> list[str]:
    """The names of the parts in the order in which they make up the whole; empty if they do not, piece after piece."""
    order = sorted(parts, key=lambda name: parts[name].storage_offset())
    at, step = base.storage_offset(), base.stride(axis)
    for name in order:
        if storage_of(parts[name]) != storage_of(base) or parts[name].storage_offset() != at:
            return []
        at += step * parts[name].shape[axis]
    return order if sum(parts[name].shape[axis] for name in order) == base.shape[axis] else []


def _likewise(level: Level | None, whole: str) -> str:
    """The other statements that ask for the gradient of a part of it, and would fail next."""
    parts = {name for name, _, _ in _parts(level, whole)} if level else set()
    found = (
        str(each.lineno)
        for each in (statements(level.body.node) if level and level.body else ())
        for call in calls_in(each)
        if level and each.lineno > level.line and is_gradient_call(call)
        if dotted(call.args[1] if len(call.args) > 1 else keyword(call, "inputs")) in parts
    )
    lines = [*dict.fromkeys(found)]
    several = len(lines) > 1
    return f" Then line{'s' * several} {listed(lines)} need{'s' * (not several)} the same change." if lines else ""


def _of_parts(level: Level | None, whole: str, index: str = "") -> str:
    """The failing statement and those of `_likewise`, as edits that take the part of the gradient of the whole.

    index: of the part that the failing statement asks for, where it is no variable.
    """
    body, node = level.body if level else None, parsed(whole)
    parts, edits = ({name: at for name, at, _ in _parts(level, whole)} if level else {}), list[Edit]()
    for each in statements(body.node) if body is not None and level is not None else ():
        changes = dict[ast.expr, str]()
        for call in calls_in(each) if level is not None and each.lineno >= level.line else ():
            asked = _input(call)
            of = (
                index
                if level is not None and each.lineno == level.line and index
                else parts.get(dotted(asked) or "", "")
            )
            if asked is None or node is None or not of:
                continue
            first = next((n for n in expressions(each) if isinstance(n, ast.Subscript) and n.value is call), call)
            taken = f"{_with(call, asked, node)}[0][{of}]"
            changes[first] = taken if first is not call else f"({taken},)"
        if changes and body is not None:
            edits.append(write(body.place(each), _unpacked(each, changes) or rewritten(body, each, changes)))
    return "".join(map(str, edits)) if level and edits and edits[0].lines == (level.place.line,) else ""


def _unpacked(statement: ast.stmt, changes: Mapping[ast.expr, str]) -> str:
    """`(x,) = grad(...)` with one tensor for the tuple; empty for any other statement."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name)])], value=value) if value in changes:
            return f"{name} = {changes[value][1:-2]}"
    return ""


def _parts(level: Level, whole: str) -> Iterator[tuple[str, str, int]]:
    """The variables that a function cuts a tensor into: name, index and line of `x, t = xt[:, 0:1], xt[:, 1:2]`."""
    body = level.body
    for each in statements(body.node) if body else ():
        target = each.targets[0] if isinstance(each, ast.Assign) and len(each.targets) == 1 else None
        if body is None or target is None or not isinstance(each, ast.Assign):
            continue
        several = isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple)
        pairs = zip(target.elts, each.value.elts, strict=False) if several else [(target, each.value)]  # type: ignore[attr-defined]  # tuples, both
        for one, value in pairs:
            if isinstance(one, ast.Name) and isinstance(value, ast.Subscript) and dotted(value.value) == whole:
                yield one.id, body.text(value.slice), each.lineno


def _axis(index: str) -> int | None:
    """Along which dimension an index cuts, 1 for `:, 0:1`; None where it takes single entries or cuts along several."""
    parts = [each.strip() for each in index.split(",")]
    cut = [k for k, each in enumerate(parts) if each != ":"]
    return cut[0] if len(cut) == 1 and ":" in parts[cut[0]] else None


def is_linear(case: Unused) -> Finding | None:
    """The output is itself a gradient, and the first derivative does not depend on the input."""
    place = case.made
    if place is None or not _GRADIENT.search(case.output if place == case.at else place.text):
        return None
    return explanation(
        f"{case.output} is a derivative that does not depend on {listed(case.names)}: its own derivative is zero.",
        (
            shown(place, "takes the first derivative.", "read"),
            case.asked,
            f"{case.output} does not change with {listed(case.names)}: only linear operations lie between.",
        ),
        "If the function should be curved, put smooth activations such as nn.Tanh between the layers. If zero is "
        "the right answer, allow_unused=True with materialize_grads=True returns zeros.",
        source=case.failure.source,
        exact=False,
    )


def cut_off(case: Unused) -> Finding | None:
    """The input takes part by its values only: it was detached on the way, or nothing was recorded."""
    read = ((each, None) for each in cuts(case.failure, trained(case.failure), of=case.tensors))
    for cut, used in (*met_in(case.graph, case.tensors), *read):
        if cut.cut.place == case.at or _makes_it(case, cut):
            continue
        one = [each for each in case.tensors if used is None and comes_of(case.failure, cut.behind, cut.read, [each])]
        pairs = zip(case.tensors, case.names, strict=True)
        names = listed([name for tensor, name in pairs if not one or any(tensor is each for each in one)])
        title = f"{case.output} is computed from detached values of {names}: {cut.cut.expression} detaches it."
        does = why(cut.cut)
        if cut.cut.kind == "gradient":
            title = f"{case.output} does not depend on {names}: it is computed with a gradient that has no graph."
            does = f"takes a gradient that depends on {names}. Without create_graph=True, it is a constant"
        return explanation(
            title,
            (
                shown(cut.cut.place, f"{does}.", "read" if used is None and cut.cut.kind == "gradient" else None),
                *([shown(used, "computes with it.")] if used and used != cut.cut.place else []),
                case.asked,
            ),
            f"{mended(cut).edit}.{_too_late(case, cut.cut.place)} {_HIDES}",
            source=str(cut.cut.place),
            exact=used is not None or cut.cut.kind != "gradient",
        )
    return None


def _too_late(case: Unused, cut: Place) -> str:
    """Say that the gradient of the input is asked for after the statement that uses it, if it is."""
    body = case.failure.user.body if case.failure.user else None
    late = (
        [each for each in enabling(body, case.name) if each.line > cut.line] if body and body.file == cut.file else []
    )
    asking = f"{case.name}.requires_grad_()"
    above = f" And put `{asking}` above line {cut.line}{put(asking, 'above', cut)}"
    return f"{above}: on line {late[0].line} it is too late." if late else ""


def _makes_it(case: Unused, cut: CutOff) -> bool:
    """Whether the statement gives the variable its value, `x = x.detach().requires_grad_()`: it is not what cuts that
    off, and in a loop it may not have run yet."""
    statement = statement_at(cut.section.body, *cut.cut.place.position)
    names = bound(statement) if statement is not None else set()
    return any(cut.section.value(name) is tensor for name in names for tensor in case.tensors)


def copied(case: Unused) -> Finding | None:
    """What is computed from the input was copied into weights, by its values: `model.load_state_dict(adapted)`."""
    level = case.failure.user
    made = statement_at(level.body, *case.made.position) if level and level.body and case.made else None
    if level is None or level.body is None:
        return None
    for statement in statements(level.body.node):
        for call in calls_in(statement) if statement.lineno < level.line else ():
            receiver, method = callee(call)
            if method not in ("load_state_dict", "copy_") or receiver is None or not call.args:
                continue
            given = tuple(results_in(value_of(level, call.args[0])))
            if not given or not any(is_in(survey(given).graph, each) for each in case.tensors):
                continue
            place, values, model = level.body.place(statement), level.body.text(call.args[0]), level.body.text(receiver)
            uses_it = (node for node in calls_in(made) if level.body.text(node.func) == model)
            use = next((node for node in uses_it if not node.keywords), None) if method == "load_state_dict" else None
            inputs = ", ".join(level.body.text(each) for each in use.args) if use else ""
            called = f"torch.func.functional_call({model}, {values}, ({inputs},))"
            return explanation(
                f"{case.output} does not depend on {case.name}: {method}() copies the values of {values} into "
                f"{model}, without their graph.",
                (shown(place, f"copies values that were computed from {case.name}."), *computed(case), case.asked),
                f"Use {values} itself: {called} instead of {level.body.text(use)}"
                f"{write(level.body.place(made), rewritten(level.body, made, {use: called}))}, and no {method}()"
                f"{remove(place)}."
                if use and made
                else f"Compute {case.output} from {values} itself, in place of {model}.",
                source=str(place),
            )
    return None


def takes_no_part(case: Unused) -> Finding:
    """Nothing on the way to the output reads the input."""
    one = len(case.names) == 1
    names = listed(case.names)
    again, idle = written_again(case), left_idle(case.failure, case.tensors)
    unread = f"{names if one else 'they'} {'is' if one else 'are'} not used to compute it"
    instead = idle.fix if idle else ""
    allows = "" if again or instead else allowed(case)
    return explanation(
        f"{case.output} does not depend on {names}: {unread if again or instead else 'its graph does not lead there'}.",
        (
            *(again.evidence if again else idle.evidence if idle else ()),
            *computed(case),
            *_indices(case),
            case.asked,
        ),
        (again.fix if again else f"{instead} {_HIDES}" if instead else "") or allows or _left_out(case, names),
        source=str(idle.place)
        if idle and instead and not again
        else str(case.made)
        if case.made and not allows
        else case.failure.source,
    )


def _left_out(case: Unused, names: str) -> str:
    some = len(case.names) < len(case.failure.inputs)
    return (
        f"Compute {case.output} from {names} too, or leave {names if len(case.names) == 1 else 'them'} out of the "
        f"inputs. {'If a gradient may be missing, allow_unused=True returns None for it.' if some else _HIDES}"
    )


_HIDES = "allow_unused=True would only return None."


CLUES: tuple[Callable[[Unused], Finding | None], ...] = (
    computed_before_loop,
    made_anew,
    rebound_in_loop,
    made_beside,
    replaced,
    of_copies,
    cut_off,
    is_linear,
    enabled_late,
    ignored,
    another_model,
    copied,
    entry_enabled_late,
    takes_no_part,
)


def _indices(case: Unused) -> Iterator[str]:
    total = len(case.failure.inputs)
    if total > 4:
        yield f"{len(case.names)} of the {total} requested inputs are not in the graph."


def _unlocated(failure: Failure) -> Finding:
    where = failing(failure, "asks for the gradient.")
    return explanation(
        "The code requests a gradient with respect to a tensor that the output does not depend on.",
        where,
        "Compute the output from that tensor, or leave the tensor out. If the gradient may be missing, "
        "allow_unused=True returns None for it.",
        source=failure.source,
        exact=False,
    )
