"""BS222: backward was called on what is no tensor: a number, None, a tuple, a model's output, a module."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from types import ModuleType

import torch

from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.conversion import Conversion, Kind, closure_given, conversion, gradients_in
from backsight.diagnosis.evidence.gradients import gradient_read
from backsight.diagnosis.evidence.refused import called_when_built
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import a_kind, if_known, shown
from backsight.naming.plain import class_dict, class_name, namespace
from backsight.source import Body, Place, assignments, loop_facts, only, read_at, statement_at
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.source.definitions import values_of
from backsight.source.edits import OR, Edit, change, on_line, on_line_with, put, remove, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, failure_of
from backsight.story.files import user_files
from backsight.story.holders import node_of, structure
from backsight.story.in_pytorch import in_pytorch
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.modes import disabled_at
from backsight.tape import parameters_in

_MISSING = r"'(?P<type>[\w.]+)' object has no attribute 'backward'"
_CLOSED = r"float\(\) argument must be .*, not '(?P<closed>NoneType)'"
"""What an optimizer raises whose closure has returned None."""
_SCALED = r"outputs must be a Tensor or an iterable of Tensors"
_NUMBERS = re.compile(r"(?:float|int|bool|complex|numpy\.\w+|ndarray)")
_CALL = re.compile(r"[^=]+\.backward\(\)")
_CONTAINERS = ("tuple", "list", "dict", "OrderedDict", "defaultdict")
_CALLABLES = ("function", "method", "builtin_function_or_method")


@dataclass(frozen=True, eq=False)
class Lost:
    """What backward was called on: the expression in the failing statement, and its value where that is known."""

    failure: Failure
    level: Level
    node: ast.expr
    type: str

    @property
    def name(self) -> str:
        return self.level.body.text(self.node) if self.level.body else "it"

    @property
    def value(self) -> object:
        return value_of(self.level, self.node)

    @property
    def kind(self) -> Kind:
        if self.type == "NoneType":
            return "none"
        return "number" if _NUMBERS.fullmatch(self.type) else "tuple" if self.type in _CONTAINERS else "other"

    def made(self) -> Conversion | None:
        return conversion(self.failure, self.level, self.node, self.kind)


def is_meant_as_loss(error: BaseException) -> bool:
    """Whether what has no `backward` stands where a tensor of PyTorch's is due.

    None, and objects of the user's own classes, may be meant for another `backward`.
    """
    if issubclass(type(error), TypeError):
        return closure_given(failure_of(error)) is not None
    if not issubclass(type(error), AttributeError):
        return issubclass(type(error), ValueError)  # of a scaler
    failure = failure_of(error)
    match = re.search(_MISSING, failure.message)
    lost = _lost(failure, match["type"]) if match else None
    if match is None or (failure.levels and (lost is None or not _knows_torch(lost.level))):
        return False
    if lost is None:
        return bool(_NUMBERS.fullmatch(match["type"])) or match["type"] in _CONTAINERS
    if lost.kind == "none":
        return gradient_read(failure) is None and not _gives(lost)
    if lost.kind != "other":
        return True
    value = lost.value
    return lost.type in _CALLABLES or is_module(value) or bool(_fields(value))


@explains("BS222", f"{_MISSING}|{_CLOSED}", _SCALED, when=is_meant_as_loss)
def lost_tensor(failure: Failure, match: re.Match[str]) -> Finding:
    """Say what made a number, None or a tuple of the loss, and what to call backward on."""
    if match.groupdict().get("closed"):
        return _of_closure(failure)
    kind = match.groupdict().get("type") or ""
    lost = _lost(failure, kind)
    if lost is None:
        return _unlocated(failure, kind)
    if is_module(lost.value) or lost.type in _CALLABLES:
        return _not_called(lost)
    fields = _fields(lost.value)
    if fields:
        return _inside(lost, fields)
    return _converted(lost, lost.made())


def _lost(failure: Failure, kind: str) -> Lost | None:
    """What the user's statement runs backward on, or gives to a scaler."""
    level = failure.user
    statement = level.statement if level else None
    if level is None or statement is None or level.body is None:
        return None
    for node in expressions(statement):
        innermost = failure.levels[-1]
        in_call = innermost is not level and innermost.frame.f_code.co_name != "__getattr__"  # a module's own
        found = _run_on(node, is_inside=in_call)
        value = value_of(level, found) if found is not None else None
        if found is not None and not is_tensor(value):
            return Lost(failure, level, found, kind or class_name(type(value)))
    return None


