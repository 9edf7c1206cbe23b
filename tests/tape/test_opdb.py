"""PyTorch's own databases of operators and modules as an external test set: every differentiable sample is captured."""

import json
import pickle

import pytest
import torch
from sharded import shards
from torch.utils._pytree import tree_leaves

from backsight.tape import capture, document, graph_of

OPERATOR_SHARDS, OPERATOR_SAMPLES = 8, 700
"""At least so many samples in each shard, so that the test cannot silently test nothing: of the PyTorch with fewest."""

MODULE_SHARDS, MODULE_INPUTS = 4, 350


def tensors_in(value):
    """Return the tensors in nested containers."""
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def check(output, inputs, first):
    """Capture what made `output` and hold the graph against what is known; return False if it has no graph."""
    roots = [t for t in tensors_in(output) if t.requires_grad]
    if not roots:
        return False
    needing = {id(t): t for t in inputs if t.requires_grad}
    before = gradients(roots, needing) if first else None
    made_of_leaves = all(t.is_leaf for t in needing.values())

    g = capture(output)

    assert len(g.roots) == len({id(t) for t in roots})
    for i, node in enumerate(g.nodes):
        assert all(edge is None or edge.node.index > i for edge in node.inputs), f"{node} stands after its input"
    reached = [leaf.tensor() for leaf in g.leaves]
    assert len({id(t) for t in reached}) == len(reached)
    assert not made_of_leaves or all(id(t) in needing for t in reached), "a leaf that is no input"
    assert {s.state for node in g.nodes for s in node.saved} <= {"alive"}
    assert not any(node.freed for node in g.nodes)
    if before is not None:
        flows = {i for i, grad in before.items() if grad is not None and needing[i].is_leaf}
        assert flows <= {id(t) for t in reached}
        for i, grad in gradients(roots, needing).items():
            torch.testing.assert_close(grad, before[i], rtol=0, atol=0, equal_nan=True)
        assert str(list(pickle.loads(pickle.dumps(g)).nodes)) == str(list(g.nodes))
        written = document(g)
        read = graph_of(json.loads(json.dumps(written)))
        assert document(read) == written
        assert str(read) == str(g)
    return True


def gradients(roots, needing):
    """Return the gradient of each input by id, leaving the graph as it is; None where ones cannot go backward."""
    try:
        ones = [torch.ones_like(t) for t in roots]
        found = torch.autograd.grad(roots, list(needing.values()), ones, retain_graph=True, allow_unused=True)
    except RuntimeError:  # ones_like of a sparse tensor; eigenvectors, whose phase no gradient may depend on
        return None
    return dict(zip(needing, found, strict=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", shards(OPERATOR_SHARDS))
def test_every_differentiable_sample_of_every_operator(shard):
    from operators import operators

    seen, failures = 0, []
    for op in operators()[shard::OPERATOR_SHARDS]:
        dtype = next((d for d in (torch.float64, torch.float32, torch.complex128) if op.supports_dtype(d, "cpu")), None)
        if dtype is None or not op.supports_autograd:
            continue
        torch.manual_seed(0)
        first = True
        for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
            output = op(sample.input, *sample.args, **sample.kwargs)
            try:
                captured = check(output, tensors_in([sample.input, sample.args, sample.kwargs]), first)
            except Exception as error:
                failures.append(f"{op.formatted_name}: {type(error).__name__}: {error}")
                captured = True
            seen += captured
            first = first and not captured
    assert failures == []
    assert seen >= OPERATOR_SAMPLES, seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", shards(MODULE_SHARDS))
def test_every_input_of_every_module(shard):
    from torch.testing._internal.common_modules import module_db

    seen, failures = 0, []
    for info in module_db[shard::MODULE_SHARDS]:
        if torch.float64 not in info.dtypes and torch.float32 not in info.dtypes:
            continue
        dtype = torch.float64 if torch.float64 in info.dtypes else torch.float32
        for training in (True, False):
            first = True
            for given in info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=True, training=training
            ):
                torch.manual_seed(0)
                made = given.constructor_input
                module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
                passed = given.forward_input
                output = module(*passed.args, **passed.kwargs)
                inputs = [*module.parameters(), *tensors_in([passed.args, passed.kwargs])]
                try:
                    captured = check(output, inputs, first)
                except Exception as error:
                    failures.append(f"{info.name}: {type(error).__name__}: {error}")
                    captured = True
                seen += captured
                first = first and not captured
    assert failures == []
    assert seen >= MODULE_INPUTS, seen
