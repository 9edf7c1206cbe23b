"""What a fix does to a program whose statements stand where few do: beside others, within one, over several lines."""

from __future__ import annotations

import pytest
import torch
from columns import needs_columns
from failures import FILE, explained, written

from backsight.source.edits import edited

SCALED = """
    model = torch.nn.Linear(3, 1)
    x = torch.ones(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
"""
RELEASED = """
    import backsight as bs
    model = torch.nn.Linear(20, 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    held = bs.release(optimizer, bucket=0)
"""
PROGRAMS = {
    "a continue beside its condition": (
        f"""{SCALED}
    for k in range(3):
        optimizer.zero_grad()
        scaler.scale(model(x).sum()).backward()
        scaler.unscale_(optimizer)
        if k == 0: continue
        scaler.step(optimizer)
        scaler.update()
""",
        "if k == 0: scaler.update(); continue",
    ),
    "all of a block that moves": (
        f"""{SCALED}
    scaler.scale(model(x).sum()).backward()
    if len(x):
        optimizer.zero_grad()
    scaler.step(optimizer)
    scaler.update()
""",
        "if len(x):\n    pass",
    ),
    "a step beside what follows": (
        f"""{SCALED}
    scaler.scale(model(x).sum()).backward()
    optimizer.step(); optimizer.zero_grad()
    scaler.update()
""",
        "scaler.step(optimizer); optimizer.zero_grad()",
    ),
    "a return beside its condition": (
        """
    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            if ctx.k: return g * ctx.k
            return None, None

    Op.apply(torch.ones(2, requires_grad=True), 2).sum().backward()
""",
        "if ctx.k: return g * ctx.k, None",
    ),
    "a list beside a dict": (
        """
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = [torch.nn.Linear(2, 2)], {}

    net = Net()
    torch.optim.SGD(net.parameters(), lr=0.1)
""",
        "self.a, self.b = torch.nn.ModuleList([torch.nn.Linear(2, 2)]), {}",
    ),
    "a call over two lines": (
        """
    params = []
    optimizer = torch.optim.SGD(
        params, lr=0.1)
    for k in range(3):
        params.append(torch.ones(3, requires_grad=True))
""",
        "params.append(torch.ones(3, requires_grad=True))\noptimizer = torch.optim.SGD(\n    params, lr=0.1)",
    ),
    "a flag within an expression": (
        """
    w = torch.ones(3, requires_grad=True)
    h = w * 2
    loss = h.requires_grad_(False).sum()
""",
        "loss = h.detach().sum()",
    ),
    "clipping that is written elsewhere": (
        f"""{RELEASED}
    model(torch.ones(2, 20)).square().sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
""",
        "held = bs.release(optimizer, bucket=0)\nheld.clip(0.01)\n\nmodel",
    ),
}


@needs_columns
@pytest.mark.parametrize(("source", "new"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_program_has_what_the_fix_says_and_runs(source: str, new: str) -> None:
    text = edited(explained(source).edits[0], {FILE: written(source)})[FILE]
    assert new.replace("    ", "") in text.replace("    ", "")
    exec(compile(text, FILE, "exec"), {"torch": torch, "__name__": "__main__"})
