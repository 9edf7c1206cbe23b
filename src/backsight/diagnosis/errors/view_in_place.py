"""BS209: a view is changed in place that autograd cannot follow: one of several, or one made under `no_grad`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

import torch

from backsight.diagnosis.errors.parts_joined import by_helper, by_loop, by_unpacking, changed_anew, is_only_shown
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.custom import class_behind, returns
from backsight.diagnosis.evidence.registered import registrations
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.evidence.written import Written, receiver, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, if_known, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name, namespace
from backsight.source import Body, Place, assignments, inplace_changes, loop_facts, only, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Use, parameters_of, target_names, uses
from backsight.source.body import callee, covers, dotted, expressions, statements
from backsight.source.edits import (
    OR,
    instead,
    lines_of,
    move,
    on_line,
    put,
    put_at,
    sentence,
    without_marks,
    wrap,
    write,
)
from backsight.source.out_of_place import out_of_place
from backsight.source.rewriting import rewritten, simple
from backsight.story.changes import works_in_place
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.fixes import too, without_inplace
from backsight.story.made_in_place import made_in_place, made_otherwise, not_in_place, said_of
from backsight.story.memory import base_of, is_leaf, is_module, is_tensor, maker_of, needs_gradient, storage_of
from backsight.story.modes import disabled_at
from backsight.story.sections import results_of
from backsight.tape import modules_in, registered, tensors_in
from backsight.tape.ops import op_name

_HOOKED = "BackwardHookFunction"
"""What a module with a full backward hook runs on its inputs and outputs (torch/nn/modules/_functions.py)."""


@explains(
    "BS209",
    r"Output (?P<output>\d+) of (?P<op>\w+) is a view( of a view which was created in \w+ mode)? and "
    r"(?P<base>its base or another view of its base has been|is being) modified in-?place",
    r"A view was created in (?P<mode>no_grad|inference) mode and "
    r"(?P<base>its base or another view of its base has been|is being) modified in-?place",
    r"is a view of a view which was created in (?P<mode>no_grad|inference) mode",
)
def view_in_place(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the view, the statement that made it, and the statement without an in-place change."""
    said = match.groupdict()
    if (said.get("base") or "").startswith("its base") and failure.user and said.get("op"):
        return _base_changed(failure, op_name(said["op"]))
    found = written(failure, lambda tensor: base_of(tensor) is not None)
    if found is None or found.statement is None:
        of = f" made by {op_name(said['op'].removesuffix('Backward')).lower()}" if said.get("op") else ""
        return unlocated(
            failure,
            f"A view{of} was modified in place, which autograd cannot follow.",
            "is the statement that failed.",
            "Create a new tensor instead (x = x.exp(), not x.exp_()), or modify a copy: x = x.clone() first.",
        )
    if said.get("mode"):
        return _made_unrecorded(found, said["mode"])
    if said["op"].startswith(_HOOKED):
        return _of_hooked(failure, found)
    if "custom Function" in failure.message:
        return _of_custom(found, said["op"])
    return _one_of_several(failure, found, op_name(said["op"]))


def _one_of_several(failure: Failure, found: Written, said: str) -> Finding:
    name, op = found.here, _operation(found) or said
    level, outer, made = _made(found) or (found.level, name, None)
    is_here, maker = level is found.level, statement_at(level.body, *made.position) if made else None
    looped = level.body.text(maker.iter) if level.body and isinstance(maker, ast.For) else ""
    unpacked = _unpacked(level, maker) if made and op == "Unbind" and "unbind(" not in made.text else ""
    several = f"one of several views that {_call_in(made.text, op) if made else op.lower()} returned together"
    if unpacked:
        several = f"one of the views that unpacking {unpacked} makes"
    elif looped:
        several = f"one of the views that {'the' if is_here else 'a'} loop takes from {looped}"
    does = f"modifies {name}{f', which is {outer},' if outer != name else ''} in place."
    if found.module:
        does = f"gives {name} to {a_kind(found.module)} created with inplace=True."
    others = _next_ones(found, made) if is_here else []
    fix = "" if is_here else _copied_by_caller(found, level, outer, maker)
    fix = fix or _with_others(found, _fix(failure, found, looped if is_here else "", others), others)
    return explanation(
        f"{name} is {several}, and this statement modifies it in place.",
        (
            if_known(made, f"creates {outer}, one of several views of the same tensor."),
            shown(found.level.place, does),
            "Views returned together share one graph node, which cannot record a change of one alone.",
            *(f"Line {place.line} would raise the same error: {place.text}" for place in others),
        ),
        f"{fix}{_without_graph(found, maker if is_here else None)}",
        source=found.level.place,
        exact=found.tensor is not None,
    )


