"""BS229 to BS232: what only a GPU raises, from the frames of programs that raise the same text."""

import pytest
from columns import needs_columns
from failures import at, evidence, explained, failing
from pretended import refusing, while_capturing

import backsight as bs
from backsight.launch import voice


def test_the_rnn_in_evaluation_mode_and_the_line_that_put_it_there():
    source = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, dropout=0.2, num_layers=2)
        self.head = nn.Linear(4, 1)
    def train(self, mode=True):
        super().train(mode)
        self.rnn.eval()  # here
        return self
net = Net().train()
raise RuntimeError("cudnn RNN backward can only be called in training mode")
"""
    finding = explained(source)
    assert (finding.code, finding.source, finding.exact) == ("BS229", at(source), True)
    assert finding.title.startswith("net.rnn (a GRU) ran in evaluation mode")
    assert "net.rnn.train()" in finding.fix and "net.rnn.dropout = 0.0" in finding.fix


FORGOTTEN = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 4), nn.Linear(4, 1)
def score(net):
    net.eval(){}
def epoch(model):
    for part in range(2):
        loss = model.head.weight.sum()
        if not model.training:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
net = Net()
for k in range(3):
    {}
    {}
"""


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        (
            FORGOTTEN.format("  # here", "epoch(net)", "score(net)"),
            "Call model.train() at the beginning of epoch(), before its forward pass.",
        ),
        (
            FORGOTTEN.replace("    net.eval(){}", "    pass").format(
                "if not net.training: raise RuntimeError('cudnn RNN backward can only be called in training mode')",
                "net.eval()  # here",
            ),
            "Call net.train() at the beginning of the loop on line 14, before its forward pass.",
        ),
    ],
)
def test_a_model_that_an_evaluation_left_in_its_mode_is_to_be_trained_in_the_other(source, fix):
    finding = explained(source)
    assert (finding.code, finding.source, finding.exact) == ("BS229", at(source), True)
    assert "turns on evaluation mode, which is still on." in evidence(finding)
    assert finding.fix == fix


def test_a_frozen_rnn_keeps_its_own_mode():
    source = FORGOTTEN.replace("net = Net()", "net = Net(); net.rnn.requires_grad_(False)")
    finding = explained(source.format("  # here", "epoch(net)", "score(net)"))
    assert "rnn.train() after the model is put in evaluation mode" in finding.fix


def test_an_assertion_of_the_device_is_told_with_the_indices_that_embeddings_take():
    source = """
from torch import nn
embedding = nn.Embedding(12, 4)
criterion = nn.CrossEntropyLoss()
def step(ids):
    return criterion(embedding(ids), ids)
raise RuntimeError("CUDA error: device-side assert triggered")
"""
    finding = explained(source)
    assert (finding.code, finding.exact) == ("BS230", False)
    assert "embedding takes indices from 0 to 11." in evidence(finding)
    assert "takes targets from 0 to the number of classes" in evidence(finding)
    assert "CUDA_LAUNCH_BLOCKING=1 backsight run train.py" in finding.fix


MOVED = """
from torch import nn
from torch.nn import functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.song, self.user = nn.Embedding(600, 4, device="meta"), nn.Embedding(200, 4, device="meta")
net = Net()
ids, labels = torch.arange(1, 601), torch.tensor([0, 5, 255])
out = torch.zeros(3, 6, device="meta", requires_grad=True)
static = torch.zeros(600, dtype=torch.int64, device="meta")
{}
raise RuntimeError("CUDA error: device-side assert triggered")
"""


def watched(source):
    with bs.watch(level="exact"):
        return bs.explain(failing(source))


@needs_columns
@pytest.mark.parametrize(
    ("lines", "title", "fix", "exact"),
    [
        (
            "moved = ids.to('meta')\nnet.song(moved.view(2, -1))  # here",
            "`moved.view(2, -1)` holds 600, and net.song takes indices from 0 to 599.",
            "Number from 0, or give net.song one more row: nn.Embedding(601, ...).",
            True,
        ),
        (
            "moved = torch.tensor([[3, 700], [4, 8]], device='meta')\nnet.song(moved[:, 1])  # here",
            "`moved[:, 1]` holds 700, and net.song takes indices from 0 to 599.",
            "Give net.song 701 rows, or end the numbering at 599.",
            False,
        ),
        (
            "static.copy_(ids, non_blocking=True)\nnet.user(static)  # here",
            "`static` holds 600, and net.user takes indices from 0 to 199.",
            "Give net.user 601 rows, or end the numbering at 199.",
            True,
        ),
        (
            "moved = labels.to('meta')\nloss = F.cross_entropy(out, moved)  # here",
            "`moved` holds 255, and cross_entropy takes targets from 0 to 5.",
            "write `loss = F.cross_entropy(out, moved, ignore_index=255)`.",
            True,
        ),
    ],
)
def test_indices_out_of_range_are_named_by_what_was_moved_to_the_device(lines, title, fix, exact):
    source = MOVED.format(lines)
    finding = watched(source)
    assert (finding.code, finding.source, finding.exact) == ("BS230", at(source), exact)
    assert finding.title == f"A kernel of the GPU stopped at an index that is out of range: {title}"
    assert "to the device." in evidence(finding) and fix in finding.fix


