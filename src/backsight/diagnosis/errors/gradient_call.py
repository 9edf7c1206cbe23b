"""A call of `torch.autograd.grad` in a statement of the program, and the same of other inputs or with a flag."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from backsight.source import Body, Place, only
from backsight.source.body import calls_in, expressions, is_constant, keyword
from backsight.source.edits import Edit, instead
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import rewritten, with_flag
from backsight.story.failure import Level

POSITIONS = 3
"""Arguments before `retain_graph`, the last of them `grad_outputs`."""


@dataclass(frozen=True, eq=False)
class GradientCall:
    """The call, and the statement and the function that it stands in."""

    body: Body
    statement: ast.stmt
    node: ast.Call

    @property
    def place(self) -> Place:
        return self.body.place(self.statement)

    @property
    def output(self) -> ast.expr | None:
        """What is differentiated, where it is given by position."""
        return self.node.args[0] if self.node.args else None

    @property
    def outputs(self) -> ast.expr | None:
        """What is differentiated."""
        return self.output or keyword(self.node, "outputs")

    @property
    def weights(self) -> ast.expr | None:
        """What it gives as `grad_outputs`."""
        return self.node.args[2] if len(self.node.args) >= POSITIONS else keyword(self.node, "grad_outputs")

    @property
    def inputs(self) -> ast.expr | None:
        """What the gradient is asked for of."""
        return self.node.args[1] if len(self.node.args) > 1 else keyword(self.node, "inputs")

    @property
    def input(self) -> ast.expr | None:
        """The one tensor that this is; None of several."""
        asked = self.inputs
        return only(asked.elts) if isinstance(asked, ast.Tuple | ast.List) else asked

    @property
    def taken(self) -> ast.Subscript | None:
        """The entry that the statement takes of the result, `grad(...)[0]`."""
        every = (each for each in expressions(self.statement) if isinstance(each, ast.Subscript))
        return next((each for each in every if each.value is self.node), None)

    @property
    def is_weighted(self) -> bool:
        """Whether it gives `grad_outputs`."""
        return keyword(self.node, "grad_outputs") is not None or len(self.node.args) == POSITIONS

    @property
    def is_silent(self) -> bool:
        """Whether it leaves open what becomes of the graph."""
        return len(self.node.args) <= POSITIONS and keyword(self.node, "retain_graph", "create_graph") is None

    @property
    def frees(self) -> bool:
        """Whether it frees the graph, as far as its text shows."""
        kept = (keyword(self.node, name) for name in ("retain_graph", "create_graph"))
        freed = all(each is None or is_constant(each, False) for each in kept)
        return len(self.node.args) <= POSITIONS and freed

    def rewritten(self, changes: Mapping[ast.expr, str]) -> str:
        return rewritten(self.body, self.statement, changes)

    def of_inputs(self, text: str) -> str:
        """The statement, asking for the gradient of something else; empty where it does not show what it asks for."""
        return self.rewritten({self.inputs: text}) if self.inputs is not None else ""

    def of(self, base: ast.expr) -> str:
        """The call of another tensor than its one."""
        return ast.unparse(copy.deepcopy(self.node, {id(self.input): base}))

    def result(self, text: str) -> dict[ast.expr, str]:
        """What to write so that the one gradient which it returns is this."""
        return {self.taken: text} if self.taken is not None else {self.node: f"({text},)"}

    def flagged(self, flag: str) -> str:
        """The statement with a flag set in the call; empty where that would be too long to read."""
        return with_flag(self.body, self.statement, self.node, flag)

    def flagging(self, flag: str) -> Edit | str:
        """The edit that sets a flag."""
        new = self.flagged(flag)
        return instead(self.body, self.statement, new) if new else ""


def gradient_calls(body: Body | None, statement: ast.stmt | None) -> Iterator[GradientCall]:
    """Yield the calls in a statement of a function."""
    for call in calls_in(statement):
        if body is not None and statement is not None and is_gradient_call(call):
            yield GradientCall(body, statement, call)


def gradient_call(level: Level | None) -> GradientCall | None:
    """Return the first call in the statement at which a level is."""
    return next(gradient_calls(level.body, level.statement), None) if level is not None else None