def _with_others(found: Written, fix: str, others: Sequence[Place]) -> str:
    """A fix, and which other lines need the same: what it asks for is only known with what each of these becomes."""
    edits = [edit for each in others if (edit := changed_anew(found.level, each)) is not None]
    known = len(edits) == len(others)
    also = too([each.line for each in others])
    if not also or not known:
        return f"{fix if known else without_marks(fix)}{also}"
    return f"{fix}{also[:-1]}{''.join(map(str, edits))}."


def _anew(level: Level, line: int, code: str) -> str:
    """A statement to write instead of the one on a line of a function, with the edit."""
    statement = statement_at(level.body, line)
    return f"{code}{instead(level.body, statement, code)}" if level.body and statement else code


def _whole(found: Written, maker: ast.stmt | None) -> str:
    """What the function calls the tensor that a statement takes the views of."""
    own = {name for name, held in found.level.variables.items() if storage_of(held) == storage_of(found.tensor)}
    source = maker.iter if isinstance(maker, ast.For) else maker.value if isinstance(maker, ast.Assign) else None
    return only(use.name for use in uses(source) if use.name in own) or ""


def _without_graph(found: Written, maker: ast.stmt | None) -> str:
    """How the copy that the views are of is made without a graph, which a picture, for instance, does not need."""
    body, whole = found.level.body, _whole(found, maker)
    if maker is None or not is_only_shown(found.callers, whole, _last_line(maker)):
        return ""
    made = assignments(body, whole, before=maker.lineno) if whole else ()
    statement = statement_at(body, *made[-1].position) if made else None
    call = statement.value if isinstance(statement, ast.Assign) else None
    if body is None or statement is None or not isinstance(call, ast.Call) or callee(call)[1] != "clone":
        return ""
    receiver = callee(call)[0]
    source = call.args[0] if dotted(receiver) == "torch" and call.args else receiver
    line = rewritten(body, statement, {source: f"{simple(body.text(source))}.detach()"}) if source is not None else ""
    where = f"on line {statement.lineno}{write(body.place(statement), line)}"
    return f" {OR}If {whole} needs no gradient, write `{line}` {where}." if line else ""


def _last_line(maker: ast.stmt) -> int:
    return maker.end_lineno or maker.lineno


def _operation(found: Written) -> str:
    """What made the view that is modified; a message about `q[0] = 1` has the slice of it that the statement takes."""
    try:
        made = maker_of(found.tensor)
    except RuntimeError:
        return ""
    name = op_name(type(made).__name__) if made is not None else ""
    return name if name in _SEVERAL else ""


_SEVERAL = ("Unbind", "Split", "SplitWithSizes", "UnsafeSplit", "Chunk")


def _made(found: Written) -> tuple[Level, str, Place] | None:
    """The statement that made the view: here, or in a caller that gave it; with what it is called there."""
    here = _maker(found)
    if here is not None:
        return found.level, found.here, here
    for level in found.callers[1:]:
        for name, value in level.variables.items():
            before = [each for each in assignments(level.body, name) if each.line < level.line]
            if before and found.tensor is not None and value is found.tensor:
                return level, name, before[-1]
    return None


def _unpacked(level: Level, maker: ast.stmt | None) -> str:
    """What a statement unpacks into several variables, `q, k = self.split(x)`: a tensor, which is taken apart so."""
    target = maker.targets[0] if isinstance(maker, ast.Assign) and len(maker.targets) == 1 else None
    if level.body is None or not isinstance(maker, ast.Assign) or not isinstance(target, ast.Tuple | ast.List):
        return ""
    return level.body.text(maker.value)


