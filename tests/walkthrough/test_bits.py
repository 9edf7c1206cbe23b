"""A walk gives the gradients of `loss.backward()` to the bit, leaves `.grad` alone, and frees nothing."""

import gc
import sys
import weakref

import fresh
import pytest
import torch
import walked
from backward import differences, roots_of, same_bits, tensors_in
from hypothesis import given, settings
from hypothesis import strategies as st
from sharded import examples, shards

import backsight as bs

OPERATORS, SAMPLES = 12, 50
"""At least so many samples in each part, of every 36th operator; `every_sample.py` walks all."""

MODULES, INPUTS = 60, 64
"""At least so many inputs of modules, and at most so many of one: a loss has 857, of each mode with each other."""


@pytest.mark.parametrize("program", walked.PROGRAMS.values(), ids=walked.PROGRAMS)
def test_gradients_are_those_of_backward_to_the_bit(program):
    torch.manual_seed(1)
    loss = program()
    w = bs.walk(loss).run()
    assert [leaf.grad for leaf in w.graph.leaves] == [None] * len(w.graph.leaves)
    loss.backward()
    assert w.graph.leaves
    for leaf, ours in zip(w.graph.leaves, w.gradients, strict=True):
        assert same_bits(leaf.grad, ours), leaf.label


@pytest.mark.parametrize("program", walked.PROGRAMS.values(), ids=walked.PROGRAMS)
def test_nodes_run_in_the_order_of_the_engine(program):
    loss = program()
    w = bs.walk(loss, names=False)
    ran, hooks = [], []
    for i, node in enumerate(w._engine.live.nodes):
        if type(node).__name__ != "AccumulateGrad":
            hooks.append(node.register_prehook(lambda grads, i=i: ran.append(i)))
    w.run()
    ran.clear()
    loss.backward()
    for hook in hooks:
        hook.remove()
    assert [step.node.index for step in w.steps if step.node.leaf is None] == ran


def test_hooks_do_not_run_and_the_walk_says_so():
    ran = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(ran.append)
    y = x * 2
    y.register_hook(ran.append)
    y.retain_grad()
    loss = y.sum()
    loss.grad_fn.register_prehook(ran.append)
    loss.grad_fn.register_hook(lambda *grads: ran.append(grads))
    w = bs.walk(loss).run()
    assert ran == []
    assert w.notes == ("hooks do not run in a walk; there are some on x",)
    assert y.grad is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", shards(OPERATORS))
def test_samples_of_operators(shard):
    from operators import operators

    same = 0
    for op in operators()[shard :: 3 * OPERATORS]:
        dtype = next((d for d in (torch.float64, torch.float32, torch.complex128) if op.supports_dtype(d, "cpu")), None)
        if dtype is None or not op.supports_autograd:
            continue
        torch.manual_seed(0)
        for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
            output = op(sample.input, *sample.args, **sample.kwargs)
            if roots_of(output):
                found = differences(output)
                assert not found, f"{op.formatted_name}: {found}"
                same += found is not None
    assert same >= SAMPLES


