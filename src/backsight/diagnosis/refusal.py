"""BS200: an error out of PyTorch that no explanation knows: its line, the expression, and the tensors that it is about.

Only what the frames hold is told, and no cause: a fix is given where PyTorch's message leaves nothing else to be wrong.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import torch

from backsight.diagnosis.births import told
from backsight.diagnosis.errors.batch_of_state import batch_of_state
from backsight.diagnosis.errors.misfits import added_to_another_shape
from backsight.diagnosis.errors.optimizer_refused import optimizer_refused
from backsight.diagnosis.errors.optimizer_state import state_refused
from backsight.diagnosis.errors.parameter_groups import names_mixed
from backsight.diagnosis.errors.released import is_own, released
from backsight.diagnosis.errors.remedies import Remedy, remedy_of
from backsight.diagnosis.errors.vmap import batch_norm_mapped
from backsight.diagnosis.evidence.custom import body_of, definition
from backsight.diagnosis.evidence.elsewhere import elsewhere
from backsight.diagnosis.evidence.gradients import Held, holder_of, made
from backsight.diagnosis.evidence.refused import Refusal, read_by
from backsight.diagnosis.evidence.singular import kept_away, may_be_infinite, singular
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import UNKNOWN, Finding
from backsight.diagnosis.wording import a_kind, described, listed, shown
from backsight.findings.evidence import Certainty, Fact, evidence_of
from backsight.naming.plain import class_name, is_class
from backsight.snapshot import survey
from backsight.source import Body, Place, assignments, calls_of, function_at, only, parsed, statements_of
from backsight.source.bindings import spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.edits import OR, Edit, put, remove, write
from backsight.source.freezing import freezing_of, freezings
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, around_engine, failure_of, method
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.modes import disabled_at
from backsight.tape import forward_class, modules_in, parameters_in, registered
from backsight.tape.rows import dtype_name
from backsight.text import as_code
from backsight.tracing import current

_LONGEST = 160
_TORCH = os.path.dirname(torch.__file__) + os.sep
_KINDS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, KeyError, AttributeError)
"""What PyTorch raises where it refuses what it is given; others, as an OSError, are about something else. A KeyError
or an AttributeError is told only if there is a remedy: mostly the name is all it says."""

_OF_TENSORS = re.compile(r"tensor|dimension", re.IGNORECASE)
_OF_PYTHON = re.compile(
    r"required (?:positional|keyword-only) argument|takes .* positional arguments? but|unexpected keyword argument|"
    r"object is not (?:callable|iterable|subscriptable)|not supported between instances|"
    r"unsupported operand(?!.*'(?:Tensor|Parameter)')|"
    r"can only concatenate|invalid literal for|could not convert string|decoding to str|is not in list"
)
"""What Python itself says where it refuses an operation, or the arguments of a function: it may name a Tensor too."""

_WANTS_GRADIENT = re.compile(r"doesn't require gradient|has requires_grad=False")


def refused(error: BaseException) -> Finding | None:
    """Say where PyTorch has refused what, in an error that no explanation knows; None for one that is not PyTorch's."""
    if not issubclass(type(error), _KINDS) or issubclass(type(error), RecursionError) or elsewhere(error) is not None:
        return None  # wherever it ends, a recursion is the program's
    failure = failure_of(error)
    found = Refusal(failure, failure.user) if failure.user else None
    if found is not None and is_own(error):
        return _own(found)
    if found is None or not _is_of_torch(found):
        return None
    if (norm := batch_norm_mapped(failure)) is not None:
        return norm
    for knows in (batch_of_state, names_mixed, optimizer_refused, state_refused, added_to_another_shape, born):
        if (finding := knows(found)) is not None:
            return finding
    saving, known = _saving(found), may_have_been_born(found) or remedy_of(found)
    if known is None and issubclass(type(error), KeyError | AttributeError):
        return None
    message = _message(failure.message)
    said = f": {message[:_LONGEST]}{'…' if len(message) > _LONGEST else ''}" if message else ""
    told_there = known.evidence if known else ()
    places = {str(place) for each in told_there if (place := evidence_of(each).place) is not None}
    plain = (each for each in _evidence(found) if str(evidence_of(each).place) not in places)
    evidence = (*plain, *told_there)
    what = f"{found.text} raised" if found.text and "…" not in found.text else "PyTorch raised"
    fix = (
        (known.fix if known else "")
        or (assigned_parameter(found) if "as parameter" in failure.message else "")
        or remedy(found)
    )
    if not fix and len(evidence) == 1 and not found.module_name:
        return None  # the line and the message, which the traceback shows
    return Finding(
        UNKNOWN,
        "error",
        (known.title if known else "") or f"{what} {type.__dict__['__name__'].__get__(type(error))}{said}",
        evidence,
        fix,
        source=str(saving) if saving else str(known.place) if known and known.place else failure.source,
        exact="read" not in {evidence_of(each).certainty for each in evidence},
    )


