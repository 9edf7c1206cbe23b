"""The store: what a recording measured, in files that survive a kill and are read while they are written.

Offered to other rooms: `files`, `opening`, `tensorboard`, `unlisted`.
"""

from backsight.runs.catalogue import Tensor
from backsight.runs.derived import DERIVED
from backsight.runs.errors import (
    DamagedRun,
    NewerRun,
    NotARun,
    NotInRun,
    RunError,
    RunExists,
    RunNotFound,
    RunNotWritable,
    RunWarning,
)
from backsight.runs.journal import EVALUATION, FOUND, Event, Mark, add_event
from backsight.runs.opening import open_run, runs_begun_as, runs_in
from backsight.runs.packed import PackedHistograms
from backsight.runs.places import TRACE
from backsight.runs.rank import Damage
from backsight.runs.run import NonFinite, Run
from backsight.runs.scalars import Scalar, loss_names
from backsight.runs.schema import BINS, LOWEST_EXPONENT, STATISTICS
from backsight.runs.series import Histograms, Series
from backsight.runs.writer import RunWriter

__all__ = [
    "BINS",
    "DERIVED",
    "EVALUATION",
    "FOUND",
    "LOWEST_EXPONENT",
    "STATISTICS",
    "TRACE",
    "Damage",
    "DamagedRun",
    "Event",
    "Histograms",
    "Mark",
    "NewerRun",
    "NonFinite",
    "NotARun",
    "NotInRun",
    "PackedHistograms",
    "Run",
    "RunError",
    "RunExists",
    "RunNotFound",
    "RunNotWritable",
    "RunWarning",
    "RunWriter",
    "Scalar",
    "Series",
    "Tensor",
    "add_event",
    "loss_names",
    "open_run",
    "runs_begun_as",
    "runs_in",
]
