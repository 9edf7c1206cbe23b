"""Where the boxes of a picture stand, and how the lines between them run. No Graphviz, no recursion over depth."""

from backsight.drawing.layout.layered import Layered, Wire, layered
from backsight.drawing.layout.nesting import Frame, Line, Page, fitting, laid_out

__all__ = ["Frame", "Layered", "Line", "Page", "Wire", "fitting", "laid_out", "layered"]
