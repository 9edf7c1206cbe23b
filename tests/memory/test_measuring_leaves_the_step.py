"""`measure_memory` leaves the step as it was, passes on what it raises, and refuses what it cannot measure."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import warnings
import weakref

import fresh
import pytest
import torch
from steps import mlp, most, training
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules import module as hooks_of_all_modules

import backsight as bs


def test_weights_are_the_same_to_the_last_bit():
    def trained(measured):
        model, optimizer, _, step = training()
        for _ in range(3):
            bs.measure_memory(step, optimizer, model=model) if measured else step()
        return [*model.parameters(), torch.rand(1)]  # and so is what is drawn next

    assert all(torch.equal(a, b) for a, b in zip(trained(True), trained(False), strict=True))


def test_nothing_stays_attached():
    from torch.optim import optimizer as hooks_of_all_optimizers

    tables = (
        *(hooks_of_all_modules._global_forward_hooks, hooks_of_all_modules._global_forward_pre_hooks),
        *(hooks_of_all_optimizers._global_optimizer_pre_hooks, hooks_of_all_optimizers._global_optimizer_post_hooks),
    )
    before = [dict(table) for table in tables]
    model, optimizer, _, step = training()
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    bs.measure_memory(step, optimizer, model=model)
    assert [dict(table) for table in tables] == before
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not torch._C._autograd._profiler_enabled()
    copy.deepcopy(model), pickle.dumps(model)


def test_nothing_is_kept_alive():
    model, optimizer, batch, step = training()
    with bs.measure_memory(model, optimizer) as measured:
        step()
        late = torch.randn(7)
    watched = [weakref.ref(each) for each in (model, optimizer, *batch, *model.parameters(), late)]
    del model, optimizer, batch, step, late
    gc.collect()
    assert measured.peak
    assert [ref() for ref in watched] == [None] * len(watched)


def test_the_result_is_plain_data():
    measured = bs.measure_memory(training()[3])
    again = pickle.loads(pickle.dumps(measured))
    assert (again.peak, again.by_kind, str(again.at_peak)) == (measured.peak, measured.by_kind, str(measured.at_peak))
    assert b"torch" not in pickle.dumps(measured)


def test_an_exception_passes_and_what_was_seen_is_told():
    model = nn.Linear(32, 32)
    with pytest.raises(ZeroDivisionError), bs.measure_memory(model) as measured:
        kept = model(torch.randn(64, 32))
        raise ZeroDivisionError
    assert measured.end - measured.start >= kept.nbytes
    assert "the step ended with ZeroDivisionError" in measured.table()


def test_an_exception_of_a_function_has_the_peak_noted():
    def step():
        held = torch.randn(100_000)
        raise ZeroDivisionError(len(held))

    with pytest.raises(ZeroDivisionError) as raised:
        bs.measure_memory(step)
    if sys.version_info >= (3, 11):
        (note,) = raised.value.__notes__
        assert note.startswith("Memory until then, as measured by backsight: peak ")
        assert "391 KB of shape (100000,)" in note


def test_an_exception_in_a_module_does_not_shift_later_calls():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError

    model = nn.ModuleDict({"fails": Fails(), "works": nn.Linear(8, 8)})

    def step():
        with pytest.raises(ValueError):
            model["fails"](torch.ones(1))
        model["works"](torch.randn(2, 8))

    measured = bs.measure_memory(step, model=model)
    assert {block.module for block in measured.history.blocks if block.op == "aten::addmm"} == {"works"}
    assert next(b for b in measured.history.blocks if b.op == "aten::randn").module == ""


def test_a_compiled_model_is_not_compiled_anew():
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    fast, x = torch.compile(model, backend=backend), torch.randn(16, 32)
    fast(x).sum().backward()
    model.zero_grad()
    filters = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured = bs.measure_memory(lambda: fast(x).sum().backward(), model=model)
    assert warnings.filters == filters
    fast(x).sum().backward()
    assert len(compiled) == 1
    assert "OptimizedModule" not in measured.by_module
    assert most(measured, "gradients") == sum(p.nbytes for p in model.parameters())


# What cannot be


def test_before_the_end_there_is_nothing_to_read():
    with bs.measure_memory() as measured:
        assert repr(measured) == str(measured) == "<memory of a step that has not ended>"
        with pytest.raises(RuntimeError, match=r"nothing is measured yet: the `with` of measure_memory\(\) must end"):
            measured.peak
    assert measured.peak >= 0


def test_a_profiler_that_runs_is_refused():
    with bs.profile() as profiled:
        with pytest.raises(RuntimeError, match="a profiler is running"):
            bs.measure_memory(lambda: None)
        torch.ones(1)
    assert profiled.rows
    with torch.profiler.profile(), pytest.raises(RuntimeError, match="a profiler is running"):
        bs.measure_memory(lambda: None)
    with bs.measure_memory(), pytest.raises(RuntimeError, match="a profiler is running"):
        bs.measure_memory(lambda: None)


def test_fake_tensors_are_refused():
    with FakeTensorMode(), pytest.raises(RuntimeError, match=r"backsight.forecast\(\) predicts what they would take"):
        bs.measure_memory(lambda: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "takes a function that does a step, or for a `with` a torch.nn.Module .* not int"),
        ((torch.ones(1),), "not Tensor"),
        (({"a": 3},), r"model\['a'\] must be a torch.nn.Module under a name, not int"),
        ((nn.Linear(1, 1), nn.Linear(1, 1)), "optimizer must be a torch.optim.Optimizer, not Linear"),
    ],
)
def test_what_is_no_model_no_step_and_no_optimizer_is_refused(arguments, message):
    with pytest.raises(TypeError, match=message):
        bs.measure_memory(*arguments)


def test_two_models_are_refused():
    with pytest.raises(TypeError, match="got two models; pass several as one dict"):
        bs.measure_memory(nn.Linear(1, 1), model=nn.Linear(1, 1))


def test_one_measurement_is_of_one_step():
    measuring = bs.measure_memory()
    with measuring:
        pass
    with pytest.raises(RuntimeError, match="is finished"), measuring:
        pass


def test_a_device_that_is_none_is_refused():
    with pytest.raises(RuntimeError, match="nowhere"):
        bs.measure_memory(lambda: None, device="nowhere")


def test_nothing_is_printed_on_standard_output():
    program = "import torch, backsight as bs; x = torch.ones(9, requires_grad=True)\n"
    program += "bs.measure_memory(lambda: (x * 2).sum().backward())"
    done = fresh.run([sys.executable, "-c", program], check=True)
    assert done.stdout == ""


def test_sparse_gradients_are_gradients():
    table = nn.Embedding(1000, 64, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    optimizer.zero_grad()

    def step():
        table(torch.arange(10)).sum().backward()
        optimizer.step()

    measured = bs.measure_memory(step)
    values = 10 * 64 * 4
    assert most(measured, "gradients") >= values
    assert "weight.grad" in {block.name for block in measured.history.blocks}


def test_subclasses_of_tensors_are_counted_and_none_of_their_code_is_run():
    class Strange(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("the code of a user's tensor was run")

    strange = torch.randn(5000).as_subclass(Strange)
    measured = bs.measure_memory(lambda: None)
    with torch._C.DisableTorchFunction():
        size = strange.untyped_storage().nbytes()
    assert size in {block.bytes for block in measured.history.blocks}


def test_what_a_step_builds_ends_with_it():
    def step():
        model, batch = mlp()
        optimizer = torch.optim.AdamW(model.parameters())
        model(*batch).backward()
        optimizer.step()

    with bs.measure_memory() as one:
        step()
    with bs.measure_memory() as two:
        step()
        step()
    assert two.peak == pytest.approx(one.peak, rel=0.02)
