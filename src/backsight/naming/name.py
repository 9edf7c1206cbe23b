"""A name: what a person would call an object, and where that name holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "local",  # a variable of a function that runs, is suspended, or is kept by a traceback
    "global",  # a variable of a module
    "parameter",  # a parameter of an nn.Module, by module path
    "buffer",  # a buffer of an nn.Module, by module path
    "module",  # a submodule of an nn.Module, by module path
    "gradient",  # the .grad of a tensor
    "state",  # what an optimizer remembers of a parameter
    "closure",  # a variable that a function keeps from where it was defined
    "attribute",  # an attribute of an object, a class or a function
    "item",  # an item of a dict, list, tuple, deque or array
    "hidden",  # held, but by no expression: an element of a set, a key of a dict, the inside of an iterator
    "unnamed",  # held by no variable; the text says what keeps it (made by `backsight.name`, never by a search)
]


@dataclass(frozen=True, slots=True)
class Name:
    """What to call an object.

    ```python
    Name("delta (local of train)", "delta", "train", "local").text      # 'delta (local of train)'
    ```

    `text` is for people; `path` is the Python expression within `scope` where one exists, module paths in
    `named_parameters()` style (`model.0.weight`). `scope` is a qualified function name, `@thread:NAME` added for
    another thread, or a module name. `exact` and `distance` tell a found holder (True, 0) from a guess made
    elsewhere. `file` and `line` say where the variable's frame stands now; None for modules that are not running.
    """

    text: str
    path: str
    scope: str
    kind: Kind
    exact: bool = True
    distance: int = 0
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return self.text
