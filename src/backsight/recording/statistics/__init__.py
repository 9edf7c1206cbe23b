"""Ten numbers and a histogram of magnitudes for each tensor of a list, in one pass over its memory.

    from backsight.recording.statistics import measure

    measured = measure([weight, weight.grad])
    measured.rows["mean"], measured.rows["nans"], measured.histograms, measured.skipped

On the CPU a small C kernel does it (`_kernel.c`), on CUDA those of Triton (`triton_kernel.py`); where these are
missing, and on other devices, PyTorch's own operations give the same answers (`plain.py`). Tensors of a device that
come one after the other are measured on a `Desk`. How a tensor of any layout becomes a stretch of numbers is told in
`source.py`.
"""

from backsight.recording.statistics.desk import Desk, desk_for
from backsight.recording.statistics.measure import measure
from backsight.recording.statistics.measured import Measured
from backsight.recording.statistics.native import imprints, readable

__all__ = ["Desk", "Measured", "desk_for", "imprints", "measure", "readable"]
