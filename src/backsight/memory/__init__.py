"""Memory of a training step: measured as it runs, or forecast without running it.

Offered to other rooms: `forecast`, `page`, `size`, `table`.
"""

from backsight.memory.document import memory_of
from backsight.memory.forecast import forecast
from backsight.memory.measure import measure_memory
from backsight.memory.plan import Forecast, Variant
from backsight.memory.rehearsal import CannotForecast
from backsight.memory.timeline import StepMemory
from backsight.memory.training import NotAStep
from backsight.memory.way import Way

__all__ = [
    "CannotForecast",
    "Forecast",
    "NotAStep",
    "StepMemory",
    "Variant",
    "Way",
    "forecast",
    "measure_memory",
    "memory_of",
]
