"""The autograd graph of the first recorded step: what is in it, what it leaves alone, and when there is none."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from trainings import train

import backsight as bs
from backsight.recording import RecordingWarning
from backsight.recording.taps import graph as tap


def told(path, *names):
    """Return what the run says of its graph: (event, details)."""
    wanted = names or ("graph", "graph left out", "tap failed")
    return [(event.event, event.details) for event in bs.open_run(path).events if event.event in wanted]


def modules(graph):
    return {node.op: node.module for node in reversed(graph.nodes) if node.module is not None}


def recorded(model, run, steps=2, *, width=6, optimizer=None, loss=lambda out: out.square().mean(), **how):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run, **how):
        train(model, optimizer, steps, width=width, loss=loss)
    return bs.open_run(run)


def traces(model):
    return [name for name, m in model.named_modules() for table, held in vars(m).items() if "hook" in table and held]


def test_it_holds_operations_leaves_and_who_trains_them(net, run):
    graph = recorded(net, run).graph
    assert [root.op for root in graph.roots] == ["Addmm"]
    assert graph.root_names == ("output",)
    assert {leaf.name for leaf in graph.leaves} == set(dict(net.named_parameters()))
    assert {leaf.owner for leaf in graph.leaves} == {"optimizer"}
    assert {(node.op, node.module, node.call) for node in graph.nodes if node.op == "Addmm"} == {
        ("Addmm", "first", 0),
        ("Addmm", "first", 1),
        ("Addmm", "last", 0),
    }
    assert {node.module for node in graph.nodes if node.op == "Relu"} == {""}
    assert graph.nodes[0].shape == (4, 1)


def test_it_is_that_of_the_step_told_of_once_with_its_cost(net, run):
    recorded(net, run, 5)
    ((event, details),) = told(run)
    graph = bs.open_run(run).stored_graph()
    assert event == "graph"
    assert (details["nodes"], details["leaves"]) == (len(graph.value), 4)
    assert 0 < details["milliseconds"] < 10_000
    assert graph.step == 0


def test_it_is_the_first_recorded_step_that_counts(net, run):
    recorded(net, run, 5, every=lambda step: step >= 3)
    assert bs.open_run(run).stored_graph().step == 3


def test_its_hooks_are_gone_with_the_first_step(net, run):
    optimizer, tables = torch.optim.SGD(net.parameters(), lr=0.1), torch.nn.modules.module
    with bs.record(net, optimizer, run, taps=("grad",)):
        assert tables._global_forward_pre_hooks and tables._global_forward_hooks
        train(net, optimizer, 1)
        assert not tables._global_forward_pre_hooks and not tables._global_forward_hooks


def test_nothing_is_kept_alive(net, run):
    def graphs():
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is bs.Graph]

    optimizer, before = torch.optim.SGD(net.parameters(), lr=0.1), len(graphs())
    with bs.record(net, optimizer, run):
        x = torch.ones(4, 6)
        out = net(x)
        held = [weakref.ref(x), weakref.ref(out)]
        node = out.grad_fn
        out.sum().backward()
        optimizer.step()
        del x, out
        assert [ref() for ref in held] == [None, None]
        del node
        assert len(graphs()) <= before


@pytest.mark.parametrize("graph", [True, False])
def test_training_is_the_same_to_the_last_bit(run, graph):
    def trained(record):
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(8, 1)
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        if record:
            recorded(model, run, 10, optimizer=optimizer, graph=graph)
        else:
            train(model, optimizer, 10)
        return [*model.state_dict().values(), torch.rand(3)]

    assert all(torch.equal(a, b) for a, b in zip(trained(False), trained(True), strict=True))
    assert (bs.open_run(run).graph is not None) == graph


def test_the_first_step_can_go_backward_again(net, run):
    with bs.record(net, None, run) as rec:
        out = net(torch.ones(2, 6)).sum()
        out.backward(retain_graph=True)
        first = net.first.weight.grad.clone()
        out.backward()
        assert torch.equal(net.first.weight.grad, 2 * first)
        rec.step()
    assert {leaf.owner for leaf in bs.open_run(run).graph.leaves} == {None}  # no optimizer has been seen


def test_outputs_may_be_nested(run):
    @dataclass
    class Output:
        loss: torch.Tensor
        more: dict

    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 2)

        def forward(self, x):
            y = self.fc(x)
            return Output(y.square().mean(), {"logits": y, "note": "text", "plain": x})

    graph = recorded(Several(), run, loss=lambda out: out.loss).graph
    assert graph.root_names == ("loss", "more.logits")


def test_a_model_by_name_has_its_name_in_all_paths(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record({"net": net}, optimizer, run):
        train(net, optimizer, 1)
    graph = bs.open_run(run).graph
    assert graph.root_names == ("net.output",)
    assert {leaf.name for leaf in graph.leaves} == {f"net.{name}" for name, _ in net.named_parameters()}
    assert {node.module for node in graph.nodes if node.op == "Addmm"} == {"net.first", "net.last"}


def test_of_several_models_the_graph_that_holds_most_is_kept(run):
    torch.manual_seed(0)
    generator, critic = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
    both = {"generator": generator, "critic": critic}
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in both.items()}
    with bs.record(both, optimizers, run):
        for _ in range(2):
            noise = torch.ones(3, 6)
            critic(noise).mean().backward()
            optimizers["generator"].step()
            critic(generator(noise)).mean().backward()
            optimizers["critic"].step()
    graph = bs.open_run(run).graph
    # The critic's first output was gone when the generator returned, whose graph ends in the critic's second.
    assert graph.root_names == ("critic.output",)
    assert {leaf.owner for leaf in graph.leaves} <= {"optimizer 1", "optimizer 2"}
    assert {"critic.0.weight", "critic.2.weight"} <= {leaf.name for leaf in graph.leaves}
    assert len(told(run)) == 1


def test_evaluation_before_the_training_is_not_it(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        with torch.no_grad():
            net(torch.ones(2, 6))
        train(net, optimizer, 2)
    assert modules(bs.open_run(run).graph)["Addmm"] == "last"


def test_a_recomputation_by_checkpointing_is_not_it(run):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 1)

        def forward(self, x):
            return self.b(checkpoint(lambda h: self.a(h).tanh(), x, use_reentrant=False))

    run_ = recorded(Checkpointed(), run, 3)
    assert {leaf.name for leaf in run_.graph.leaves} == {"a.weight", "a.bias", "b.weight", "b.bias"}
    assert "hooked" in {saved.state for node in run_.graph.nodes for saved in node.saved}


def test_inside_of_a_transform_it_is_not_captured(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        parameters = dict(net.named_parameters())
        torch.func.grad(lambda p: torch.func.functional_call(net, p, torch.ones(2, 6)).sum())(parameters)
        train(net, optimizer, 1)
    assert told(run)[0][0] == "graph"


@pytest.mark.parametrize("compiled", ["the whole", "in place", "a block"])
def test_of_compiled_code_it_holds_what_is_outside(net, run, compiled):
    torch._dynamo.reset()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if compiled == "the whole":
        net = torch.compile(net, backend="aot_eager")
    elif compiled == "a block":
        net.last = torch.compile(net.last, backend="aot_eager")
    with bs.record(net, optimizer, run), torch._dynamo.config.patch(error_on_recompile=True):
        trained = torch.compile(net, backend="aot_eager") if compiled == "in place" else net
        train(trained, optimizer, 5)
    graph = bs.open_run(run).graph
    assert "compiled" in {node.kind for node in graph.nodes}
    assert {leaf.name for leaf in graph.leaves} == {"first.weight", "first.bias", "last.weight", "last.bias"}


def test_a_graph_of_too_many_nodes_is_left_out_with_the_reason(net, run, monkeypatch):
    monkeypatch.setattr(tap, "MOST_NODES", 5)
    recorded(net, run, 4)
    assert bs.open_run(run).graph is None
    assert told(run) == [("graph left out", {"why": "it has more than 5 nodes"})]


@pytest.mark.slow
def test_a_deep_graph_does_not_end_the_program(run, in_a_process):
    in_a_process(f"""
        import torch, backsight as bs
        class Deep(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(1))
            def forward(self, x):
                for _ in range(150_000):
                    x = x * self.weight
                return x
        model = Deep()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with bs.record(model, optimizer, {str(run)!r}):
            for _ in range(2):
                loss = model(torch.ones(1)).sum()
                loss.backward()
                optimizer.step()
                del loss
    """)
    assert told(run) == [("graph left out", {"why": "it has more than 20,000 nodes"})]
    assert bs.open_run(run).steps.tolist() == [0, 1]


def test_a_failure_costs_the_graph_alone_and_is_told_once(net, run, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("no walk today")

    monkeypatch.setattr(tap, "capture", fails)
    with pytest.warns(RecordingWarning, match="graph is no longer recorded: RuntimeError: no walk today") as said:
        run_ = recorded(net, run, 4)
    assert len(said) == 1
    assert run_.graph is None
    assert [event for event, _ in told(run)] == ["tap failed"]
    assert run_.steps.tolist() == [0, 1, 2, 3]
    assert {"grad", "weight", "output"} <= {tensor.kind for tensor in run_.tensors}


def test_a_model_that_is_not_called_itself_has_none_and_the_run_says_why(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        for _ in range(5):
            net.last(torch.ones(1, 6)).sum().backward()
            optimizer.step()
    assert [event for event, _ in told(run)] == ["graph left out"]


def test_parameters_may_be_swapped_after_the_first_step(net, run):
    """A weak reference that was left on a parameter would make PyTorch refuse."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run):
        train(net, optimizer, 1)
        torch.utils.swap_tensors(net.last.weight, nn.Parameter(torch.zeros(1, 6)))
        train(net, optimizer, 1)


