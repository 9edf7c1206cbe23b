"""What the source text around a line tells. Nothing is imported, evaluated or run, and torch is not needed.

Offered to other rooms: `ancestry`, `averaging`, `bindings`, `body`, `callables`, `cells`, `changes`, `choices`,
`coroutines`, `cut_rules`, `definitions`, `edits`, `evaluations`, `exits`, `freezing`, `guards`, `imports`, `keeping`,
`leaf_last`, `out_of_place`, `restoring`, `rewriting`, `swapped`.
"""

from backsight.source.bindings import assignments, rebinding
from backsight.source.body import Body, Place, calls_of, function_at, only, parsed, read_at, statement_at, statements_of
from backsight.source.calls import backward_calls, backward_roots, receiver_of_backward, scaled_receiver
from backsight.source.changes import inplace_changes
from backsight.source.cuts import Carried, Cut, carried, cuts, lets_through, may_have_history
from backsight.source.loops import LoopFacts, loop_facts

__all__ = [
    "Body",
    "Carried",
    "Cut",
    "LoopFacts",
    "Place",
    "assignments",
    "backward_calls",
    "backward_roots",
    "calls_of",
    "carried",
    "cuts",
    "function_at",
    "inplace_changes",
    "lets_through",
    "loop_facts",
    "may_have_history",
    "only",
    "parsed",
    "read_at",
    "rebinding",
    "receiver_of_backward",
    "scaled_receiver",
    "statement_at",
    "statements_of",
]
