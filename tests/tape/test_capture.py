"""A capture is the graph as plain data: complete, in order, each thing once; and it disturbs nothing."""

import collections
import dataclasses
import gc
import inspect
import pickle
import threading
import weakref

import pytest
import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.checkpoint import checkpoint

from backsight.tape import Edge, NodeType, capture


def leaf(*shape, **options):
    return torch.full(shape, 0.5, requires_grad=True, **options)


def ops(g):
    return [node.op for node in g.nodes]


def is_in_order(g):
    return all(edge.node.index > node.index for node, edge in g.edges)


class Negate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class TestStructure:
    def test_nodes_stand_in_backward_order_with_leaves_last(self):
        w, b = leaf(2), leaf(2)
        g = capture(((w * 2).sin() + b).sum())
        assert ops(g) == ["Sum", "Add", "Sin", "Mul", "AccumulateGrad", "AccumulateGrad"]
        assert [n.index for n in g.nodes] == list(range(6))
        assert [n.kind for n in g.nodes] == ["op"] * 4 + ["leaf"] * 2

    def test_each_node_stands_once_however_many_paths_reach_it(self):
        x = leaf(1) * 1
        for _ in range(40):
            x = x + x.sin()
        assert len(capture(x)) == 40 * 2 + 2

    def test_inputs_say_which_node_and_which_of_its_outputs(self):
        first, second = leaf(4).split(2)
        g = capture(second * first)
        assert g.roots[0].inputs == (Edge(g.nodes[1], 1), Edge(g.nodes[1], 0))

    def test_an_input_that_needs_no_gradient_is_none(self):
        g = capture(leaf(2) * torch.ones(2))
        assert g.roots[0].inputs == (Edge(g.nodes[1], 0), None)

    def test_a_node_is_described_by_what_it_produced(self):
        g = capture(leaf(2, 3).to(torch.float64).sum(0))
        assert [(n.op, n.shape, n.dtype, n.device.type) for n in g.nodes[:2]] == [
            ("Sum", (3,), torch.float64, "cpu"),
            ("ToCopy", (2, 3), torch.float64, "cpu"),
        ]

    def test_each_leaf_is_listed_once_in_order_of_first_use_with_its_uses(self):
        a, b = leaf(2), leaf(3)
        g = capture((a * a).sum() + (b.sum() * a).sum())
        assert [(found.shape, found.uses) for found in g.leaves] == [((2,), 3), ((3,), 1)]
        assert all(found.tensor() is t for found, t in zip(g.leaves, (a, b), strict=True))

    def test_a_leaf_shows_its_gradient_as_it_is_now(self):
        w = leaf(2)
        y = w.sum()
        (found,) = capture(y).leaves
        assert found.grad is None
        y.backward()
        assert torch.equal(found.grad, torch.ones(2))

    def test_a_graph_of_two_threads_is_in_order_too(self):
        box = [leaf(2).sin().cos()]

        def grow():
            box[0] = (box[0].exp() * box[0].tanh()).sum()

        thread = threading.Thread(target=grow)
        thread.start()
        thread.join()
        g = capture(box[0].neg())
        assert is_in_order(g)
        assert sorted(ops(g)) == sorted(["Neg", "Sum", "Mul", "Exp", "Tanh", "Cos", "Sin", "AccumulateGrad"])
        assert g.nodes[-1].kind == "leaf"

    def test_a_million_edges_to_one_leaf_are_one_leaf(self):
        w = leaf(1)
        g = capture(torch.stack([w] * 10_000), details=False)
        assert (len(g), g.leaves[0].uses) == (2, 10_000)


@dataclasses.dataclass
class Output:
    loss: torch.Tensor
    extra: object = None


@dataclasses.dataclass
class SlottedOutput:
    __slots__ = ("logits", "loss")
    loss: torch.Tensor
    logits: torch.Tensor


Pair = collections.namedtuple("Pair", "first second")


