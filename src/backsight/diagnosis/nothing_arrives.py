"""BS115: an optimizer gets no gradients, and why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NamedTuple

import torch

from backsight.diagnosis.amending import added, are_beside, given_anew, instead, place_on, written
from backsight.diagnosis.evidence.cuts import ends, replaced_leaf, statement_of, undoing, where
from backsight.diagnosis.evidence.severed import Severance
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import (
    bodies,
    calls_around,
    constructions,
    ending,
    loops_around,
    method_of,
    named,
    names_of,
    program_frames,
    running,
    statements_around,
)
from backsight.diagnosis.schedules import schedules_of
from backsight.diagnosis.wording import counted, listed, numbered, shown, sure_if, warning
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source import Body, Place, backward_calls, function_at, only, read_at, statement_at
from backsight.source.bindings import assigned, assignments, bound, parameters_of, targets
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, statements
from backsight.source.edits import OR, move, without_marks
from backsight.source.freezing import turned_off, unfreezings
from backsight.story.fixes import removed
from backsight.tracing import Severed
from backsight.tracing.steps import parameters


def nothing_arrives(
    optimizer: torch.optim.Optimizer,
    since: int,
    *,
    frame: FrameType | None,
    reached: bool = False,
    zeros: bool = False,
    cut: Severance | None = None,
    beside: tuple[str, int] | None = None,
    filled: Severed | None = None,
    into: Sequence[str] = (),
    copied: Severed | None = None,
    copies: Sequence[str] = (),
    others: Sequence[str] = (),
    elsewhere: Sequence[str] = (),
    nameless: bool = False,
    backwards: bool = True,
) -> Finding | None:
    """Return the finding that an optimizer gets no gradients.

    None where it gets zeros and no statement writes them: BS141 looks for the operation that does, and a factor of 0 is
    how a term is switched off, such as a discriminator that joins later. None where all that it holds is frozen, and no
    optimizer holds what the loss trains: BS101 tells both.

    reached: whether the loss depends on its parameters. zeros: whether there are gradients, all of them zeros. cut:
    what cuts them off from it. beside: where another loss, which the same statement cuts off, runs its backward.
    filled: what has given leaves of the loss, called `into`, the values of what was computed of its parameters. copied:
    what cuts leaves of the loss off from what they are copies of. copies: what those of them are called that stay from
    step to step. others: the parameters that the loss depends on, and no optimizer holds; elsewhere: those that another
    one holds. nameless: whether it depends on copies that nothing holds any more. backwards: whether a backward
    was seen.
    """
    name, held = named(optimizer, "the optimizer"), parameters(optimizer)
    place = where(copied) if copied is not None else None
    if held and not any(p.requires_grad for p in held):
        if others and not elsewhere:
            return None
        reason = _frozen(held, frame)
    elif reached:
        zeroing = _zeroing(frame, name)
        if zeroing is None and zeros:
            return None
        reason = _zeroed(zeroing, name)
    elif filled is not None and filled.line is not None:
        reason = _filled(filled, filled.line.place, into or others, held)
    elif cut is not None and not (copied is not None and place == cut.place and replaced_leaf(copied)):
        reason = _cut(cut, beside)
    elif copied is not None and place is not None:
        reason = _copied(copied, place, copies, name)
    elif (copy := copied_anew(frame, held, [*others, *elsewhere], name, nameless=nameless)) is not None:
        reason = _copied_each_time(copy, held, [*others, *elsewhere], name)
    elif others:
        reason = _of_another_model(optimizer, name, others, frame)
    elif not backwards:
        reason = _no_backward(frame, name)
    else:
        reason = _Reason(
            (f"No path leads from any loss to {names_of(held)}.",),
            "Look between their output and the loss for .detach(), .data, .item(), torch.no_grad(), or an unused "
            "result.",
        )
    return warning(
        "BS115",
        f"{name} gets no gradients: none of its {counted(len(held), 'parameter')} is trained.",
        (f"No gradient has arrived since step {numbered(since)}.", *reason.evidence),
        reason.fix,
        reason.place,
        since=since,
    )


class _Reason(NamedTuple):
    """Why no gradient arrives, what to do, and where."""

    evidence: tuple[Fact, ...]
    fix: str
    place: Place | None = None


def _frozen(held: Sequence[torch.Tensor], frame: FrameType | None) -> _Reason:
    around = list(program_frames(frame))
    files = dict.fromkeys(each.f_code.co_filename for each in around)
    active = running(frame) if frame is not None else set[str]()
    off = list(dict.fromkeys(place for file in files for place in turned_off(file, active)))
    frozen = f"All of its parameters are frozen: {names_of(held)} have requires_grad=False."
    if len(off) != 1:
        return _Reason((frozen,), "Call requires_grad_(True) on what you want to train, before the forward pass.")
    never = not any(True for file in files for _ in unfreezings(file))
    of = {part for names in search(held[:1], limit=4).names for name in names for part in name.path.split(".")}
    is_sure = bool(of - {"self"} & set(re.findall(r"\w+", off[0].text)))
    says = f"freezes them{', and nothing unfreezes them' if never else ''}."
    switch = off[0].text.replace("False", "True")
    function = function_at(around[0].f_code)
    if function is not None and function.file == off[0].file and _stands_in(function, off[0]):
        # what unfreezes them further up would be undone by it
        fix = (
            f"To train them, {removed(off[0])}. {OR}Or unfreeze them after it, before the forward pass: "
            "requires_grad_(True)."
        )
    else:
        called, edit = around[0].f_code.co_name, ""
        if function is not None and isinstance(function.node, ast.FunctionDef) and switch != off[0].text:
            edit = added(switch, "below", function.place(function.node))
        fix = (
            f"Unfreeze them {f'at the start of {called}(), ' if called.isidentifier() else ''}before the forward "
            f"pass: {switch if switch != off[0].text else 'requires_grad_(True)'}{edit}."
        )
    return _Reason((frozen, shown(off[0], says, sure_if(is_sure))), fix, off[0])


def _stands_in(function: Body, place: Place) -> bool:
    return statement_at(function, *place.position) in list(statements(function.node))


def _zeroed(zeroing: Place | None, name: str) -> _Reason:
    if zeroing is None:
        return _Reason(
            ("The loss depends on its parameters, but their gradients are zero or None when it steps.",),
            "Find what zeroes them: a factor of 0, dead units, or zero_grad() after backward().",
        )
    return _Reason(
        (
            "The loss depends on its parameters, but their gradients are zeroed after backward().",
            shown(zeroing, "zeroes the gradients between backward() and step()."),
        ),
        f"Call {name}.zero_grad() before backward(), not between backward() and {name}.step(){_earlier(zeroing)}.",
        zeroing,
    )


def _earlier(zeroing: Place) -> str:
    """Move a zero_grad() above the backward that it follows."""
    runs = [each for each in backward_calls(read_at(zeroing)[0]) if each.position < zeroing.position]
    return str(move(zeroing, "above", runs[-1])) if runs and are_beside(zeroing, runs[-1]) else ""


def _filled(filled: Severed, place: Place, into: Sequence[str], held: Sequence[torch.Tensor]) -> _Reason:
    """The loss is computed with parameters that are filled with the values of a result."""
    model = _owner(into)
    return _Reason(
        (
            f"The loss depends on {listed(list(into), 2)}, which get only the values of a result.",
            shown(place, f"copies the values without their graph: no gradient goes back to {names_of(held)}."),
        ),
        f"Compute with the result itself in place of the parameters of {model}: torch.func.functional_call("
        f"{model}, {_given(filled)}, (x,)), with a dict from their names to tensors.",
        place,
    )


def _cut(cut: Severance, beside: tuple[str, int] | None) -> _Reason:
    """A statement cuts the loss off, and perhaps another one, for which it is meant."""
    statement, fix = read_at(cut.place)[1], f"{cut.fix}."
    variable = only(bound(statement)) if isinstance(statement, ast.Assign) and beside is not None else None
    if variable is not None and beside is not None:
        elsewhere = _detached_for(place_on(*beside), variable)
        fix = fix if elsewhere else without_marks(fix)
        fix += (
            f" Detach {variable} only for the other loss, whose backward runs at {Place(*beside, '')} and would free "
            f"its graph: pass {variable}.detach() there{elsewhere}."
        )
    return _Reason(cut.evidence, fix, cut.place)


def _detached_for(backward: Place | None, variable: str) -> str:
    """Detach a variable where the loss of a backward is computed from it."""
    body, statement = read_at(backward)
    root = next((callee(call)[0] for call in calls_in(statement) if callee(call)[1] == "backward"), None)
    name = dotted(root)
    if body is not None and name is not None and backward is not None:
        made = assignments(body, name, before=backward.line)
        statement = statement_at(body, *made[-1].position) if made else None
    found = [each for each in expressions(statement) if isinstance(each, ast.Name) and each.id == variable]
    return instead(body, statement, dict.fromkeys(found, f"{variable}.detach()")) if found else ""


def _copied(copied: Severed, place: Place, copies: Sequence[str], name: str) -> _Reason:
    """The loss is computed with leaves that are copies of what is held, made at a place."""
    first: Fact = "The loss is computed with copies that are new leaves, so the gradient stops there."
    second: Fact = shown(place, ends(copied))
    fix = f"{undoing(copied)}, so the copies stay attached to the originals."
    if copies:
        parts = (each.partition("['") for each in copies)
        of = list(dict.fromkeys(f"{whole}.values()" if at else whole for whole, at, _ in parts))
        second = shown(place, "copies the parameters once into new leaves, which no optimizer holds.")
        fix = f"Create {name} after this line, from the copies: {listed(of, 3)}."
    if (again := replaced_leaf(copied)) is not None:
        variable, statement = again
        first = f"The loss is computed from the new {variable}; {name} still holds the one that it replaced."
        second = shown(place, f"replaces {variable} by a new leaf.")
        fix = f"Modify {variable} in place, so that {name} still holds it: with torch.no_grad(): {statement}"
        fix += f"{written(place, f'with torch.no_grad():{chr(10)}    {statement}')}."
    return _Reason((first, second), fix, place)


def _copied_each_time(copy: Copy, held: Sequence[torch.Tensor], leaves: Sequence[str], name: str) -> _Reason:
    """The loss is computed with a copy of what is held, which is made anew in each step."""
    place, original, variable, update = copy
    on = [each for each in leaves if each.split(".")[0] == variable] or [f"the parameters of {variable}"]
    return _Reason(
        (
            f"The loss depends on the copy, {listed(on, 2)}, and not on {names_of(held)}.",
            shown(place, f"copies {original} each time it runs; gradients stay in the copy."),
            *([shown(update, "writes through .data, which keeps no graph either.")] if update is not None else []),
        ),
        f"Compute from the parameters of {original} itself: dict({original}.named_parameters()), updated out of "
        f"place. Or copy the gradients over before {name}.step(), of several copies their sum: for p, q in "
        f"zip({original}.parameters(), {variable}.parameters()): p.grad = q.grad.",
        place,
    )


def _of_another_model(
    optimizer: torch.optim.Optimizer, name: str, others: Sequence[str], frame: FrameType | None
) -> _Reason:
    of, model = names_of(parameters(optimizer)), _owner(others)
    apart = f"It holds {of}; the loss depends on {listed(list(others), 2)}, which no optimizer holds."
    containers = list(dict.fromkeys(each.partition("[")[0] for each in others if each.endswith("]")))
    if containers and (wrapped := _wrapped(frame, containers[0])) is not None:
        place, attached = wrapped
        made = shown(place, "makes a new leaf of each result: nn.Parameter() keeps no graph.")
        fix = f"Keep the results attached to their graph: {attached}{written(place, attached)}."
        return _Reason((apart, made), fix, place)
    if containers:
        return _Reason(
            (apart,),
            f"If {listed(containers, 2)} is computed from what {name} holds, keep it attached: no nn.Parameter(), "
            f"detach() or torch.tensor() around the results. If it is what should be trained, pass it to {name}.",
        )
    built = only(constructions(frame, optimizer, name))
    if built is None:
        return _Reason((apart,), f"Create {name} after the last change of {model}, with {model}.parameters().")
    if (replaced := replacing(frame, model, built)) is not None:
        facts = (
            apart,
            shown(built, f"passes it the parameters that {model} had then."),
            shown(replaced, f"replaces {model}: {name} still has the old parameters."),
        )
        return _Reason(facts, made_again(frame, optimizer, name, model, replaced, built), replaced)
    code = _with(built, model)
    return _Reason(
        (apart, shown(built, "passes it the parameters of something other than the trained model.")),
        f"Pass it those of {model}: {code}{written(built, code)}."
        if code
        else f"Create {name} after the last change of {model}, with {model}.parameters().",
        built,
    )


def _with(built: Place, model: str) -> str:
    """Create an optimizer with the parameters of another model, where it is created."""
    body = read_at(built)[0]
    if body is None or any(each.line > built.line for each in assignments(body, model)):
        return ""
    return given_anew(built, f"{model}.parameters()")


def _wrapped(frame: FrameType | None, container: str) -> tuple[Place, str] | None:
    """Return the only statement that fills a container, if with parameters made of results; and the same without."""
    made = [
        (body.place(statement), statement)
        for body, statement in statements_around(frame)
        if isinstance(statement, ast.Assign) and any(callee(call)[1] == "Parameter" for call in calls_in(statement))
        if any(dotted(t.value if isinstance(t, ast.Subscript) else t) == container for t in statement.targets)
    ]
    if len(made) != 1:
        return None
    unwrap = _Unwrapped()
    attached = ast.unparse(unwrap.visit(ast.parse(ast.unparse(made[0][1]))))
    return (made[0][0], attached) if unwrap.results else None


class _Unwrapped(ast.NodeTransformer):
    """Takes nn.Parameter() away from what is computed."""

    results = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if callee(node)[1] == "Parameter" and node.args and isinstance(node.args[0], ast.BinOp):
            self.results = True
            return node.args[0]
        return node


def _no_backward(frame: FrameType | None, name: str) -> _Reason:
    closure = _closure(frame)
    called = () if closure is None else (shown(closure, "is called for each step but never runs backward()."),)
    return _Reason(
        ("No backward() was run.", *called),
        f"Call loss.backward() before {name}.step(). {OR}With a closure, call it inside, before it returns the loss"
        f"{_in_closure(closure)}.",
        closure,
    )


def _in_closure(closure: Place | None) -> str:
    """Run backward on what a closure returns."""
    body = body_around(closure.file, closure.line) if closure is not None else None
    ends = [each for each in statements(body) if isinstance(each, ast.Return)]
    value = ends[0].value if len(ends) == 1 else None
    if body is None or value is None:
        return ""
    if (loss := dotted(value)) is not None:
        return added(f"{loss}.backward()", "above", body.place(ends[0]))
    return written(body.place(ends[0]), f"loss = {body.text(value)}\nloss.backward()\nreturn loss")


def _owner(names: Sequence[str]) -> str:
    """Return what these parameters have in common, `self.model` of `self.model.0.weight` and `self.model.2.bias`."""
    paths = [name.split(".")[:-1] for name in names]
    same = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
    return ".".join(same) or names[0].partition(".")[0]


def _given(filled: Severed) -> str:
    """Return what the program calls the tensors that fill parameters: `weights` of `p.data = weights[name]`."""
    statement = statement_of(filled)
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    if isinstance(value, ast.Call) and value.args:
        value = value.args[0]
    return (dotted(value.value) if isinstance(value, ast.Subscript) else None) or "weights"


def _zeroing(frame: FrameType | None, name: str) -> Place | None:
    """Return the zero_grad() between backward and step, or the only one; that of another optimizer does not count."""
    optimizers = [each for each, _ in search((), collect=(torch.optim.Optimizer,)).found]
    called = {ending(each.path) for names in search(optimizers).names for each in names}
    others = called - {ending(name)}
    calls = [
        (body, statement)
        for body, statement, call in calls_around(frame)
        for receiver, method in [method_of(call)]
        if method == "zero_grad" and receiver not in others
    ]
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is None:
            continue
        before = [p.position for p in backward_calls(body) if p.line <= each.f_lineno]
        began, steps = max(before, default=(0, 0)), _steps_on(body, each.f_lineno)
        ends = steps[0] if steps else (each.f_lineno + 1, 0)
        places = [inside.place(statement) for inside, statement in calls if inside.node is body.node]
        found = [place for place in places if began < place.position < ends]
        if found:
            return found[-1]
    if len(calls) == 1 and not backward_calls(calls[0][0]):  # a helper or callback, and nothing else zeroes them
        return calls[0][0].place(calls[0][1])
    return None


def _steps_on(body: Body, line: int) -> list[tuple[int, int]]:
    """Return where statements of a line make a step: others may follow on it."""
    every = ((each, call) for each in statements(body.node) if each.lineno == line for call in calls_in(each))
    return [body.place(each).position for each, call in every if callee(call)[1] == "step"]


def _closure(frame: FrameType | None) -> Place | None:
    """Return the function of the program that is given to the step."""
    given = {
        dotted(call.args[0]) for _, _, call in calls_around(frame) if callee(call)[1] == "step" and len(call.args) == 1
    }
    for body in bodies(frame):
        if isinstance(body.node, ast.FunctionDef) and body.node.name in given:
            return body.place(body.node)
    return None


# Deep copies that are made anew in each step, from what an optimizer holds.


class Copy(NamedTuple):
    """A statement `copy = copy.deepcopy(original)`, both names, and the statement that updates it through `.data`."""

    place: Place
    original: str
    variable: str
    update: Place | None


def copied_anew(
    frame: FrameType | None,
    held: Sequence[torch.Tensor],
    others: Sequence[str],
    optimizer: str,
    *,
    nameless: bool = False,
) -> Copy | None:
    """Return the statement that makes a copy of what is `held` once for each step, in a loop or a function.

    others: what the parameters of the copy are called; nameless: whether it is gone by the backward, with its name.
    """
    if not others and not nameless:
        return None
    parts = {part for names in search(held[:1], limit=4).names for name in names for part in name.path.split(".")}
    owners = {name.split(".")[0] for name in others}
    found = []
    for body, statement in statements_around(frame):
        for pair in assigned(statement):
            match pair:
                case ast.Name(id=variable), ast.Call(args=[given]) as call if callee(call)[1] == "deepcopy":
                    original = dotted(given)
                case _:
                    continue
            if original is None or not (nameless or variable in owners):
                continue
            is_it = ending(original) in parts or (nameless and _is_given(body, original))
            if not is_it or not _runs_often(body, statement, ending(optimizer)):
                continue
            copy = Copy(body.place(statement), original, variable, _updated(body, statement))
            if variable in owners:
                return copy
            if copy.update is not None or _is_called(body, variable):
                found.append(copy)
    return only(found)


def _is_called(body: Body, name: str) -> bool:
    """Whether a function computes something with a copy, as it does not with one that it only keeps."""
    return any(dotted(call.func) == name for each in statements(body.node) for call in calls_in(each))


def _is_given(body: Body, name: str) -> bool:
    """Whether a name is a parameter of a function, which its caller may call otherwise."""
    return not isinstance(body.node, ast.Module) and name in parameters_of(body.node)


def _updated(body: Body, copy: ast.stmt) -> Place | None:
    """Return the statement below that of a copy that writes something through `.data`."""
    for statement in statements(body.node):
        if statement.lineno <= copy.lineno:
            continue
        goals = (target for target, _, _ in targets(statement))
        written = [callee(call)[0] for call in calls_in(statement) if callee(call)[1].endswith("_")]
        if any(isinstance(each, ast.Attribute) and each.attr == "data" for each in (*goals, *written)):
            return body.place(statement)
    return None


def _runs_often(body: Body, statement: ast.stmt, optimizer: str) -> bool:
    if loops_around(body, statement.lineno):
        return True
    every = list(statements(body.node))
    if not isinstance(body.node, ast.FunctionDef) or body.node.name == "__init__":
        return False
    # who runs the training within the same function copies once; the steps of a copy's own optimizer are another's
    steps = [n for s in every for n in ast.walk(s) if isinstance(n, ast.Call) and callee(n)[1] == "step"]
    inner = {dotted(target) for s in every for target, value in assigned(s) if isinstance(value, ast.Call)}
    return all((called := dotted(callee(n)[0])) in inner and ending(called) != optimizer for n in steps)


# A model that is replaced after its optimizer was made: where, and what goes on with the old one.


def replacing(frame: FrameType | None, model: str, built: Place) -> Place | None:
    """Return the only statement that replaces a model after its optimizer was built, by what is called `model`.

    An attribute is replaced outside of the function that builds the optimizer, and of any constructor; and everything
    is further down in that function.
    """
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        if any(_binds(target, model) for target in statement.targets)
        if _comes_later(body, statement, built)
    )


def _binds(target: ast.expr, model: str) -> bool:
    """Whether a statement binds what is called so: `self.net`, `net`, or an entry, `net[2]` of `net.2`."""
    whole, _, last = model.rpartition(".")
    if last.isdigit() and isinstance(target, ast.Subscript):
        is_entry = isinstance(target.slice, ast.Constant) and str(target.slice.value) == last
        return is_entry and ending(dotted(target.value)) == ending(whole)
    name = dotted(target) or ""
    return ending(name) == ending(model) and ("." in name) is bool(whole)


def _comes_later(body: Body, statement: ast.stmt, built: Place) -> bool:
    node = body.node
    first = getattr(node, "lineno", 0)
    if body.file == built.file and first <= built.line <= (getattr(node, "end_lineno", None) or 2**31):
        return statement.lineno > built.last
    return getattr(node, "name", "__init__") != "__init__"


def made_again(
    frame: FrameType | None, optimizer: torch.optim.Optimizer, name: str, model: str, replaced: Place, built: Place
) -> str:
    """Return the fix: not to replace what is only filled again with a state; else to make anew what has the old one."""
    made = replaced.text.partition(" = ")[2]
    for body in bodies(frame):
        every = list(statements(body.node))
        if body.file == replaced.file and any(body.place(each) == replaced for each in every):
            fills = [each for each in every if each.lineno > replaced.last and _loads(each, model)]
            if fills and any(made == each for each in _values(frame, model, replaced)):
                return (
                    f"Keep the {model} that {name} was created for: {removed(replaced)}. Line {fills[0].lineno} loads "
                    "the state into it."
                )
    again = built.text if built.text.startswith(f"{name} = ") and "…" not in built.text else f"create {name}"
    others = [named(each) for each in schedules_of(optimizer)]
    edits = [added(built.text if built.text.startswith(f"{name} = ") else "…", "beside", replaced)]
    for each, other in zip(schedules_of(optimizer), others, strict=True):
        creating = constructions(frame, each, other)
        edits.append(added(creating[0].text, "beside", replaced) if len(creating) == 1 else "")
    edit = "".join(edits) if all(edits) else ""
    too = f" Create {', '.join(others)} again as well: it goes on with the old {name}." if others else ""
    code = f": {again}" if again != f"create {name}" else ""
    return f"After line {replaced.last}, create {name} again{code}{edit}.{too}"


def _values(frame: FrameType | None, model: str, but: Place) -> Iterator[str]:
    """Yield what else the program gives the model, as text."""
    for body, statement in statements_around(frame):
        place = body.place(statement)
        if isinstance(statement, ast.Assign) and place != but and any(_binds(t, model) for t in statement.targets):
            yield place.text.partition(" = ")[2]


def _loads(statement: ast.stmt, model: str) -> bool:
    calls = ((dotted(callee(call)[0]) or "", callee(call)[1]) for call in calls_in(statement))
    return any(method == "load_state_dict" and ending(held) == ending(model) for held, method in calls)
