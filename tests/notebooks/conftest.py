"""Runs a notebook of `examples/` once for the file of tests that names it, and reads what its cells have put out."""

import os
from itertools import groupby
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PICTURES = ("image/png", "image/svg+xml")


@pytest.fixture(scope="module")
def outputs(request, tmp_path_factory):
    """All that each code cell of the file's `NOTEBOOK` has put out, by the cell's id; pictures by their kind."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    inline = "module://matplotlib_inline.backend_inline"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": inline, "PYTHONUTF8": "1"}
    notebook = nbformat.read(EXAMPLES / request.module.NOTEBOOK, as_version=4)
    # nbclient goes on without the rest of a cell's outputs if they take longer than `iopub_timeout`.
    nbclient.NotebookClient(
        notebook,
        timeout=300,
        iopub_timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": tmp_path_factory.mktemp("notebook")}},
    ).execute(env=environment)
    return {cell.id: _shown(cell) for cell in notebook.cells if cell.cell_type == "code"}


@pytest.fixture
def lacking(outputs):
    """A function that returns, by cell, the claimed texts that it does not show. Claims name every cell."""

    def lacking(claims):
        assert outputs.keys() == claims.keys()
        missing = {cell: [text for text in claims[cell] if text not in shown] for cell, shown in outputs.items()}
        return {cell: texts for cell, texts in missing.items() if texts}

    return lacking


def _shown(cell):
    parts = []
    for kind, outputs in groupby(cell.outputs, lambda output: output.output_type):
        if kind == "stream":
            # One print may come in several: the kernel sends what it has five times a second.
            outputs = list(outputs)
            assert [output.text for output in outputs if output.name == "stderr"] == []
            parts.append("".join(output.text for output in outputs))
        else:
            parts += [name if name in PICTURES else text for output in outputs for name, text in output.data.items()]
    return "\n".join(parts)
