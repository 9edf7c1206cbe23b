"""Notes taken through PyTorch's own hooks: nothing is disturbed, and nothing stays behind."""

import asyncio
import gc
import inspect
import sys
import threading
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.optim.optimizer import _global_optimizer_post_hooks

import backsight as bs
from backsight.naming.roots import is_ours
from backsight.tracing import current
from backsight.tracing._torch import SEES_CALLS


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))


def train(model, steps=4, **options):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, **options)
    torch.manual_seed(1)
    for _ in range(steps):
        loss = model(torch.randn(16, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return optimizer


def test_weights_are_bit_identical():
    plain, watched = small(), small()
    train(plain)
    with bs.watch():
        train(watched)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))


def test_nothing_stays_behind():
    def state():
        return (
            len(hooks._global_forward_hooks),
            len(hooks._global_forward_pre_hooks),
            len(_global_optimizer_post_hooks),
            list(warnings.filters),
        )

    before = state()
    with bs.watch(), bs.watch():
        assert state() != before
        train(small())
    assert state() == before and current() is None


def test_an_exception_ends_the_watch_too():
    with pytest.raises(ZeroDivisionError), bs.watch():
        1 / 0
    assert current() is None


def test_models_and_optimizers_are_not_kept_alive():
    with bs.watch() as watch:
        model = small()
        optimizer = train(model)
        gone = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(model[0].weight)]
        del model, optimizer
        gc.collect()
        assert [each() for each in gone] == [None, None, None]
        assert watch.steps.count == 4


@pytest.mark.parametrize("how", [{"level": "calls"}, {"level": "lines"}, {"level": "exact"}, {"nonfinite": True}])
def test_no_python_of_ours_runs_as_things_die(how):
    """Python would swallow what a handler of a signal raises in there: a time limit, Ctrl-C."""
    ran = []

    def look(frame, event, arg):
        if event == "call" and is_ours(frame.f_code.co_filename):
            ran.append(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

    @torch.no_grad()
    def cuts(model):
        taken = model(torch.randn(3, 4)).numpy()
        gone = torch.zeros(1) / torch.zeros(1)
        data = model[0].weight.detach().clone()
        data.data.add_(1)
        return taken, gone, data, torch.from_numpy(taken)

    with bs.watch(**how):
        for _ in range(2):
            model = small()
            optimizer = train(model)
            loss = model(torch.randn(3, 4)).log().sum()
            loss.backward()
            rest = cuts(model), loss.detach(), loss * 2
            kept = bs.graph(loss * 2)
            before = sys.getprofile()
            sys.setprofile(look)
            del model, optimizer, loss, rest, kept
            gc.collect()
            sys.setprofile(before)
    assert ran == []


def test_operations_lie_in_the_module_that_ran_them():
    model = small()
    with bs.watch():
        loss = model(torch.randn(3, 4)).sum()
        graph = bs.graph(loss)
    assert [(node.op, node.module) for node in graph.nodes if node.op in ("Relu", "Addmm")] == [
        ("Addmm", "3"),
        ("Relu", "2"),
        ("Addmm", "0"),
    ]


def test_a_watch_of_one_model_leaves_others_alone():
    model, other = small(), nn.Tanh()
    with bs.watch(model) as watch:
        graph = bs.graph(other(model(torch.randn(3, 4))).sum(), model={"model": model, "other": other})
    assert {node.module for node in graph.nodes if node.op == "Tanh"} == {"(outside)"}
    assert not watch.calls.is_running()


def test_gradients_left_over_from_two_steps_are_known():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.watch() as watch:
        for stale in (False, False, True):
            assert watch.steps.is_stale(optimizer, model.weight) is stale
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        model.weight.grad.zero_()
        assert not watch.steps.is_stale(optimizer, model.weight)


def test_two_optimizers_that_use_one_gradient_are_seen():
    model = nn.Linear(2, 1)
    first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    with bs.watch() as watch:
        for optimizer in (first, second):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            assert not watch.steps.consumed(optimizer, model.weight).shared  # they take turns
        first.step()
        assert watch.steps.consumed(first, model.weight).shared


def test_an_optimizer_that_is_gone_has_left_no_step():
    model = nn.Linear(2, 1)
    first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    with bs.watch() as watch:
        model(torch.ones(1, 2)).sum().backward()
        first.step()
        model.bias.grad = None
        first.step()
        del first
        gc.collect()
        model(torch.ones(1, 2)).sum().backward()
        second.step()
        assert not watch.steps.consumed(second, model.weight).shared
        assert not watch.steps.consumed(second, model.bias).shared


def test_steps_of_other_threads_do_not_move_the_mark_of_this_one():
    with bs.watch() as watch:
        train(small(), steps=1)
        here = watch.steps.marks[threading.get_ident()]
        thread = threading.Thread(target=train, args=(small(),))
        thread.start()
        thread.join()
        assert watch.steps.marks[threading.get_ident()] == here and len(watch.steps.marks) == 2


def test_compiled_modules_run_whole_and_without_a_warning():
    model = small().eval()
    step = torch.compile(model, backend="eager", fullgraph=True)
    x = torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Guards may run slower")  # PyTorch's own, on Python 3.13.0
        with bs.watch():
            assert torch.equal(step(x), model(x))


def test_a_filter_of_the_users_survives():
    with warnings.catch_warnings():
        with bs.watch():
            warnings.filterwarnings("ignore", message="the user's own")
            mine = warnings.filters[0]
        assert mine in warnings.filters


def test_what_is_not_a_model_is_refused():
    with pytest.raises(TypeError, match=r"watch\(model=\.\.\.\) expects a torch\.nn\.Module or nothing, not list"):
        bs.watch([nn.Linear(1, 1)])


def test_a_watch_runs_once():
    watch = bs.watch()
    with watch, pytest.raises(RuntimeError, match="is running or has ended"):
        watch.__enter__()
    with pytest.raises(RuntimeError, match="is running or has ended"):
        watch.__enter__()


def test_a_failure_of_ours_is_a_warning_and_not_the_end():
    log = []
    with bs.watch() as watch:
        watch.steps.stepped = lambda optimizer: 1 / 0
        for _ in range(3):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                train(small(), steps=1)
            log += [str(each.message) for each in caught]
    assert log == ["backsight: stopped watching: ZeroDivisionError: division by zero"]


def test_a_coroutine_is_watched_to_its_end():
    @bs.watch(level="exact")
    async def step(x):
        await asyncio.sleep(0)
        return bs.graph(x * 2)

    graph = asyncio.run(step(torch.ones(3, requires_grad=True)))
    assert graph.nodes[0].source.startswith(__file__) and current() is None


def test_a_level_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match='expects "calls", "lines" or "exact", not \'deep\''):
        bs.watch(level="deep")