def _own(found: Refusal) -> Finding | None:
    """Tell an error of backsight's own; what its text says to do is left out where the fix says it."""
    fix, failure = released(found), found.failure
    evidence = tuple(_failed(found))
    if not fix and not found.module_name:
        return None  # the traceback shows all there is
    name = type.__dict__["__name__"].__get__(type(failure.error))
    what = f"{found.text} raised" if found.text and "…" not in found.text else "backsight raised"
    message = _message(failure.message)
    happened = f"{message.partition('. ')[0].rstrip('.')}." if fix else message
    return Finding(UNKNOWN, "error", f"{what} {name}: {happened}", evidence, fix, source=failure.source)


def _is_of_torch(found: Refusal) -> bool:
    """Whether PyTorch raised it: its own code did, or what it has in C below a line that works on tensors."""
    error, level = found.failure.error, found.level
    if found.below:
        return found.below[-1].frame.f_code.co_filename.startswith(_TORCH) and not _of_own_forward(found)
    of_python = issubclass(type(error), (TypeError, ValueError)) and _OF_PYTHON.search(found.failure.message)
    if isinstance(level.statement, ast.Raise | ast.Assert) or of_python:
        return False
    works = any(is_tensor(value) or is_module(value) for _, value in read_by(level, found.expression))
    if issubclass(type(error), RuntimeError):
        return works
    held = error.obj if type(error) is AttributeError else None
    if is_tensor(held) or issubclass(type(held), torch.optim.Optimizer):
        return True
    said = _OF_TENSORS.search(found.failure.message) or _saving(found)  # a Function's apply may be C
    return works and not _of_another_module(found) and bool(said)


def _of_own_forward(found: Refusal) -> bool:
    """Whether Python refused the arguments of a forward of the program's, which PyTorch only hands on."""
    forward = method(type(found.module), "forward") if found.module is not None else None
    if forward is None or forward.__code__.co_filename.startswith(_TORCH):
        return False
    return bool(_OF_PYTHON.search(found.failure.message)) and found.failure.message.startswith(
        f"{forward.__qualname__}() "
    )


def _of_another_module(found: Refusal) -> bool:
    """Whether the call that failed is one of another package's, which speaks of dimensions as well: of NumPy's."""
    call = found.expression
    node = call.func if isinstance(call, ast.Call) else None
    while isinstance(node, ast.Attribute):
        node = node.value
    root = value_of(found.level, node) if isinstance(node, ast.Name) else None
    about_tensors = re.search("tensor", found.failure.message, re.IGNORECASE)
    return type(root) is ModuleType and not about_tensors and _package(root) != "torch"


def _package(module: ModuleType) -> str:
    """The package that a module is of."""
    return str(vars(module).get("__name__", "")).partition(".")[0]


def _message(text: str) -> str:
    """The first line of a message, with the second if the first only announces it, as those of load_state_dict do."""
    first, _, rest = text.partition("\n")
    if first.rstrip().endswith(":"):
        first = f"{first} {rest.strip().partition(chr(10))[0]}"
    return " ".join("".join(each for each in first.replace("\t", " ") if each.isprintable()).split())


