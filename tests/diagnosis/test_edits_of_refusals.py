"""What the fix of an error that PyTorch raises asks for as data: the new lines of each alternative, which then run."""

from __future__ import annotations

import pytest
import torch
from columns import needs_columns
from failures import FILE, at, explained, failing, written
from pretended import on_a_gpu

import backsight as bs
from backsight.source.edits import edited

START = "from torch import nn\nimport torch.nn.functional as F\ngpu = torch.device('meta')\n"
TWO = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
INDEX = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"


def programs(source: str, finding: bs.Finding) -> list[str]:
    return [edited(each, {FILE: written(source)})[FILE] for each in finding.edits]


def new_lines(source: str, finding: bs.Finding) -> list[list[str]]:
    """Of each alternative the lines that the program does not have."""
    old = written(source).splitlines()
    return [
        [line.strip() for k, line in enumerate(after) if after[: k + 1].count(line) > old.count(line)]
        for after in (each.splitlines() for each in programs(source, finding))
    ]


FIXES = {
    "w = torch.ones(1, requires_grad=True)\ntorch.optim.Adam([w], fused=True, foreach=True)": [
        ["torch.optim.Adam([w], fused=True)"]
    ],
    "w = torch.ones(1, requires_grad=True)\ntorch.optim.SGD([w], 0.1, differentiable=True, fused=True)": [
        ["torch.optim.SGD([w], 0.1, fused=True)"],
        ["torch.optim.SGD([w], 0.1, differentiable=True)"],
    ],
    "w, lr = torch.ones(1, requires_grad=True), torch.tensor(0.1)\ntorch.optim.Adam([w], lr=lr, foreach=True)": [
        ["torch.optim.Adam([w], lr=lr.item(), foreach=True)"],
        ["torch.optim.Adam([w], lr=lr)"],
    ],
    "e = torch.nn.Embedding(5, 3)\ne.register_backward_hook(print)\ne.register_full_backward_hook(print)": [
        ["e.register_full_backward_hook(print)"]
    ],
    "a, b = torch.zeros(3), torch.ones(3).double()\na[torch.arange(3)] = b": [["a[torch.arange(3)] = b.to(a.dtype)"]],
    "net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 1))\nout = net(torch.ones(8, 5)).sum()": [
        ["net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(5, 1))"]
    ],
    "x = torch.ones(3, requires_grad=True)\n(x * 2).backward()": [["(x * 2).sum().backward()"]],
    "w = torch.nn.Parameter(torch.ones(2, 3))\n(w * 2).backward()": [
        ["(w * 2).mean().backward()"],
        ["(w * 2).sum().backward()"],
    ],
    "x = torch.ones(3, requires_grad=True)\ny = x * 2\ntorch.autograd.grad(y, x)": [
        ["torch.autograd.grad(y.sum(), x)"],
        ["torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y))"],
    ],
    "x = torch.ones(3, requires_grad=True)\nloss = x.sum\nloss.backward()": [["loss = x.sum()"]],
    "x = torch.ones(3, requires_grad=True)\nparts = [x.sum(), x.mean()]\nparts.backward()": [["sum(parts).backward()"]],
    "run = lambda x: x.sum().item()\ntorch.func.grad(run)(torch.ones(3))": [["run = lambda x: x.sum()"]],
    "x, out = torch.ones(3, requires_grad=True) * 2, torch.empty(3)\ntorch.exp(x, out=out)": [["out = torch.exp(x)"]],
    "x = torch.ones(3, requires_grad=True) * 2\ntorch.exp(x, out=torch.empty(3))": [["torch.exp(x)"]],
    "x = torch.ones(2, 3, requires_grad=True) * 2\nfor part in x.chunk(2):\n    part.detach_()": [
        ["part = part.detach()"]
    ],
}


@needs_columns
@pytest.mark.parametrize("source", FIXES)
def test_the_edits_of_each_alternative_make_a_program_that_runs(source: str) -> None:
    finding = explained(source)
    assert new_lines(source, finding) == FIXES[source]
    for each in programs(source, finding):
        exec(compile(each, FILE, "exec"), {"__name__": "__main__", "torch": torch})


NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.more = {}
    def forward(self, x):
        return {}
