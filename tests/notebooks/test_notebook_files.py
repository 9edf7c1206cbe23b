"""The notebooks as files: no outputs, nothing of the machine that wrote them, a diff that can be read."""

import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.rglob("*.ipynb"))

pytestmark = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def cells_of(file, kind=None):
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if kind in (None, cell["cell_type"])]


def test_the_file_has_no_outputs_and_reads_well_as_a_diff(file):
    cells, code = cells_of(file), cells_of(file, "code")
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
    assert [cell["id"] for cell in cells if cell["metadata"] or not re.fullmatch(r"[a-z][a-z0-9-]+", cell["id"])] == []
    assert len({cell["id"] for cell in cells}) == len(cells)
    text = file.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


def test_the_file_says_nothing_of_the_machine_that_wrote_it(file):
    notebook = json.loads(file.read_text(encoding="utf-8"))
    names = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert notebook["metadata"] == {"kernelspec": names, "language_info": {"name": "python"}}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)


def test_code_fits_the_width_of_a_notebook_and_links_lead_somewhere(file):
    lines = [line for cell in cells_of(file, "code") for line in "".join(cell["source"]).split("\n")]
    assert [line for line in lines if len(line) > 105] == []
    prose = "\n".join("".join(cell["source"]) for cell in cells_of(file, "markdown"))
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    assert links
    assert [link for link in links if not (EXAMPLES / link).exists()] == []


def test_the_readme_tells_of_it(file):
    assert f"examples/{file.name}" in (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
