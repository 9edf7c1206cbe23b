"""A watched program computes the same, raises the same, warns the same, compiles the same; nothing stays behind."""

import gc
import re
import sys
import threading
import traceback
import warnings
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from marked_lines import line
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import backsight as bs

every_level = pytest.mark.parametrize("level", ["calls", "lines", "exact", "nonfinite"])


def watched(level):
    return bs.watch(nonfinite=True) if level == "nonfinite" else bs.watch(level=level)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward, self.norm, self.outward = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)

    def forward(self, x):
        h = nn.functional.dropout(self.norm(self.inward(x)).relu_(), 0.3, self.training)
        return self.outward(h).squeeze(-1)


def trained(optimizer=torch.optim.Adam, steps=3):
    torch.manual_seed(0)
    model = Small()
    opt = optimizer(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = model(torch.randn(6, 4)).square().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 4))
    return [t.detach().clone() for t in model.state_dict().values()]


@every_level
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_weights_are_bit_identical(level, optimizer):
    plain = trained(optimizer)
    with watched(level):
        seen = trained(optimizer)
    assert all(map(torch.equal, plain, seen))


UNARY = [torch.sin, torch.exp, torch.Tensor.relu, lambda h: h[1:], lambda h: h.view(-1), lambda h: h.detach() + h]
BINARY = [torch.add, torch.mul, lambda a, b: a.sum() * b, lambda a, b: torch.where(a.sum() > 0, b, b * 2)]
CHANGES = [lambda h: h.mul_(0.5), lambda h: h.add_(1), lambda h: h.__setitem__(0, 0.25), lambda h: h.data.clamp_(-1, 1)]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("unary"), st.integers(0, len(UNARY) - 1), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("binary"), st.integers(0, len(BINARY) - 1), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("change"), st.integers(0, len(CHANGES) - 1), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("backward"), st.just(0), st.integers(0, 9), st.just(0)),
    ),
    max_size=12,
)


def run(program):
    """The values that a small program of tensors leaves, and what it raised."""
    torch.manual_seed(1)
    leaf = torch.randn(4, requires_grad=True)
    held, raised = [leaf], []
    for what, which, a, b in program:
        x, y = held[a % len(held)], held[b % len(held)]
        try:
            if what == "unary":
                held.append(UNARY[which](x))
            elif what == "binary":
                held.append(BINARY[which](x, y))
            elif what == "change":
                CHANGES[which](x)
            else:
                x.sum().backward()
        except (RuntimeError, IndexError) as error:
            raised.append((type(error), str(error)))
    return [t.detach().clone() for t in held], leaf.grad, [t._version for t in held], raised


@given(program=steps, level=st.sampled_from(["lines", "exact", "nonfinite"]))
def test_any_program_gives_the_same_values_versions_and_errors(program, level):
    values, grad, versions, raised = run(program)
    with watched(level):
        values_, grad_, versions_, raised_ = run(program)
    assert len(values) == len(values_)
    assert all(torch.equal(a, b) or (a != a).any() for a, b in zip(values, values_, strict=True))
    assert (grad is None) == (grad_ is None) and (grad is None or torch.allclose(grad, grad_, 0, 0, equal_nan=True))
    assert versions == versions_ and raised == raised_


@every_level
def test_nothing_stays_behind(level):
    before = sys.gettrace(), threading.gettrace(), _get_current_function_mode_stack(), list(warnings.filters)
    for _ in range(2):
        with watched(level):
            trained()
    after = sys.gettrace(), threading.gettrace(), _get_current_function_mode_stack(), list(warnings.filters)
    assert before == after and sys._getframe().f_trace is None
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(n) for n in (3, 4)] == [None, None]


@every_level
def test_nothing_is_kept_alive(level):
    with watched(level) as watch:
        x = torch.ones(3, requires_grad=True)
        y = (x * 2).detach().add_(1)
        z = (x * y).sum()
        z.backward()
        gone = [weakref.ref(t) for t in (x, y, z)]
        del x, y, z
        gc.collect()
        assert [ref() for ref in gone] == [None] * 3
    assert watch.level != ""


@every_level
def test_a_local_that_is_deleted_after_the_watch_is_gone(level):
    with watched(level):
        x = torch.ones(3)
        x.add_(1)
    gone = weakref.ref(x)
    del x
    assert gone() is None