def _run_on(node: ast.expr, *, is_inside: bool) -> ast.expr | None:
    """The expression that a call runs backward on: `loss` of `loss.backward()`, and where a function of a library has
    raised the error, of `accelerator.backward(loss)`, `scaler.scale(loss)`."""
    if isinstance(node, ast.Attribute) and node.attr == "backward" and not is_inside:
        scaled = node.value if isinstance(node.value, ast.Call) and callee(node.value)[1] == "scale" else None
        return scaled.args[0] if scaled and len(scaled.args) == 1 else node.value
    if isinstance(node, ast.Call) and callee(node)[1] in ("backward", "manual_backward", "scale") and is_inside:
        return node.args[0] if node.args else None
    return None


def _knows_torch(level: Level) -> bool:
    """Whether the code around the call has to do with PyTorch: a module of its, a tensor or a model in a variable."""
    held = (*level.frame.f_globals.values(), *level.variables.values())
    return any(_is_of_torch(each) for each in held)


def _is_of_torch(value: object) -> bool:
    if type(value) is ModuleType:
        return str(value.__name__).partition(".")[0] == "torch"
    return is_tensor(value) or is_module(value)


def _gives(lost: Lost) -> bool:
    """Whether a call of `backward` hands something over, as layers that are written by hand want it."""
    for node in expressions(lost.level.statement) if lost.level.statement else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.value is lost.node:
            return bool(node.args)
    return False


def _fields(value: object) -> list[tuple[str, torch.Tensor]]:
    """The tensors that require grad in a container or an object, each as what follows its name: `[0]`, `.loss`."""
    if is_tensor(value) or is_module(value):
        return []
    named = class_dict(type(value)).get("_fields", ())  # of a named tuple
    names = dict(enumerate(named)) if type(named) is tuple else {}
    found = [(f".{names[key]}" if key in names else f"[{key!r}]", each) for key, each in gradients_in(value)]
    inside = namespace(value) or {}
    own = [(f".{key}", each) for key, each in inside.items() if is_tensor(each) and needs_gradient(each)]
    return own or found


def _converted(lost: Lost, made: Conversion | None) -> Finding:
    """A number, None, or a container without a tensor."""
    asked = shown(lost.level.place, _asks(lost))
    written = _written_out(lost) if made is None and lost.kind == "number" else None
    if written is not None:
        skipped = f"if torch.is_tensor({lost.name}): {lost.level.place.text}"
        return explanation(
            _title(lost, made),
            (shown(written, f"returns the number {lost.value} instead of a loss."), asked),
            f"Skip it, because it trains nothing: {on_line(lost.level.place, skipped)}.",
            source=written,
        )
    if made is not None and (taken := _misplaced(lost, made)) is not None:
        body, statement, other, edit = taken
        return explanation(
            f"{lost.name} is {a_kind(lost.type)}: the tensor that {made.function}() returns is taken as {other}.",
            (
                shown(made.place, f"{made.does}."),
                shown(body.place(statement), f"assigns that number to {lost.name}, and the tensor to {other}."),
                asked,
            ),
            f"Take what {made.function}() returns in its order: {edit}. The other names may have to move, too.",
            source=body.place(statement),
        )
    return explanation(
        _title(lost, made),
        (shown(made.place, f"{made.does}.") if made else None, asked),
        _fix(lost, made),
        source=made.place if made else lost.failure.source,
        exact=made is not None and made.sure,
    )


