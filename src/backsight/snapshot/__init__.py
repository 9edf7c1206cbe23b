"""A captured graph with names: where the tape and the naming of variables meet."""

from backsight.snapshot._torch import groups, stepping
from backsight.snapshot.graph import graph
from backsight.snapshot.names import name, names
from backsight.snapshot.survey import Optimizers, Survey, optimizers_by_name, owned, survey

__all__ = [
    "Optimizers",
    "Survey",
    "graph",
    "groups",
    "name",
    "names",
    "optimizers_by_name",
    "owned",
    "stepping",
    "survey",
]
