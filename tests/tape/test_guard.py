"""A captured graph can be dropped, however deep it is and wherever that happens. Each case runs in its own process."""

import gc
import multiprocessing
import signal
import sys
import textwrap
import weakref
from pathlib import Path

import deep_scenarios as scenario
import fresh
import pytest
import torch

from backsight.tape import capture, guard

KB = 1024
DEEP = 100_000
SMALL_STACK = 30_000
"""Ten times as deep as what a walk without guard lets a thread with a stack of 512 kB free."""

# Forked from a server that has imported torch and has no threads, so that a case costs no import.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["torch", "backsight.tape"])


def exit_code(program, *args):
    """Run `program(*args)` in a new process and return its exit code, negative for a signal."""
    process = _processes.Process(target=program, args=args)
    process.start()
    process.join(120)
    assert process.exitcode is not None, "still running after two minutes"
    return process.exitcode


def survives(program, *args):
    return exit_code(program, *args) == 0


@pytest.mark.parametrize("shape", scenario.SHAPES)
def test_a_deep_graph_is_freed_in_the_main_thread(shape):
    assert survives(scenario.captured_then_dropped, shape, DEEP)


@pytest.mark.parametrize("stack", [pytest.param(512 * KB, marks=pytest.mark.long), 256 * KB])
@pytest.mark.parametrize("shape", scenario.SHAPES)
def test_a_deep_graph_is_freed_in_a_thread_with_a_small_stack(shape, stack):
    assert survives(scenario.in_thread, stack, scenario.captured_then_dropped, shape, SMALL_STACK)


@pytest.mark.parametrize(
    "stack", [scenario.MAIN, *(pytest.param(each, marks=pytest.mark.long) for each in (512 * KB, 256 * KB))]
)
@pytest.mark.slow
def test_a_million_operations_are_freed(stack):
    assert survives(scenario.in_thread, stack, scenario.captured_then_dropped, "chain", 1_000_000)


@pytest.mark.parametrize("shape", ["chain", "custom", "branching"])
def test_a_graph_too_small_to_be_guarded_is_freed_on_a_small_stack(shape):
    ops = guard.SAFE - 10
    assert survives(scenario.in_thread, 256 * KB, scenario.captured_then_dropped, shape, ops)


@pytest.mark.parametrize("stack", [scenario.MAIN, 512 * KB])
@pytest.mark.parametrize(
    "program",
    [
        scenario.inner_tensor_kept_longer,
        scenario.backward_then_dropped,
        scenario.captured_twice,
        scenario.extended_and_captured_again,
        scenario.grown_by_small_steps,
        scenario.many_small_captured_graphs_joined,
        scenario.made_in_two_threads,
        scenario.kept_by_a_cycle_through_a_hook,
        scenario.double_backward,
    ],
)
def test_whatever_is_done_with_the_graph_it_is_freed(program, stack):
    ops = 60_000 if stack == scenario.MAIN else 20_000
    assert survives(scenario.in_thread, stack, program, ops)


@pytest.mark.parametrize("shape", ["chain", "custom"])
@pytest.mark.parametrize("stack", [scenario.MAIN, 512 * KB])
def test_the_cyclic_collector_frees_the_graph(shape, stack):
    ops = DEEP if stack == scenario.MAIN else SMALL_STACK
    assert survives(scenario.in_thread, stack, scenario.dropped_by_the_cyclic_collector, shape, ops)


def test_a_graph_captured_in_one_thread_is_freed_in_another():
    assert survives(scenario.dropped_in_another_thread, DEEP, 256 * KB)


INTERRUPTED = (
    ("explore", 5),
    ("explore", 100_003),
    ("explore", 600_000),
    ("arranged", 1),
    ("arranged", 4),
    ("_permuted", 3),
    ("protect", 1),
    ("protect", 8),
    ("protect", 300),
)


@pytest.mark.parametrize(
    ("function", "line", "error"),
    [
        pytest.param(*where, error, marks=[pytest.mark.long] if (turn + other) % 2 else [])
        for turn, where in enumerate(INTERRUPTED)
        for other, error in enumerate((KeyboardInterrupt, MemoryError))
    ],
)
def test_an_interrupted_capture_leaves_a_graph_that_is_freed(function, line, error):
    assert survives(scenario.interrupted, DEEP, function, line, error)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("delay", [0.002, 0.02, 0.05, 0.08, 0.11])