@pytest.mark.parametrize(
    "lines",
    [
        "F.cross_entropy(out, labels.to('meta'), ignore_index=255)",
        "net.song((ids - 1).to('meta'))",
        "net.song(ids.to('meta') - 1)",
    ],
)
def test_no_index_is_blamed_that_is_in_range_or_was_computed_on_the_device(lines):
    finding = watched(MOVED.format(lines))
    assert (finding.code, finding.exact) == ("BS230", False)
    assert "as for an index that is out of range" in finding.title


def test_of_a_broken_capture_the_first_error_is_explained():
    source = """
total = torch.ones(())
def step():
    if total.item() > 100:  # here
        pass
def capture():
    try:
        step()
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
capture()
"""
    finding = while_capturing(source)
    assert (finding.code, finding.source, finding.exact) == ("BS231", at(source), True)
    assert finding.title.startswith("total.item() waits for the device")
    assert "captures the graph." in evidence(finding)
    assert "torch.where" in finding.fix


@needs_columns
@pytest.mark.parametrize(
    ("lines", "fix"),
    [
        (
            "real = tok != 0\n    return per[real].mean()  # here",
            "write `return (per * real).sum() / real.sum()`.",
        ),
        ("loss = per[tok != 0].sum() + 1  # here", "write `loss = (per * (tok != 0)).sum() + 1`."),
        ("one = 1 / per[tok > 3].mean()  # here", "write `one = 1 / ((per * (tok > 3)).sum() / (tok > 3).sum())`."),
        (
            "real = tok != 0\n    top = torch.masked_select(per, real).max()  # here",
            'write `top = per.masked_fill(~real, float("-inf")).max()`.',
        ),
        (
            "real = tok[:, 0] != 0\n    return torch.log(per[real]).std()  # here",
            "per * real[..., None] in place of per[real], and real.sum() for their number.",
        ),
    ],
)
def test_a_mask_in_a_capture_decides_what_counts_and_not_what_there_is(lines, fix):
    source = f"""
per, tok = torch.rand(3, 4), torch.arange(12).view(3, 4)
def loss_of():
    {lines}
def capture():
    try:
        loss_of()
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
capture()
"""
    finding = while_capturing(source, "index.Tensor", "masked_select")
    assert (finding.code, finding.source, finding.exact) == ("BS231", at(source), True)
    assert "selects by a mask while a CUDA graph is captured" in finding.title
    assert fix in finding.fix and "graph.replay()" not in finding.fix


def test_a_list_that_keeps_graphs_is_named_when_the_memory_is_used_up():
    source = """
w = torch.ones(1000, requires_grad=True)
class Meter:
    def __init__(self):
        self.values = []
    def update(self, value):
        self.values.append(value)  # here
meter = Meter()
for step in range(6):
    meter.update((w.exp() * w.sin()).sum())
raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.18 GiB")
"""
    finding = explained(source)
    assert (finding.code, finding.source) == ("BS232", at(source))
    assert finding.title.startswith("meter.values keeps 6 tensors with their graphs alive")


def test_without_such_a_list_none_is_blamed():
    finding = explained(
        "w = torch.ones(1000)\nraise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has')"
    )
    assert (finding.code, finding.exact) == ("BS232", False)


def test_a_device_that_has_failed_is_no_failure_of_ours(capsys):
    voice.failed("audits stopped", RuntimeError("CUDA error: device-side assert triggered"))
    assert capsys.readouterr().err == ""
    voice.failed("audits stopped", RuntimeError("something of ours"))
    assert "audits stopped: RuntimeError: something of ours" in capsys.readouterr().err


ATTENTION = """
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
q, k, v = torch.randn(3, 2, 4, 8, 16, dtype={dtype})
allowed = {mask}
with sdpa_kernel({kernels}):  # here
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
"""
MASK = "torch.ones(2, 1, 1, 8, dtype=torch.bool)"
FLASH = "SDPBackend.FLASH_ATTENTION"


@needs_columns
@pytest.mark.parametrize(
    ("kernels", "mask", "dtype", "reason"),
    [
        (FLASH, MASK, "torch.bfloat16", "Flash attention takes no attn_mask, and allowed is one."),
        (f"[{FLASH}]", "None", "torch.float32", "Flash attention takes float16 and bfloat16, and q is float32."),
    ],
)
def test_attention_that_no_allowed_kernel_computes_is_told_which_to_allow_and_why(kernels, mask, dtype, reason):
    source = ATTENTION.format(kernels=kernels, mask=mask, dtype=dtype)
    finding = refusing(source, "attention", "No available kernel. Aborting execution.")
    assert (finding.code, finding.source) == ("BS200", at(source))
    assert "allows only flash attention." in evidence(finding) and reason in evidence(finding)
    every = f"[{FLASH}, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]"
    assert f"write `with sdpa_kernel({every}):`" in finding.fix and "above the traceback" not in finding.fix
