"""Run an unmodified program exactly as `python` would, with an observer beside it.

Offered to other rooms: `first_steps`, `lines`, `overlay`, `recording`, `reporting`, `summary`, `tracing`, `training`,
`twice`, `voice`.
"""

from backsight.launch.observer import Observer, Together
from backsight.launch.program import run_module, run_script

__all__ = ["Observer", "Together", "run_module", "run_script"]
