"""What users can rely on, as text: names, signatures, fields, methods, and the options of the command line.

    python tests/public_surface.py

writes it to `public_surface.txt`. A test compares, so that no name goes and no argument changes unnoticed.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import backsight as bs
from backsight.cli import command_line

FILE = Path(__file__).with_suffix(".txt")

RESULTS = {
    "gradient_release": ("Evidence",),
    "memory": ("Variant", "Way"),
    "profiling": ("Profiling", "Row"),
    "runs": (
        "Damage", "DamagedRun", "Event", "Histograms", "Mark", "NewerRun", "NonFinite", "NotARun", "NotInRun",
        "RunExists", "RunNotFound", "RunNotWritable", "RunWarning", "Series", "Tensor",
    ),
    "tape": ("Edge", "Leaf", "Node", "NodeType", "Output", "Saved", "TooManyNodes"),
    "tracing": ("Backward", "Change", "Line", "NonFinite", "Operand", "Operation", "Severed", "Values", "Watch"),
    "verification": ("Checked", "Skipped", "WrongGradient"),
    "walkthrough": ("Check", "Formula", "Gradient", "Jacobian", "Row", "Step"),
}  # fmt: skip
"""What the public functions return, raise and hold, and what has no name in `backsight` itself, by room."""

DROP_IN = ("torchember", "torchid", "torchviz")

CALLED = {"explaining", "torchEmber"}
"""The classes that users call; all others are made by functions, and how they are made may change."""

BETWEEN_ROOMS = {
    "Graph": ("around", "calls", "columns", "identities", "leaf_at", "lines", "modules", "outputs", "renamed",
              "root_edges", "saved", "saved_bytes_by_node", "types"),
    "Recorder": ("abandon", "attached", "entered", "stepping"),
    "Release": ("absorb", "arrived", "averaging_by", "clipping_with", "flush", "leave_out", "name_of", "parameter_of",
                "step_averaged"),
    "Run": ("stored_graph", "stored_memory"),
    "StepMemory": ("fill",),
    "Watch": ("forget_births",),
    "torchEmber": ("entered", "idle", "left", "record", "wants_weights"),
    "emberTracker": ("begin", "lines"),
}  # fmt: skip
"""What has a public name because another file or room of backsight calls it; nothing in the docs names it."""

PROTOCOLS = (
    "__enter__", "__exit__", "__call__", "__iter__", "__len__", "__getitem__", "__contains__", "__bool__", "__array__",
)  # fmt: skip


def surface() -> str:
    """The whole of it, a name a line."""
    lines = []
    for name in sorted(bs.__all__):
        lines += _lines(f"backsight.{name}", getattr(bs, name))
    for module in ("testing", *(f"compat.{name}" for name in DROP_IN)):
        face = import_module(f"backsight.{module}")
        for name in sorted(face.__all__):
            lines += _lines(f"backsight.{module}.{name}", getattr(face, name))
    for room, names in RESULTS.items():
        for name in names:
            lines += _lines(f"backsight.{room}.{name}", getattr(import_module(f"backsight.{room}"), name))
    return "\n".join([*lines, *_commands(command_line())]) + "\n"


def _lines(path: str, thing: object) -> Iterator[str]:
    """A function is one line, a class one and one for each member; of other things the name is all."""
    if inspect.isclass(thing):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        yield f"class {path}({bases})" if bases else f"class {path}"
        yield from _members(thing)
    elif inspect.isroutine(thing):
        yield f"{path}{_signature(thing)}"
    elif inspect.ismodule(thing):
        yield f"module {path}"
    else:
        yield f"{path}: {type(thing).__name__}"


def _members(cls: type) -> Iterator[str]:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("backsight")]
    hidden = BETWEEN_ROOMS.get(cls.__name__, ())
    members = {name: member for base in reversed(ours) for name, member in vars(base).items()}
    found = {name: member for name, member in members.items() if name not in hidden}
    if cls.__name__ in CALLED:
        yield f"    {_signature(found['__init__'])}"
    annotated = {name: of for base in reversed(ours) for name, of in inspect.get_annotations(base).items()}
    fields = {name: of for name, of in annotated.items() if not (name.startswith("_") or name in hidden)}
    for name, of in sorted(fields.items()):
        yield f"    .{name}: {getattr(of, '__forward_arg__', of)}"
    for name, member in sorted(found.items()):
        if not name.startswith("_") and name not in fields:
            yield f"    .{name}{_of_member(member)}"
    supported = [name for name in PROTOCOLS if name in found]
    if supported:
        yield f"    {' '.join(supported)}"


def _of_member(member: object) -> str:
    if isinstance(member, property):
        return f": {_returned(member.fget)}"
    if hasattr(member, "func"):  # functools.cached_property
        return f": {_returned(member.func)}"
    if isinstance(member, classmethod | staticmethod):
        return f"{_signature(member.__func__)}  # {type(member).__name__}"
    return _signature(member) if inspect.isroutine(member) else ""


def _returned(function: object) -> str:
    annotation = inspect.signature(function).return_annotation  # type: ignore[arg-type]
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _signature(function: object) -> str:
    """As it is written, without `self`."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    given = [each for name, each in signature.parameters.items() if name not in ("self", "cls")]
    parameters = [each.replace(annotation=_unquoted(each.annotation)) for each in given]
    return str(signature.replace(parameters=parameters, return_annotation=_unquoted(signature.return_annotation)))


class _Written(str):
    """An annotation that is shown without quotes."""

    __repr__ = str.__str__


def _unquoted(annotation: object) -> object:
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Each command, and below it what it takes. Help texts may change freely."""
    yield parser.prog
    below = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = list(action.choices.values())
        elif not isinstance(action, argparse._HelpAction):
            yield f"    {_option(action)}"
    for command in sorted(below, key=lambda command: command.prog):
        yield from _commands(command)


def _option(action: argparse.Action) -> str:
    words = [", ".join(action.option_strings)] if action.option_strings else []
    if action.nargs != 0:
        metavar = action.metavar or ("{" + ",".join(action.choices) + "}" if action.choices else action.dest.upper())
        words.append(f"{metavar}{action.nargs}" if isinstance(action.nargs, str) else str(metavar))
    if action.default not in (None, False, argparse.SUPPRESS):
        words.append(f"= {action.default}")
    return " ".join(words)


if __name__ == "__main__":
    FILE.write_text(surface(), encoding="utf-8")
    print(f"{FILE}: {len(surface().splitlines())} lines")