def _failed(found: Refusal) -> Iterator[Fact]:
    inside = found.module is not None and found.module_name and f"{found.module_name}(" not in found.text
    where = f" in {found.module_name} ({a_kind(class_name(type(found.module)))})" if inside else ""
    yield shown(found.level.place, f"failed{where}.")


def _evidence(found: Refusal) -> Iterator[Fact]:
    yield from _failed(found)
    for text, tensor in found.tensors:
        kind = _kind(tensor)
        plain = Held(found.failure, found.level, text, tensor) if dotted(parsed(text)) else None
        origin = made(plain) if plain is not None and not isinstance(tensor, torch.nn.Parameter) else None
        if origin is not None and origin.place != found.level.place:
            yield shown(origin.place, f"computes {text}: {kind}.", _certainty(found, origin.place))
        else:
            yield f"{text}: {kind}."
    if "NoneType" in found.failure.message:
        yield from _nothing(found)
    if (saving := _saving(found)) is not None:
        yield shown(saving, "saves a value that is not a tensor.")
    if found.is_custom and "type" in found.failure.message:
        yield from _autocast(found)
    if _WANTS_GRADIENT.search(found.failure.message):
        yield from _frozen(found)


def _nothing(found: Refusal) -> Iterator[Fact]:
    """The variables in the failing expression that are None, each with the statement that assigns it, if one does."""
    level, node = found.level, found.expression
    read = {each.id: None for each in ast.walk(node) if isinstance(each, ast.Name)} if node is not None else {}
    for name in (each for each in read if each in level.variables and level.variables[each] is None):
        places = assignments(level.body, name, level.line)
        yield shown(places[0], f"assigns {name}, which is None.") if len(places) == 1 else f"{name} is None."


def _saving(found: Refusal) -> Place | None:
    """The statement of a custom Function's forward that saves what no tensor is: PyTorch only looks as it returns."""
    call = found.expression if "save_for_backward" in found.failure.message else None
    cls = value_of(found.level, callee(call)[0]) if isinstance(call, ast.Call) else None
    forward = method(cls, "forward") if is_class(cls) else None
    body = function_at(forward.__code__) if forward is not None else None
    for each in statements(body):
        if any(callee(node)[1] == "save_for_backward" for node in calls_in(each)):
            return body.place(each) if body is not None else None
    return None


def _kind(tensor: torch.Tensor) -> str:
    """`float32 tensor of shape 8×4 on cuda:0, requires grad`."""
    on = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    return f"{described(tensor)}{on}, {'requires' if needs_gradient(tensor) else 'does not require'} grad"


def _autocast(found: Refusal) -> Iterator[Fact]:
    """A block of the user's files under autocast: the backward of a custom Function runs without it."""
    for body, each in statements_of(*user_files(found.failure)):
        contexts = [item.context_expr for item in each.items] if isinstance(each, ast.With) else []
        if any(isinstance(context, ast.Call) and callee(context)[1] == "autocast" for context in contexts):
            place = body.place(each)
            yield shown(place, "runs forward under autocast; backward runs without it.", _certainty(found, place))
            return


def _certainty(found: Refusal, place: Place) -> Certainty | None:
    """None for a statement that must have run: it stands before a line of the traceback, under no condition."""
    for level in (each for each in found.failure.users if each.body is not None and each.body.file == place.file):
        every = {each.node.lineno: each for each in spots(level.body.node)} if level.body else {}
        first, then = every.get(place.line), every.get(level.line)
        if first is None or then is None or first.order >= then.order:
            continue
        if all(arm in then.arms or isinstance(arm[0], ast.With | ast.For) for arm in first.arms):
            return None
    return "read"


def _frozen(found: Refusal) -> Iterator[Fact]:
    """What does not let a tensor require grad: the frozen module that computed it, and what froze that."""
    held = [value for level in found.failure.users for value in level.variables.values() if is_module(value)]
    module = next(iter(held), None)
    every = list(parameters_in(module)) if module is not None else []
    if not torch.is_grad_enabled():
        yield "Gradients are disabled here."
    elif module is not None and every and not any(needs_gradient(each) for each in every):
        name = names_of(found.failure, [module])[0] or class_name(type(module))
        freezing = (each for file in user_files(found.failure) for each in freezings(file))
        for place in freezing_of([name], freezing)[:3]:
            yield shown(place, "sets requires_grad to False.", _certainty(found, place))
        yield f"{name}: none of its {len(every)} parameters requires grad."


