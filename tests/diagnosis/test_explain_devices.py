"""BS228: which tensor is on another device than the rest, and how such a thing is moved."""

import pytest
import torch
from failures import at, evidence, explained, failing
from pretended import on_a_gpu

import backsight as bs

TWO = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
WEIGHT = (
    "Expected all tensors to be on the same device, but got weight is on cpu, different from other tensors on cuda:0 "
    "(when checking argument in method wrapper_CUDA_nll_loss_forward)"
)
INDEX = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
START = "from torch import nn\nimport torch.nn.functional as F\ngpu = torch.device('meta')\n"

WITH_TABLE = f"""{START}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        table = torch.arange(3.0)
        self.table = table  # here
    def forward(self, x):
        return self.fc(x) + self.table
model = Net().to(gpu)
model(torch.ones(2, 3, device=gpu))
"""


def test_a_plain_attribute_of_a_module_becomes_a_buffer(monkeypatch):
    finding = on_a_gpu(monkeypatch, WITH_TABLE, TWO)
    assert (finding.code, finding.source, finding.exact) == ("BS228", at(WITH_TABLE), True)
    assert finding.title.startswith("self.table is on cpu, but ")
    assert 'self.register_buffer("table", table)' in finding.fix
    assert "moves the parameters and buffers of Net() only." in evidence(finding)


def test_the_weight_of_a_loss_is_moved_where_the_loss_is_created(monkeypatch):
    source = f"""{START}
weight = torch.ones(3)
criterion = nn.CrossEntropyLoss(weight=weight)  # here
model = nn.Linear(4, 3).to(gpu)
out = model(torch.ones(2, 4, device=gpu))
criterion(out, torch.zeros(2, dtype=torch.long, device=gpu))
"""
    finding = on_a_gpu(monkeypatch, source, WEIGHT)
    assert (finding.code, finding.source) == ("BS228", at(source))
    assert finding.title == "criterion.weight is on cpu, but out is on cuda:0: both must be on one device."
    assert finding.fix == "Create it with weight=weight.to(gpu), or move the loss like the model: criterion.to(gpu)."


def test_an_index_goes_where_the_indexed_tensor_is(monkeypatch):
    source = f"""{START}
class Replay:
    def __init__(self):
        self.seen = torch.zeros(10, 4)
    def sample(self):
        idx = torch.zeros(3, dtype=torch.long, device=gpu)  # here
        return self.seen[idx]
Replay().sample()
"""
    finding = on_a_gpu(monkeypatch, source, INDEX)
    assert finding.source == at(source)
    assert finding.title.startswith("idx is on cuda:0, but self.seen is on cpu")
    assert finding.fix.startswith("Index with idx.cpu().")
    assert "creates self.seen on cpu." in evidence(finding)


def test_a_state_created_without_a_device(monkeypatch):
    source = f"""{START}
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        h = torch.zeros(2, 3)  # here
        return self.fc(x) + h
Cell().to("meta")(torch.ones(2, 3, device="meta"))
"""
    finding = on_a_gpu(monkeypatch, source.replace("gpu =", "_ ="), TWO)
    assert finding.source == at(source)
    assert finding.title.startswith("h is on cpu")
    assert "torch.zeros(2, 3, device=" in finding.fix


def test_one_that_the_failing_line_creates(monkeypatch):
    source = f"{START}x = torch.ones(2, 3, device=gpu)\ny = x + torch.zeros(2, 3)"
    finding = on_a_gpu(monkeypatch, source, TWO)
    assert finding.title.startswith("torch.zeros(2, 3) is on the CPU, but x is on cuda:0")


def test_a_batch_that_was_not_moved(monkeypatch):
    source = f"""{START}
model = nn.Linear(3, 1).to(gpu)
for x, y in [(torch.ones(2, 3), torch.ones(2, 1))]:
    loss = model(x).mean()
"""
    finding = on_a_gpu(monkeypatch, source, TWO)
    assert finding.title == "x is on cpu, but model.weight is on cuda:0: both must be on one device."
    assert finding.fix == "Move it first: x = x.to(model.weight.device)."


def test_a_model_that_was_never_moved(monkeypatch):
    source = f"{START}model = nn.Linear(3, 1)  # here\nmodel(torch.ones(2, 3, device=gpu))"
    finding = on_a_gpu(monkeypatch, source, TWO)
    assert finding.source == at(source)
    assert "model = model.to(" in finding.fix


def test_layers_in_a_plain_list(monkeypatch):
    source = f"""{START}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.layers = [nn.Linear(3, 3) for _ in range(2)]  # here
    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x
model = Net().to(gpu)
model(torch.ones(2, 3, device=gpu))
"""
    finding = on_a_gpu(monkeypatch, source, TWO)
    assert finding.source == at(source)
    assert "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])" in finding.fix


