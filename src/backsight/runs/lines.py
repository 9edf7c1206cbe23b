"""JSON with a checksum: a line for each thing that happened, or one object in a file.

The last member of every object is `"crc"`: the CRC-32 of the bytes before it, as eight hexadecimal digits. So the files
are plain JSON for every tool, and a flipped bit in a name or a number does not pass.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import json
import math
import types
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backsight.runs.members import Members, wrong

_CRC = b',"crc":"'
_DEPTH = 32  # deeper than any configuration; a list that holds itself ends here
_TREE = 128  # two for each module that is inside of another
_DEEPEST = _TREE + _DEPTH


class BadLine(ValueError):
    """These bytes are not the object that was written."""


@dataclass
class Lines:
    """The objects of a JSONL file, how many lines were skipped, and how many bytes were whole lines."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    damaged: int = 0
    torn: bool = False
    size: int = 0


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return the object as one line of ASCII that ends with its checksum and a newline; it has at least one member."""
    return sealed_json(plain(values))


def sealed_json(values: Mapping[str, Any]) -> bytes:
    """Return the object as `sealed` does, if it is nothing but JSON already: of a large one that takes a tenth as long.

    Raises:
        TypeError: if it holds something else.
        ValueError: if it holds a number that JSON does not know.
    """
    body = json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()[:-1]
    return body + _CRC + b'%08x"}\n' % zlib.crc32(body)


def opened(line: bytes) -> dict[str, Any]:
    """Return the object of a line without its checksum.

    Raises:
        BadLine: if the checksum disagrees.
    """
    body, found, tail = line.rpartition(_CRC)
    if not found or tail != b'%08x"}' % zlib.crc32(body):
        raise BadLine("the checksum of a line does not match")
    try:
        held = json.loads((body + b"}").decode("ascii"))
    except ValueError as error:
        raise BadLine(str(error)) from error
    except RecursionError:
        raise BadLine("a line is nested too deeply") from None
    if type(held) is not dict:
        raise BadLine("a line is not an object")
    if body.count(b"{") + body.count(b"[") > _DEEPEST and _is_deep(held):
        raise BadLine("a line is nested too deeply")
    return revived(held) if b"$float" in body else held


def read(data: bytes, members: Members, before: int = 0) -> Lines:
    """Return what whole lines hold; a last line without its newline is still being written, or was cut off.

    members: what each object has to hold; one that does not is damaged.
    before: how many bytes of the file come before these. An `id` counts lines, so it is less than there are bytes.
    """
    lines = Lines()
    whole, newline, rest = data.rpartition(b"\n")
    lines.torn, lines.size = bool(rest), len(whole) + len(newline)
    for line in whole.split(b"\n") if newline else []:
        try:
            held = opened(line)
        except BadLine:
            lines.damaged += 1
            continue
        if wrong(held, members) or held.get("id", 0) > before + lines.size:
            lines.damaged += 1
        else:
            lines.objects.append(held)
    return lines


@dataclass
class Alike:
    """Lines that were read before: ranks of one training define the same tensors, and share those."""

    known: dict[bytes, Lines] = field(default_factory=dict)
    room: int = 64 << 20
    """Bytes of the files that are still kept."""

    def read(self, data: bytes, members: Members) -> Lines:
        """Return what `read` does of a whole file; of equal files the very same objects, which nobody changes."""
        found = self.known.get(data)
        if found is None:
            found = read(data, members)
            if len(data) <= self.room:
                self.known[data] = found
                self.room -= len(data)
        return found


def _is_deep(held: Any) -> bool:
    """Whether something is nested deeper than a recording writes; looked at level by level, without recursion."""
    level = [held]
    for _ in range(_DEEPEST):
        inside = (each.values() if type(each) is dict else each for each in level)
        level = [each for several in inside for each in several if type(each) in (dict, list)]
        if not level:
            return False
    return True


def sealed_tree(tree: Any) -> bytes:
    """Return a tree of modules as `sealed` does, which may be deeper than what users write down."""
    return sealed_json({"tree": plain(tree, _DEPTH - _TREE)})


def plain(value: Any, depth: int = 0) -> Any:
    """Return the value as JSON can hold it; nothing of an unknown type is asked how it would like to be shown.

    Numbers of numpy become plain ones. A float that JSON does not know becomes {"$float": "nan"}.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if depth < _DEPTH and (members := _members(value, kind)) is not None:
        return {_key(key): plain(held, depth + 1) for key, held in members.items()}
    if depth < _DEPTH and (elements := _elements(value, kind)) is not None:
        return [plain(held, depth + 1) for held in elements]
    return _scalar(value, kind)


def _members(value: Any, kind: type) -> dict[Any, Any] | None:
    """Return what a dict, named tuple, namespace or dataclass holds, by name; None if it is something else."""
    if issubclass(kind, dict):
        return dict(dict.items(value))
    if issubclass(kind, tuple) and (names := getattr(kind, "_fields", None)):
        return dict(zip(names, tuple.__iter__(value), strict=False))
    if kind in (argparse.Namespace, types.SimpleNamespace):
        return dict(object.__getattribute__(value, "__dict__"))
    if dataclasses.is_dataclass(kind):
        own = {}
        for each in dataclasses.fields(kind):
            with contextlib.suppress(AttributeError):  # a field that has not been set
                own[each.name] = object.__getattribute__(value, each.name)
        return own
    return None


def _elements(value: Any, kind: type) -> list[Any] | None:
    """Return what a list, tuple or set holds, torch.Size among them; None if it is something else."""
    for listed in (list, tuple, set, frozenset):
        if issubclass(kind, listed):
            return list(listed.__iter__(value))
    return None


def revived(value: Any) -> Any:
    """Return the value with the floats that JSON does not know."""
    if type(value) is list:
        return [revived(held) for held in value]
    if type(value) is not dict:
        return value
    if value.keys() == {"$float"} and value["$float"] in ("nan", "inf", "-inf"):
        return float(value["$float"])
    return {key: revived(held) for key, held in value.items()}


def _key(key: Any) -> str:
    held = plain(key, _DEPTH)
    return held if type(held) is str else json.dumps(held)


def _scalar(value: Any, kind: type) -> Any:
    room = kind.__module__.partition(".")[0]
    if room == "numpy" and getattr(value, "ndim", 1) == 0:
        held = value.item()
        if type(held) is not kind:
            return plain(held, _DEPTH)
        if isinstance(value, np.floating):  # a longdouble is its own item
            return plain(float(value))
    if room in ("pathlib", "datetime") or (room == "torch" and kind.__name__ in ("dtype", "device")):
        return str(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__add__(value, 0)
    if issubclass(kind, float):
        return plain(float.__add__(value, 0.0))
    if issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}.{object.__getattribute__(value, '_name_')}"
    named = value if kind in (type, types.FunctionType, types.BuiltinFunctionType) else kind
    return f"<{named.__module__}.{named.__qualname__}>"
