"""BS214: tensors made under inference mode that meet autograd."""

import pytest
from failures import at, evidence, explained

import backsight as bs

SETUP = """
from torch import nn
model, head = nn.Linear(4, 3), nn.Linear(3, 2)
x = torch.randn(5, 4)
"""


def test_a_constant_that_has_to_be_saved():
    source = f"""{SETUP}
with torch.inference_mode():  # here
    features = model(x)
head(features).sum()
"""
    finding = explained(source)
    assert finding.code == "BS214"
    assert finding.title == (
        "features was created under torch.inference_mode(), so autograd cannot save it for backward: it has no "
        "version counter."
    )
    assert finding.source == at(source)
    assert finding.fix == (
        "Use torch.no_grad() instead of torch.inference_mode() on line 5: autograd can use its tensors as constants. "
        "Or use a copy made outside that block: put `features = features.clone()` above line 7."
    )
    assert finding.exact


def test_a_function_that_runs_under_it():
    source = f"""{SETUP}
@torch.inference_mode()  # here
def encode(x):
    return model(x)

features = encode(x)
head(features).sum()
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert "assigns the result to features." in evidence(finding)
    assert "runs encode() under torch.inference_mode(), and creates features in it." in evidence(finding)


def test_a_change_in_place():
    source = f"""{SETUP}
with torch.inference_mode():  # here
    average = torch.zeros(3)
average.mul_(0.9)
"""
    finding = explained(source)
    assert finding.title == (
        "average was created under torch.inference_mode(), so it can be modified in place only in that mode."
    )
    assert finding.source == at(source)


def test_a_request_for_a_gradient():
    finding = explained(f"{SETUP}with torch.inference_mode():\n    z = model(x)\nz.requires_grad_()\n")
    assert finding.title == "z was created under torch.inference_mode(), so it can never require grad."
    assert finding.fix.startswith("Ask for the gradient of a copy: on line 6, write `z = z.clone().requires_grad_()`.")


def test_parameters_that_were_made_under_it():
    source = """
from torch import nn
with torch.inference_mode():  # here
    net = nn.Sequential(nn.Linear(4, 3))
net(torch.randn(5, 4, requires_grad=True)).sum()
"""
    finding = explained(source)
    assert finding.title.startswith("net.0.weight was created under torch.inference_mode()")
    assert finding.source == at(source)
    assert finding.fix == ("Create net outside torch.inference_mode(): tensors created in it cannot be trained.")


def test_where_it_was_made_is_not_found_the_failing_statement_is_named():
    with_tensor = "import torch\nwith torch.inference_mode():\n    return_value = torch.ones(3)\n"
    namespace: dict = {}
    exec(with_tensor, namespace)
    finding = explained("y = given * torch.ones(3, requires_grad=True)\n", given=namespace["return_value"])
    assert finding.code == "BS214"
    assert finding.source == "train.py:1"
    assert not finding.exact


CACHED = f"""{SETUP}
class Store:
    def __init__(self):
        self.rows = []
    def add(self, batch):
        self.rows.append(scaled(batch))
    MODE
    def fill(self, batches):
        for batch in batches:
            self.add(batch)
def scaled(batch):
    return model(batch).mul(2)  # makes
store = Store()
FILL
row = store.rows[-1][:3]
head(row).sum()
"""


@pytest.mark.parametrize(
    ("mode", "fill"),
    [
        ("@torch.inference_mode()  # here", "store.fill(x.split(2))"),
        ("# no decorator", "with torch.inference_mode():  # here\n    store.fill(x.split(2))"),
    ],
)
def test_a_watch_has_seen_where_what_was_kept_was_made(mode, fill):
    source = CACHED.replace("MODE", mode).replace("FILL", fill)
    with bs.watch(level="exact"):
        finding = explained(source)
    assert finding.source == at(source)
    assert f"{at(source, '# makes')}  return model(batch).mul(2)\n    creates it in that mode." in evidence(finding)
    line = at(source).partition(":")[2]
    assert finding.fix.startswith(f"Use torch.no_grad() instead of torch.inference_mode() on line {line}: ")
    assert finding.exact
