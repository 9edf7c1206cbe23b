"""Which code evaluates a model, by its names, and which drops values in evaluation too, by its calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from backsight.source.body import (
    SCOPES,
    Body,
    Place,
    callee,
    calls_in,
    covers,
    expressions,
    keyword,
    statement_at,
    statements,
)
from backsight.source.imports import library

_DATA = frozenset({"val", "valid", "validation", "eval", "test", "te", "dev", "holdout", "heldout"})
_FUNCTIONS = _DATA | {"validate", "evaluate", "evaluation", "testing", "accuracy", "metrics", "auc", "rmse"}
_OF = frozenset(
    {
        *("x", "y", "xs", "ys", "data", "dataset", "ds", "set", "loader", "dl", "iter", "split", "batch", "batches"),
        *("image", "images", "label", "labels", "input", "inputs", "target", "targets", "feature", "features", "feats"),
        *("tokens", "ids", "idx", "mask", "df", "loss", "acc", "accuracy", "error", "mse", "rmse", "auc", "metrics"),
    }
)
"""What goes with such a word in the name of data, or of a result: `x_val`, `test_loader`. A `next_val` is a value."""

_MEANT = frozenset(
    {
        *("mc", "montecarlo", "bayes", "bayesian", "uncertain", "uncertainty", "stochastic", "epistemic", "dropout"),
        *("bn", "adabn", "stats", "statistics", "recalibrate", "calibrate", "refresh", "adapt", "adaptation", "tta"),
        *("pseudo", "collect", "rollout", "rollouts", "explore"),
    }
)
"""Words of what is meant to run in training mode: many passes with dropout, statistics that are computed anew."""

_DROPOUTS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d"})
_MODULES = re.compile(r"^(Feature)?(Alpha)?Dropout([123]d)?$")


def evaluates(body: Body, line: int, *, trains: bool) -> bool:
    """Whether what runs at a line evaluates: the function by its name, or the block without gradients by its data.

    `trains`: whether the function trains as well, so that its name says nothing.
    """
    statement = statement_at(body, line)
    if statement is None or _is_a_call_alone(statement):
        return False  # of a model that is called for its own sake, the statistics are wanted
    name = _words(body.name)
    if name & _MEANT:
        return False
    if not trains and name & _FUNCTIONS:
        return not any(
            callee(call)[1] == "train" and not call.args
            for each in statements(body.node)
            if each.lineno < line
            for call in calls_in(each)
        )
    block = _without_gradients(body, line) or statement
    names = {_written(node) for node in ast.walk(block)}
    iterated = {_written(each.iter) for each in ast.walk(block) if isinstance(each, ast.For | ast.comprehension)}
    is_of_data = any(_words(name) & _DATA and _words(name) & _OF for name in names)
    is_data = any(_words(name) & _DATA and len(_words(name)) == 1 for name in iterated)
    return (is_of_data or is_data) and not any(_words(name) & _MEANT for name in names)


def is_named_so(body: Body) -> bool:
    """Whether the name of a function alone says that it evaluates."""
    words = _words(body.name)
    return bool(words & _FUNCTIONS) and not words & _MEANT


def is_meant(body: Body) -> bool:
    """Whether the name of a function says that it wants what training mode does."""
    return bool(_words(body.name) & _MEANT)


def always_dropping(body: Body) -> Iterator[tuple[Place, ast.Call]]:
    """Yield the calls of a function that drop values in any mode, if nothing in it asks for the mode."""
    nodes = [(statement, node) for statement in statements(body.node) for node in expressions(statement)]
    if any(isinstance(node, ast.Attribute) and node.attr == "training" for _, node in nodes):
        return
    for statement, node in nodes:
        if isinstance(node, ast.Call) and not isinstance(statement, SCOPES) and _drops(node):
            yield body.place(statement), node


def chance(call: ast.Call) -> ast.expr | None:
    """Return with which probability a call drops values, as it is written; None for the default."""
    if callee(call)[1] == "scaled_dot_product_attention":
        return keyword(call, "dropout_p")
    made = call.func if isinstance(call.func, ast.Call) else None
    given = (made.args[:1] if made is not None else call.args[1:2]) or [None]  # type: ignore[list-item]
    return keyword(made or call, "p") or given[0]


def _drops(call: ast.Call) -> bool:
    _, name = callee(call)
    if name == "scaled_dot_product_attention":
        return keyword(call, "dropout_p") is not None
    if isinstance(call.func, ast.Call):  # nn.Dropout(0.5)(x): a new module is in training mode
        return bool(_MODULES.match(callee(call.func)[1]))
    functional = not isinstance(call.func, ast.Attribute) or library(call.func)
    return name in _DROPOUTS and bool(functional) and len(call.args) < 3 and keyword(call, "training") is None


def _is_a_call_alone(statement: ast.stmt) -> bool:
    """Whether a statement drops the result of its only call: `model(x)`."""
    return isinstance(statement, ast.Expr) and len(list(calls_in(statement))) == 1


def _without_gradients(body: Body, line: int) -> ast.stmt | None:
    """Return the block around a line in which gradients are disabled."""
    for each in statements(body.node):
        if isinstance(each, ast.With) and covers(each, line):
            texts = (callee(i.context_expr)[1] for i in each.items if isinstance(i.context_expr, ast.Call))
            if any(text in ("no_grad", "inference_mode", "set_grad_enabled") for text in texts):
                return each
    return None


def _written(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _words(name: str) -> set[str]:
    """Return the words of a name in lower case: `X_val`, `valLoader`, `evaluate2`."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return {word.rstrip("0123456789") for word in spaced.lower().split("_") if word}