def _copied_by_caller(found: Written, level: Level, name: str, maker: ast.stmt | None) -> str:
    """Where the copy is made if the function that modifies what it is given does not return it; else empty."""
    body = found.level.body
    if body is None or found.module:
        return ""
    returned = {each for value, line in results_of(body) for each in ancestors(body, value, line)}
    if found.here in returned or found.here not in parameters_of(body.node):
        return ""
    if not isinstance(maker, ast.For):
        new = f"{name} = {name}.clone()"
        return f"Modify a copy: put `{new}` before line {level.line}{put(new, 'above', level.place)}."
    whole = level.body.text(maker.iter) if level.body else "the whole"
    new, at, plain = f"{whole} = {whole}.detach().clone()", lines_of(level.place.file, maker.lineno)[0], ""
    outside = found.callers[[*found.callers].index(level) :]
    if isinstance(maker.iter, ast.Name) and is_only_shown(outside, whole, _last_line(maker)):
        plain = f" {OR}If {whole} needs no gradient, {put_at(new, 'above', at)}."
    return (
        by_helper(found, level, maker)
        or f"Modify {whole} as a whole before the loop, or compute new parts and join them with {_join(whole)}([...]): "
        f"a copy of {name} would not be written into {whole}."
    ) + plain


def _join(taken: str) -> str:
    """What joins the views that an expression takes of a tensor."""
    return "torch.cat" if re.search(r"(chunk|split)\(", taken) else "torch.stack"


def _call_in(text: str, op: str) -> str:
    """What the statement calls the operation, `chunk` for `Split`."""
    if op == "Unbind":
        return "unbind"
    spelled = re.search(r"\b(chunk|tensor_split|[hvd]split|split_with_sizes|split|unbind)\(", text)
    return spelled[1] if spelled else op.lower()


def _fix(failure: Failure, found: Written, looped: str, others: Sequence[Place]) -> str:
    """What to do instead; `looped` is what a loop takes the views of, if one does."""
    name, body, level, maker = found.here, found.level.body, found.level, _maker(found)
    if found.module:
        copy = f": {name}.clone()" if found.text or found.path else ", made with .clone()"
        made = made_in_place(failure, found.module, *receiver(found))
        anew = f"{said_of(made)}{not_in_place(made)}"
        return (
            f"Create that {found.module} without inplace=True{anew}, {OR}or pass it a copy{copy}{_given_copy(found)}."
        )
    if looped:
        if (away := out_of_place(body, level.line)) and _only_here(found, maker):
            return f"Write {_anew(level, level.line, away)}: that creates a new tensor, and only this loop reads it."
        loop = statement_at(body, *maker.position) if maker is not None else None
        if isinstance(loop, ast.For) and (joined := by_loop(found, loop)):
            return joined
        return (
            f"Compute new parts and join them with {_join(looped)}([...]), or modify the whole tensor before the loop. "
            f"Assigning to {name} does not write into it."
        )
    whole = _whole(found, statement_at(body, *maker.position) if maker else None)
    below = (each for each in statements(body) if each.lineno > level.line) if whole else ()
    later = next((each.lineno for each in below if any(use == Use(whole, False) for use in uses(each))), None)
    if later is not None:
        read = f"line {later} reads {whole}, which a new {name} is not written into."
        if joined := by_unpacking(found, statement_at(body, *maker.position) if maker else None, others):
            return f"{joined}: {read}"
        join = "torch.stack" if _operation(found) == "Unbind" else "torch.cat"
        return f"Compute a new {name} and join it with the others, as {join}([...]) does: {read}"
    fixed = without_inplace(level.place.text) if not isinstance(found.statement, ast.Expr) else ""
    if fixed:
        return f"Remove inplace=True: {_anew(level, level.line, fixed)}"
    if away := out_of_place(body, level.line):
        return f"Write {_anew(level, level.line, away)}: that creates a new tensor."
    if body is None or not found.text:
        return "Modify a copy of it, created with .clone() just before."
    return _copied(found, body)


def _only_here(found: Written, maker: Place | None) -> bool:
    """Whether the loop reads the view below, and no other line reads what the loop takes it from."""
    level, body = found.level, found.level.body
    loop = statement_at(body, *maker.position) if maker is not None else None
    if body is None or not isinstance(loop, ast.For) or storage_of(found.tensor) is None:
        return False
    inside, end = [], loop.end_lineno or loop.lineno
    elsewhere = set[str]()
    for each in statements(body.node):
        read = {use.name for use in uses(each) if not use.binds}
        if level.line < each.lineno <= end:
            inside.append(found.name in read)
        elif each.lineno > end:
            elsewhere |= {name.partition(".")[0] for name in read}
    taken = {use.name.partition(".")[0] for node in ast.walk(loop.iter) for use in uses(node) if not use.binds}
    own = target_names(loop.target)
    shares = {
        name
        for name, value in level.variables.items()
        if name not in own and storage_of(found.tensor) in {storage_of(each) for each in tensors_in(value)}
    }
    lasting = {"self", *parameters_of(body.node)} & (taken | shares)
    return any(inside) and not (taken | shares) & elsewhere and not lasting