@pytest.mark.filterwarnings("ignore")
def test_inputs_of_modules():
    from torch.testing._internal.common_modules import module_db

    same = 0
    for info in module_db[::6]:
        dtype = next((d for d in (torch.float64, torch.float32) if d in info.dtypes), None)
        if dtype is None:
            continue
        inputs = list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=True))
        for given_input in inputs[:: 1 + len(inputs) // INPUTS]:
            torch.manual_seed(0)
            made, passed = given_input.constructor_input, given_input.forward_input
            module = info.module_cls(*made.args, **made.kwargs).to(dtype)
            output = module(*passed.args, **passed.kwargs)
            if list(tensors_in(output)) and roots_of(output):
                found = differences(output)
                assert not found, f"{info.name}: {found}"
                same += found is not None
    assert same >= MODULES


UNARY = [torch.sin, torch.tanh, torch.sigmoid, torch.exp, torch.neg, torch.relu, lambda x: x * x, lambda x: x.sum(0)]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, torch.atan2]


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_any_program_of_elementwise_operations(data):
    torch.manual_seed(0)
    values = [
        torch.randn(2, 3, requires_grad=True),
        torch.randn(3, requires_grad=True),
        torch.randn((), requires_grad=True),
    ]
    for _ in range(data.draw(st.integers(1, 12))):
        pick = st.integers(0, len(values) - 1)
        if data.draw(st.booleans()):
            x = values[data.draw(pick)]
            f = data.draw(st.sampled_from(UNARY if x.dim() else UNARY[:-1]))
            values.append(f(x))
        else:
            f = data.draw(st.sampled_from(BINARY))
            values.append(f(values[data.draw(pick)], values[data.draw(pick)]))
    roots = data.draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3, unique_by=id))
    assert differences(roots) == []


def test_several_roots_that_contain_each_other():
    x = torch.randn(3, requires_grad=True)
    y = x.sin()
    z = y.exp()
    assert differences((z, y)) == []
    assert differences((y, z)) == []


def test_a_root_that_is_a_leaf_receives_the_gradient_itself():
    x = torch.tensor(3.0, requires_grad=True)
    assert bs.walk(x).run().grad(x) == 1


def test_an_existing_gradient_is_neither_changed_nor_counted():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), 7.0)
    w = bs.walk((x * 3).sum()).run()
    assert x.grad.tolist() == [7, 7]
    assert w.grad(x).tolist() == [3, 3]


def test_accumulate_adds_to_grad_as_backward_does():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), 7.0)
    w = bs.walk((x * 3).sum()).run()
    w.accumulate()
    assert x.grad.tolist() == [10, 10]
    with pytest.raises(bs.WalkError, match=r"were already added to \.grad"):
        w.accumulate()


def test_a_walk_frees_nothing_unless_it_is_asked_to():
    x = torch.ones(2, requires_grad=True)
    loss = x.sin().sum()
    w = bs.walk(loss).run()
    w.free()
    assert x.grad is None
    assert w.grad(x) is not None
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_create_graph_gives_gradients_that_can_be_differentiated():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = bs.walk((x**3).sum(), create_graph=True).run().gradients
    assert bs.walk(gradient.sum()).run().grad(x).tolist() == [6, 12]


def test_checkpointed_regions_are_recomputed_once():
    calls = []

    def region(x):
        calls.append(1)
        return x.sin().exp().cos() * x

    x = torch.randn(3, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(region, x, use_reentrant=False).sum()
    bs.walk(y).run()
    assert len(calls) == 2
    y.backward()


def test_the_graph_lives_no_longer_than_the_walk():
    hidden = torch.randn(3, requires_grad=True) * 2
    loss = (hidden * hidden).sum()
    w = bs.walk(loss).run()
    gone = weakref.ref(hidden)
    del hidden, loss
    assert gone() is not None
    del w
    gc.collect()
    assert gone() is None


DEEP = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import torch
import backsight as bs

def walk(ops, keep_loss):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(ops // 2):
        y = y * 1.0 + 0.0
    w = bs.walk(y.sum(), names=False).run()
    assert w.grad(x) == 1
    if keep_loss:
        del w
    del y

threading.stack_size(512 << 10)
with ThreadPoolExecutor(1) as thread:
    thread.submit(walk, 8_000, sys.argv[1] == "True").result()
print("freed")
"""
"""A graph of 3,000 could not be freed in a thread with such a stack without a guard."""


@pytest.mark.parametrize("keep_loss", [True, False])
@pytest.mark.slow
def test_a_deep_graph_can_be_walked_and_dropped(keep_loss):
    done = fresh.run([sys.executable, "-c", DEEP, str(keep_loss)])
    assert (done.returncode, done.stdout) == (0, "freed\n"), done.stderr
