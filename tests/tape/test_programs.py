"""Every sort of program that PyTorch runs is captured."""

import pickle

import pytest
import torch

from backsight.tape import capture


def leaf(*shape, **options):
    return torch.full(shape, 0.5, requires_grad=True, **options)


def ops(g):
    return [node.op for node in g.nodes]


def wrapper_subclass():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def unwrap(x):
                return x.inner if isinstance(x, Wrapper) else x

            out = func(*map(unwrap, args), **(kwargs or {}))
            return Wrapper(out) if isinstance(out, torch.Tensor) else out

    return Wrapper(torch.ones(2)).requires_grad_()


def double_backward():
    w = leaf(2)
    (grad,) = torch.autograd.grad((w * w).exp().sum(), w, create_graph=True)
    return (grad * grad).sum()


def in_place_on_a_view():
    base = leaf(3, 3).sin()
    base[0].mul_(2)
    base[:, 1] = 0
    return base.exp()


def multi_tensor():
    return torch._foreach_mul([leaf(2), leaf(3)], 2.0)


def nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True).sin()


def jagged():
    tensors = [torch.ones(2, 4), torch.ones(3, 4)]
    return torch.nested.nested_tensor(tensors, requires_grad=True, layout=torch.jagged).sin()


def under_grad_transform():
    """Captured inside of torch.func.grad, whose tensors are wrappers without storage."""
    seen = []

    def f(x):
        y = (x * x).exp().sum()
        seen.append(ops(capture(y, finite=True)))
        return y

    torch.func.grad(f)(torch.ones(2))
    assert seen[0][:3] == ["Sum", "Exp", "Mul"]
    return torch.vmap(lambda x: (x * x).sum())(leaf(3, 2))


def under_inference_mode():
    y = leaf(2).exp()
    with torch.inference_mode():
        assert ops(capture(y)) == ["Exp", "AccumulateGrad"]
    return y


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return (leaf(2) * 2).exp()


def sparse():
    return torch.sparse.mm(torch.eye(3).to_sparse().requires_grad_(), leaf(3, 3))


def sparse_csr():
    return torch.eye(3).to_sparse_csr() @ leaf(3, 3)


PROGRAMS = {
    "double backward": double_backward,
    "in place on a view": in_place_on_a_view,
    "multi tensor": multi_tensor,
    "cat": lambda: torch.cat([leaf(2), leaf(3), torch.ones(1)]),
    "stack": lambda: torch.stack([leaf(2)] * 3),
    "index": lambda: leaf(4, 4)[torch.tensor([0, 1]), 1:, None],
    "sparse": sparse,
    "sparse csr": sparse_csr,
    "nested": nested,
    "jagged": jagged,
    "complex": lambda: torch.view_as_real(leaf(2, dtype=torch.complex64).exp()).sum(),
    "fft": lambda: torch.fft.rfft(leaf(8)).abs(),
    "meta": lambda: leaf(2, device="meta").exp() * 2,
    "fake": fake,
    "vmap and grad": under_grad_transform,
    "inference mode": under_inference_mode,
    "scalar": lambda: leaf().exp() * leaf(),
    "empty": lambda: leaf(0, 3).exp().sum(),
    "bfloat16": lambda: leaf(2, dtype=torch.bfloat16).exp(),
    "float8": lambda: leaf(2).to(torch.float8_e4m3fn).to(torch.float32).exp(),
    "fake quantized": lambda: torch.fake_quantize_per_tensor_affine(leaf(2), 0.1, 0, -128, 127),
    "wrapper subclass": lambda: wrapper_subclass().sin().exp(),
    "parameter of a subclass": lambda: torch.nn.Parameter(wrapper_subclass().detach()).sin(),
    "lstm": lambda: torch.nn.LSTM(3, 4)(torch.ones(5, 1, 3)),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(*(leaf(1, 2, 3, 4) for _ in range(3))),
    "embedding": lambda: torch.nn.Embedding(5, 3, sparse=True)(torch.tensor([1, 2])),
    "full backward hooks": lambda: hooked_linear()(leaf(1, 2)),
    "unused output": lambda: leaf(4).split(2)[1].exp(),
    "max with indices": lambda: leaf(3, 3).max(dim=0),
    "linalg": lambda: torch.linalg.svd(torch.eye(3) * leaf(3, 3)),
}


def hooked_linear():
    linear = torch.nn.Linear(2, 2)
    linear.register_full_backward_hook(lambda module, grad_in, grad_out: None)
    return linear


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS)
def test_any_program_is_captured(program):
    y = PROGRAMS[program]()
    g = capture(y, finite=True)
    assert all(edge.node.index > node.index for node, edge in g.edges)
    assert g.roots
    assert len({node.index for node in g.nodes if node.kind == "leaf"}) == len(g.leaves) >= 1
    assert all(found.tensor() is None or found.tensor().is_leaf for found in g.leaves)
    assert {s.state for n in g.nodes for s in n.saved} <= {"alive", "modified"}
    assert g.saved_bytes >= 0
    assert [n.name for n in pickle.loads(pickle.dumps(g)).nodes] == [n.name for n in g.nodes]


def test_functions_of_several_tensors_have_their_own_name():
    (root, *_) = capture(multi_tensor()).roots
    assert root.name == "ForeachMulBackward1Scalar"


def test_a_nested_tensor_has_no_single_shape():
    g = capture(nested())
    assert (g.roots[0].shape, [s.shape for s in g.roots[0].saved]) == (None, [None])
    assert g.leaves[0].shape == (2, -1)


def test_second_order_graphs_contain_the_first_order_forward():
    g = capture(double_backward())
    assert {"Exp", "Sum"} <= set(ops(g))
    assert len(g.leaves) == 1
