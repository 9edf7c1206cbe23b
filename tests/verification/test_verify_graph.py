"""`verify_graph`: what is told of live nodes, what is left alone, and that nothing is disturbed."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import wrong_functions as wrong
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import backsight as bs


def x_of(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def without_places(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(("  forward ", "  backward ")))


# ---- what is found


def test_a_term_outside_of_the_product() -> None:
    report = bs.verify_graph(wrong.Poly.apply(x_of(3)).sum())
    assert without_places(str(report)) == (
        "backsight: 1 of 2 nodes has a wrong backward: Poly\n"
        "\n"
        "error BS402  The backward of Poly adds 2 to the gradient, outside of the product with grad_output.\n"
        "  With grad_output = 0 it returns 2 for input, and backward must make 0 of 0: it multiplies what arrives by\n"
        "  the derivative, and nothing else.\n"
        "  In `grad_output * 6 * input + 2` the term `2` stands outside of the product: * binds stronger than +.\n"
        "  cure: If it belongs to the derivative, put it in parentheses: grad_output * (6 * input + 2). If it does "
        "not,\n  leave it out."
    )
    (finding,) = report
    assert (finding.operation, finding.input) == ("Poly", "input")
    assert finding.forward.text == "def forward(ctx, input):"
    assert finding.backward.text == "def backward(ctx, grad_output):"
    assert finding.source.startswith("wrong_functions.py:") or "tests/verification/wrong_functions.py" in finding.source


def test_ones_instead_of_grad_output() -> None:
    report = bs.verify_graph(wrong.BadReLU.apply(x_of(4, 3)).sum())
    assert without_places(str(report)) == (
        "backsight: 1 of 2 nodes has a wrong backward: BadReLU\n"
        "\n"
        "error BS401  The backward of BadReLU ignores grad_output.\n"
        "  What it returns for input is 1 in 5 of 12 entries, whatever arrives.\n"
        "  Backward multiplies what arrives by the derivative (the chain rule). Where the derivative is 1 the result "
        "is\n"
        "  grad_output itself, not 1. With loss = output.sum() all of grad_output is 1, so a test with sum() cannot\n"
        "  tell.\n"
        "  cure: Multiply the derivative by grad_output: for a mask, grad_output * mask."
    )


def found(loss: torch.Tensor) -> list[tuple[str, str, str]]:
    """Severity, code and title of what is found, the gravest first."""
    return [(each.severity, each.code, each.title) for each in bs.verify_graph(loss)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (wrong.Mutates, ("error", "BS410", "The backward of Mutates changes grad in place.")),
        (wrong.Noisy, ("error", "BS411", "The backward of Noisy is not deterministic.")),
        (
            wrong.SpoilsSaved,
            ("error", "BS412", "The backward of SpoilsSaved changes what forward saved for it: ctx.factor."),
        ),
        (wrong.Squares, ("error", "BS418", "The backward of Squares is not linear in grad.")),
        (wrong.Clips, ("error", "BS418", "The backward of Clips is not linear in grad.")),
        (wrong.Normalises, ("error", "BS418", "The backward of Normalises is not linear in grad.")),
        (wrong.WrongShape, ("error", "BS406", "The backward of WrongShape returns what autograd refuses.")),
        (wrong.Single, ("warning", "BS413", "The backward of Single returns float32 for x, which is float64.")),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_each_kind_of_wrong_backward(function: type, expected: tuple[str, str, str]) -> None:
    assert found(function.apply(x_of(4)).sum()) == [expected]


def test_a_saved_tensor_that_is_changed_is_put_back_so_that_backward_does_not_raise() -> None:
    class Cosine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.cos())
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (cosine,) = ctx.saved_tensors
            return cosine.mul_(grad)

    x = x_of(4)
    loss = Cosine.apply(x).sum()
    (finding,) = bs.verify_graph(loss)
    assert finding.title == "The backward of Cosine changes what forward saved for it: saved_tensors[0]."
    loss.backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_how_a_backward_that_is_not_linear_grows() -> None:
    (squares,) = bs.verify_graph(wrong.Squares.apply(x_of(4)).sum())
    (normalises,) = bs.verify_graph(wrong.Normalises.apply(x_of(4)).sum())
    assert squares.evidence[-1] == "Twice the grad makes it 4 times as large."
    assert normalises.evidence[-1] == "Twice the grad makes it just as large."


def test_a_gradient_that_is_missing() -> None:
    x, w = x_of(4), x_of(4)
    assert found(wrong.TooFew.apply(x, w).sum()) == [
        ("error", "BS406", "The backward of TooFew returns what autograd refuses.")
    ]
    assert found(wrong.Forgets.apply(x, w).sum()) == [
        ("warning", "BS409", "The backward of Forgets returns None for weight, which needs a gradient.")
    ]


def test_a_function_at_many_nodes_is_told_of_once() -> None:
    h = x_of(3)
    for _ in range(5):
        h = wrong.Poly.apply(h.tanh())
    report = bs.verify_graph(h.sum())
    (finding,) = report
    assert finding.evidence[-1] == "The same at 4 more nodes of this graph."
    assert [each.name for each in report.wrong] == ["Poly"] * 5


def test_the_module_of_a_wrong_function_is_named() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return wrong.Poly.apply(x)

    model = nn.Sequential(nn.Linear(3, 3), Square())
    with bs.watch():
        loss = model(torch.randn(2, 3)).sum()
        (finding,) = bs.verify_graph(loss, model=model)
    assert finding.title.startswith("The backward of Poly (in 1) adds 2")


def test_an_operator_of_a_library_is_named_with_its_places() -> None:
    @torch.library.custom_op("backsight_tests::square_of_graph", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x + 1

    square.register_autograd(backward, setup_context=keep)
    (finding,) = bs.verify_graph(square(x_of(3)).sum())
    assert (finding.operation, finding.input) == ("backsight_tests::square_of_graph", "x")
    assert finding.forward.text == "def square(x: torch.Tensor) -> torch.Tensor:"
    assert finding.backward.text == "def backward(ctx, grad):"


def test_inputs_are_called_what_forward_calls_them() -> None:
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(first, *rest):
            return first + sum(rest)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad + 1, None, grad + 1

    report = bs.verify_graph(Sum.apply(x_of(3), torch.ones(3), x_of(3)).sum())
    assert [finding.input for finding in report] == ["first", "rest[1]"]


def test_nine_wrong_functions_among_many_and_none_else() -> None:
    lin, norm = nn.Linear(6, 6).double(), nn.LayerNorm(6).double()
    h = norm(wrong.BadReLU.apply(lin(x_of(6, 6)))) + wrong.Poly.apply(lin(x_of(6, 6))).sin()
    h = wrong.Squares.apply(wrong.Clips.apply(torch.relu(h @ h.T).softmax(-1)))
    h = wrong.Mutates.apply(wrong.Noisy.apply(h[:, :3].cumsum(0)))
    h = wrong.Normalises.apply(wrong.Right.apply(h, 3, h.exp())[1].flip(0))
    report = bs.verify_graph(h.mean())
    names = {"BadReLU", "Poly", "Squares", "Clips", "Mutates", "Noisy", "Normalises"}
    assert {each.name for each in report.wrong} == names
    assert {finding.operation for finding in report} == names


# ---- what is right


def test_right_functions_are_clean() -> None:
    x, w = x_of(4, 3), x_of(4, 3)
    a, b = wrong.Right.apply(x, 3, w)
    report = bs.verify_graph(a.sum() * b.mean())
    assert report.ok and not report.findings and not report.skipped
    assert str(report) == ("backsight: the backward of all 4 nodes is linear and deterministic: Mul, Mean, Sum, Right")


def test_only_a_rerun_can_tell_a_wrong_factor() -> None:
    assert bs.verify_graph(wrong.Halves.apply(x_of(4)).sum()).ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex128])
def test_every_dtype_has_its_own_tolerance(dtype: torch.dtype) -> None:
    x = x_of(8, 8).to(dtype).detach().requires_grad_()
    loss = ((x @ x).cumsum(0) * x.sum(1, keepdim=True)).abs().float().mean()
    assert bs.verify_graph(loss).findings == ()


def test_a_sparse_gradient() -> None:
    embedding = nn.Embedding(10, 3, sparse=True)
    report = bs.verify_graph(embedding(torch.tensor([1, 1, 7])).sum())
    assert report.ok and {each.name for each in report.checked} == {"Embedding", "Sum"}


KNOWN = {"logcumsumexp": "computes with logarithms: at inputs of 10,000 float32 loses what is smaller than 0.001"}
"""Operators whose backward is not linear to the digits of its dtype, each with the cause."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128])
def test_the_operators_of_pytorch_are_clean(dtype: torch.dtype) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    flagged: set[str] = set()
    nodes = 0
    for op in op_db:
        if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=True), 1):
            output = op(sample.input, *sample.args, **sample.kwargs)
            roots = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.requires_grad]
            if roots:
                report = bs.verify_graph(*roots)
                nodes += len(report.checked)
                flagged |= {op.name} if report.findings else set()
    assert flagged <= set(KNOWN)
    assert nodes > 600


