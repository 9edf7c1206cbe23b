"""BS226: a branch under vmap becomes a selection, which gives the same for every sample."""

import pytest
import torch
from failures import explained

BRANCHES = {  # the function's statements, and those without a branch
    "r = x.norm()\n    if r > 1:\n        x = x / r\n    return x": (
        "r = x.norm()\n    x = torch.where(r > 1, x / r, x)\n    return x"
    ),
    "r = x.norm()\n    if not r > 1:\n        r = r * 2\n    else:\n        r = r / 2\n    return r": (
        "r = x.norm()\n    r = torch.where(~(r > 1), r * 2, r / 2)\n    return r"
    ),
    "r = x.norm()\n    if 0 < r < 1:\n        r += 1\n        x *= 2\n    return r * x": (
        "r = x.norm()\n    r = torch.where((0 < r) & (r < 1), r + 1, r)\n    "
        "x = torch.where((0 < r) & (r < 1), x * 2, x)\n    return r * x"
    ),
    "r = x.norm()\n    y = r if r > 1 else 1 / r\n    return y": (
        "r = x.norm()\n    y = torch.where(r > 1, r, 1 / r)\n    return y"
    ),
}


@pytest.mark.parametrize("body", BRANCHES)
def test_a_branch_becomes_a_selection_that_gives_the_same(body):
    finding = explained(f"def f(x):\n    {body}\ntorch.vmap(f)(torch.ones(4, 3))\n")
    lines = [line.strip() for line in BRANCHES[body].splitlines() if "torch.where" in line]
    if "r += 1" in body:  # the condition would be another after the first of the two
        assert "for each result" in finding.fix
        return
    assert all(f"`{line}`" in finding.fix for line in lines)
    names = {"torch": torch}
    exec(f"def f(x):\n    {body}\ndef g(x):\n    {BRANCHES[body]}\n", names)
    samples = torch.randn(6, 3)
    mapped = torch.vmap(names["g"])(samples)
    assert torch.allclose(mapped, torch.stack([names["f"](each.clone()) for each in samples]))
