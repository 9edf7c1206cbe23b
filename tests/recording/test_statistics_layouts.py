"""Every tensor that stands for numbers is measured by them; every other is skipped, with the reason."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded import examples
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from backsight.recording.statistics import measure


def assert_stands_for(tensor: torch.Tensor, numbers: torch.Tensor) -> None:
    """The statistics of the tensor are those of these dense numbers."""
    measured, expected = measure([tensor]), measure([numbers.detach().clone().contiguous()])
    assert measured.skipped == {}
    for name in ("count", "zeros", "nans", "infs", "min", "max"):
        np.testing.assert_equal(measured.rows[name], expected.rows[name], err_msg=name)
    np.testing.assert_allclose(measured.rows["mean"], expected.rows["mean"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(measured.rows["m2"], expected.rows["m2"], rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(measured.histograms, expected.histograms)
    np.testing.assert_array_equal(measured.negatives, expected.negatives)
    np.testing.assert_array_equal(measured.sampled, expected.sampled)


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data())
def test_any_view_of_a_tensor_stands_for_its_elements(data):
    shape = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=4))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 9))))
    for _ in range(data.draw(st.integers(0, 4))):
        dimension = data.draw(st.integers(0, x.dim() - 1))
        size = x.size(dimension)
        change = data.draw(st.sampled_from(["transpose", "slice", "step", "expand", "unfold"]))
        if change == "transpose":
            x = x.transpose(dimension, data.draw(st.integers(0, x.dim() - 1)))
        elif change == "slice" and size:
            x = x.narrow(dimension, data.draw(st.integers(0, size - 1)), 1)
        elif change == "step":
            x = x[(slice(None),) * dimension + (slice(None, None, 2),)]
        elif change == "expand" and size == 1:
            x = x.expand([5 if d == dimension else n for d, n in enumerate(x.shape)])
        elif change == "unfold" and size >= 2:
            x = x.unfold(dimension, 2, 1)
    assert_stands_for(x, x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        lambda: torch.randn(64, 32).t(),
        lambda: torch.nn.Parameter(torch.randn(9, 9)),
        lambda: torch.randn(9, 9, requires_grad=True) * 2,
        lambda: torch.tensor(3.0),
        lambda: torch.randn(50)[7:31],
        lambda: torch.frombuffer(bytearray(4 * 33 + 1), dtype=torch.float32, offset=1),
    ],
    ids=["channels_last", "transposed", "parameter", "in a graph", "scalar", "view", "unaligned"],
)
def test_strided(make):
    x = make()
    assert_stands_for(x, x)


def test_an_expanded_tensor_is_counted_as_often_as_it_is_repeated():
    x = torch.tensor([1.0, 0.0, math.nan]).expand(10**12, 3)
    measured = measure([x])
    assert measured.rows[["count", "mean", "m2", "zeros", "nans"]].item() == (3 * 10**12, 0.5, 0.5e12, 10**12, 10**12)
    assert measured.histograms.max() == 2**32 - 1


def test_complex_numbers_are_measured_as_their_real_view():
    z = torch.randn(40, dtype=torch.complex64)
    for x in (z, z.conj(), z.reshape(4, 10).t(), z.to(torch.complex128), z.to(torch.complex32)):
        assert_stands_for(x, torch.view_as_real(x.resolve_conj()))
    assert_stands_for(z.conj().imag, -z.imag)
    assert_stands_for(z[:1].conj().imag, -z[:1].imag)


@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_sparse_tensors_are_measured_with_their_zeros(offset):
    dense = torch.where(torch.rand(40, 60, generator=torch.Generator().manual_seed(0)) < 0.2, torch.randn(40, 60), 0)
    dense = torch.where(dense != 0, dense + offset, 0)
    for sparse in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((4, 4))):
        assert_stands_for(sparse, dense)
    assert_stands_for(torch.zeros(5, 5).to_sparse(), torch.zeros(5, 5))


def test_places_that_a_sparse_gradient_holds_twice_are_added():
    table = torch.nn.Embedding(10, 4, sparse=True)
    table(torch.tensor([1, 1, 3])).sum().backward()
    assert not table.weight.grad.is_coalesced()
    assert_stands_for(table.weight.grad, table.weight.grad.to_dense())


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"])
def test_types_beside_the_common_ones_are_widened(name):
    x = (torch.rand(300) * 50).to(getattr(torch, name))
    assert_stands_for(x, x.to(torch.float64))


def test_other_layouts_that_hold_numbers():
    x = torch.randn(6, 8)
    assert_stands_for(x.to_mkldnn(), x)
    assert_stands_for(torch._efficientzerotensor(5), torch.zeros(5))
    assert_stands_for(torch.nested.nested_tensor([x[0], x[1, :3]]), torch.cat([x[0], x[1, :3]]))


def released():
    view = torch.ones(100)[10:20]
    view.untyped_storage().resize_(0)
    return view


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: torch.empty(3, device="meta"), "is on the meta device"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8), "is quantized"),
        (lambda: torch.nn.LazyLinear(3).weight, "is not initialized yet"),
        (lambda: FakeTensorMode().from_tensor(torch.ones(3)), "is a FakeTensor, which stores"),
        (released, "has had its memory released"),
    ],
    ids=["meta", "quantized", "lazy", "fake", "released"],
)
def test_what_has_no_numbers_is_skipped_with_the_reason(make, reason):
    measured = measure([torch.ones(2), make(), torch.ones(3)])
    assert list(measured.skipped) == [1]
    assert measured.skipped[1].startswith(reason)
    assert measured.rows["count"].tolist() == [2, 0, 3]


def test_inside_a_function_transform_tensors_are_skipped():
    skipped = []

    def observed(x):
        skipped.append(measure([x]).skipped)
        return x.sum()

    torch.vmap(observed)(torch.ones(3, 4))
    assert "could not be read" in skipped[0][0]


class Loud(torch.Tensor):
    """A tensor that tells of every operation on it."""

    heard: tuple[str, ...] = ()

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.heard += (str(function),)
        return super().__torch_function__(function, types, args, kwargs or {})


def test_no_override_of_the_program_runs():
    x = torch.randn(30).as_subclass(Loud)
    Loud.heard = ()
    measured = measure([x, torch.randn(4).expand(3, 4)])
    assert Loud.heard == ()
    assert measured.skipped == {}


class Listening(TorchDispatchMode):
    """A mode that tells of every operation, as a FLOP counter does."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.heard.append(function)
        return function(*args, **(kwargs or {}))