@every_level
def test_the_traceback_of_an_error_is_the_programs_own(level):
    def program():
        nn.functional.cross_entropy(torch.zeros(3, 2, requires_grad=True), torch.zeros(4, dtype=torch.long))

    def frames(error):
        return [(f.filename, f.name) for f in traceback.extract_tb(error.__traceback__)][1:]

    with pytest.raises(ValueError, match="batch_size") as plain:
        program()
    with pytest.raises(ValueError, match="batch_size") as seen, watched(level):
        program()
    assert frames(seen.value)[-2:] == frames(plain.value)[-2:]
    assert not any("backsight/tracing" in file or "overrides" in file for file, _ in frames(seen.value))


class _Graphs(torch.utils.data.Dataset):
    """Samples that require grad, which a worker cannot stack."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(3, requires_grad=True) * index


def test_the_traceback_that_a_worker_sends_along_is_the_programs_own(monkeypatch):
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.5)  # for so long a worker is waited for
    loader = torch.utils.data.DataLoader(_Graphs(), batch_size=2, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="out=") as plain:
        next(iter(loader))
    with pytest.raises(RuntimeError, match="out=") as seen, watched("exact"):
        next(iter(loader))

    def frames(error):
        return re.findall(r'File "(.*)", line (\d+), in (\w+)', str(error))

    assert frames(seen.value) == frames(plain.value)
    del plain, seen  # the workers go now, while they are waited for no longer
    gc.collect()


@every_level
def test_a_warning_is_told_of_the_programs_line(level):
    y = torch.ones(3, requires_grad=True) * 2
    with warnings.catch_warnings(record=True) as caught, watched(level):
        warnings.simplefilter("always")
        _ = y.grad  # read
        torch.tensor(y.detach())  # copied
        nn.functional.mse_loss(y, y[:1])  # broadcast
    here = test_a_warning_is_told_of_the_programs_line
    told = [(each.filename, each.lineno) for each in caught if issubclass(each.category, UserWarning)]
    assert told == [(__file__, line(mark, here)) for mark in ("read", "copied", "broadcast")]


class Doubler(TorchFunctionMode):
    """A mode of the program's own."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.Tensor.exp else result


@every_level
def test_modes_of_the_program_work_inside_and_around(level):
    x = torch.zeros(2)
    with watched(level), Doubler():
        inside = x.exp()
    with Doubler(), watched(level):
        around = x.exp()
    assert inside.tolist() == around.tolist() == [2.0, 2.0]


@every_level
def test_a_mode_that_is_entered_within_and_left_after_stays(level):
    mode = Doubler()
    with watched(level):
        mode.__enter__()
    try:
        assert _get_current_function_mode_stack() == [mode]
    finally:
        mode.__exit__(None, None, None)


@every_level
def test_fast_paths_for_inference_are_still_taken(level):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        plain = layer(x)
        with watched(level):
            seen = layer(x)
    assert torch.equal(plain, seen)
    with torch.profiler.profile() as profile, torch.no_grad(), watched(level):
        layer(x)
    assert any("transformer_encoder_layer_fwd" in event.name for event in profile.events())


def compiled_step(x):
    return (x * 2).sin() + 1


class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x).relu()


@pytest.fixture
def counter():
    from torch._dynamo import reset
    from torch._dynamo.testing import CompileCounter

    reset()
    yield CompileCounter()
    reset()


@every_level
def test_a_function_is_compiled_whole_and_once(level, counter):
    x = torch.ones(3, requires_grad=True)
    with watched(level):
        step = torch.compile(compiled_step, backend=counter, fullgraph=True)
        results = [step(x) for _ in range(3)]
    assert counter.frame_count == 1
    assert all(torch.equal(result, compiled_step(x)) for result in results)


@every_level
def test_a_module_that_was_compiled_before_is_not_compiled_again(level, counter):
    model, x = Compiled(), torch.ones(2, 3)
    step = torch.compile(model, backend=counter, fullgraph=True)
    step(x)
    with watched(level):
        step(x)
    step(x)
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    "level",
    [
        "lines",
        pytest.param(
            "exact",
            marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="a mode cannot know that compiled code begins"),
        ),
    ],
)
def test_a_function_that_was_compiled_before_is_not_compiled_again(level, counter):
    x = torch.ones(3, requires_grad=True)
    step = torch.compile(compiled_step, backend=counter, fullgraph=True)
    step(x)
    with watched(level):
        step(x)
    step(x)
    assert counter.frame_count == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring tells of compiled functions from 3.12 on")
