"""`Dot`: what the compatible `make_dot` returns, with the methods of a `graphviz.Digraph` that its callers use."""

from __future__ import annotations

import os
import shutil
import subprocess
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from backsight.compat.viz_source import quoted
from backsight.drawing import Drawing

_OURS: dict[str, Callable[[Drawing], str | bytes]] = {
    "svg": Drawing.svg,
    "png": Drawing.png,
    "html": Drawing.html,
}


@dataclass(eq=False, repr=False)
class Dot:
    """A picture of a graph: `.source` in Graphviz's language, everything else drawn by backsight.

    ```python
    dot.render("loss", format="svg")        # 'loss.svg'
    dot.save("loss.gv")                     # the source, for other tools
    dot.drawing.save("loss.html")           # all that a `backsight.drawing.Drawing` can do
    ```

    `graph_attr`, `node_attr` and `format` may be changed; attributes are for the source.
    """

    body: list[str]
    drawing: Drawing
    graph_attr: dict[str, str] = field(default_factory=dict)
    node_attr: dict[str, str] = field(default_factory=dict)
    format: str = "svg"
    filename: str = "Digraph.gv"
    directory: str = ""

    @property
    def source(self) -> str:
        """The picture that torchviz makes, as text for Graphviz."""
        heads = [f"\tgraph [{_listed(self.graph_attr)}]"] if self.graph_attr else []
        heads += [f"\tnode [{_listed(self.node_attr)}]"] if self.node_attr else []
        return "\n".join(["digraph {", *heads, *self.body, "}"]) + "\n"

    def pipe(self, format: str | None = None) -> bytes:
        """Return the picture in a format: svg, png, html, the source as gv or dot, or what an installed Graphviz makes.

        Raises:
            NoRasterizer: for png, if nothing is installed that can make one.
            ValueError: for any other format, if Graphviz is not installed or does not know it.
        """
        wanted = format or self.format
        if wanted in ("gv", "dot"):
            return self.source.encode("utf-8", "backslashreplace")
        if wanted in _OURS:
            content = _OURS[wanted](self.drawing)
            return content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
        return _by_graphviz(self.source, wanted)

    def save(self, filename: str | os.PathLike[str] | None = None, directory: str | None = None) -> str:
        """Write the source, and return where."""
        path = self._path(filename, directory)
        path.write_bytes(self.pipe("gv"))
        return str(path)

    def render(
        self,
        filename: str | os.PathLike[str] | None = None,
        directory: str | None = None,
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,
        *,
        outfile: str | os.PathLike[str] | None = None,
    ) -> str:
        """Write the picture to `filename.format` and the source to `filename`, and return where the picture is.

        ```python
        dot.render("loss", format="svg", cleanup=True)      # 'loss.svg', and no file `loss`
        dot.render(outfile="loss.svg")
        ```

        Args:
            filename: where the source goes; `Digraph.gv` if not given.
            directory: the folder for both; made if it is not there.
            view: open the picture in a browser.
            cleanup: do not leave the source there.
            format: as in `pipe`; svg if not given.
            outfile: where the picture goes, whose suffix says the format; no source is written then.

        Raises:
            NoRasterizer, ValueError: as in `pipe`.
            OSError: if a file cannot be written.
        """
        if outfile is not None:
            picture, wanted = self._path(outfile, directory), format or Path(outfile).suffix.lstrip(".").lower() or None
        else:
            source, wanted = self._path(filename, directory), format or self.format
            picture = source.with_name(f"{source.name}.{wanted}")
        content = self.pipe(wanted)
        if outfile is None and not cleanup:
            source.write_bytes(self.pipe("gv"))
        picture.write_bytes(content)
        if view:
            webbrowser.open(picture.resolve().as_uri())
        return str(picture)

    def view(self, filename: str | os.PathLike[str] | None = None, directory: str | None = None) -> str:
        """Write the picture as `render` does, and open it in a browser."""
        return self.render(filename, directory, view=True)

    def _path(self, filename: str | os.PathLike[str] | None, directory: str | None) -> Path:
        folder = Path(self.directory if directory is None else directory)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (self.filename if filename is None else filename)

    def _repr_svg_(self) -> str:
        return self.drawing.svg()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.drawing.svg(), "text/plain": repr(self)}

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"<Dot: {self.drawing!r}>"


def _listed(attributes: Mapping[str, str]) -> str:
    return " ".join(f"{key}={quoted(str(value))}" for key, value in sorted(attributes.items()))


def _by_graphviz(source: str, wanted: str) -> bytes:
    program = shutil.which("dot")
    if program is None:
        raise ValueError(f"{wanted!r} needs Graphviz, which is not installed; without it: svg, png, html and gv.")
    try:
        return subprocess.run([program, f"-T{wanted}"], input=source.encode(), capture_output=True, check=True).stdout
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise ValueError(f"Graphviz did not make {wanted!r} of it: {said}") from error
