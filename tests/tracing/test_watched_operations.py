"""All operations of PyTorch, and what is built on the same hooks as a watch, work as without one."""

import asyncio
import copy
import pickle
import warnings

import pytest
import torch
from operators import operators
from sharded import shards
from torch import nn
from torch.utils._pytree import tree_leaves

import backsight as bs

SAMPLES = 2


def plain(tensor):
    """The values of a strided tensor as real numbers that can be compared."""
    values = tensor.detach().resolve_conj().resolve_neg()
    return torch.nan_to_num(torch.view_as_real(values) if values.is_complex() else values.double())


def outcome(run):
    torch.manual_seed(0)
    try:
        return run()
    except Exception as error:
        return error


def alike(a, b):
    if isinstance(a, Exception) or isinstance(b, Exception):
        return type(a) is type(b) and str(a) == str(b)
    for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True):
        if isinstance(x, torch.Tensor):
            has_values = x.layout == torch.strided and not x.is_nested and x.device.type != "meta"
            if has_values and not torch.equal(plain(x), plain(y)):
                return False
        elif x != y:
            return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", shards(16))
def test_every_operation_gives_the_same_and_has_a_line(shard):
    different, without_line, nodes = [], [], 0
    for op in operators()[shard::16]:
        if torch.float32 not in op.dtypes or not op.supports_autograd:
            continue
        samples = outcome(lambda op=op: list(op.sample_inputs("cpu", torch.float32, requires_grad=True))[:SAMPLES])
        for s in () if isinstance(samples, Exception) else samples:

            def run(op=op, s=s):
                return op(s.input, *s.args, **s.kwargs)

            before = outcome(run)
            with bs.watch(nonfinite=True) as watch:
                after = outcome(run)
            if not alike(before, after) or watch.notes:
                different.append(op.name)
            made = [t.grad_fn for t in tree_leaves(after) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
            made = [node for node in made if "AccumulateGrad" not in node.name()]
            nodes += len(made)
            without_line += [op.name for node in made if watch.line_of(node._sequence_nr()) is None]
    assert nodes > 40
    assert (different, without_line) == ([], [])


x = torch.linspace(-1, 1, 16).view(4, 4)


def fake():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return str((torch.ones(3, requires_grad=True) * 2).sum().shape)


def checkpointed(reentrant):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh())
    inputs = x.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=reentrant).sum().backward()
    return [p.grad for p in model.parameters()] + [inputs.grad]


def packed():
    a = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
        b = a.exp()
    b.sum().backward()
    return a.grad


def penalty():
    w = torch.randn(3, requires_grad=True)
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    (g**2).sum().backward()
    return w.grad


def mixed():
    model = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).sum()
    loss.backward()
    return model.weight.grad


def averaged():
    model = nn.Linear(4, 4)
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    return average.module.weight


def loaded():
    return list(torch.utils.data.DataLoader(x, batch_size=2, num_workers=1))


def on_a_device():
    with torch.device("meta"):
        return str(torch.ones(3).device)


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


async def awaited():
    await asyncio.sleep(0)
    return x.sin()


CORNERS = {
    "vmap": lambda: torch.vmap(lambda a: a.sin() * 2)(x),
    "func.grad": lambda: torch.func.grad(lambda a: (a.sin() * a).sum())(x),
    "func.hessian": lambda: torch.func.hessian(lambda a: a.pow(3).sum())(x[0]),
    "func.jvp": lambda: torch.func.jvp(lambda a: a.sin(), (x,), (x,))[1],
    "func.functional_call": lambda: torch.func.functional_call(nn.Linear(4, 4), {"weight": x, "bias": x[0]}, (x,)),
    "autograd.functional": lambda: torch.autograd.functional.jacobian(lambda a: a.sin(), x[0]),
    "sparse": lambda: torch.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], (4, 4)).coalesce().mul_(2).to_dense(),
    "nested": lambda: torch.nested.nested_tensor([x[:2], x[:1]], layout=torch.jagged).mul(2).values(),
    "quantized": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(),
    "complex": lambda: torch.fft.fft(x).abs(),
    "fake": fake,
    "fx": lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU())).code,
    "trace": lambda: torch.jit.trace(nn.Linear(4, 4), x)(x),
    "export": lambda: len(torch.export.export(nn.Sequential(nn.Linear(4, 4)), (x,)).graph.nodes),
    "recurrent": lambda: nn.LSTM(4, 3, 2)(x)[0],
    "attention": lambda: nn.MultiheadAttention(4, 2)(x, x, x)[0],
    "checkpoint": lambda: checkpointed(False),
    "reentrant checkpoint": lambda: checkpointed(True),
    "saved-tensor hooks": packed,
    "gradient penalty": penalty,
    "autocast": mixed,
    "averaged model": averaged,
    "parametrization": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))(x),
    "lazy module": lambda: nn.LazyLinear(3)(x),
    "subclass": lambda: (x.as_subclass(Tagged) * 2).sum().as_subclass(torch.Tensor),
    "loader with a worker": loaded,
    "device as a mode": on_a_device,
    "copies": lambda: pickle.loads(pickle.dumps(copy.deepcopy(x))),
    "text": lambda: f"{x!r} {x.sum():.3f}",
    "coroutine": lambda: asyncio.run(awaited()),
    "control flow": lambda: torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)),
}


@pytest.mark.parametrize("level", ["lines", "exact", "nonfinite"])
@pytest.mark.parametrize("name", CORNERS)
def test_other_uses_of_the_same_hooks(name, level):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        before = outcome(CORNERS[name])
        assert not isinstance(before, Exception)
        with bs.watch(nonfinite=True) if level == "nonfinite" else bs.watch(level=level):
            after = outcome(CORNERS[name])
    assert alike(before, after), (before, after)