def test_a_pause_gives_back_the_tool_that_tells_of_compiled_functions_and_its_end_takes_one(counter):
    def ours():
        return [sys.monitoring.get_tool(number) for number in (3, 4)].count("backsight")

    x = torch.ones(3, requires_grad=True)
    step = torch.compile(compiled_step, backend=counter, fullgraph=True)
    step(x)
    with bs.watch(level="exact") as watch:
        step(x)
        assert (ours(), len(_get_current_function_mode_stack())) == (1, 1)
        watch.pause()
        assert (ours(), len(_get_current_function_mode_stack())) == (0, 0)
        unwatched = step(x)
        watch.resume()
        assert (ours(), len(_get_current_function_mode_stack())) == (1, 1)
        plain, compiled = x * 2, step(x)
        assert watch.operation_of(bs.graph(plain).nodes[0]).line.segment == "x * 2"
        assert watch.line_of(bs.graph(compiled).nodes[0]) is not None
        assert watch.line_of(bs.graph(unwatched).nodes[0]) is None
    assert (ours(), len(_get_current_function_mode_stack())) == (0, 0)
    step(x)
    assert counter.frame_count == 1


@every_level
def test_models_and_graphs_can_be_copied_and_saved_while_watched(level, tmp_path):
    import copy
    import pickle

    model = Small()
    with watched(level):
        twin = copy.deepcopy(model)
        torch.save(model.state_dict(), tmp_path / "state.pt")
        twin.load_state_dict(torch.load(tmp_path / "state.pt"))
        graph = pickle.loads(pickle.dumps(bs.graph(model(torch.ones(2, 4)).sum())))
    assert torch.equal(model.inward.weight, twin.inward.weight)
    assert (graph.nodes[0].source is None) == (level == "calls")


@pytest.mark.parametrize("level", ["lines", "exact", "nonfinite"])
def test_a_failure_of_ours_is_told_once_and_ends_the_watch_alone(level, monkeypatch):
    from backsight.tracing.sites import Sites

    def fail(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(Sites, "of_line", fail)
    monkeypatch.setattr(Sites, "of_call", fail)
    plain = trained()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watched(level):
            seen = trained()
    assert all(map(torch.equal, plain, seen))
    ours = [str(each.message) for each in caught if "backsight" in str(each.message)]
    assert ours == ["backsight: stopped watching: ZeroDivisionError: ours"]


class Asked:
    """What a program may give to `handle_torch_function`: it is not to be hashed, and its class says how it is."""

    __hash__ = None

    def __init__(self, held):
        self.held = held

    def __call__(self, duck):
        return duck.tensor * self.held


class Duck:
    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*args)


@every_level
def test_functions_of_the_program_that_ask_a_mode_are_neither_kept_nor_hashed(level):
    from torch.overrides import handle_torch_function

    held = [torch.ones(3) for _ in range(2)]
    alive = [weakref.ref(each) for each in held]
    with watched(level):
        duck = Duck(torch.ones(3, requires_grad=True))
        functions = [lambda duck, held=held[0]: duck.tensor * held, Asked(held[1])]
        results = [handle_torch_function(each, (duck,), duck) for each in functions]
        assert all(torch.equal(each, duck.tensor) for each in results)
        del functions, held, results
        gc.collect()
        assert not any(ref() is not None for ref in alive)


@every_level
def test_an_array_is_forgotten_with_its_memory_and_a_newer_one_there_is_not(level):
    with watched(level) as watch:
        x = torch.ones(3, requires_grad=True)
        for _ in range(3):
            first = x.detach().numpy()
            second = x.detach().numpy()
            del first
            assert level not in ("exact", "nonfinite") or watch.severed(torch.from_numpy(second))
            del second
        assert not watch._log.flow._arrays and not watch._log.flow._pointers


@pytest.mark.parametrize("level", ["exact", "lines", "calls"])
def test_a_view_that_is_changed_under_no_grad_keeps_its_history_unasked(level: str) -> None:
    # To ask for it would raise: the view was made while autograd recorded, and changed while it did not.
    weight = nn.Parameter(torch.zeros(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with watched(level):
            view = weight.view(2, 3)
            with torch.no_grad():
                view[:, 1] += 1.0
                view[:, 2:] += 2.0
                view.mul_(2.0)
            taken = nn.Parameter(view.view(-1))
    assert taken.tolist() == [0, 2, 4, 0, 2, 4]