# ---- what is left alone


class Reentrant(torch.autograd.Function):
    """A checkpoint as people write it: the forward again in backward, and a backward through it."""

    calls = 0

    @staticmethod
    def forward(ctx, x, layer):
        ctx.save_for_backward(x)
        ctx.layer = layer
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        Reentrant.calls += 1
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, grad)
        return x.grad, None


def test_what_runs_a_backward_of_its_own_is_left_alone() -> None:
    layer = nn.Linear(3, 3)
    Reentrant.calls = 0
    report = bs.verify_graph(Reentrant.apply(torch.randn(2, 3, requires_grad=True), layer).sum())
    assert [(each.name, each.why) for each in report.skipped] == [
        ("Reentrant", "its backward runs a backward of its own, which writes to .grad")
    ]
    assert Reentrant.calls == 0 and layer.weight.grad is None


class kernels:
    """Stands for a compiled extension: its `backward` is a kernel, not the engine."""

    @staticmethod
    def backward(grad):
        return 2 * grad


class Extension(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return kernels.backward(grad)


def test_a_kernel_that_is_called_backward_is_tested() -> None:
    report = bs.verify_graph(Extension.apply(torch.randn(3, requires_grad=True)).sum())
    assert report.ok and report.skipped == ()


def test_checkpoints_are_left_alone() -> None:
    runs = []

    def block(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return (x * x).sin()

    x = torch.randn(3, requires_grad=True)
    reentrant = bs.verify_graph(checkpoint(block, x, use_reentrant=True).sum())
    plain = bs.verify_graph(checkpoint(block, x, use_reentrant=False).sum())
    assert [each.why for each in reentrant.skipped] == [
        "a reentrant checkpoint: its backward runs a whole backward of its own, which writes to .grad"
    ]
    assert {each.why for each in plain.skipped} == {
        "what it saved is packed by hooks (checkpointing, offloading), and unpacking would run them"
    }
    assert len(runs) == 2 and x.grad is None


DISTRIBUTED = """
import sys, warnings, torch, backsight as bs
from torch import nn
import torch.distributed.nn.functional as collective

warnings.simplefilter("ignore")
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2), static_graph=True)
loss = collective.all_reduce(model(torch.randn(4, 3))).sum()
print(bs.verify_graph(loss))
print([parameter.grad for parameter in model.parameters()])
loss.backward()
torch.distributed.destroy_process_group()
"""


def test_communication_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DISTRIBUTED, str(tmp_path / "meeting")]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "backsight: the backward of all 3 nodes is linear and deterministic: Sum, Addmm, T",
        "not tested: _AllReduce, _DDPSink (its backward communicates with other processes)",
        "[None, None]",
    ]


