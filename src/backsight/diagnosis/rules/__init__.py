"""The rules of an audit, each in a file of its own, in the order of their codes.

A rule is a function from a `Scene` to findings:

    @rule("BS101")
    def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]: ...
"""

from backsight.diagnosis.rules import (  # noqa: F401  # each enters itself
    advantage,
    batch_as_time,
    born,
    broadcast,
    constant_ratio,
    cut_each_turn,
    dead_term,
    drawn,
    flat,
    freed_graph,
    frozen_in_optimizer,
    frozen_zeros,
    graph_grows,
    ignored_gradient,
    leaf_without_optimizer,
    loss_argument,
    mixed_gradient,
    modified_saved,
    non_finite,
    other_noise,
    out_of_reach,
    overwritten_leaf,
    padding,
    parameter_not_reached,
    parameter_twice,
    part_of_a_name,
    saturated,
    softmax_dim,
    stale_gradient,
    thrown_away,
    undivided,
    unmoved,
    unshifted,
)
from backsight.diagnosis.rules.registry import RULES, Rule, rule

__all__ = [
    "RULES",
    "Rule",
    "rule",
]
