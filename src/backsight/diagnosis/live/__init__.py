"""Which graphs are alive, who holds them, and whether they grow."""

from backsight.diagnosis.live.graphs import Held, LiveGraph, LiveGraphs, graphs
from backsight.diagnosis.live.leaks import Leak, Leaks
from backsight.diagnosis.live.table import Grown, Growth, growth

__all__ = ["Grown", "Growth", "Held", "Leak", "Leaks", "LiveGraph", "LiveGraphs", "graphs", "growth"]