def _misplaced(lost: Lost, made: Conversion) -> tuple[Body, ast.stmt, str, str] | None:
    """The statement that takes a number and the only tensor of a function's results by each other's names, where
    the function calls that tensor a loss, and not the number; the name of that tensor, and what to write."""
    before = assignments(lost.level.body, lost.name, before=lost.level.line)
    body, statement = read_at(before[-1] if before else None)
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call()) if made.function:
            own = [each for each in targets if dotted(each) == lost.name]
        case _:
            return None
    others = [each for each in targets if is_tensor(value := value_of(lost.level, each)) and needs_gradient(value)]
    if body is None or statement is None or len(own) != 1 or len(others) != 1:
        return None
    inner, at = made.section.body, targets.index(others[0])
    given = [each.value for each in statements(inner.node) if isinstance(each, ast.Return)]
    shown_as = [each.elts for each in given if isinstance(each, ast.Tuple) and len(each.elts) == len(targets)]
    called = [(inner.text(each[targets.index(own[0])]), inner.text(each[at])) for each in shown_as]
    if not called or any("loss" in number.lower() or "loss" not in tensor.lower() for number, tensor in called):
        return None
    other = body.text(others[0])
    edit = on_line_with(body, statement, {own[0]: other, others[0]: lost.name})
    return (body, statement, other, edit) if edit and dotted(others[0]) and "loss" not in other.lower() else None


def _written_out(lost: Lost) -> Place | None:
    """The only `return 0.0` of a function that returns a loss on its other path, and that a running function calls."""
    value, found = lost.value, list[Place]()
    running = (each for level in lost.failure.users if level.body for each in statements(level.body.node))
    called = {callee(call)[1] for each in running for call in calls_in(each)}
    for body in (body for file in user_files(lost.failure) for body in functions(file) if body.name in called):
        returned = [each for each in statements(body.node) if isinstance(each, ast.Return) and each.value is not None]
        numbers = {each: each.value.value for each in returned if isinstance(each.value, ast.Constant)}
        if len(numbers) < len(returned):
            plain = [each for each, number in numbers.items() if type(number) in (int, float)]
            found += [
                body.place(each) for each in plain if type(value) is type(numbers[each]) and value == numbers[each]
            ]
    return only(found)


def _asks(lost: Lost) -> str:
    return f"needs a tensor, and {lost.name} is {a_kind(lost.type)}." if lost.type != "NoneType" else "needs a tensor."


def _title(lost: Lost, made: Conversion | None) -> str:
    if lost.kind == "none":
        who = f": {made.function}() {made.does}" if made and made.returns_none else ""
        return f"{lost.name} is None{who}, but backward() needs a loss tensor."
    where = f" that {made.function}() returns" if made and made.function else ""
    return f"{lost.name} is {a_kind(lost.type)}{where}, not a tensor: there is no graph to run backward on."


def _fix(lost: Lost, made: Conversion | None) -> str:
    if made is None:
        return _plain_fix(lost)
    if lost.kind == "none":
        return _fix_of_none(lost, made)
    if tensor := _still_there(lost, made):
        line = _instead(lost, f"{tensor}.backward()")
        return f"Call backward() on the tensor: {line.removeprefix('call ')}. {lost.name} is a number for logging."
    if made.call is None or made.operand is None:
        lines = in_pytorch(made.section.body, made.place.line, "") if "outside PyTorch" in made.does else ""
        how = f": {lines}" if lines else "; convert a detached copy for logging"
        return f"Compute {lost.name} with PyTorch operations, which record the graph{how}."
    mended, log = without(made), " Convert to a number for logging after backward()."
    off = disabled_at(made.section.body, made.place.line)
    if off is not None and off.is_decorator:
        log = f" Also remove @{off.text} from {off.function}{remove(off.place)}: its result needs a graph.{log}"
    how = f": {mended}{kept(made, mended)}" if mended else f" on line {made.place.line}"
    return f"Keep the tensor{how}.{log}"


