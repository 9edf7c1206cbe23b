"""The viewer: runs as one sees them in a browser, in a notebook, and in one file.

Offered to other rooms: `command`.
"""

from backsight.viewer.library import Library
from backsight.viewer.notebook import View, view
from backsight.viewer.plot import plot, plot_heatmap
from backsight.viewer.report import report_page, to_report
from backsight.viewer.serving import NotInstalled, Server, serve

__all__ = [
    "Library",
    "NotInstalled",
    "Server",
    "View",
    "plot",
    "plot_heatmap",
    "report_page",
    "serve",
    "to_report",
    "view",
]
