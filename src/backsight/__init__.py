"""backsight: an autograd debugger and observatory for PyTorch.

    import backsight as bs

    print(bs.graph(loss))     # the autograd graph, named, as text
    print(bs.audit(loss))     # what is wrong with this step, before backward
    bs.name(tensor).text      # what the program calls a tensor
    print(bs.graphs())        # every graph that is alive, and the variable that holds it
    bs.explain()              # the last autograd error, with variable, line and fix
    bs.record(model)          # statistics of every tensor, every step, into a folder that bs.open_run reads
    bs.release(optimizer)     # optimizer steps inside backward: gradients never exist all at once
    bs.diff(a, b)             # the first operation where two trainings diverge, from their traces (bs.trace)
    bs.measure_memory(step)   # bytes over time in a step, the peak in words; bs.forecast() before it runs

or, without touching the program: `backsight run train.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from backsight._version import __version__

if TYPE_CHECKING:
    from backsight import testing
    from backsight.diagnosis import AuditFailed, Finding, LiveGraphs, Report, audit, explain, explaining, graphs
    from backsight.gradient_release import (
        AlreadyStepped,
        CoupledOptimizer,
        GradientGone,
        NotReleasable,
        Release,
        ReleaseError,
        ReleaseWarning,
        release,
    )
    from backsight.memory import CannotForecast, Forecast, NotAStep, StepMemory, forecast, measure_memory
    from backsight.naming import Name
    from backsight.profiling import Profile, ProfilingError, profile, profile_backward
    from backsight.recording import Recorder, RecordingWarning, record
    from backsight.runs import Run, RunError, open_run, runs_in
    from backsight.snapshot import graph, name, names
    from backsight.tape import Graph, NothingToCapture, NotInGraph
    from backsight.traces import Difference, Trace, TraceError, Tracer, TraceWarning, diff, open_trace, trace
    from backsight.tracing import watch
    from backsight.verification import (
        NothingToVerify,
        Verification,
        VerificationFailed,
        surrogate,
        verify,
        verify_graph,
        verify_second_order,
    )
    from backsight.viewer import View, view
    from backsight.walkthrough import Walk, WalkError, walk

__all__ = [
    "AlreadyStepped",
    "AuditFailed",
    "CannotForecast",
    "CoupledOptimizer",
    "Difference",
    "Finding",
    "Forecast",
    "GradientGone",
    "Graph",
    "LiveGraphs",
    "Name",
    "NotAStep",
    "NotInGraph",
    "NotReleasable",
    "NothingToCapture",
    "NothingToVerify",
    "Profile",
    "ProfilingError",
    "Recorder",
    "RecordingWarning",
    "Release",
    "ReleaseError",
    "ReleaseWarning",
    "Report",
    "Run",
    "RunError",
    "StepMemory",
    "Trace",
    "TraceError",
    "TraceWarning",
    "Tracer",
    "Verification",
    "VerificationFailed",
    "View",
    "Walk",
    "WalkError",
    "__version__",
    "audit",
    "diff",
    "explain",
    "explaining",
    "forecast",
    "graph",
    "graphs",
    "measure_memory",
    "name",
    "names",
    "open_run",
    "open_trace",
    "profile",
    "profile_backward",
    "record",
    "release",
    "runs_in",
    "surrogate",
    "testing",
    "trace",
    "verify",
    "verify_graph",
    "verify_second_order",
    "view",
    "walk",
    "watch",
]

# Loaded when first used: importing backsight costs next to nothing, and `backsight run` must not import torch.
_HOME = {
    "AlreadyStepped": "gradient_release",
    "AuditFailed": "diagnosis",
    "CannotForecast": "memory",
    "CoupledOptimizer": "gradient_release",
    "Difference": "traces",
    "Finding": "diagnosis",
    "Forecast": "memory",
    "GradientGone": "gradient_release",
    "Graph": "tape",
    "LiveGraphs": "diagnosis",
    "Name": "naming",
    "NotAStep": "memory",
    "NotInGraph": "tape",
    "NotReleasable": "gradient_release",
    "NothingToCapture": "tape",
    "NothingToVerify": "verification",
    "Profile": "profiling",
    "ProfilingError": "profiling",
    "Recorder": "recording",
    "RecordingWarning": "recording",
    "Release": "gradient_release",
    "ReleaseError": "gradient_release",
    "ReleaseWarning": "gradient_release",
    "Report": "diagnosis",
    "Run": "runs",
    "RunError": "runs",
    "StepMemory": "memory",
    "Trace": "traces",
    "TraceError": "traces",
    "TraceWarning": "traces",
    "Tracer": "traces",
    "Verification": "verification",
    "VerificationFailed": "verification",
    "View": "viewer",
    "Walk": "walkthrough",
    "WalkError": "walkthrough",
    "audit": "diagnosis",
    "diff": "traces",
    "explain": "diagnosis",
    "explaining": "diagnosis",
    "forecast": "memory",
    "graph": "snapshot",
    "graphs": "diagnosis",
    "load_ipython_extension": "integrations",
    "measure_memory": "memory",
    "name": "snapshot",
    "names": "snapshot",
    "open_run": "runs",
    "open_trace": "traces",
    "profile": "profiling",
    "profile_backward": "profiling",
    "record": "recording",
    "release": "gradient_release",
    "runs_in": "runs",
    "surrogate": "verification",
    "trace": "traces",
    "unload_ipython_extension": "integrations",
    "verify": "verification",
    "verify_graph": "verification",
    "verify_second_order": "verification",
    "view": "viewer",
    "walk": "walkthrough",
    "watch": "tracing",
}


def __getattr__(attribute: str) -> Any:
    if attribute == "testing":
        return import_module("backsight.testing")
    home = _HOME.get(attribute)
    if home is None:
        raise AttributeError(f"module 'backsight' has no attribute {attribute!r}")
    value = globals()[attribute] = getattr(import_module(f"backsight.{home}"), attribute)
    return value


def __dir__() -> list[str]:
    return __all__