_REMEDIES: dict[str, str] = {
    r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False": "Ask only where there is a "
    "gradient, `if {x}.requires_grad:`. To get one, compute {x} with gradients enabled, from something that requires "
    "grad: parameters, or the input after inputs.requires_grad_().",
    r"(?:non-leaf Tensor to|cannot assign '.*' (?:object )?(?:as|to)) parameter '(?P<name>\w+)'": "To compute with a "
    "tensor in place of the parameter and keep its graph: torch.func.functional_call({module}, {{'{name}': value}}, "
    "(x,)). To overwrite only the values: `with torch.no_grad(): {module}.{name}.copy_(value)`.",
    r"get the gradient edge for a Tensor that does not require": "Ask only where there is a graph, `if "
    "{x}.requires_grad:`. To get one, compute {x} with gradients enabled, from something that requires grad.",
    r"parametrization (?P<name>\w+) does not implement right_inverse": "To assign a value, {name} needs a method "
    "right_inverse(self, value) that returns what to store, such that forward of that gives the value. Without one, "
    "write into what is stored, under torch.no_grad(): module.parametrizations.weight.original.copy_(stored).",
    r"checkpoint_sequential\(\) got multiple values": "checkpoint_sequential takes one input, and passes on what each "
    "part returns. With more, checkpoint each part: `for part in model: x = checkpoint(part, x, mask, "
    "use_reentrant=False)`.",
    r"would mutate a captured Tensor": "Compute a new tensor instead of changing one from outside the function, or "
    "pass it to the function as an argument.",
    r"save_for_backward can only save": "Store what is not a tensor as an attribute of ctx: ctx.scale = scale, and "
    "read ctx.scale in backward.",
    r"Legacy autograd function": "Make forward and backward static methods (@staticmethod, ctx as their first "
    "argument), and call TheFunction.apply(...) instead of an instance, with what they read from self as arguments.",
    r"must implement either the backward or vjp": "Define backward in the Function: a @staticmethod that takes ctx "
    "and one gradient for each output, and returns one for each argument of forward.",
    r"must override the setup_context": "Split forward(ctx, x) into forward(x), without ctx, and setup_context(ctx, "
    "inputs, output), which saves. For vmap, also set generate_vmap_rule = True in the class.",
    r"inside (?:of )?a (?:function being transformed|functorch transform)": "In a function that torch.func "
    "transforms, take gradients with torch.func: grad(f)(x) in place of requires_grad_(), backward() and "
    "torch.autograd.grad().",
    r"grad_and_value.*to return a scalar": "Return one number, such as loss.mean(); for further results, "
    "has_aux=True; for the derivative of a vector, torch.func.jacrev.",
    r"different than None at position (?P<name>\d+)": "Return None at position {name}: forward got no tensor there.",
    r"incompatible with \.grad\(\)": "Pass use_reentrant=False to checkpoint.",
    r"some parameters appear in more than one": "Put each parameter in one group only. Tied weights are one parameter.",
    r"doesn't match the size of optimizer's group": "Create the optimizer over the parameters that it had when its "
    "state was saved, in the same order, before load_state_dict().",
    r"does not support sparse gradients": "Make the embeddings with sparse=False. Or give their weights an optimizer "
    "of their own, torch.optim.SparseAdam, and leave them out of this one.",
    r"does not support complex parameters": "Train torch.view_as_real({x}), a leaf of its own, and compute with "
    "torch.view_as_complex of it; or use torch.optim.Adam, which takes complex parameters.",
    r"non-finite, so it cannot be clipped|returned nan values in its": "`backsight run --nonfinite` names the "
    "operation and the line that produced the first NaN or infinity.",
    r"missing 1 required positional argument: 'closure'": "Pass a closure: a function that zeroes the gradients, "
    "computes the loss, runs backward and returns the loss; then optimizer.step(closure).",
    r"Closure use is not currently supported": "Run backward first, then scaler.step(optimizer) without a closure. "
    "LBFGS cannot be used with a GradScaler.",
    r"DistributedDataParallel is not needed": "Use a model without trainable parameters unwrapped. If it should "
    "train, enable its gradients before wrapping.",
    r"process group has not been initialized": "Call torch.distributed.init_process_group(...) first, in each "
    "process; torchrun sets what it reads from the environment.",
    r"more than 1 value per channel when training": "In training, batch norm needs more than one value per channel: "
    "drop_last=True in the DataLoader avoids a last batch of one; for a single sample call model.eval() first.",
}
_DTYPE = re.compile(r"same dtype|expected scalar type|dtypes match|[Ii]nput type .* should be the same|Found dtype")