def test_the_state_of_an_optimizer_that_was_loaded_before_the_model_moved(monkeypatch):
    source = """
from torch import nn
def resume(saved):
    model = nn.Linear(3, 1)
    opt = torch.optim.Adam(model.parameters())
    opt.load_state_dict(saved)  # here
    model.to("cpu")
    for state in opt.state.values():
        state["exp_avg"] = state["exp_avg"].to("meta")
    return model, opt
model = nn.Linear(3, 1)
opt = torch.optim.Adam(model.parameters())
model(torch.ones(2, 3)).mean().backward()
opt.step()
model, opt = resume(opt.state_dict())
model(torch.ones(2, 3)).mean().backward()
opt.step()
"""
    finding = on_a_gpu(monkeypatch, source, TWO, {"meta": "cpu", "cpu": "cuda:0"})
    assert finding.source == at(source)
    assert finding.title == "The state of opt (exp_avg) is on cpu, but the parameters of model are on cuda:0."
    assert "Move the model first" in finding.fix


def test_a_generator_of_the_cpu(monkeypatch):
    source = f"""{START}
class Noise:
    def __init__(self):
        self.rng = torch.Generator().manual_seed(0)  # here
    def draw(self, x):
        return torch.randn(x.shape, generator=self.rng, device=x.device)
Noise().draw(torch.ones(3, device=gpu))
"""
    finding = on_a_gpu(monkeypatch, source, "Expected a 'cuda' device type for generator but found 'cpu'")
    assert finding.source == at(source)
    assert finding.title.startswith("self.rng is a generator of the CPU")
    assert "in place of torch.Generator()." in finding.fix


def test_samples_that_cannot_be_pinned(monkeypatch):
    source = f"""{START}
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __init__(self, device):
        self.items = []
        for _ in range(4):
            self.items.append(torch.ones(3).to(device))  # here
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return self.items[i]
    def fetch(self, loader):
        raise RuntimeError
class Loader(DataLoader): ...
loader = DataLoader(Images(gpu), batch_size=2, pin_memory=True)
from torch.utils.data._utils import pin_memory
for batch in loader:
    pin_memory.pin_memory(batch)
    batch.pin_memory()
    batch + torch.ones(2, 3)
"""
    finding = on_a_gpu(monkeypatch, source, "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    assert finding.code == "BS228"
    assert "pin_memory" in finding.fix


def test_a_tensor_for_numpy_is_copied_first():
    finding = explained("y = torch.ones(3, device='meta', requires_grad=True) * 2\nz = y.numpy()")
    assert finding.code == "BS228"
    assert finding.fix == "Copy it to the CPU first: y.detach().cpu().numpy()."


def test_tensors_without_values():
    finding = explained(
        "from torch import nn\nwith torch.device('meta'):\n    model = nn.Linear(3, 1)\nmodel(torch.ones(2, 3))"
    )
    assert finding.code == "BS228"
    assert "is on meta, but x is on cpu" in finding.title or "is on meta" in finding.title
    assert "to_empty(device=" in finding.fix


def test_types_that_differ_in_their_dtype_alone_are_something_else():
    text = "Input type ({}) and weight type ({}) should be the same"
    codes = {
        (given, own): bs.explain(RuntimeError(text.format(given, own))).code
        for given, own in [
            ("torch.cuda.FloatTensor", "torch.FloatTensor"),
            ("torch.FloatTensor", "torch.cuda.FloatTensor"),
            ("MPSFloatType", "torch.FloatTensor"),
            ("torch.cuda.HalfTensor", "torch.cuda.FloatTensor"),
            ("double", "float"),
        ]
    }
    assert list(codes.values()) == ["BS228", "BS228", "BS228", "BS200", "BS200"]


def test_where_no_variable_shows_which_nothing_is_claimed():
    error = failing(f"raise RuntimeError({TWO!r})")
    finding = bs.explain(error)
    assert (finding.code, finding.exact) == ("BS228", False)
    assert "could not analyze" not in evidence(finding)


@pytest.mark.parametrize("text", ["the same device was used twice", "devices of the same kind"])
def test_another_text_about_devices_is_left_alone(text):
    assert bs.explain(RuntimeError(text)).code == "BS200"


def test_the_device_is_read_past_a_subclass(monkeypatch):
    from backsight.diagnosis.errors.devices.placed import device_of

    class Lies(torch.Tensor):
        device = "somewhere"

    assert device_of(torch.ones(1).as_subclass(Lies)) == torch.device("cpu")