model = Net().to(gpu)
model(torch.ones(2, 3, device=gpu))
"""

DEVICES = {
    "a buffer": (
        NET.format("torch.arange(3.0)", "self.fc(x) + self.more"),
        [['self.register_buffer("more", torch.arange(3.0))']],
    ),
    "layers in a list": (
        NET.format("[nn.Linear(3, 3)]", "self.more[0](self.fc(x))"),
        [["self.more = nn.ModuleList([nn.Linear(3, 3)])"]],
    ),
    "a batch": (
        "model = nn.Linear(3, 1).to(gpu)\nfor x in [torch.ones(2, 3)]:\n    model(x)",
        [["x = x.to(model.weight.device)"]],
    ),
    "a model": (
        "model = nn.Linear(3, 1)\nmodel(torch.ones(2, 3, device=gpu))",
        [['model = model.to("cuda:0")']],
    ),
    "a new tensor": (
        "x = torch.ones(2, 3, device=gpu)\ny = x + torch.zeros(2, 3)",
        [["y = x + torch.zeros(2, 3, device=x.device)"]],
    ),
    "a state": (
        "x = torch.ones(2, 3, device=gpu)\nh = torch.zeros(2, 3)\ny = x + h",
        [["h = torch.zeros(2, 3, device=x.device)"]],
    ),
    "a state where no device is known yet": (
        "def first():\n    return torch.zeros(2, 3)\nh = first()\nx = torch.ones(2, 3, device='meta')\ny = x + h",
        [["h = h.to(x.device)"]],
    ),
    "the weight of a loss": (
        "weight = torch.ones(3)\ncriterion = nn.CrossEntropyLoss(weight=weight)\nmodel = nn.Linear(4, 3).to(gpu)\n"
        "out = model(torch.ones(2, 4, device=gpu))\ncriterion(out, torch.zeros(2, dtype=torch.long, device=gpu))",
        [["criterion = nn.CrossEntropyLoss(weight=weight.to(gpu))"], ["criterion.to(gpu)"]],
    ),
}


@needs_columns
@pytest.mark.parametrize("what", DEVICES)
def test_what_is_on_another_device_is_moved_by_an_edit(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, new = START + DEVICES[what][0], DEVICES[what][1]
    finding = on_a_gpu(monkeypatch, source, TWO)
    assert new_lines(source, finding) == new


@needs_columns
def test_an_index_is_moved_and_nothing_is_created_on_a_device_not_known_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = f"{START}seen = torch.zeros(10, 4)\nidx = torch.zeros(3, dtype=torch.long, device=gpu)\nrows = seen[idx]"
    finding = on_a_gpu(monkeypatch, source, INDEX)
    assert new_lines(source, finding) == [["rows = seen[idx.cpu()]"]]


@needs_columns
def test_a_generator_is_created_where_it_draws_or_draws_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"{START}rng = torch.Generator()\nx = torch.randn(3, generator=rng, device=gpu)"
    finding = on_a_gpu(monkeypatch, source, "Expected a 'cuda' device type for generator but found 'cpu'")
    assert new_lines(source, finding) == [
        ["rng = torch.Generator(device=gpu)"],
        ['x = torch.randn(3, generator=rng, device="cpu").to(gpu)'],
    ]


@needs_columns
def test_a_module_is_moved_before_the_state_of_its_optimizer_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        def resume(saved):
            model = torch.nn.Linear(3, 1)
            opt = torch.optim.Adam(model.parameters())
            opt.load_state_dict(saved)  # here
            model.to("cpu")
            for state in opt.state.values():
                state["exp_avg"] = state["exp_avg"].to("meta")
            return model, opt
        model = torch.nn.Linear(3, 1)
        opt = torch.optim.Adam(model.parameters())
        model(torch.ones(2, 3)).mean().backward()
        opt.step()
        model, opt = resume(opt.state_dict())
        model(torch.ones(2, 3)).mean().backward()
        opt.step()
    """
    finding = on_a_gpu(monkeypatch, source, TWO, {"meta": "cpu", "cpu": "cuda:0"})
    (after,) = programs(source, finding)
    lines = [each.strip() for each in after.splitlines()]
    assert finding.source == at(source)
    assert lines.index('model.to("cpu")') + 1 == lines.index("opt.load_state_dict(saved)  # here")


def test_what_a_copy_of_a_text_alone_tells_has_no_edits() -> None:
    finding = bs.explain(failing(f"raise RuntimeError({TWO!r})"))
    assert finding.edits == ()