def _given_copy(found: Written) -> str:
    """The statement with a copy of the view in its place, as an edit."""
    body, statement = found.level.body, found.statement
    read = [each for each in expressions(statement) if body and body.text(each) == found.here]
    line = rewritten(body, statement, dict.fromkeys(read, f"{found.here}.clone()")) if body and statement else ""
    return str(write(found.level.place, line)) if line and read else ""


def _copied(found: Written, body: Body) -> str:
    """How the statement changes a copy, which has to be written where the view is: a tuple takes no other element, and
    what a comprehension goes through has no name before it."""
    name, statement, line = found.text, found.statement, found.level.line
    nodes = [each for each in expressions(statement) if body.text(each) == name]
    goes = [each.target for node in expressions(statement) for each in getattr(node, "generators", ())]
    container = nodes[0].value if nodes and isinstance(nodes[0], ast.Subscript) else None
    held, listing = value_of(found.level, container) if container is not None else None, ""
    if set[str]().union(*map(target_names, goes)) & {use.name for node in nodes for use in uses(node)}:
        new = rewritten(body, statement, dict.fromkeys(nodes[:1], f"{name}.clone()")) if statement is not None else ""
        how = on_line(found.level.place, new)
        return f"Modify a copy: {how}." if new else "Modify a copy of it, made with .clone()."
    if type(held) is tuple:
        listing = _as_list(found, body)
        if not listing:
            return f"Modify a copy of {name}, made with .clone(): a tuple takes no other element."
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr=method))) if (
            method.endswith("_") and body.text(receiver) == name and method[:-1] in dir(torch.Tensor)
        ):
            call = f"{name} = {body.text(statement).replace(f'.{method}(', f'.{method[:-1]}(', 1)}"
            at = instead(body, statement, call)
            return f"{listing or 'O'}n line {line}, write `{call}`{at}: that creates a new tensor."
    copied = put_at(f"{name} = {name}.clone()", "above", found.level.place)
    return f"{listing[:-1]}{copied}." if listing else f"Modify a copy: {copied}."


def _as_list(found: Written, body: Body) -> str:
    """How the tuple that several views are in becomes a list, in which another tensor can take the place of one."""
    place = _maker(found)
    maker = statement_at(body, *place.position) if place is not None else None
    if not isinstance(maker, ast.Assign) or dotted(maker.targets[0]) != found.name:
        return ""
    new = rewritten(body, maker, {maker.value: f"list({body.text(maker.value)})"})
    return f"Put the views in a list: {on_line(body.place(maker), new)}; and o" if new else ""


def _maker(found: Written) -> Place | None:
    """The last statement of the function that binds the view."""
    body = found.level.body
    made = assignments(body, found.name) if found.name else ()
    before = [place for place in made if place.line < found.level.line]
    return before[-1] if before else None


def _next_ones(found: Written, made: Place | None) -> list[Place]:
    """The later statements that change views from the same statement: the errors that would come next."""
    body = found.level.body
    maker = statement_at(body, made.line) if made else None
    if body is None or maker is None:
        return []
    places: dict[int, Place] = {}
    for name in (use.name for use in uses(maker) if use.binds):
        anew = [place.line for place in assignments(body, name) if place.line > maker.lineno]
        for p in inplace_changes(body, name):
            if found.level.line < p.line < min(anew, default=p.line + 1) and not _puts(found.level, p, name):
                places[p.line] = p
    return [places[line] for line in sorted(places)]


def _puts(level: Level, place: Place, name: str) -> bool:
    """Whether a statement puts another tensor into a list of them: `parts[1] = f(parts[1])`."""
    statement = statement_at(level.body, *place.position)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    element = any(isinstance(each, ast.Subscript) and dotted(each.value) == name for each in targets)
    return element and not is_tensor(level.value(name))