class Half(nn.Module):
    """Computes with gradients only inside, or only at the end."""

    def __init__(self, inside):
        super().__init__()
        self.inner, self.inside = nn.Linear(2, 2), inside

    def forward(self, x):
        with torch.set_grad_enabled(self.inside):
            h = self.inner(x)
        torch.set_grad_enabled(not self.inside)
        return h


@pytest.mark.parametrize("level", ["calls", "exact"])
def test_calls_with_gradients_turned_on_or_off_within_leave_none_open(level):
    turns_on, turns_off, x = nn.Sequential(Half(inside=True)), Half(inside=False), torch.ones(1, 2)
    with bs.watch(level=level) as watch:
        with torch.no_grad():
            h = turns_on(x)
        assert "0.inner" in {node.module for node in bs.graph(h.sum()).nodes} and not watch.calls.is_running()
        with torch.enable_grad():
            turns_off(x)
        assert not watch.calls.is_running()
        torch.set_grad_enabled(True)
        with torch.enable_grad():
            Half(inside=True)(x)  # leaves with gradients off
        assert not watch.calls.is_running()
        torch.set_grad_enabled(True)
        with torch.no_grad():
            turns_off.inner(x)
        assert not watch.calls.is_running()


@pytest.mark.parametrize("calls", [0, -1, 2.5, True])
def test_a_number_of_calls_that_is_none_is_refused(calls):
    with bs.watch() as watch:
        with pytest.raises(ValueError, match=rf"limit\(calls=...\) expects a positive whole number, not {calls}"):
            watch.limit(calls)
        with pytest.raises(ValueError, match=rf"resume\(calls=...\) expects a positive whole number, not {calls}"):
            watch.resume(calls)


class TestGenerators:
    def test_one_is_watched_until_it_has_ended(self):
        @bs.watch(level="lines")
        def batches():
            given = yield torch.ones(2, requires_grad=True).exp().sum()
            assert current() is not None
            return given

        assert inspect.isgeneratorfunction(batches)
        running = batches()
        assert current() is None
        loss = next(running)
        assert bs.graph(loss).nodes[0].source == f"{__file__}:{_line_of(batches) + 2}"
        with pytest.raises(StopIteration) as ended:
            running.send("given")
        assert ended.value.value == "given" and current() is None

    def test_an_asynchronous_one_likewise(self):
        @bs.watch(level="lines")
        async def batches():
            for _ in range(2):
                await asyncio.sleep(0)
                assert current() is not None
                yield torch.ones(2, requires_grad=True).exp().sum()

        async def sources():
            return {bs.graph(loss).nodes[0].source async for loss in batches()}

        assert inspect.isasyncgenfunction(batches)
        (source,) = asyncio.run(sources())
        assert source == f"{__file__}:{_line_of(batches) + 5}" and current() is None

    def test_one_that_is_closed_ends_its_watch(self):
        @bs.watch(level="exact")
        def batches():
            yield

        running = batches()
        next(running)
        assert current() is not None
        running.close()
        assert current() is None and torch._C._len_torch_function_stack() == 0


@pytest.mark.skipif(not SEES_CALLS, reason="no exact level")
def test_one_that_another_thread_ends_says_which_thread_it_stays_in():
    """PyTorch's modes are a thread's own: no other can take one off."""
    said = []

    def begun_here():
        watch = bs.watch(level="exact")
        watch.__enter__()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ending = threading.Thread(target=watch.__exit__, args=(None, None, None), name="reader")
            ending.start()
            ending.join()
        said.extend(
            (
                watch.notes,
                [str(each.message) for each in caught if each.category is RuntimeWarning],
                torch._C._len_torch_function_stack(),
            )
        )

    beginning = threading.Thread(target=begun_here, name="trainer")
    beginning.start()
    beginning.join()
    (note,), (warning,), left = said
    assert note.startswith("a watch started in thread trainer was ended in thread reader") and left == 1
    assert warning == f"backsight: {note}" and current() is None


@pytest.mark.skipif(not SEES_CALLS, reason="no exact level")
def test_one_that_another_thread_has_paused_is_gone_once_its_own_ends_it():
    with bs.watch(level="exact") as watch:
        pausing = threading.Thread(target=watch.pause)
        pausing.start()
        pausing.join()
        assert torch._C._len_torch_function_stack() == 1  # out of that thread's reach
    assert torch._C._len_torch_function_stack() == 0 and watch.notes == ()


def _line_of(function) -> int:
    return inspect.unwrap(function).__code__.co_firstlineno
