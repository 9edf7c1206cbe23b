"""Run an unmodified program exactly as ``python`` would, with an observer beside it."""

from backsight.launch.observer import Observer
from backsight.launch.program import run_module, run_script

__all__ = ["Observer", "run_module", "run_script"]
