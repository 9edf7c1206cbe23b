"""What `measure_memory` tells of a step, and that it leaves the step as it was."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import warnings
import weakref

import pytest
import torch
from steps import GPT, MLP, words
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.nn.modules import module as hooks_of_all_modules
from torch.utils.checkpoint import checkpoint

import backsight as bs
from backsight.gradient_release import release
from backsight.memory.curves import by_kind


def most(measured: bs.StepMemory, kind: str) -> int:
    return int(by_kind(measured.history)[kind].max())


def training(**options):
    torch.manual_seed(0)
    model, batch = MLP(64, 256, 256, 1), (torch.randn(32, 64), torch.randn(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step():
        model(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, batch, step


# What is what


def test_every_kind_has_the_bytes_that_it_should():
    model, optimizer, batch, step = training(foreach=True)
    step()
    weights = sum(p.nbytes for p in model.parameters())
    measured = bs.measure_memory(step)
    assert most(measured, "parameters") == weights
    assert most(measured, "gradients") == weights
    assert most(measured, "inputs") == sum(t.nbytes for t in batch)
    state = sum(t.nbytes for per in optimizer.state.values() for t in per.values())
    assert most(measured, "optimizer state") == state == 2 * weights + 4 * len(list(model.parameters()))
    assert measured.history.phase_at(measured.history.peak_at) == "optimizer"
    assert measured.by_kind["temporaries"] >= weights  # what foreach takes on top of all gradients


def test_state_and_gradients_that_the_first_step_makes_are_known():
    model, _, _, step = training(foreach=True)
    measured = bs.measure_memory(step)
    made = [block for block in measured.history.blocks if block.kind == "optimizer state"]
    assert {block.phase for block in made} == {"optimizer"}
    assert {"exp_avg of layers.0.weight", "step of layers.2.bias"} <= {block.name for block in made}
    names = {block.name for block in measured.history.blocks if block.kind == "gradients"}
    assert names == {f"{name}.grad" for name, _ in model.named_parameters()}


def test_saved_for_backward_is_what_the_graph_holds():
    model, batch = GPT(64, 2, 2, 300), words(2, 32, 300)
    graphs = []

    def step():
        loss = model(*batch)
        graphs.append(bs.graph(loss, names=False))
        loss.backward()

    measured = bs.measure_memory(step)
    saved = {s.storage: s.storage_bytes for node in graphs[0].nodes for s in node.saved if s.storage}
    there_before = {t.untyped_storage()._cdata for t in [*model.parameters(), *batch]}
    made = sum(size for storage, size in saved.items() if storage not in there_before)
    assert (
        made <= most(measured, "saved for backward") <= made + 8
    )  # with the loss and the gradient that backward begins


def test_a_result_that_a_variable_holds_is_told_by_its_name_and_not_as_saved():
    model, x = nn.Linear(16, 5000), torch.randn(64, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        logits = model(x)
        F.cross_entropy(logits, torch.zeros(64, dtype=torch.long)).backward()
        optimizer.step()

    measured = bs.measure_memory(step)
    (block,) = (block for block in measured.history.blocks if block.name == "logits")
    assert (block.kind, block.bytes, block.shape, block.op) == ("other", 64 * 5000 * 4, (64, 5000), "aten::addmm")
    assert block.node.startswith("AddmmBackward0 #")


def test_modules_are_told_by_their_paths_and_nodes_by_their_numbers():
    model, batch = GPT(64, 2, 2, 300), words(2, 32, 300)
    measured = bs.measure_memory(lambda: model(*batch).backward())
    gelu = [b for b in measured.history.blocks if b.op == "aten::gelu"]
    assert [block.module for block in gelu] == ["blocks.0", "blocks.1"]
    assert all(block.node.startswith("GeluBackward0 #") and block.kind == "saved for backward" for block in gelu)
    back = [b for b in measured.history.blocks if b.node == gelu[1].node and b.phase == "backward"]
    assert {block.module for block in back} == {"blocks.1"}  # a node's backward is for the module of its forward
    assert "head" in measured.by_module
    assert any(node.startswith("NllLossBackward0 #") for node in measured.by_node)


def test_several_models_are_told_apart():
    models = {"generator": nn.Linear(8, 64), "critic": nn.Linear(64, 1)}
    with bs.measure_memory(models) as measured:
        models["critic"](models["generator"](torch.randn(4, 8))).sum().backward()
    assert {"generator", "critic"} <= set(measured.by_module)
    assert "generator.weight" in {block.name for block in measured.history.blocks}


def test_a_model_with_its_step_is_named_from_the_model_and_not_from_its_calls():
    model = nn.ModuleDict({"inner": nn.Linear(8, 8)})
    measured = bs.measure_memory(lambda: model["inner"](torch.randn(2, 8)).sum().backward(), model=model)
    assert "inner" in measured.by_module


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_recomputed_and_what_it_saves_then_is_saved(reentrant):
    layers = nn.ModuleList(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()) for _ in range(3))
    x = torch.randn(128, 64, requires_grad=True)

    def step(checkpointed):
        h = x
        for layer in layers:
            h = checkpoint(layer, h, use_reentrant=reentrant) if checkpointed else layer(h)
        h.sum().backward()

    plain, lean = (bs.measure_memory(lambda c=c: step(c)) for c in (False, True))
    assert {span.phase for span in lean.history.spans} == {"forward", "recomputation", "backward"}
    assert most(lean, "saved for backward") < most(plain, "saved for backward")
    again = [b for b in lean.history.blocks if b.phase == "recomputation" and b.op == "aten::tanh"]
    assert {block.kind for block in again} == {"saved for backward"}


def test_a_graph_that_is_kept_for_a_second_pass_is_saved_until_then():
    model, x = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)), torch.randn(64, 32)

    def step():
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    measured = bs.measure_memory(step)
    (tanh,) = (b for b in measured.history.blocks if b.op == "aten::tanh")
    assert tanh.kind == "saved for backward"


def test_a_forward_pass_alone_saves_nothing():
    model = GPT(64, 2, 2, 300)
    with torch.no_grad():
        measured = bs.measure_memory(lambda: model(*words(2, 32, 300)))
    assert most(measured, "saved for backward") == most(measured, "gradients") == 0
    assert most(measured, "temporaries") > 0


def test_tensors_that_die_in_the_step_and_were_there_before_are_seen_to_die():
    held = [torch.randn(1000)]

    def step():
        held.clear()
        torch.empty(250)

    measured = bs.measure_memory(step)
    assert measured.end == measured.start - 4000
    assert measured.peak == measured.start


def test_a_storage_that_grows_counts_with_its_new_size():
    x = torch.zeros(0)
    measured = bs.measure_memory(lambda: x.resize_(1000))
    assert measured.end - measured.start == 4000


def test_a_step_that_does_nothing_has_its_peak_before():
    held = torch.randn(1000)
    measured = bs.measure_memory(lambda: None)
    assert measured.peak == measured.start >= held.nbytes
    assert "before the step" in str(measured.at_peak)
    assert measured.events == ()
    assert "by kind" in measured.table()


def test_memory_of_a_released_optimizer_shows_that_gradients_go():
    def peak_of_gradients(released):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(128, 128) for _ in range(12)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        released_by = release(optimizer, bucket=0) if released else None

        def step():
            model(torch.randn(8, 128)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        measured = bs.measure_memory(step)
        assert released_by is None or released_by.remove() is None
        return most(measured, "gradients")

    assert peak_of_gradients(True) < peak_of_gradients(False) / 4


# The step stays as it was


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
        assert note.startswith("The memory until then, as backsight measured it: peak ")
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
        with pytest.raises(RuntimeError, match=r"nothing is measured yet: the `with` of measure_memory\(\) has to end"):
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
    with FakeTensorMode(), pytest.raises(RuntimeError, match=r"backsight.forecast\(\) tells what they would take"):
        bs.measure_memory(lambda: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "takes a function that makes a step, or for a `with` a torch.nn.Module .* not int"),
        ((torch.ones(1),), "not Tensor"),
        (({"a": 3},), r"model\['a'\] must be a torch.nn.Module under a name, not int"),
        ((nn.Linear(1, 1), nn.Linear(1, 1)), "optimizer must be a torch.optim.Optimizer, not Linear"),
    ],
)
def test_what_is_no_model_no_step_and_no_optimizer_is_refused(arguments, message):
    with pytest.raises(TypeError, match=message):
        bs.measure_memory(*arguments)


def test_two_models_are_refused():
    with pytest.raises(TypeError, match="given two models; several go into one dict"):
        bs.measure_memory(nn.Linear(1, 1), model=nn.Linear(1, 1))


def test_one_measurement_is_of_one_step():
    measuring = bs.measure_memory()
    with measuring:
        pass
    with pytest.raises(RuntimeError, match="has been made"), measuring:
        pass


def test_a_device_that_is_none_is_refused():
    with pytest.raises(RuntimeError, match="nowhere"):
        bs.measure_memory(lambda: None, device="nowhere")


def test_nothing_is_printed_on_standard_output():
    program = "import torch, backsight as bs; x = torch.ones(9, requires_grad=True)\n"
    program += "bs.measure_memory(lambda: (x * 2).sum().backward())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
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