def test_the_memory_of_a_step_is_kept(net, run):
    optimizer = torch.optim.Adam(net.parameters())
    with bs.record(net, optimizer, run) as rec:
        train(net, optimizer, 2)
        with bs.measure_memory(net, optimizer) as measured:
            train(net, optimizer, 1)
        rec.memory(measured)
    kept = bs.open_run(run).stored_memory()
    assert kept.step == 2
    assert kept.value.table() == measured.table()
    assert str(kept.value.at_peak) == str(measured.at_peak)


def test_memory_has_to_be_measured_before_it_is_kept(net, run):
    recording, measuring = bs.record(net, run=run), bs.measure_memory(net)
    with recording as rec, measuring as m, pytest.raises(RuntimeError, match="nothing is measured yet"):
        rec.memory(m)
    assert bs.open_run(run).memory is None


def test_of_a_model_that_is_not_called_itself_it_is_that_of_the_loss_that_is_given_once(run):
    model = nn.ModuleDict({"encoder": nn.Linear(6, 4), "head": nn.Linear(4, 1)})  # which has no forward
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run) as rec:
        for _ in range(3):
            optimizer.zero_grad()
            loss = model["head"](model["encoder"](torch.ones(2, 6)).tanh()).square().mean()
            rec.graph_of(loss)
            loss.backward()
            optimizer.step()
    stored = bs.open_run(run).stored_graph()
    assert stored.step == 0
    assert stored.value.root_names == ("loss",)
    assert modules(stored.value)["Addmm"] in ("encoder", "head")
    assert {leaf.owner for leaf in stored.value.leaves} == {"optimizer"}
    assert [event for event, _ in told(run)] == ["graph"]
    assert traces(model) == []


def test_a_loss_that_is_given_changes_nothing_where_the_model_has_returned_one(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record(net, optimizer, run) as rec:
        loss = net(torch.ones(4, 6)).mean()
        rec.graph_of(loss)
        loss.backward()
        optimizer.step()
    assert bs.open_run(run).graph.root_names == ("output",)


def test_modules_have_their_classes_under_the_name_of_the_model(net, run):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bs.record({"model": net}, optimizer, run):
        train(net, optimizer, 2, width=6)
    graph = bs.open_run(run).graph
    assert {graph.classes[node.module] for node in graph.nodes if node.op == "Addmm"} == {"Linear"}
    assert "Linear" in graph.draw().svg()
