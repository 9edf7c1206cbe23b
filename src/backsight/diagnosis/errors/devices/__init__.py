"""BS228: tensors of one operation, a generator, samples to be pinned or a state are on different devices."""

from __future__ import annotations

import ast
import re

import torch

from backsight.diagnosis.errors.devices import placed
from backsight.diagnosis.errors.devices.operands import of_operands
from backsight.diagnosis.errors.devices.owners import anew, is_known, made_as, moves, owner_of, spelled
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.errors.remedies.remedy import without_argument
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.naming.plain import class_name
from backsight.source import Place, only, parsed, read_at
from backsight.source.body import Body, callee, calls_in, is_constant, keyword, statements
from backsight.source.edits import OR, Edit, write
from backsight.source.edits import move as moved_to
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, message_of
from backsight.story.files import calls_in_files
from backsight.story.memory import is_tensor
from backsight.story.sections import methods_of
from backsight.tracing.steps import parameters

_TYPES = r"[Ii]nput type \((?P<given>\S+?)\) and (?:weight|bias) type \((?P<own>\S+?)\) should be the same"


def _is_of_devices(error: BaseException) -> bool:
    """Whether it is: two types may differ in their device, and in their dtype alone."""
    types = re.search(_TYPES, message_of(error))
    return types is None or _device(types["given"]) != _device(types["own"])


def _device(tensor_type: str) -> str:
    """`torch.cuda.` of `torch.cuda.FloatTensor`, `CUDA` of `CUDAFloatType`; empty for the CPU or a dtype alone."""
    found = re.fullmatch(r"(?:torch\.)?((?:\w+\.)*[A-Z]*?)(?:BFloat|[A-Z][a-z]+)\d*(?:Tensor|Type)", tensor_type)
    return found[1] if found else ""


