"""Ten numbers and a histogram of magnitudes for each tensor of a list, in one pass over its memory.

    from backsight.recording.statistics import measure

    measured = measure([weight, weight.grad])
    measured.rows["mean"], measured.rows["nans"], measured.histograms, measured.skipped

On the CPU a small C kernel does it (`_kernel.c`), on CUDA a Triton one (`triton_kernel.py`); where these are missing,
and on other devices, PyTorch's own operations give the same answers (`plain.py`). How a tensor of any layout becomes a
stretch of numbers is told in `source.py`.
"""

from backsight.recording.statistics.measure import measure
from backsight.recording.statistics.measured import Measured
from backsight.recording.statistics.native import imprints, readable

__all__ = ["Measured", "imprints", "measure", "readable"]
