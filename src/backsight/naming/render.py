"""From a chain of edges to the text of a name. Names may hold anything: nothing unprintable leaves this file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from . import _torch, plain
from .edges import Edge
from .name import Kind, Name
from .roots import Scope

LONGEST_KEY = 60
LONGEST_PATH = 300
LONGEST_NAME = 80
_LITERALS = (str, bytes, int, float, bool, type(None))

Step = tuple[object, Edge]  # the parent and how it holds the next
KeyName = Callable[[object], "str | None"]


def name_of(chain: Sequence[Step], scope: Scope, key_name: KeyName) -> Name:
    """The name that a chain from a root spells; the last variable on it starts the text."""
    path = ""
    kind: Kind = "global" if scope.kind == "global" else "local"
    owner: object = None
    within = False
    for parent, edge in chain:
        owner = owner if within else parent  # what lies in an object's `__dict__` is the object's
        within = edge.kind == "namespace"
        if edge.scope is not None:
            scope = edge.scope
        if edge.kind == "variable":
            path = variable(edge.key)
        else:
            path += step(edge, key_name)
        if edge.kind not in ("namespace", "call"):
            kind = _kind(owner, edge, scope, kind)
    path = shortened(path, LONGEST_PATH)
    thread = "" if scope.thread is None else f"@thread:{visible(scope.thread)}"
    label = visible(scope.label) + thread
    return Name(_text(path, scope, thread), path, label, kind, file=scope.file, line=scope.line)


def _kind(owner: object, edge: Edge, scope: Scope, before: Kind) -> Kind:
    if edge.kind == "variable":
        return scope.kind
    state = type(edge.key) is str and edge.key == "state"
    if before == "state" or (state and plain.inherits(type(owner), (_torch.Optimizer,))):
        return "state"
    if edge.kind in ("parameter", "buffer", "module", "gradient", "attribute", "item", "hidden"):
        return edge.kind
    return before


def _text(path: str, scope: Scope, thread: str) -> str:
    short = visible(scope.label.rpartition("<locals>.")[2])
    if scope.kind == "global":
        return path if scope.label in ("__main__", "__mp_main__") else f"{short}.{path}"
    return f"{path} ({scope.kind} of {short}{thread})"


def variable(name: object) -> str:
    """A variable's name; a namespace may hold keys that are none."""
    if type(name) is str and name.isidentifier():
        return name
    return f"<{key_text(name)}>"


def step(edge: Edge, key_name: KeyName = lambda key: None) -> str:
    """One edge as text: `.weight`, `[3]`, `['a']`, `.<element>`."""
    if edge.kind in ("namespace", "call"):
        return str(edge.key or "")
    if edge.kind == "item":
        return f"[{key_name(edge.key) or key_text(edge.key)}]"
    name = str(edge.key) if type(edge.key) is str else ""
    if edge.kind == "hidden":
        return f".<{visible(name)}>"
    if name.isidentifier() or (edge.kind in ("parameter", "buffer", "module") and name.isdecimal()):
        return f".{name}"
    return f"[{key_text(edge.key)}]" if edge.kind != "attribute" else f".<{key_text(edge.key)}>"


def key_text(key: object) -> str:
    """A dict key as source text where its type is a plain builtin one, else its type's name; nothing is evaluated."""
    if _is_literal(key):
        return _literal(key)
    if type(key) is tuple and len(key) <= 8 and all(map(_is_literal, key)):
        return ", ".join(map(_literal, key)) if len(key) > 1 else f"({''.join(f'{_literal(each)},' for each in key)})"
    if plain.inherits(type(key), (Enum,)):
        member = (plain.namespace(key) or {}).get("_name_")
        if type(member) is str:
            return f"{visible(plain.class_name(type(key)))}.{visible(member)}"
    return f"<{visible(plain.class_name(type(key)))}>"


def _is_literal(key: object) -> bool:
    return any(type(key) is literal for literal in _LITERALS)


def _literal(key: object) -> str:
    if isinstance(key, int) and key.bit_length() > 256:
        return "<int>"
    if isinstance(key, (str, bytes)) and len(key) > LONGEST_KEY:
        return repr(key[: LONGEST_KEY - 1]) + "…"
    return repr(key)


def visible(text: str) -> str:
    """Escapes what would move the cursor, break the line or turn the writing direction.

    >>> visible("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    return shortened("".join(char if char.isprintable() else repr(char)[1:-1] for char in text), LONGEST_NAME)


def shortened(text: str, longest: int) -> str:
    """`text`, its middle left out where it is too long."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