@explains(
    "BS228",
    r"[Ee]xpected (?:all )?tensors to be on the same device",
    r"indices should be either on \S+ or on the same device as the indexed tensor \((?P<indexed>[\w:]+)\)",
    _TYPES,
    r"Expected a '(?P<wanted>\w+)' device type for generator but found '(?P<found>\w+)'",
    r"cannot pin '(?P<pinned>[^']+)' only dense CPU tensors can be pinned",
    r"can't convert (?P<numpy>\S+) device type tensor to numpy",
    r"Tensor on device (?P<one>[\w:]+) is not on the expected device (?P<other>[\w:]+)",
    r"tensors are not at the same device, found input tensor at",
    r"(?:[Ee]xpected|must|should|needs?)\b[^\n]*\b(?:be|are|on|in|at|have) (?:the )?same device\b",
    when=_is_of_devices,
)
def devices(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which tensor is not where the others are, the line that made it, and how to move it."""
    said = match.groupdict()
    if said.get("wanted"):
        return _of_generator(failure, str(said["wanted"]), str(said["found"]))
    if said.get("pinned"):
        return _of_loader(failure)
    if said.get("numpy"):
        return _of_numpy(failure, str(said["numpy"]))
    return _of_state(failure) or of_operands(failure, said.get("indexed"))


def _of_generator(failure: Failure, wanted: str, found: str) -> Finding:
    """Explain random numbers on one device that are to be drawn by a generator of another."""
    level = failure.user
    text, device = _generator(level) if level else ("", "")
    generator = value_of(level, parsed(text)) if level and text else None
    place = made_as(failure, text, generator) if generator is not None else None
    body, statement = read_at(place)
    call = next((each for each in calls_in(statement) if callee(each)[1] == "Generator"), None)
    here = level is not None and level.body is not None and body is not None and body.node is level.body.node
    there = spelled(failure, torch.device(wanted))
    there = device if device and here and there.startswith('"') else there
    how = "torch.Generator()" if wanted == "cpu" else f"torch.Generator(device={there})"
    written = body.text(call) if body is not None and call is not None else "it"
    edit = _with_call(body, statement, call, how) if place is not None and is_known(place, there) else ""
    fix = f"Create {f'{text} as ' if text else 'the generator as '}{how}"
    fix += f" in place of {written}{edit}." if call is not None and written != "it" else "."
    drawn = _drawn(level, found, device or there) if level else ""
    other = f' {OR}Or draw on its own device and move the result: device="{found}", then .to({device or there}){drawn}.'
    lines = (shown(place, f"creates a generator of the {_kind(found)}."),) if place else ()
    return explanation(
        f"{text or 'The generator'} is a generator of the {_kind(found)}, but the random numbers are drawn on the "
        f"{_kind(wanted)}.",
        (*lines, *failing(failure, f"draws on the {_kind(wanted)}.")),
        fix + other,
        source=place or failure.source,
        exact=place is not None,
    )


def _with_call(body: Body | None, statement: ast.stmt | None, call: ast.Call | None, new: str) -> Edit | str:
    text = rewritten(body, statement, {call: new}) if body and statement and call is not None else ""
    return write(body.place(statement), text) if body and statement and text else ""


def _drawn(level: Level, device: str, to: str) -> Edit | str:
    """The failing statement with what it draws on another device, and moved."""
    call = only(each for each in calls_in(level.statement) if keyword(each, "generator") is not None)
    if call is None or level.body is None or any(each.arg is None for each in call.keywords):
        return ""
    own = {str(each.arg): level.body.text(each.value) for each in call.keywords} | {"device": f'"{device}"'}
    given = ", ".join([*map(level.body.text, call.args), *(f"{name}={value}" for name, value in own.items())])
    return _with_call(level.body, level.statement, call, f"{level.body.text(call.func)}({given}).to({to})")


def _kind(device: str) -> str:
    return "CPU" if device == "cpu" else f"{device} device"


def _generator(level: Level) -> tuple[str, str]:
    """What the failing line calls the generator, and how it writes the device."""
    for call in calls_in(level.statement):
        given = keyword(call, "generator")
        if given is not None and level.body is not None:
            device = keyword(call, "device")
            return level.body.text(given), level.body.text(device) if device is not None else ""
    named = [n for n, value in level.variables.items() if type(value) is torch.Generator]
    return (named[0], "") if len(named) == 1 else ("", "")


def _of_loader(failure: Failure) -> Finding:
    """Explain a DataLoader that is to pin samples which are not in the memory of the CPU."""
    sample = next((v for each in reversed(failure.levels) for v in each.variables.values() if is_tensor(v)), None)
    held = (each.variables.get("self") for each in failure.levels)
    iterator = next((each for each in held if hasattr(type(each), "_next_data")), None)
    dataset = vars(iterator).get("_dataset") if iterator is not None else None
    device = str(placed.device_of(sample)) if sample is not None else "the GPU"
    kind = class_name(type(dataset)) if dataset is not None else "the data set"
    pinning = (
        body.place(statement)
        for body, statement, call in calls_in_files(failure)
        if (given := keyword(call, "pin_memory")) is not None and not is_constant(given, value=False)
    )
    own = ((body, each) for body in methods_of(type(dataset)) for each in statements(body.node))
    moving = (body.place(each) for body, each in own if any(_moves(body, call) for call in calls_in(each)))
    pins, moved = next(pinning, None), next(moving, None)
    lines = [shown(moved, f"puts the samples on {device}.", "read")] if moved else []
    lines += [shown(pins, "has the loader pin each batch, which must be in CPU memory.", "read")] if pins else []
    return explanation(
        f"The samples of {kind} are already on {device}: only tensors on the CPU can be pinned.",
        (*lines, *failing(failure, "gets a batch.")),
        f"Leave pin_memory out{_unpinned(failure)}, since nothing is left to be copied. {OR}Or keep the samples on the "
        "CPU, and move each batch in the loop: x = x.to(device, non_blocking=True).",
        source=moved or pins or failure.source,
        exact=moved is not None,
    )


def _unpinned(failure: Failure) -> Edit | str:
    """The only statement that pins, without that."""
    pins = only(each for each in calls_in_files(failure) if keyword(each[2], "pin_memory") is not None)
    return _with_call(*pins, without_argument(pins[0], pins[2], "pin_memory")) if pins is not None else ""


def _moves(body: Body, call: ast.Call) -> bool:
    """Whether a call moves a tensor, or creates one on a device."""
    name = callee(call)[1]
    if keyword(call, "device") is not None:
        return name != "Generator"
    return name == "cuda" or (name == "to" and bool(call.args) and "device" in body.text(call.args[0]).lower())


def _of_numpy(failure: Failure, device: str) -> Finding:
    """Explain a tensor of an accelerator that NumPy is to read."""
    level = failure.user
    refusal = Refusal(failure, level) if level else None
    named = ((text, each) for text, each in refusal.tensors if placed.device_of(each).type != "cpu") if refusal else ()
    text, tensor = next(iter(named), ("", None))
    called = _receiver(level) if level else ""
    text = called or text
    detach = ".detach()" if is_tensor(tensor) and tensor.requires_grad else ""
    read = f"{simple(text)}{detach}.cpu()" if text else "tensor.detach().cpu()"
    numpy = ".numpy()" if called or not text else ""
    old = f"{text}.numpy()" if called else text
    edit = anew(level, old, f"{read}{numpy}") if level is not None and text else ""
    return explanation(
        f"{text or 'A tensor'} is on {device}, and NumPy reads only the memory of the CPU.",
        failing(failure, "hands it to NumPy."),
        f"Copy it to the CPU first: {read}{numpy}{edit}.",
        source=failure.source,
        exact=bool(text),
    )


def _receiver(level: Level) -> str:
    """What `.numpy()` is called on, as the line writes it."""
    for call in calls_in(level.statement):
        receiver, method = callee(call)
        if method == "numpy" and receiver is not None and level.body is not None:
            text = level.body.text(receiver)
            return "" if "…" in text else text
    return ""


def _of_state(failure: Failure) -> Finding | None:
    """Explain a step of an optimizer whose state is not where its parameters are; None for any other failure."""
    held = (each.variables.get("self") for each in reversed(failure.levels))
    optimizer = next((each for each in held if isinstance(each, torch.optim.Optimizer)), None)
    state = vars(optimizer).get("state") if optimizer is not None else None
    if optimizer is None or not isinstance(state, dict):
        return None
    for parameter in parameters(optimizer):
        kept = dict.get(state, parameter)
        entries = list(kept.items()) if isinstance(kept, dict) else []
        away = [(name, each) for name, each in entries if is_tensor(each) and each.dim()]  # a step count may stay there
        away = [(name, each) for name, each in away if placed.device_of(each) != placed.device_of(parameter)]
        if away:
            return _told(failure, optimizer, parameter, away)
    return None


def _told(
    failure: Failure, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, away: list[tuple[str, torch.Tensor]]
) -> Finding:
    name = names_of(failure, [optimizer])[0] or "the optimizer"
    owner = owner_of(failure, parameter)
    model = owner.name if owner else "model"
    there, here = placed.device_of(away[0][1]), placed.device_of(parameter)
    loads, moved = _loads(failure), [place for place, _ in moves(failure, owner.module if owner else None)]
    pairs = [(load, move) for load in loads for move in moved if load.file == move.file and load.line < move.line]
    load, move = min(pairs, key=lambda pair: pair[1].line - pair[0].line, default=(None, None))
    load = load or (loads[-1] if len(loads) == 1 else None)
    lines = [shown(load, f"loads the state to where the parameters are then: {there}.", "read")] if load else []
    lines += [shown(move, "moves the parameters, and not the state of the optimizer.", "read")] if move else []
    device = spelled(failure, here)
    bodies = [read_at(each)[0] for each in (load, move)]
    alike = bodies[0] is not None and bodies[1] is not None and bodies[0].node is bodies[1].node
    edit = moved_to(move, "above", load) if load is not None and move is not None and alike else ""
    which = listed([each for each, _ in away], 3)
    return explanation(
        f"The state of {name} ({which}) is on {there}, but the parameters of {model} are on {here}.",
        (*lines, *failing(failure, "needs both on one device.")),
        f"Move the model first, then create the optimizer and load its state: {model}.to({device}) before "
        f"{name}.load_state_dict(...){edit}, which puts the state where the parameters are.",
        source=load or failure.source,
        exact=load is not None and move is not None,
    )


def _loads(failure: Failure) -> list[Place]:
    """The statements that load the state of what is called as an optimizer is: not the model's."""
    found = []
    for body, statement, call in calls_in_files(failure):
        receiver, method = callee(call)
        text = body.text(receiver).lower() if receiver is not None else ""
        if method == "load_state_dict" and text.rpartition(".")[2].startswith("opt"):
            found.append(body.place(statement))
    return found
