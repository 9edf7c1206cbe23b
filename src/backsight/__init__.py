"""backsight: an autograd debugger and observatory for PyTorch.

    import backsight as bs

    print(bs.graph(loss))     # the autograd graph, named, as text
    print(bs.audit(loss))     # what is wrong with this step, before backward
    bs.name(tensor).text      # what the program calls a tensor
    bs.explain()              # the last autograd error, with variable, line and cure
    bs.record(model)          # statistics of every tensor, every step, into a folder that bs.open_run reads

or, without touching the program: `backsight run train.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from backsight._version import __version__

if TYPE_CHECKING:
    from backsight.diagnosis import AuditFailed, Finding, Report, audit, explain, explaining
    from backsight.naming import Name
    from backsight.recording import Recorder, RecordingWarning, record
    from backsight.runs import Run, RunError, open_run, runs_in
    from backsight.snapshot import graph, name, names
    from backsight.tape import Graph, NothingToCapture, NotInGraph
    from backsight.tracing import watch
    from backsight.walkthrough import Walk, WalkError, walk

__all__ = [
    "AuditFailed",
    "Finding",
    "Graph",
    "Name",
    "NotInGraph",
    "NothingToCapture",
    "Recorder",
    "RecordingWarning",
    "Report",
    "Run",
    "RunError",
    "Walk",
    "WalkError",
    "__version__",
    "audit",
    "explain",
    "explaining",
    "graph",
    "name",
    "names",
    "open_run",
    "record",
    "runs_in",
    "walk",
    "watch",
]

# Loaded when first used: importing backsight costs next to nothing, and `backsight run` must not import torch.
_HOME = {
    "AuditFailed": "diagnosis",
    "Finding": "diagnosis",
    "Graph": "tape",
    "Name": "naming",
    "NotInGraph": "tape",
    "NothingToCapture": "tape",
    "Recorder": "recording",
    "RecordingWarning": "recording",
    "Report": "diagnosis",
    "Run": "runs",
    "RunError": "runs",
    "Walk": "walkthrough",
    "WalkError": "walkthrough",
    "audit": "diagnosis",
    "explain": "diagnosis",
    "explaining": "diagnosis",
    "graph": "snapshot",
    "name": "snapshot",
    "names": "snapshot",
    "open_run": "runs",
    "record": "recording",
    "runs_in": "runs",
    "walk": "walkthrough",
    "watch": "tracing",
}


def __getattr__(attribute: str) -> Any:
    home = _HOME.get(attribute)
    if home is None:
        raise AttributeError(f"module 'backsight' has no attribute {attribute!r}")
    value = globals()[attribute] = getattr(import_module(f"backsight.{home}"), attribute)
    return value


def __dir__() -> list[str]:
    return __all__
