"""A weight that a parametrization computes: `layer.weight` of `orthogonal(layer)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from backsight.source import Body, Place, only
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure
from backsight.story.files import user_files

_ORIGINAL = re.compile(r"(?P<owner>.+)\.parametrizations\.(?P<attribute>\w+)\.original\d*")


@dataclass(frozen=True, eq=False)
class Parametrized:
    """The module, the attribute that is computed, and the leaves that it is computed from.

    owner: what the program calls the module, `net.rec`.
    """

    failure: Failure
    owner: str
    attribute: str
    leaves: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.attribute}"

    @cached_property
    def read(self) -> tuple[Body, ast.stmt, ast.expr] | None:
        """The only statement of the program that reads the attribute of a module by this name."""
        return only(
            (body, each, node)
            for body, each in self._statements()
            for node in expressions(each)
            if isinstance(node, ast.Attribute) and (dotted(node) or "").endswith(self._tail)
        )

    @cached_property
    def applied(self) -> tuple[Place, str] | None:
        """Where it was parametrized, and by what: `self.rec = orthogonal(...)`."""
        module = self.owner.rpartition(".")[2]
        found = []
        for body, each in self._statements():
            for call in calls_in(each):
                name, first = callee(call)[1], (dotted(call.args[0]) if call.args else None) or ""
                targets = [dotted(one) or "" for one in each.targets] if isinstance(each, ast.Assign) else [first]
                fits = any(one.rpartition(".")[2] == module for one in (*targets, first))
                if fits and name in _APPLYING:
                    found.append((body.place(each), name))
        return only(found)

    @property
    def fix(self) -> str:
        """The statement that reads it with the leaf instead; empty where there is none, or several leaves."""
        if self.read is None or len(self.leaves) != 1:
            return ""
        body, statement, node = self.read
        leaf = self.leaves[0][len(self.owner) :]
        line = rewritten(body, statement, {node: f"{(dotted(node) or '').removesuffix(f'.{self.attribute}')}{leaf}"})
        return f"On line {statement.lineno}, write `{line}`" if line else ""

    @property
    def _tail(self) -> str:
        return f".{self.owner.rpartition('.')[2]}.{self.attribute}" if "." in self.owner else self.name

    def _statements(self) -> Iterator[tuple[Body, ast.stmt]]:
        """The statements of the program, without those that the failing functions had still to run."""
        ends = {level.body.node: level.line for level in self.failure.users if level.body is not None}
        for body in (body for file in user_files(self.failure) for body in functions(file)):
            last = ends.get(body.node)
            yield from ((body, each) for each in statements(body.node) if last is None or each.lineno <= last)


_APPLYING = frozenset({"orthogonal", "weight_norm", "spectral_norm", "register_parametrization"})


def parametrized(failure: Failure, leaves: Sequence[str]) -> Parametrized | None:
    """Return the weight that is computed from these leaves alone, by a parametrization."""
    found = [_ORIGINAL.fullmatch(each) for each in leaves]
    owners = {(each["owner"], each["attribute"]) for each in found if each is not None}
    if not found or None in found or len(owners) != 1:
        return None
    return Parametrized(failure, *owners.pop(), tuple(leaves))