def _instead(lost: Lost, call: str) -> str:
    """What to call in place of the failing statement, with its line where that is no more than a call."""
    at = _alone(lost)
    return on_line(at, call) if at is not None else f"call {call}"


def _alone(lost: Lost) -> Place | None:
    """The failing statement, where that is no more than a call of backward."""
    level = lost.failure.user
    is_call = level is not None and level.statement is not None and _CALL.fullmatch(level.place.text)
    return level.place if level is not None and is_call else None


def _plain_fix(lost: Lost) -> str:
    if lost.kind == "none":
        return f"Find what assigns {lost.name}: it must be the tensor that the loss function returned."
    if lost.type in _CONTAINERS:
        return f"Take the loss out of {lost.name}, and call backward() on that tensor."
    return (
        f"Call backward() on the tensor that {lost.name} was computed from: .item(), float() and NumPy leave a number "
        "without a graph."
    )


def _still_there(lost: Lost, made: Conversion) -> str:
    """The variable beside the failing call that holds the tensor itself, in the pass of the loop that adds it up."""
    operand = dotted(made.operand)
    if operand is None or made.section.level is not lost.level or lost.level.body is None:
        return ""
    value = lost.level.value(operand)
    if not is_tensor(value) or not needs_gradient(value) or operand == lost.name:
        return ""
    facts = loop_facts(lost.level.body, lost.level.line)
    inner = loop_facts(lost.level.body, made.place.line)
    if (facts is None) != (inner is None) or (facts and inner and facts.loop != inner.loop):
        return ""  # the sum of many steps is wanted, not the last of them
    return operand


def without(made: Conversion) -> str:
    """The statement without the conversion: `total = total + loss` for `total = total + loss.detach().item()`."""
    call, operand = made.section.body.text(made.call), made.section.body.text(_attached(made.operand))  # type: ignore[arg-type]
    text = made.place.text
    if "…" in text + call + operand or text.count(call) != 1:
        return ""
    return text.replace(call, operand)


def kept(made: Conversion, mended: str) -> Edit:
    """The edit to the statement without the conversion; to what a lambda returns, which is a part of one."""
    is_statement = made.section.body.name != "<lambda>"
    return write(made.place, mended) if is_statement else change(made.place, made.place.text, mended)


def _attached(operand: ast.expr | None) -> ast.expr | None:
    """What a conversion is given, before it is made fit for it: `loss` of `loss.detach().cpu()`."""
    match operand:
        case ast.Call(func=ast.Attribute(value=value, attr="detach" | "cpu")) | ast.Attribute(value=value, attr="data"):
            return _attached(value)
    return operand


def _fix_of_none(lost: Lost, made: Conversion) -> str:
    if made.returns_none and made.function:
        result = result_in(made)
        if "some paths" in made.does:
            return f"Return the loss on every path of {made.function}(), {_skipped(lost)}."
        how = ended(made, f"{made.function}()", result) if result else f"Return the loss from {made.function}()"
        return f"{how}."
    receiver, name = callee(made.call) if isinstance(made.call, ast.Call) else (None, "")
    if name == "backward" and receiver is not None:
        text = simple(made.section.body.text(receiver))
        new = f"{lost.name} = {text}"
        statement = read_at(made.place)[1]
        is_it = isinstance(statement, ast.Assign) and [*map(dotted, statement.targets)] == [lost.name]
        return (
            f"backward() already ran there, and it returns None: write {new}{write(made.place, new) if is_it else ''}, "
            f"then {lost.name}.backward()."
        )
    if name:
        return f"Assign the tensor itself to {lost.name}, and call {name}() in a separate statement."
    return f"Assign the loss tensor to {lost.name} before backward(), {_skipped(lost)}."


def _skipped(lost: Lost) -> str:
    """That there may be no loss, and so no backward; as an edit where the statement does no more than that."""
    level = lost.level
    alone = isinstance(level.statement, ast.Expr) and "…" not in level.place.text
    edit = write(level.place, f"if {lost.name} is not None: {level.place.text}") if alone else ""
    return f"{OR}or skip backward() when there is none{edit}"