def test_modes_of_the_program_see_nothing():
    tensors = [torch.randn(4, 4), torch.randn(4, 4)[:, ::2]]
    with torch.device("meta"), Listening() as mode:
        measured = measure(tensors)
        assert mode.heard == []
        torch.ones(3)
        assert mode.heard
    assert measured.rows["count"].tolist() == [16, 8]


def test_measuring_leaves_the_tensors_as_they_were():
    x = torch.randn(50, requires_grad=True)
    y = (x * 2)[::2]
    before, version = y.detach().clone(), y._version
    measure([x, y, x[::3]])
    assert y._version == version
    assert torch.equal(y, before)
    assert x.grad is None


def test_a_sharded_tensor_is_measured_by_its_local_shard(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (1,))
        x = torch.randn(8, 3)
        assert_stands_for(torch.nn.Parameter(distribute_tensor(x, mesh, [Shard(0)])), x)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.skipif(os.environ.get("CUDA_LAUNCH_BLOCKING") == "1", reason="launches wait by request")
def test_on_a_device_nothing_waits_until_the_numbers_are_looked_at():
    tensors = [torch.randn(300_000, device="cuda"), torch.randn(7, device="cuda").expand(3, 7), torch.ones(5)]
    measure(tensors).rows  # the first call loads kernels, which waits
    torch.cuda.set_sync_debug_mode("error")
    try:
        measured = measure(tensors)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for at, x in enumerate(tensors):
        expected = measure([x.cpu()])
        np.testing.assert_allclose(measured.rows["mean"][at], expected.rows["mean"][0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(measured.histograms[at], expected.histograms[0])