def _made_unrecorded(found: Written, mode: str) -> Finding:
    name, body = found.here, found.level.body
    block = "torch.no_grad()" if mode == "no_grad" else "torch.inference_mode()"
    lines: list[Fact] = [shown(found.level.place, f"modifies {name} in place while autograd records.")]
    made = _maker(found)
    if made and body:
        around = disabled_at(body, made.line, mode)
        inside = around is not None and not around.is_decorator
        how = (
            f"as a view inside the block at line {around.place.line}"
            if around and inside
            else f"as a view under {block}"
        )
        lines.insert(0, shown(made, f"makes {name} {how}."))
    lines.append("Autograd has no graph for that view, so it cannot tell whether to record the change.")
    away = out_of_place(body, found.level.line)
    record = f"make {name} outside of the {block} block"
    if away:
        record = f"write {_anew(found.level, found.level.line, away)}, which creates a new tensor"
    unrecorded = wrap(found.level.place, "with torch.no_grad():")
    if body and made and isinstance(statement_at(body, made.line), ast.For):  # of a whole, which others read
        record = (
            f"compute new parts and join them, as with torch.stack([...]): {name} = ... in a loop would not write into "
            "the whole"
        )
    fits = "" if needs_gradient(found.tensor) else unrecorded  # else nothing recorded may read it any more
    fix = f"If the change is part of the computation, {record}. {OR}If not, put it under torch.no_grad() too{fits}."
    if is_leaf(base_of(found.tensor)):
        fix = f"Put the change under torch.no_grad() too{unrecorded}: {name} shares memory with {found.label}, a leaf."
    return explanation(
        f"{name} is a view created under {block}, but this statement modifies it in place outside that block.",
        lines,
        fix,
        source=found.level.place,
        exact=found.tensor is not None,
    )


def _of_hooked(failure: Failure, found: Written) -> Finding:
    """The view is what a module returned that has a full backward hook."""
    modules = (each.variables.get("self") for each in reversed(failure.levels))
    module = next((each for each in modules if works_in_place(each)), None)
    path, kind = names_of(failure, [module])[0] if module is not None else "", class_name(type(module))
    by, does, fix = "This statement", f"modifies {found.here} in place.", f"Modify a copy: {found.here}.clone()."
    if module is not None:
        by, does = f"{path or 'a module'}, {a_kind(kind)} created with inplace=True,", f"runs {path or 'it'}."
        root = path.partition(".")[0]
        whole = next((held for level in failure.users if is_module(held := level.value(root))), None)
        held = dict(modules_in(whole, root)) if is_module(whole) else {}
        others = [(class_name(type(held[each])), each) for each in _also_hooked(held, path, module)]
        where = made_otherwise(failure, held, (kind, path), others)
        fix = f"Create {path or 'that module'} without inplace=True{where}"
    elif away := out_of_place(found.level.body, found.level.line):
        fix = f"Write {_anew(found.level, found.level.line, away)}: that creates a new tensor."
    hook = only(h for file in user_files(failure) for h in registrations(file) if h.method == _FULL)
    return explanation(
        f"{by} modifies in place the output of a module that has a full backward hook.",
        (
            shown(found.level.place, does),
            shown(hook.place, f"registers the hook on {hook.on}.") if hook is not None else None,
            f"{_FULL}() turns the module's output into a view; modifying it would bypass the hook.",
        ),
        f"{fix} Or register the hook on the output, in a forward hook of that module: output.register_hook(...).",
        source=found.level.place,
    )


_FULL = "register_full_backward_hook"


def _also_hooked(held: Mapping[str, object], path: str, failed: object) -> Iterator[str]:
    """The other modules that work in place right behind one with such a hook: in a sequence, or in the same place of
    the same class; each once, as several owners may share one."""
    owner, _, attribute = path.rpartition(".")
    told = [failed]
    for at, module in held.items():
        around, _, name = at.rpartition(".")
        same = name == attribute and type(held.get(around)) is type(held.get(owner))
        before = held.get(f"{around}.{int(name) - 1}") if name.isdecimal() else None
        siblings = registered(each, "_modules").values() if is_module(each := held.get(around)) and same else ()
        beside = [before] if name.isdecimal() else [*siblings]
        if works_in_place(module) and module not in told and any(map(_has_full_hook, beside)):
            told.append(module)
            yield at


def _has_full_hook(module: object) -> bool:
    held = namespace(module) or {}
    return bool(held.get("_backward_hooks")) and held.get("_is_full_backward_hook") is True