def ended(made: Conversion, function: str, result: str) -> str:
    """Say that a function is to return its result."""
    node = made.section.body.node
    edit = put(f"return {result}", "end", made.section.body.place(node)) if isinstance(node, ast.stmt) else ""
    return f"End {function} with `return {result}`{edit}"


def result_in(made: Conversion) -> str:
    """The variable that a function without a return has its result in: the last that it assigns, or one called loss."""
    names = [
        name
        for each in statements(made.section.body.node)
        if isinstance(each, ast.Assign | ast.AugAssign)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if (name := dotted(target)) and "." not in name
    ]
    return next((name for name in reversed(names) if "loss" in name.lower()), names[-1] if names else "")


def _of_closure(failure: Failure) -> Finding:
    """A closure that an optimizer called for the loss returned None."""
    level, call = closure_given(failure) or (None, None)
    if level is None or call is None or level.body is None:
        return _unlocated(failure, "NoneType")
    name = level.body.text(call.func if isinstance(call, ast.Call) else call)
    made = conversion(failure, level, call, "none")
    function = made.function if made and made.function else name
    asked = shown(level.place, "calls the closure for the loss, and gets None.")
    result = result_in(made) if made and made.returns_none else ""
    how = ended(made, f"{function}()", result) if made and result else f"Return the loss from {function}()"
    return explanation(
        f"The closure returns None: {function}() must return the loss that its backward() ran on.",
        (shown(made.place, f"{made.does}.") if made else None, asked),
        f"{how}.",
        source=made.place if made else failure.source,
        exact=made is not None and made.sure,
    )


def _inside(lost: Lost, fields: list[tuple[str, torch.Tensor]]) -> Finding:
    """The loss is in it: of a tuple, a dict, the output of a model."""
    made, meant, body = lost.made(), _meant(fields), lost.level.body
    what = f"{lost.name} is {a_kind(lost.type)}{f' that {made.function}() returns' if made and made.function else ''}"
    title = f"{what}, but backward() must start from one tensor."
    if meant is not None:
        title = f"{what}; the loss is inside: {lost.name}{meant[0]}."
    node = made.definition.spot.node if made and made.function and made.definition else None
    taken = body.place(node) if body is not None and node is not None else None
    return explanation(
        title,
        (
            shown(made.place, f"{made.does}.") if made and not made.returns_none else None,
            if_known(taken, f"assigns all of it to {lost.name}."),
            shown(lost.level.place, _asks(lost)),
        ),
        _taken_out(lost, made, fields, meant),
        source=made.place if made and not made.returns_none else lost.failure.source,
        exact=made is None or made.sure,
    )


def _meant(fields: list[tuple[str, torch.Tensor]]) -> tuple[str, torch.Tensor] | None:
    """The field that is the loss: the one called so, the only number, or the number computed from all the others."""
    named = [each for each in fields if re.search(r"\bloss\b", each[0])]
    single = [each for each in fields if each[1].numel() == 1]
    if len(named) == 1 or len(single) == 1:
        return (named if len(named) == 1 else single)[0]
    for each in single:
        graph = structure(each[1]) if each[1].grad_fn is not None else None
        others = [other for _, other in single if other is not each[1]]
        if graph is not None and all(node_of(graph, other) is not None for other in others):
            return each
    return None