def test_a_freed_graph_says_so() -> None:
    loss = torch.randn(3, requires_grad=True).sin().sum()
    loss.backward()
    report = bs.verify_graph(loss)
    assert [(each.name, each.why) for each in report.skipped] == [("Sin", "a backward has released what it saved")]
    assert str(report).split("\n")[1:] == ["not tested: Sin (a backward has released what it saved)"]


def test_what_was_modified_in_place_says_so() -> None:
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    with torch.no_grad():
        y.mul_(2)
    (skipped,) = bs.verify_graph(loss).skipped
    assert skipped.why == "what it saved was changed in place since: backward() will raise"


def test_a_backward_that_raises_is_reported_and_the_others_tested() -> None:
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("not today")

    report = bs.verify_graph(Raises.apply(x_of(3)).sin().sum())
    assert [each.why for each in report.skipped] == ["raises ValueError: not today"]
    assert {each.name for each in report.checked} == {"Sum", "Sin"}


def test_tensors_without_values_or_shapes_are_left_alone() -> None:
    meta = torch.randn(3, device="meta", requires_grad=True)
    (skipped,) = bs.verify_graph((meta * 2).sum(0)).skipped[1:]
    assert (skipped.name, skipped.why) == ("Mul", "its tensors are on the meta device, and have no values")
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, requires_grad=True)
    report = bs.verify_graph(nested.sin().values().sum())
    assert [each.name for each in report.skipped] == ["Sin"]
    assert report.skipped[0].why == "its outputs have no shape or dtype for which gradients can be made up"


