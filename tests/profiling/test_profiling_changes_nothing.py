"""Observing does not disturb: results are the same to the bit, nothing stays behind, exceptions pass."""

import contextlib
import copy
import gc
import pickle
import sys
import threading
import warnings
import weakref

import fresh
import pytest
import torch
from profiled import Net, batch, row
from torch.nn.modules import module as modules
from torch.utils.checkpoint import checkpoint

import backsight as bs


def train(profiled: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = Net()
    model.dropout = torch.nn.Dropout(0.3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step():
        loss = checkpoint(model, model.dropout(batch()), use_reentrant=False)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(4):
        if profiled:
            with bs.profile():
                step()
        else:
            step()
    return [p.detach() for p in model.parameters()]


def test_weights_are_bit_identical():
    assert all(torch.equal(a, b) for a, b in zip(train(True), train(False), strict=True))


def test_gradients_are_handed_over_and_not_copied():
    w = torch.ones(4, requires_grad=True)
    arrived = []
    loss = (w * torch.arange(4.0)).sum()
    loss.grad_fn.next_functions[0][0].register_hook(lambda gradients, _: arrived.append(gradients[0].data_ptr()))
    with bs.profile():
        loss.backward()
    assert w.grad.data_ptr() == arrived[0], "a hook of ours that holds a gradient makes autograd copy it"


def test_no_hook_and_no_filter_stays():
    def registries():
        return [len(modules._global_forward_hooks), len(modules._global_forward_pre_hooks), list(warnings.filters)]

    model, before = Net(), registries()
    with bs.profile() as p:
        model(batch()).backward()
        assert registries() != before
    assert registries() == before
    again = model(batch())
    again.backward()
    assert not any(getattr(m, name) for m in model.modules() for name in ("_forward_hooks", "_forward_pre_hooks"))
    assert p.finished


def test_a_profile_keeps_nothing_alive():
    model = Net()
    with bs.profile() as p:
        model(batch()).backward()
    died = weakref.ref(model), weakref.ref(model.first.weight)
    del model
    gc.collect()
    assert p.rows and [ref() for ref in died] == [None, None]


def test_a_model_copies_and_pickles_inside_of_the_block():
    model = Net()
    with bs.profile():
        model(batch()).backward()
        twin = copy.deepcopy(model)
        pickle.loads(pickle.dumps(model))
    assert torch.equal(twin(batch()), model(batch()))


def test_an_exception_passes_and_what_was_seen_is_there():
    model = Net()
    with pytest.raises(ZeroDivisionError), bs.profile() as p:
        model(batch()).backward()
        1 / 0
    assert p.finished and row(p, "AddmmBackward0", "first").backward > 0


def test_an_exception_in_a_forward_leaves_the_modules_right():
    model = Net()
    with bs.profile() as p:
        with pytest.raises(RuntimeError):
            model(torch.ones(4, 5))
        model(batch()).backward()
        (torch.ones(2, requires_grad=True) * 2).sum().backward()
    assert row(p, "AddmmBackward0", "first").forward > 0
    assert row(p, "MulBackward0").module == "(outside)"


def test_an_interrupt_in_a_forward_leaves_the_modules_right():
    class Interrupted(torch.nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Interrupted()
            self.net = Net()

        def forward(self, x):
            try:
                self.inner(x)
            except KeyboardInterrupt:
                return self.net(x)

    model = Outer()
    with bs.profile() as p:
        model(batch()).backward()
        loss = model.net(batch())
    assert loss.grad_fn is not None
    assert row(p, "AddmmBackward0", "net.first").calls >= 1


def test_one_profile_at_a_time():
    with bs.profile() as p:
        with pytest.raises(bs.ProfilingError, match="only one can run at a time"):
            bs.profile().__enter__()
        refused = []

        def inside():
            try:
                with bs.profile():
                    pass
            except bs.ProfilingError as error:
                refused.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        Net()(batch()).backward()
    assert len(refused) == 1 and p.rows
    with bs.profile() as p:
        Net()(batch()).backward()
    assert p.rows, "the refused ones left nothing locked"


def test_pytorchs_profiler_is_not_ended_by_ours():
    with torch.profiler.profile() as theirs:
        with pytest.raises(bs.ProfilingError, match="PyTorch's profiler is already running"):
            bs.profile().__enter__()
        torch.ones(2).exp()
    assert any(event.name == "aten::exp" for event in theirs.events())
    with bs.profile() as p:
        torch.ones(2).exp()
    assert p.rows


def test_a_profiler_that_was_started_in_the_block_is_told_of():
    told = "was another one started or stopped inside the block"
    with pytest.raises(bs.ProfilingError, match=told), bs.profile(), torch.profiler.profile():
        Net()(batch()).backward()
    with bs.profile() as p:
        Net()(batch()).backward()
    assert p.rows


def test_an_exception_is_not_replaced_by_one_of_ours():
    warned = pytest.warns(RuntimeWarning, match="backsight: no profile")
    with warned, pytest.raises(ZeroDivisionError), bs.profile() as p:
        with torch.profiler.profile():
            torch.ones(1).exp()
        1 / 0
    assert not p.finished


def test_a_profile_is_used_once():
    profiling = bs.profile()
    with profiling:
        pass
    with pytest.raises(bs.ProfilingError, match="create another"):
        profiling.__enter__()


def test_frozen_parameters_and_inference_are_fine():
    model = Net()
    model.first.requires_grad_(False)
    with bs.profile() as p:
        with torch.inference_mode():
            model(batch())
        model(batch()).backward()
    assert {r.module for r in p.rows if r.kind == "leaf"} == {"second"}
    with torch.inference_mode(), bs.profile() as p:
        model(batch())
    assert p.rows


def test_a_lazy_module_is_initialised_in_the_block():
    model = torch.nn.Sequential(torch.nn.LazyLinear(3))
    with bs.profile() as p:
        model(batch()).sum().backward()
    assert model[0].weight.grad is not None
    assert row(p, "AddmmBackward0", "0").backward > 0


def test_in_place_operations_and_views_are_trained_all_the_same():
    def gradient(profiled: bool) -> torch.Tensor:
        w = torch.ones(4, 3, requires_grad=True)
        with bs.profile() if profiled else contextlib.nullcontext():
            y = w * 2
            y[0].mul_(3)
            y.relu_().sum().backward()
        return w.grad

    assert torch.equal(gradient(True), gradient(False))


def test_weights_of_another_type_in_the_block_are_trained_all_the_same():
    model = Net()
    with bs.profile() as p:
        model.double()
        model(batch().double()).backward()
    assert model.first.weight.grad.dtype == torch.float64
    assert row(p, "AddmmBackward0", "first").backward > 0


FIRST = """
import torch
import backsight as bs

model = torch.nn.Linear(2, 1)
def step():
    model(torch.ones(4, 2)).sum().backward()

with bs.profile():
    step()
bs.measure_memory(step)
print("profiled")
"""


@pytest.mark.parametrize("first", ["", "import warnings; warnings.simplefilter('error')"])
def test_the_first_profiles_of_a_process_say_nothing_to_the_user(tmp_path, first):
    done = fresh.run([sys.executable, "-c", first + FIRST], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("profiled\n", "")