def _taken_out(
    lost: Lost, made: Conversion | None, fields: list[tuple[str, torch.Tensor]], meant: tuple[str, torch.Tensor] | None
) -> str:
    value, display = lost.value, made.call if made else None
    if made and isinstance(display, ast.Tuple) and len(display.elts) == 1 and made.place.text.endswith(","):
        new = made.place.text.rstrip(",")
        return f"Remove the trailing comma: {new}{write(made.place, new)}."
    if meant is None:
        of = ".values()" if issubclass(type(value), dict) else ""
        if all(each.numel() == 1 for _, each in fields):
            total = f"sum({lost.name}{of}).backward()"
            edit = write(at, total) if (at := _alone(lost)) is not None else ""
            return f"Add up the ones to minimize, such as {total} for all of them{edit}."
        return f"Compute one number from {lost.name}{fields[0][0]}, and call backward() on it."
    path, tensor = meant
    text = f"{simple(lost.name)}{path}"
    if tensor.numel() != 1:
        return f"Compute the loss from {text}, and call backward() on it."
    call = _instead(lost, f"{text}.backward()")
    if isinstance(display, ast.Tuple) and made and made.function and path.startswith("["):
        names = ", ".join(lost.name if f"[{k}]" == path else "_" for k in range(len(display.elts)))
        return f"Unpack it: {_unpacked(lost, made, names) or f'{names} = {made.function}(...)'}. {OR}Or {call}."
    return f"{call[0].upper()}{call[1:]}."


def _unpacked(lost: Lost, made: Conversion, names: str) -> str:
    """The statement that assigns all of a function's result, unpacking it."""
    node, body = made.definition.spot.node if made.definition is not None else None, lost.level.body
    if body is None or not isinstance(node, ast.Assign) or [*map(dotted, node.targets)] != [lost.name]:
        return ""
    new = rewritten(body, node, {node.targets[0]: names}) if isinstance(node.value, ast.Call) else ""
    return on_line(body.place(node), new)


def _not_called(lost: Lost) -> Finding:
    """A module, a function or a method stands where its result is due."""
    value = lost.value
    text = lost.name
    if is_module(value) and (built := _built(lost)) is not None:
        place, new = built
        kind = class_name(type(value))
        return explanation(
            f"{text} is {a_kind(kind)} that was constructed, and not called: its output is the loss.",
            (
                shown(place, f"constructs {a_kind(kind)} with the inputs of its forward as settings."),
                shown(lost.level.place, _asks(lost)) if place != lost.level.place else None,
            ),
            f"Construct it, and call that: {new}. Settings belong in the first parentheses.",
            source=place,
        )
    if is_module(value):
        title = f"{text} is {a_kind(class_name(type(value)))}, a module: its output is a tensor, which has backward()."
        fix = f"Call it first: loss = {text}(...), with its arguments, then loss.backward()."
    else:
        title = f"{text} is a function that was not called: it returns a tensor, which has backward()."
        fix = _calling(lost) or f"Add the parentheses where {text} is assigned, to call it."
    return explanation(title, (shown(lost.level.place, _asks(lost)),), fix, source=lost.failure.source)


def _built(lost: Lost) -> tuple[Place, str] | None:
    """The statement that constructs a module without parameters of the inputs of its forward, and what to write."""
    body, node, module = lost.level.body, lost.node, lost.value
    if body is None or not is_module(module) or next(iter(parameters_in(module)), None) is not None:
        return None
    call = only(values_of(body, node.id, lost.level.line)) if isinstance(node, ast.Name) else node
    statement = statement_at(body, call.lineno, call.col_offset) if call is not None else None
    new = called_when_built(lost.level, call)
    line = on_line_with(body, statement, {call: new}) if call is not None and new else ""
    return (body.place(statement), line) if statement is not None and line else None


def _calling(lost: Lost) -> str:
    """The only statement that assigns it, with the parentheses; empty where several do, or it assigns another thing."""
    body, statement = read_at(only(assignments(lost.level.body, lost.name, lost.level.line)))
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if body is None or statement is None or not isinstance(value, ast.Attribute | ast.Name):
        return ""
    place, new = body.place(statement), rewritten(body, statement, {value: f"{body.text(value)}()"})
    return f"Call it: {on_line(place, new)}."


def _unlocated(failure: Failure, kind: str) -> Finding:
    return unlocated(
        failure,
        f"The loss is {a_kind(kind) if kind else 'no tensor'}, but backward() needs the tensor that was computed.",
        "runs backward on it.",
        "Call backward() on the tensor that the loss function returned: .item(), float() and NumPy leave a number "
        "without a graph.",
    )
