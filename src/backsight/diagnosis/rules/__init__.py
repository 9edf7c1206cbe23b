"""The rules of an audit, those of one kind in a file.

A rule is a function from a `Scene` to findings:

    @rule("BS101")
    def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]: ...
"""

from backsight.diagnosis.rules import (  # noqa: F401  # each enters itself
    accumulated,
    bootstrapped,
    broadcast,
    constant_ratio,
    cut_off,
    dimensions,
    flat,
    frozen,
    graph,
    held,
    ignored_gradient,
    leaf_without_optimizer,
    left_gradient,
    loss_argument,
    non_finite,
    unmoved,
    wrong_target,
)
from backsight.diagnosis.scene import RULES, rule

__all__ = ["RULES", "rule"]
