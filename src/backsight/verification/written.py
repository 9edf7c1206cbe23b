"""`Written`: the source of the backward of a custom Function, as far as it can be read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from backsight.source import Body, Place
from backsight.source.body import dotted, expressions, statements
from backsight.verification.custom import body_of, place_of
from backsight.verification.definition import Definition
from backsight.verification.operation import Operation


@dataclass(frozen=True)
class Written:
    """The forward and the backward of a `torch.autograd.Function` in its source.

    `grad_output` is what its author calls the first gradient that comes in.
    """

    forward: Place | None
    backward: Place
    grad_output: str
    body: Body = field(repr=False)

    def returned(self, number: int, count: int) -> tuple[Place, ast.expr] | None:
        """Return the expression of the gradient of argument `number` of `count`, and where it stands.

        Follows names to their assignment. None where the source has several returns or assignments, or is otherwise
        not plain enough to say.
        """
        found = [s for s in statements(self.body.node) if isinstance(s, ast.Return) and s.value is not None]
        if len(found) != 1 or found[0].value is None:
            return None
        value: ast.expr = found[0].value
        statement: ast.stmt = found[0]
        if isinstance(value, ast.Tuple):
            if len(value.elts) != count or any(isinstance(each, ast.Starred) for each in value.elts):
                return None
            value = value.elts[number]
        elif count != 1:
            return None
        while isinstance(value, ast.Name):
            assigned = list(self._assignments(value.id))
            if len(assigned) != 1 or assigned[0].lineno >= statement.lineno:
                break
            statement, value = assigned[0], assigned[0].value
        return self.body.place(statement), value

    def line_of(self, number: int, count: int) -> Place:
        """Where the gradient of an argument is made: its statement, else the return, else the `def`."""
        found = self.returned(number, count)
        if found is not None:
            return found[0]
        return self.end

    def in_place(self) -> Place | None:
        """The first statement that modifies grad_output in place: by `+=`, by assigning to its entries, by `mul_`."""
        for statement in statements(self.body.node):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            written = [t.value for t in targets if isinstance(t, ast.Subscript)]
            if isinstance(statement, ast.AugAssign):
                written.append(statement.target)
            for node in expressions(statement):
                match node:
                    case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name.endswith("_"):
                        written.append(receiver)
            if any(dotted(each) == self.grad_output for each in written):
                return self.body.place(statement)
        return None

    @property
    def end(self) -> Place:
        """The only `return`, else the `def`."""
        ends = [s for s in statements(self.body.node) if isinstance(s, ast.Return)]
        return self.body.place(ends[0]) if len(ends) == 1 else self.backward

    def _assignments(self, name: str) -> Iterator[ast.Assign]:
        for statement in statements(self.body.node):
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == name for target in statement.targets
            ):
                yield statement


def written(definition: Definition | None) -> Written | None:
    """Return the source of a backward; None for PyTorch's own, and where there is none."""
    body = body_of(definition.backward) if definition else None
    if definition is None or body is None or not isinstance(body.node, ast.FunctionDef):
        return None
    arguments = [each.arg for each in (*body.node.args.posonlyargs, *body.node.args.args)]
    grad_output = arguments[1] if len(arguments) > 1 else "grad_output"
    return Written(place_of(definition.forward), body.place(body.node), grad_output, body)


def argument_number(operation: Operation, position: int) -> tuple[int, int] | None:
    """Which of the arguments the leaf at `position` is, and how many arguments a user's operation has."""
    if operation.definition is None:
        return None
    path = operation.paths()[position]
    if len(path) != 1 or not isinstance(path[0], int):
        return None
    args = {each[0] for each in operation.paths() if isinstance(each[0], int)}
    return path[0], max(len(args), len(operation.definition.parameters(0)))
