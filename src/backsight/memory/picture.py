"""`Picture`: a figure of matplotlib that shows itself at the end of a notebook's cell, whatever its backend."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure outside of pyplot, which neither keeps it nor shows it a second time.

    The inline backend shows figures only once pyplot has made one.
    """

    def _repr_png_(self) -> bytes:
        written = BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()