def _of_custom(found: Written, function: str) -> Finding:
    """The view is what a custom Function's forward returned: a view of its input, or the input itself."""
    name, level, cls = found.here, found.level, class_behind(found.tensor)
    function = class_name(cls) if cls else function.removesuffix("Backward")
    returned, copied = returns(cls, "forward"), f"{name} = {name}.clone()"
    new = f"change a copy: {copied}{put(copied, 'above', level.place)}"
    if away := out_of_place(level.body, level.line):
        new = f"write {_anew(level, level.line, away)}"
    return explanation(
        f"{name} is a view that {function}'s forward returned, and this statement modifies it in place.",
        (
            shown(returned[-1], f"creates what {function} returns: its input, or a view of it.") if returned else None,
            if_known(_maker(found), f"gets {name} from {function}."),
            shown(level.place, f"modifies {name} in place."),
            f"Modifying that view would bypass the backward of {function}.",
        ),
        f"Return a new tensor from forward, with .clone(){_cloned(only(returned))}. {OR}Or leave the view unmodified: "
        f"{new}.",
        source=level.place,
    )


def _cloned(place: Place | None) -> str:
    """The statement of a function that returns one value, with a copy of it, as an edit."""
    body, statement = read_at(place)
    value = statement.value if isinstance(statement, ast.Return) else None
    if body is None or statement is None or value is None or isinstance(value, ast.Tuple | ast.List):
        return ""
    new = rewritten(body, statement, {value: f"{simple(ast.unparse(value))}.clone()"})
    return str(write(body.place(statement), new)) if new else ""


def _base_changed(failure: Failure, op: str) -> Finding:
    """The statement only reads the view; what it is a part of was changed before, here or in a caller."""
    level = failure.users[0]
    name, view = next(_lost_views(level), ("", None))
    at, whole, changed = _change_of_base(failure, view)
    held = (each for each, value in at.variables.items() if value is view) if view is not None else iter(())
    outer = next(held, "") if at is not level else name
    made = next(iter(assignments(at.body, outer, before=changed.line)[-1:]), None) if changed and outer else None
    away = out_of_place(at.body, changed.line) if changed else None
    otherwise = f"write {_anew(at, changed.line, away)}" if away and changed else f"change a copy of {whole}"
    above = _above(at, made, changed) if changed and made else ""
    take = f"Take the views after the change{above}; {OR}or " if above or not made else ""
    called = f"{name}, which is {outer}," if outer and outer != name else name
    return explanation(
        f"{called or 'The view that this statement uses'} is one of several views of {whole}, which was modified in "
        "place after they were created.",
        (
            if_known(made if at is not level else None, f"takes {outer} and others from {whole}."),
            if_known(changed, f"modifies {whole} in place, and with it all of its views."),
            shown(level.place, f"uses {name or 'the view'} after that."),
            f"Autograd cannot give a new graph to one of several views that {_several_of(made, op)} returned together.",
        ),
        f"{take}{otherwise if take else sentence(otherwise)}, which leaves them unchanged.",
        source=changed or level.place,
        exact=changed is not None,
    )


def _several_of(made: Place | None, op: str) -> str:
    return _call_in(made.text, op) if made is not None else op.lower()


def _above(level: Level, made: Place, change: Place) -> str:
    """How a change comes before the statement that takes the views, if it runs as often."""
    around, outside = (loop_facts(level.body, each.line) for each in (change, made))
    if (around.loop if around else None) != (outside.loop if outside else None):
        return ""
    return f": move line {change.line}, `{change.text}`, above line {made.line}{move(change, 'above', made)}"


def _lost_views(level: Level) -> Iterator[tuple[str, torch.Tensor]]:
    """The variables that the statement reads whose history autograd refuses to tell: for the very same reason."""
    for use in uses(level.statement):
        for tensor in tensors_in(level.value(use.name)):
            if is_tensor(tensor) and _is_lost(tensor):
                yield use.name, tensor


def _is_lost(tensor: torch.Tensor) -> bool:
    try:
        maker_of(tensor)
    except RuntimeError:
        return True
    return False


def _change_of_base(failure: Failure, view: torch.Tensor | None) -> tuple[Level, str, Place | None]:
    """The innermost level that changes what `view` is a part of, what it calls that, and the last statement that does:
    before its own, or below it in a loop."""
    for level in failure.users if view is not None else ():
        names = [name for name, value in level.variables.items() if storage_of(value) == storage_of(view)]
        every = [(place, name) for name in names for place in inplace_changes(level.body, name)]
        facts = loop_facts(level.body, level.line)
        loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
        found = [each for each in every if each[0].line < level.line]
        found = found or [each for each in every if loop is not None and covers(loop, each[0].line)]
        if found:
            place, name = max(found, key=lambda each: each[0].line)
            return level, name, place
    return failure.users[0], "the tensor", None
