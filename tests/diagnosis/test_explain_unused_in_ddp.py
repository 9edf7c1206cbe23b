"""BS211: which parameters DistributedDataParallel waits for, and where their result is lost."""

import os
import sys

import fresh
import pytest
from failures import at, written
from torch import nn

import backsight as bs
from backsight.diagnosis.evidence.idle import trainable

START = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""

NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        {forward}
"""


@pytest.fixture
def said(tmp_path):
    """Run a program in a process of its own, as DDP wants it, and return what is said of its error."""

    def run(source: str) -> dict[str, str]:
        (tmp_path / "train.py").write_text(written(source))
        (tmp_path / "run.py").write_text(
            "import runpy, backsight\n"
            "try:\n    runpy.run_path('train.py', run_name='__main__')\n"
            "except RuntimeError as error:\n    finding = backsight.explain(error)\n"
            "print(repr({name: getattr(finding, name) for name in ('code', 'title', 'source', 'fix', 'exact')}))\n"
            "print('\\n'.join(map(str, finding.evidence)))\n"
        )
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("TORCH_DISTRIBUTED_DEBUG", None)
        ended = fresh.run([sys.executable, "run.py"], cwd=tmp_path, env=environment, timeout=120)
        assert ended.returncode == 0, ended.stderr
        said = [line for line in ended.stdout.splitlines(keepends=True) if not line.startswith("[Gloo]")]
        first, _, rest = "".join(said).partition("\n")
        return {**eval(first), "evidence": rest}

    return run


def test_a_result_that_the_loss_leaves_out(said):
    net = NET.format(forward="h = self.body(x)\n        return self.head(h), self.spare(h)  # used")
    source = f"""{START}{net}
model = DistributedDataParallel(Net())
for step in range(3):
    logits, extra = model(torch.randn(8, 4))  # here
    loss = logits.pow(2).mean()
    loss.backward()
"""
    found = said(source)
    assert found["code"] == "BS211"
    assert found["title"].startswith("spare (4 parameters) got no gradient in the previous step")
    assert found["source"] == at(source)
    assert "takes the result as extra, but loss is not computed from it." in found["evidence"]
    assert at(source, "# used") in found["evidence"]
    assert found["fix"].startswith("Use extra in loss, or remove spare from the model.")
    assert "find_unused_parameters=True also silences the error" in found["fix"]
    assert found["exact"]


def test_a_module_that_forward_never_uses(said):
    net = NET.format(forward="return self.head(self.body(x))")
    source = f"""{START}{net}
model = DistributedDataParallel(Net())
def step():
    model(torch.randn(8, 4)).pow(2).mean().backward()
for _ in range(3):
    step()
"""
    found = said(source)
    assert found["title"].startswith("spare (4 parameters)")
    assert found["source"] == at(source, "def forward")
    assert "never uses self.spare, and no other method of Net does." in found["evidence"]
    assert found["fix"].startswith("Use self.spare in forward, or remove it from Net.")


def test_a_module_that_runs_under_a_condition(said):
    net = NET.format(
        forward="h = self.body(x)\n        if h.sum() > 1e6:\n            h = h + self.spare(h).sum()  # here\n"
        "        return self.head(h)"
    )
    source = f"""{START}{net}
class Trainer:
    def __init__(self):
        self.model = DistributedDataParallel(Net())

    def fit(self):
        for _ in range(3):
            self.model(torch.randn(8, 4)).pow(2).mean().backward()

Trainer().fit()
"""
    found = said(source)
    assert found["source"] == at(source)
    assert "decides whether self.spare runs." in found["evidence"]
    assert "find_unused_parameters=True)" in found["fix"]


def test_with_the_search_for_unused_parameters_on():
    finding = bs.explain(
        RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs "
            "participate in computing loss."
        )
    )
    assert finding.code == "BS211"
    assert "does not see a result that forward returns but nothing uses" in finding.fix
    assert not finding.exact


def test_a_weight_that_two_modules_share_is_counted_once():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert list(trainable(model)) == ["0.weight", "0.bias", "1.bias"]


def test_frozen_and_shared_parameters_are_counted_as_ddp_counts_them(said):
    net = NET.format(forward="return self.head(self.body(x))")
    source = f"""{START}{net}
net = Net()
net.body.bias.requires_grad_(False)
net.tied = net.body
net.spare[0].bias.requires_grad_(False)
model = DistributedDataParallel(net)
for step in range(3):
    model(torch.randn(8, 4)).pow(2).mean().backward()
"""
    assert said(source)["title"].startswith("spare (3 parameters)")
