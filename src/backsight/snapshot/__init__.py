"""A captured graph with names: where the tape and the naming of variables meet."""

from backsight.snapshot.graph import graph
from backsight.snapshot.names import name, names
from backsight.snapshot.survey import Survey, survey

__all__ = ["Survey", "graph", "name", "names", "survey"]