def remedy(found: Refusal) -> str:
    """Return what to do about an error by its message; empty where that is not clear."""
    message, tensors, module = found.failure.message, found.tensors, found.module_name
    for pattern, text in _REMEDIES.items():
        if match := re.search(pattern, message, re.DOTALL):
            first = tensors[0][0] if tensors else "x"
            return text.format(x=first, name=match.groupdict().get("name"), module=module or "module")
    if "shapes cannot be multiplied" in message:
        return _of_features(found, module)
    return _of_dtypes(found) if _DTYPE.search(message) else ""


def _of_features(found: Refusal, module: str) -> str:
    """The number of inputs that a linear layer would need."""
    tensors = found.tensors
    given = next((each for text, each in tensors if text == f"the input of {module}"), None)
    weight = next((each for text, each in tensors if text == f"{module}.weight" and each.dim() == 2), None)
    if given is None or weight is None or not given.dim() or given.shape[-1] == weight.shape[1]:
        return ""
    size = given.shape[-1]
    return (
        f"{module} takes {weight.shape[1]} features and gets {size}: make it as nn.Linear({size}, {weight.shape[0]})"
        f"{_with_features(found, tuple(weight.shape), size)}, {OR}or give it a tensor whose last dimension is "
        f"{weight.shape[1]}."
    )


def _with_features(found: Refusal, shape: tuple[int, ...], size: int) -> Edit | str:
    """The only statement that makes a linear layer of this shape in numbers, with another number of inputs."""
    linear = only(
        (body, statement, call.args[0])
        for body, statement, call in calls_of(*user_files(found.failure))
        if callee(call)[1] == "Linear" and [getattr(each, "value", None) for each in call.args[:2]] == [*shape[::-1]]
    )
    if linear is None:
        return ""
    body, statement, given = linear
    new = rewritten(body, statement, {given: str(size)})
    return write(body.place(statement), new) if new else ""


def _of_dtypes(found: Refusal) -> str:
    """Convert what was computed to the dtype of what is trained."""
    floating = [(text, each) for text, each in found.tensors if each.is_floating_point()]
    if len({each.dtype for _, each in floating}) < 2:
        return ""
    if found.is_custom:
        device = f'device_type="{floating[0][1].device.type}"'
        return (
            f"Let backward run as forward did: decorate forward with @torch.amp.custom_fwd({device}) and backward with "
            f"@torch.amp.custom_bwd({device}), each below its @staticmethod{_decorated(found, device)}."
        )
    kept = next(((text, each) for text, each in floating if isinstance(each, torch.nn.Parameter)), floating[0])
    others = [(text, each) for text, each in floating if each.dtype != kept[1].dtype]
    names, dtypes = listed([text for text, _ in others], 3), {dtype_name(each.dtype) for _, each in others}
    calls = [f"{text}.to({kept[0]}.dtype)" for text, _ in others]
    how = "" if " " in names.replace(" and ", "") else f": {listed(calls, 3)}"
    body, statement = found.level.body, found.level.statement
    if how and body is not None and statement is not None:
        new = {text: f"{as_code(text)}.to({as_code(kept[0])}.dtype)" for text, _ in others}
        read = {each: body.text(each) for each in expressions(statement)}
        line = rewritten(body, statement, {each: new[text] for each, text in read.items() if text in new})
        how += str(write(found.level.place, line)) if line and new.keys() <= {*read.values()} else ""
    verb = "which is" if len(others) == 1 else "which are"
    return f"Convert {names}, {verb} {listed(sorted(dtypes), 3)}, as {kept[0]} is {dtype_name(kept[1].dtype)}{how}."


