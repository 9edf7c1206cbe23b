"""What a fix asks for is complete: the program runs with it, and so do the statements that would have failed next."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import backsight
from backsight.source.edits import edited

LEAVES = "import torch\na, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)\n"
VIEWS = "import torch\nh = torch.ones(2, 4, requires_grad=True) * 2\n"
PARTS = f"{VIEWS}a, b = h.chunk(2, dim=1)\n"

PROGRAMS = {
    "a loop on one line": (
        f"{LEAVES}(a * b).sum().backward()\nfor p in (a, b): p -= p.grad\n",
        ["with torch.no_grad():\n    for p in (a, b): p -= p.grad"],
    ),
    "two updates on one line": (
        f"{LEAVES}(a * b).sum().backward()\na -= a.grad; b -= b.grad\n",
        ["with torch.no_grad():\n    a -= a.grad; b -= b.grad"],
    ),
    "values filled in, one after the other": (
        "import torch\na = torch.zeros(4, requires_grad=True)\na[0] = 1\na[1] = 2\n",
        [
            "a = torch.zeros(4)\na[0] = 1\na[1] = 2\na.requires_grad_()",
            "with torch.no_grad():\n    a[0] = 1\n    a[1] = 2",
        ],
    ),
    "an element of a list": (
        f"{LEAVES}c = [a, b]\nc[0] *= 2\n(c[0] + c[1]).sum().backward()\n",
        ["new_c = c[0].clone()\nnew_c *= 2\n(new_c + c[1]).sum().backward()"],
    ),
    "a leaf that is written twice": (
        f"{LEAVES}def f(a):\n    a[0] += b[0]\n    a[1] += b[1]\n    return a.sum()\nf(a).backward()\n",
        ["new_a = a.clone()\n    new_a[0] += b[0]\n    new_a[1] += b[1]\n    return new_a.sum()"],
    ),
    "a leaf that has another tensor below": (
        f"{LEAVES}for _ in range(2):\n    a += b\n    a = a * 2\na.sum().backward()\n",
        ["    a = a + b\n    a = a * 2"],
    ),
    "both parts": (f"{PARTS}a.mul_(2)\nb.mul_(3)\n(a + b).sum().backward()\n", ["a = a.mul(2)\nb = b.mul(3)"]),
    "both parts in a tuple": (
        f"{VIEWS}c = h.chunk(2, dim=1)\nc[0].mul_(2)\nc[1].mul_(3)\n(c[0] + c[1]).sum().backward()\n",
        ["c = list(h.chunk(2, dim=1))\nc[0] = c[0].mul(2)\nc[1] = c[1].clone()\nc[1].mul_(3)"],
    ),
    "a function whose result is not kept": (
        f"{PARTS}torch.nn.functional.relu(a, inplace=True)\n(a + b).sum().backward()\n",
        ["a = torch.nn.functional.relu(a)"],
    ),
    "a module that says so by position": (
        f"{PARTS}act = torch.nn.ReLU(True)\nc = act(a)\n(c + b).sum().backward()\n",
        ["act = torch.nn.ReLU()\n", "c = act(a.clone())"],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_runs_with_each_alternative(name: str, tmp_path: Path) -> None:
    program, expected = PROGRAMS[name]
    file = tmp_path / "train.py"
    file.write_text(program)
    with pytest.raises(RuntimeError) as caught:
        runpy.run_path(str(file))
    found = backsight.explain(caught.value)
    assert found is not None
    after = [edited(each, {str(file): program})[str(file)] for each in found.edits]
    assert len(after) == len(expected)
    for text, part in zip(after, expected, strict=True):
        assert part in text
        file.write_text(text)
        runpy.run_path(str(file))


def test_what_is_not_known_of_the_next_error_leaves_words_alone(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"{LEAVES}def f():\n    a[0] += b[0]\n    b[0] += a[0]\n    return (a * b).sum()\nf().backward()\n")
    with pytest.raises(RuntimeError) as caught:
        runpy.run_path(str(file))
    found = backsight.explain(caught.value)
    assert found is not None
    assert "needs the same" in found.fix
    assert found.edits == ()