def test_a_capture_interrupted_by_a_signal_leaves_a_graph_that_is_freed(delay):
    assert survives(scenario.interrupted_by_a_signal, DEEP, delay)


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "y.backward()", "raise SystemExit(0)"])
def test_the_interpreter_exits_with_a_captured_graph_alive(ending):
    program = f"""
        import sys
        from deep_scenarios import capture, residual, start
        y = residual(start(), {DEEP})
        g = capture(y, details=False)
        {ending}
    """
    done = fresh.run([sys.executable, "-c", textwrap.dedent(program)], cwd=Path(scenario.__file__).parent)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_guard_the_danger_is_real(record_property):
    """Learn when PyTorch mends it: the guard may go once every supported version survives this."""
    outcome = exit_code(scenario.walked_by_hand, 300_000)
    record_property("unguarded_walk_of_300000_ops", "survives" if outcome == 0 else f"dies of signal {-outcome}")
    assert outcome in (0, -signal.SIGSEGV, -signal.SIGBUS)


@pytest.fixture
def no_collector():
    """Whatever dies in the test dies of its reference count."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def has_hand_offs(node):
    while node.next_functions:
        if guard._KEY in node.metadata:
            return True
        node = node.next_functions[0][0]
    return False


@pytest.mark.usefixtures("no_collector")
def test_dropping_a_captured_loss_frees_what_it_saved_at_once():
    hidden = scenario.start()
    y = scenario.chain(hidden.sin(), 3 * guard.SAFE)
    saved = weakref.ref(hidden)
    capture(y)
    assert has_hand_offs(y.grad_fn)
    del hidden
    assert saved() is not None
    del y
    assert saved() is None


@pytest.mark.usefixtures("no_collector")
def test_a_hand_off_keeps_no_dropped_branch_alive():
    trunk = scenario.start()
    kept = scenario.chain(trunk, 2 * guard.SAFE)
    branches = [scenario.chain((trunk * k).sin(), 2 * guard.SAFE) for k in range(3)]
    seen = [weakref.ref(trunk)]
    inner = trunk.exp()
    seen.append(weakref.ref(inner))
    branches.append(scenario.chain(inner * inner, 2 * guard.SAFE))
    del inner, trunk
    capture(kept, branches)
    assert all(has_hand_offs(y.grad_fn) for y in [kept, *branches])
    branches.clear()
    assert [ref() for ref in seen] == [None, None]
    kept.backward()


@pytest.mark.usefixtures("no_collector")
def test_a_kept_inner_tensor_keeps_only_what_is_below_it():
    below = scenario.start()
    middle = scenario.chain(below * below, 2 * guard.SAFE)
    above = middle.exp()
    y = scenario.chain(above * above, 2 * guard.SAFE)
    alive, dead = weakref.ref(below), weakref.ref(above)
    capture(y)
    del below, above, y
    assert alive() is not None
    assert dead() is None
    middle.backward()


def test_the_guard_leaves_small_graphs_alone():
    y = scenario.chain(scenario.start(), 100)
    capture(y)
    assert not has_hand_offs(y.grad_fn)


def test_hand_offs_are_hung_once_however_often_a_graph_is_captured():
    y = scenario.chain(scenario.start(), 5 * guard.SAFE)

    def hand_offs():
        found, node = [], y.grad_fn
        while node.next_functions:
            found.append(node.metadata.get(guard._KEY))
            node = node.next_functions[0][0]
        return found

    capture(y)
    first = hand_offs()
    capture(y)
    assert all(a is b for a, b in zip(first, hand_offs(), strict=True))
    assert sum(h is not None for h in first) <= len(first) / guard.STRIDE + 1


def test_gradients_are_the_same_with_and_without_hand_offs():
    def gradient(watched):
        w = torch.full((3,), 0.5, requires_grad=True)
        y = scenario.residual(w * 1.0, 3 * guard.SAFE).sum()
        if watched:
            capture(y)
        y.backward()
        return w.grad

    assert torch.equal(gradient(True), gradient(False))
