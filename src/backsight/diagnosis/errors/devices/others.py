"""What else is on the wrong device: a generator of random numbers, samples to be pinned, what NumPy is to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.devices import placed
from backsight.diagnosis.errors.devices.owners import spelled
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.naming.plain import class_name
from backsight.source import Place, assignments, statement_at
from backsight.source.body import Body, body_around, callee, calls_in, functions, is_constant, keyword, statements
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.memory import is_tensor
from backsight.story.sections import methods_of


def of_generator(failure: Failure, wanted: str, found: str) -> Finding:
    """Explain random numbers on one device that are to be drawn by a generator of another."""
    level = failure.user
    text, device = _generator(level) if level else ("", "")
    place = _made(failure, text) if text else None
    body = body_around(place.file, place.line) if place else None
    statement = statement_at(body, *place.position) if place else None
    call = next((each for each in calls_in(statement) if callee(each)[1] == "Generator"), None)
    here = level is not None and level.body is not None and body is not None and body.node is level.body.node
    there = spelled(failure, torch.device(wanted))
    there = device if device and here and there.startswith('"') else there
    how = "torch.Generator()" if wanted == "cpu" else f"torch.Generator(device={there})"
    written = body.text(call) if body is not None and call is not None else "it"
    fix = f"Create {f'{text} as ' if text else 'the generator as '}{how}"
    fix += f" in place of {written}." if call is not None and written != "it" else "."
    other = f' Or draw on its own device and move the result: device="{found}", then .to({device or there}).'
    lines = (shown(place, f"creates a generator of the {_kind(found)}."),) if place else ()
    return explanation(
        f"{text or 'The generator'} is a generator of the {_kind(found)}, but the random numbers are drawn on the "
        f"{_kind(wanted)}.",
        (*lines, *failing(failure, f"draws on the {_kind(wanted)}.")),
        fix + other,
        source=str(place) if place else failure.source,
        exact=place is not None,
    )


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


def _made(failure: Failure, text: str) -> Place | None:
    """Where a name or an attribute got its value."""
    for level in failure.users:
        if places := assignments(level.body, text, before=level.line):
            return places[-1]
        owner, _, attribute = text.rpartition(".")
        held = level.value(owner) if owner else None
        for body in methods_of(type(held)) if held is not None else ():
            if places := assignments(body, f"self.{attribute}"):
                return places[-1]
    outer = body_around(failure.user.frame.f_code.co_filename, 1) if failure.user else None
    places = assignments(outer, text) if outer else ()
    return places[-1] if places else None


def of_loader(failure: Failure) -> Finding:
    """Explain a DataLoader that is to pin samples which are not in the memory of the CPU."""
    sample = next((v for each in reversed(failure.levels) for v in each.variables.values() if is_tensor(v)), None)
    iterator = next(
        (s for each in failure.levels if hasattr(type(s := each.variables.get("self")), "_next_data")), None
    )
    dataset = vars(iterator).get("_dataset") if iterator is not None else None
    device = str(placed.device_of(sample)) if sample is not None else "the GPU"
    kind = class_name(type(dataset)) if dataset is not None else "the data set"
    pins = next(_pinning(failure), None)
    moved = next(_moving(dataset), None) if dataset is not None else None
    lines = [shown(moved, f"puts the samples on {device}.", "read")] if moved else []
    lines += [shown(pins, "has the loader pin each batch, which must be in CPU memory.", "read")] if pins else []
    return explanation(
        f"The samples of {kind} are already on {device}: only tensors on the CPU can be pinned.",
        (*lines, *failing(failure, "gets a batch.")),
        "Leave pin_memory out, since nothing is left to be copied. Or keep the samples on the CPU, and move each batch "
        "in the loop: x = x.to(device, non_blocking=True).",
        source=str(moved or pins) if moved or pins else failure.source,
        exact=moved is not None,
    )


def _pinning(failure: Failure) -> Iterator[Place]:
    for body in (each for file in user_files(failure) for each in functions(file)):
        for statement in statements(body.node):
            for call in calls_in(statement):
                given = keyword(call, "pin_memory")
                if given is not None and not is_constant(given, value=False):
                    yield body.place(statement)


def _moving(dataset: object) -> Iterator[Place]:
    """The statements of a data set's own methods that move a tensor, or create one on a device."""
    for body in methods_of(type(dataset)):
        for statement in statements(body.node):
            if any(_moves(body, call) for call in calls_in(statement)):
                yield body.place(statement)


def _moves(body: Body, call: ast.Call) -> bool:
    name = callee(call)[1]
    if keyword(call, "device") is not None:
        return name != "Generator"
    return name == "cuda" or (name == "to" and bool(call.args) and "device" in body.text(call.args[0]).lower())


def of_numpy(failure: Failure, device: str) -> Finding:
    """Explain a tensor of an accelerator that NumPy is to read."""
    level = failure.user
    refusal = Refusal(failure, level) if level else None
    named = [(text, each) for text, each in refusal.tensors if placed.device_of(each).type != "cpu"] if refusal else []
    text, tensor = named[0] if named else ("", None)
    called = _receiver(level) if level else ""
    text = called or text
    detach = ".detach()" if is_tensor(tensor) and tensor.requires_grad else ""
    read = f"{simple(text)}{detach}.cpu()" if text else "tensor.detach().cpu()"
    numpy = ".numpy()" if called or not text else ""
    return explanation(
        f"{text or 'A tensor'} is on {device}, and NumPy reads only the memory of the CPU.",
        failing(failure, "hands it to NumPy."),
        f"Copy it to the CPU first: {read}{numpy}.",
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