def test_a_backward_that_raises_at_zero_is_judged_by_the_rest() -> None:
    class Divides(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if not grad.any():
                raise ZeroDivisionError("no gradient")
            return grad / grad.abs().max() + 1

    assert found(Divides.apply(x_of(3)).sum()) == [("error", "BS418", "The backward of Divides is not linear in grad.")]


def test_what_has_no_graph_is_refused() -> None:
    with pytest.raises(bs.NothingToCapture, match=r"^verify_graph\(\) was given a float32 tensor of shape \(\), which"):
        bs.verify_graph(torch.zeros(()))
    with pytest.raises(bs.NothingToCapture, match=r"pass the loss, as in backsight.verify_graph\(loss\)\.$"):
        bs.verify_graph()


# ---- nothing is disturbed


def gradients(loss: torch.Tensor, model: nn.Module) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters()), retain_graph=True))


def test_gradients_hooks_and_random_numbers_stay_as_they_are() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.GELU(), nn.Linear(5, 1))
    x, called = torch.randn(7, 5), []
    h = model[:2](x)
    h.register_hook(lambda g: called.append("tensor"))
    model[0].register_full_backward_hook(lambda *_: called.append("module"))
    model[0].weight.register_hook(lambda g: called.append("leaf"))
    loss = model[2:](wrong.Noisy.apply(wrong.Mutates.apply(h))).mean() + model(x).sum()
    state, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()

    report = bs.verify_graph(loss)

    assert {finding.code for finding in report} == {"BS410", "BS411"}
    assert called == []
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    loss.backward()  # nothing was freed
    assert called


def test_what_a_backward_spoils_is_put_back() -> None:
    x = x_of(4)
    right = x.detach().cos()
    loss = wrong.SpoilsSaved.apply(x).sum()
    bs.verify_graph(loss)
    loss.backward()
    torch.testing.assert_close(x.grad, right)


def test_the_gradients_after_are_those_without_to_the_bit() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    loss = layer(torch.randn(2, 5, 16)).square().mean()
    before = gradients(loss, layer)
    assert bs.verify_graph(loss).ok
    assert all(torch.equal(a, b) for a, b in zip(before, gradients(loss, layer), strict=True))


def test_a_deep_graph_is_walked_and_freed() -> None:
    h = x_of(2)
    for _ in range(3000):
        h = h + 1
    assert len(bs.verify_graph(h.sum()).checked) == 3001


def test_gradient_mode_and_autocast_of_the_caller_do_not_matter() -> None:
    loss = (x_of(4, 4, dtype=torch.float32) @ x_of(4, 4, dtype=torch.float32)).sum()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert bs.verify_graph(loss).ok