class TestRoots:
    @pytest.mark.parametrize(
        "wrap",
        [
            lambda a, b: (a, b),
            lambda a, b: [a, b],
            lambda a, b: {"a": a, "b": b},
            lambda a, b: collections.OrderedDict(a=a, b=b),
            lambda a, b: Pair(a, b),
            lambda a, b: Output(a, {"more": [b]}),
            lambda a, b: SlottedOutput(a, b),
            lambda a, b: (((a,), [[b]]), 3, "text", None),
            lambda a, b: (get_gradient_edge(a), GradientEdge(b.grad_fn, 0)),
        ],
        ids=["tuple", "list", "dict", "OrderedDict", "namedtuple", "dataclass", "slots", "nest", "GradientEdge"],
    )
    def test_roots_are_found_in_any_container_in_order(self, wrap):
        w = leaf(2)
        a, b = w.sin(), w.cos()
        assert [n.op for n in capture(wrap(a, b)).roots] == ["Sin", "Cos"]

    def test_model_outputs_of_transformers_are_roots(self):
        outputs = pytest.importorskip("transformers.modeling_outputs")
        w = leaf(2)
        output = outputs.CausalLMOutput(loss=w.sum(), logits=w.exp())
        assert [n.op for n in capture(output).roots] == ["Sum", "Exp"]

    def test_several_roots_are_captured_jointly(self):
        trunk = leaf(2).sin()
        g = capture(trunk.exp(), trunk.cos())
        assert [n.op for n in g.roots] == ["Exp", "Cos"]
        assert sorted(ops(g)) == ["AccumulateGrad", "Cos", "Exp", "Sin"]

    def test_a_root_may_lie_below_another(self):
        h = leaf(2).sin()
        y = h.exp()
        assert [n.index for n in capture(h, y).roots] == [1, 0]

    def test_a_leaf_may_be_the_root(self):
        w = leaf(2)
        g = capture(w)
        assert (ops(g), g.leaves[0].uses, g.leaves[0].tensor() is w) == (["AccumulateGrad"], 0, True)

    def test_a_tensor_given_twice_is_one_root(self):
        y = leaf(2).sin()
        assert len(capture([y, y], y).roots) == 1

    def test_two_outputs_of_one_node_are_two_roots(self):
        first, second = leaf(4).split(2)
        g = capture(first, second)
        assert (g.root_edges, len(g)) == (((0, 0), (0, 1)), 2)

    def test_a_list_that_contains_itself_ends(self):
        loop = [leaf(2).sin()]
        loop.append(loop)
        assert ops(capture(loop)) == ["Sin", "AccumulateGrad"]

    def test_no_property_of_a_dataclass_is_run(self):
        @dataclasses.dataclass
        class Lazy:
            loss: torch.Tensor

            @property
            def expensive(self):
                raise RuntimeError("user code ran")

            def __getattribute__(self, name):
                raise RuntimeError("user code ran")

        assert ops(capture(Lazy(leaf(2).sin()))) == ["Sin", "AccumulateGrad"]