def _decorated(found: Refusal, device: str) -> str:
    """The edits that put the decorators of autocast above the methods of a custom Function."""
    cls = forward_class(type(next(iter(found.level.variables.values()), None)))
    bodies = {name: body_of(cls, method) for name, method in (("fwd", "forward"), ("bwd", "backward"))}
    known = {name: body for name, body in bodies.items() if body is not None}
    if len(known) < len(bodies):
        return ""
    edits = (put(f"@torch.amp.custom_{name}({device})", "above", definition(body)) for name, body in known.items())
    return "".join(map(str, edits))


_MOST = 4


def assigned_parameter(found: Refusal) -> str:
    """Return how the module computes with the tensor; empty where it has no graph, or the text does not show both."""
    level, statement = found.level, found.level.statement
    if isinstance(statement, ast.Expr):
        return _set_by_name(found)
    targets = _computed(level, statement)
    if level.body is None or not isinstance(statement, ast.Assign) or not targets:
        return ""
    if any(
        level.body.text(each) == targets[0] for each in ast.walk(statement.value) if isinstance(each, ast.Attribute)
    ):
        return ""  # it is computed from the parameter, which therefore cannot go first
    owner, _, name = targets[0].rpartition(".")
    value = level.body.text(statement.value)
    copied = f"{targets[0]}.copy_({value})"
    if disabled_at(level.body, statement.lineno) is None:
        copied = f"with torch.no_grad(): {copied}"
    overwrite = (
        f"{OR}To overwrite only the values, write `{copied}` on line {statement.lineno}{write(level.place, copied)}."
    )
    if any(each.function.rpartition(".")[2] == "__init__" for each in found.failure.users):
        own = all(use.name.startswith("self") for use in uses(statement.value) if not use.binds)
        called = _call_of(found, owner, name, value) if own else ""
        if called:
            alone = len(level.body.node.body) == 1
            gone = f"write `pass` on line {statement.lineno}" if alone else f"remove line {statement.lineno}"
            gone += str(write(level.place, "pass") if alone else remove(level.place))
            return f"Compute it in each forward: {gone}, and {called}. {overwrite}"
        return ""
    also = [each for each in statements(level.body.node) if each.lineno > statement.lineno and _computed(level, each)]
    lines = [str(each.lineno) for each in also]
    every: list[tuple[ast.stmt, str]] = [(statement, targets[0])]
    every += [(each, _computed(level, each)[0]) for each in also]
    deleted = "".join(str(put(f"del {name}", "above", level.body.place(each))) for each, name in every)
    alike = "; ".join(f"`del {_computed(level, each)[0]}` above line {each.lineno}" for each in also[:_MOST])
    more = f"; and so for lines {listed(lines[_MOST:])}" if len(lines) > _MOST else ""
    if also:
        overwrite = f"{OR}To overwrite only the values: `{copied}`, and so on."
    return (
        f"Remove the parameter first, so that {owner} computes with the tensor and its graph: put `del {targets[0]}` "
        f"above line {statement.lineno}{f'; {alike}' if alike else ''}{more}{deleted}. {overwrite}"
    )


