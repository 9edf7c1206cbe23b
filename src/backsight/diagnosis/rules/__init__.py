"""The rules of an audit, those of one kind in a file.

A rule is a function from a `Scene` to findings:

    @rule("BS101")
    def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]: ...
"""

from backsight.diagnosis.rules import (  # noqa: F401  # each enters itself
    accumulated,
    advantage,
    broadcast,
    constant_ratio,
    cut_each_turn,
    dead_term,
    dimensions,
    flat,
    frozen,
    graph_grows,
    ignored_gradient,
    leaf_without_optimizer,
    left_gradient,
    loss_argument,
    non_finite,
    overwritten_leaf,
    padding,
    parameter_not_reached,
    parameter_twice,
    saturated,
    saved,
    unmoved,
    wrong_target,
)
from backsight.diagnosis.scene import RULES, rule

__all__ = ["RULES", "rule"]