class TestNothingIsDisturbed:
    @pytest.fixture(autouse=True)
    def no_collector(self):
        gc.collect()
        gc.disable()
        yield
        gc.enable()

    def test_no_tensor_is_kept_alive(self):
        model = torch.nn.Linear(3, 3)
        x = torch.ones(2, 3)
        h = model(x).sigmoid()
        y = (h * h).sum()
        refs = [weakref.ref(t) for t in (x, h, y, *model.parameters())] + [weakref.ref(model)]
        g = capture(y, model=model, finite=True)
        assert len(g.leaves) == 2
        del model, x, h, y
        assert [ref() for ref in refs] == [None] * len(refs)
        assert [found.tensor() for found in g.leaves] == [None, None]
        assert {s.tensor() for n in g.nodes for s in n.saved} == {None}

    def test_no_node_is_kept_alive(self):
        class Sentinel:
            pass

        sentinel = Sentinel()
        alive = weakref.ref(sentinel)
        y = leaf(2).sin()
        y.grad_fn.metadata["sentinel"] = sentinel
        del sentinel
        g = capture(y.cos())
        assert alive() is not None
        del y
        assert alive() is None
        assert g.leaves

    def test_no_custom_function_is_kept_alive(self):
        def make():
            big = torch.ones(1000)

            class Closing(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

                @staticmethod
                def backward(ctx, grad):
                    return grad * big

            return Closing, weakref.ref(big)

        function, big = make()
        y = function.apply(leaf(1))
        g = capture(y)
        del y, function
        gc.collect()
        assert big() is None
        assert g.nodes[0].kind == "custom"

    @pytest.mark.parametrize("enabled", [True, False])
    def test_the_collector_is_left_as_it_was(self, enabled):
        (gc.enable if enabled else gc.disable)()
        capture(leaf(2).sin())
        assert gc.isenabled() is enabled

    def test_hooks_do_not_run_and_stay(self):
        ran = []
        w = leaf(2)
        y = w.sin()
        y.register_hook(lambda grad: ran.append("tensor"))
        y.grad_fn.register_prehook(lambda grads: ran.append("node"))
        w.register_post_accumulate_grad_hook(lambda t: ran.append("leaf"))
        y.retain_grad()
        capture(y, finite=True)
        assert ran == []
        y.sum().backward()
        assert sorted(ran) == ["leaf", "node", "tensor"]
        assert y.grad is not None

    def test_no_code_of_tensor_subclasses_runs(self):
        class Hostile(torch.Tensor):
            armed = False

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if Hostile.armed:
                    raise RuntimeError("user code ran")
                return super().__torch_function__(func, types, args, kwargs or {})

            def __getattr__(self, name):
                raise RuntimeError("user code ran")

        w = torch.ones(2).as_subclass(Hostile).requires_grad_()
        y = (w * w).exp()
        Hostile.armed = True
        g = capture(y, finite=True)
        assert [op for op in ops(g) if op != "Alias"] == ["Exp", "Mul", "AccumulateGrad"]
        assert g.leaves[0].tensor() is w

    def test_modes_see_nothing(self):
        class Seeing(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func)
                return func(*args, **(kwargs or {}))

        seen = []
        y = (leaf(2) * 2).exp()
        with Seeing():
            capture(y, finite=True)
        assert seen == []

    def test_random_state_and_grad_mode_stay(self):
        y = torch.nn.functional.dropout(leaf(9))
        state = torch.get_rng_state()
        capture(y, finite=True)
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.is_grad_enabled()


class TestPickling:
    def test_a_pickled_graph_is_the_same_with_dead_references(self):
        model = torch.nn.Linear(2, 2)
        y = model(torch.ones(1, 2)).exp().sum()
        g = capture(y, model=model, finite=True)
        h = pickle.loads(pickle.dumps(g))
        assert [(n.name, n.shape, n.dtype, n.saved, n.module, n.sequence) for n in h.nodes] == [
            (n.name, n.shape, n.dtype, n.saved, n.module, n.sequence) for n in g.nodes
        ]
        assert [[e and (e.node.index, e.output) for e in n.inputs] for n in h.nodes] == [
            [e and (e.node.index, e.output) for e in n.inputs] for n in g.nodes
        ]
        assert (h.leaves, h.saved_bytes, len(h.roots)) == (g.leaves, g.saved_bytes, 1)
        assert [found.tensor() for found in h.leaves] == [None, None]
        assert [found.grad for found in h.leaves] == [None, None]
        assert h.count_paths("weight", 0) == 1

    def test_a_pickle_holds_no_values(self):
        y = leaf(100_000).exp()
        assert len(pickle.dumps(capture(y))) < 5_000


class TestKinds:
    def test_a_custom_function_has_its_class_and_line(self):
        (node,) = (n for n in capture(Negate.apply(leaf(2))).nodes if n.kind == "custom")
        line = inspect.getsourcelines(Negate)[1]
        assert (node.name, node.op, node.source) == ("NegateBackward", "Negate", f"{__file__}:{line}")

    def test_a_custom_function_without_source_has_none(self):
        namespace = {"torch": torch}
        exec(inspect.getsource(Negate).replace("class Negate", "class Made"), namespace)
        (node,) = (n for n in capture(namespace["Made"].apply(leaf(2))).nodes if n.kind == "custom")
        assert (node.op, node.source) == ("Made", None)

    def test_functions_of_one_name_are_told_apart(self):
        class Other(torch.autograd.Function):
            forward, backward = Negate.forward, Negate.backward

        Other.__name__ = "Negate"
        g = capture(Negate.apply(Other.apply(leaf(2))))
        assert len({n.source for n in g.nodes if n.kind == "custom"}) == 2

    def test_reentrant_checkpoints_are_one_node(self):
        y = checkpoint(lambda x: x.sin().exp(), leaf(2), use_reentrant=True)
        g = capture(y)
        assert [n.kind for n in g.nodes] == ["checkpoint", "leaf"]

    def test_other_checkpoints_show_their_operations(self):
        y = checkpoint(lambda x: x.sin().exp(), leaf(2), use_reentrant=False)
        assert ops(capture(y)) == ["Exp", "Sin", "AccumulateGrad"]

    def test_a_compiled_region_is_one_node(self):
        compiled = torch.compile(lambda x: (x.sin() * 2).exp(), backend="aot_eager")
        g = capture(compiled(leaf(2)).sum())
        assert [n.kind for n in g.nodes] == ["op", "compiled", "leaf"]

    def test_operations_and_leaves(self):
        assert capture(leaf(2).sin()).types == (NodeType("SinBackward0", "op"), NodeType("AccumulateGrad", "leaf"))
