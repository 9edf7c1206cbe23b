"""The rules of an audit, each in a file of its own, in the order of their codes.

A rule is a function from a `Scene` to findings:

    @rule("BS101")
    def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]: ...
"""

from backsight.diagnosis.rules import (
    born,
    broadcast,
    dead_term,
    freed_graph,
    frozen_in_optimizer,
    graph_grows,
    leaf_without_optimizer,
    modified_saved,
    non_finite,
    overwritten_leaf,
    parameter_not_reached,
    parameter_twice,
    squashed_twice,
    stale_gradient,
    unmoved,
)
from backsight.diagnosis.rules.registry import RULES, Rule, rule

__all__ = [
    "RULES",
    "Rule",
    "born",
    "broadcast",
    "dead_term",
    "freed_graph",
    "frozen_in_optimizer",
    "graph_grows",
    "leaf_without_optimizer",
    "modified_saved",
    "non_finite",
    "overwritten_leaf",
    "parameter_not_reached",
    "parameter_twice",
    "rule",
    "squashed_twice",
    "stale_gradient",
    "unmoved",
]