def _set_by_name(found: Refusal) -> str:
    """What to do where `setattr(module, name, value)` gives a module a tensor with a graph for its parameter."""
    inside = found.below[-1].variables if found.below else {}
    module, name, value = (inside.get(each) for each in ("self", "name", "value"))
    parameter = registered(module, "_parameters").get(name) if is_module(module) and isinstance(name, str) else None
    holder = holder_of(found.failure, parameter) if is_tensor(parameter) else None
    if holder is None or not is_tensor(value) or not needs_gradient(value):
        return ""
    if method(type(holder.module), "forward") is method(torch.nn.Module, "forward"):
        return ""  # a list of modules cannot be called
    model = as_code(holder.name)
    return (
        f"{model}.{as_code(holder.parameter)} is a registered parameter, and what is assigned to it has a graph, which "
        f"nn.Parameter(value) would cut off. Leave {model} as it is, collect the values of all parameters that are "
        f"replaced, `values['{holder.parameter}'] = ...`, and call torch.func.functional_call({model}, values, (x,)) "
        f"in place of {model}(x)."
    )


def _computed(level: Level, statement: ast.stmt | None) -> list[str]:
    """The parameter that a statement assigns a tensor with a graph to, which is no parameter."""
    if not isinstance(statement, ast.Assign):
        return []
    value = value_of(level, statement.value)
    known = is_tensor(value) and (not needs_gradient(value) or isinstance(value, torch.nn.Parameter))
    targets = [each for each in statement.targets if isinstance(each, ast.Attribute) and level.body is not None]
    held = [each for each in targets if isinstance(value_of(level, each), torch.nn.Parameter) and not known]
    return [level.body.text(each) for each in held if level.body is not None]


def _call_of(found: Refusal, owner: str, name: str, value: str) -> str:
    """The only statement that calls a module, or one that has it, with the tensor in place of its parameter."""
    calls: list[tuple[Body, ast.stmt, ast.Call, str]] = [
        (body, each, call, path)
        for body, each, call in calls_of(*user_files(found.failure))
        if not call.keywords and (path := _path_to(found.level, owner, call.func, body)) is not None
    ]
    if len(calls) != 1:
        return ""
    body, statement, call, path = calls[0]
    given = "".join(f"{body.text(each)}, " for each in call.args).rstrip(" ")
    key = f"{path}.{name}".lstrip(".")
    model = body.text(call.func)
    new = rewritten(body, statement, {call: f"torch.func.functional_call({model}, {{'{key}': {value}}}, ({given}))"})
    return f"on line {statement.lineno} write `{new}`{write(body.place(statement), new)}" if new else ""


def _path_to(level: Level, owner: str, called: ast.expr, body: Body) -> str | None:
    """Where in a module that is called another is, `0` of `self.decoder` for `self.decoder[0]`; None if it is not."""
    text = body.text(called)
    if text == owner:
        return ""
    if text == "self" or not owner.startswith((f"{text}.", f"{text}[")):
        return None
    inner, outer = (value_of(level, node) for node in (parsed(owner), called))
    every = modules_in(outer) if is_module(outer) and is_module(inner) else ()
    return next((path for path, each in every if each is inner), None)


_MESSAGE = re.compile(r"Function '(?P<name>\w+?)(?:Backward)?\d*' returned nan values in its")


def born(found: Refusal) -> Finding | None:
    """Return the origin of the NaN at which anomaly mode stopped, if a watch has seen it."""
    match, watch = _MESSAGE.search(found.failure.message), current()
    origin = told(watch.nonfinite, watch.lost) if match and watch is not None else None
    if match is None or origin is None:
        return None
    stopped = shown(found.level.place, f"is where anomaly mode stopped, at the gradient of {match['name'].lower()}.")
    return replace(origin, evidence=(*origin.evidence, stopped))


def may_have_been_born(found: Refusal) -> Remedy | None:
    """Return the operations of the loss whose gradient may be infinite: infinity times 0 is NaN."""
    roots = tuple(each for each in around_engine(found.failure).roots if isinstance(each, torch.Tensor))
    if not _MESSAGE.search(found.failure.message) or not roots:
        return None
    every = singular(survey(roots, frames=found.failure.frames).graph)
    if not every:
        return None
    sure = "To be sure, run" if len(every) == 1 else "Run"
    return Remedy(
        f"{kept_away(every)}{sure} it with `backsight run --nonfinite`: it names the line that produces the first NaN.",
        tuple(shown(each.place, may_be_infinite(each)) for each in every),
        every[0].place if len(every) == 1 else None,
    )
