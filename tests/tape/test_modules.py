"""Which module made a node: by good guesses, from the graph alone."""

import gc

import pytest
import torch
from nests import Nest, Scale, Sine, logged, made_by, x
from torch.nn import functional as F

from backsight.tape import capture
from backsight.tape.tails import _ELEMENTWISE


class BasicBlock(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.conv2 = (torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = torch.nn.BatchNorm2d(channels), torch.nn.BatchNorm2d(channels)
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + x)


def resnet():
    stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    body = [torch.nn.Sequential(BasicBlock(8), BasicBlock(8)) for _ in range(3)]
    model = torch.nn.Sequential(stem, *body, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10))
    return model, lambda: model(torch.ones(2, 3, 8, 8)).sum()


class Pooled(torch.nn.Module):
    """Attention of a learned query: in_proj_weight is split, as queries and keys differ."""

    def __init__(self):
        super().__init__()
        self.inp = torch.nn.Linear(2, 8)
        self.query = torch.nn.Parameter(torch.ones(1, 1, 8))
        self.attn = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        h = self.inp(x)
        return self.attn(self.query.expand(len(x), -1, -1), h, h, need_weights=False)[0]


def gpt2():
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 3, "n_embd": 16, "n_head": 2, "vocab_size": 50, "n_positions": 16}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.arange(8)[None]
    return model, lambda: model(ids, labels=ids).loss


class TestByLeaves:
    def test_attention_of_other_keys_is_one_module_though_its_query_is_a_parameter_of_another(self):
        model = Pooled()
        graph = capture(model(torch.ones(3, 4, 2)).sum(), model=model)
        modules = {node.op: node.module for node in graph.nodes}
        operations = ("SplitWithSizes", "Mm", "Add", "Clone", "Select", "ScaledDotProductAttention")
        assert {modules[op] for op in operations} == {"attn"}
        assert graph.classes["attn.out_proj"] == "Linear" and "ScaledDotProductAttention " in graph.text()

    @pytest.mark.parametrize(("make", "floor"), [(resnet, 0.9), (gpt2, 0.75)])
    def test_most_nodes_are_given_to_the_right_module(self, make, floor):
        torch.manual_seed(0)
        model, loss = make()
        with logged() as log:
            y = loss()
            exact = capture(y, model=model)
        del log
        gc.collect()
        guessed = capture(y, model=model)
        owning = {path for path, module in model.named_modules() if any(True for _ in module.parameters())}

        def nearest_owner(path):
            while path not in owning:
                path = path.rpartition(".")[0]
            return path

        pairs = [
            (nearest_owner(a.module), b.module)
            for a, b in zip(exact.nodes, guessed.nodes, strict=True)
            if a.kind != "leaf" and a.module != "(outside)"
        ]
        assert len(pairs) > 40
        assert sum(a == b for a, b in pairs) / len(pairs) >= floor

    def test_a_node_fed_by_a_parameter_belongs_to_its_module(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        g = capture(model(torch.ones(1, 2)), model=model)
        assert [(n.op, n.module) for n in g.nodes if n.op == "Addmm"] == [("Addmm", "1"), ("Addmm", "0")]

    def test_an_activation_belongs_beside_the_layer_that_it_follows(self):
        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh()), torch.nn.Linear(3, 1))
        g = capture(model(torch.ones(1, 2)), model=model)
        assert [n.module for n in g.nodes if n.op == "Tanh"] == ["0.1"]

    def test_what_an_nn_sequential_runs_between_two_layers_is_its_children(self):
        model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(2, 3), torch.nn.SiLU(), torch.nn.Dropout())
        model = torch.nn.Sequential(*model, torch.nn.Linear(3, 2), torch.nn.Sigmoid())
        inputs = torch.ones(1, 2, requires_grad=True)
        g = capture(model(inputs * 2).exp().sum(), model=model)
        made = [(op, module) for op, module, _ in made_by(g) if op != "T"]
        assert made == [
            *[("Mul", ""), ("Tanh", "0"), ("Addmm", "1"), ("Silu", "2"), ("Mul", "3"), ("Addmm", "4")],
            *[("Sigmoid", "5"), ("Exp", ""), ("Sum", "")],
        ]
        written = {g.nodes[i].module: cls for i, cls in g.written.items()}
        assert written == {"0": "Tanh", "2": "SiLU", "3": "Dropout", "5": "Sigmoid"}

    def test_what_of_an_nn_sequential_is_not_known_to_run_one_operation_is_left_to_it(self):
        class Square(torch.nn.Module):
            def forward(self, x):
                return x * x

        model = torch.nn.Sequential(torch.nn.Linear(2, 3), Square(), torch.nn.Dropout(), torch.nn.Linear(3, 1))
        g = capture(model(torch.ones(1, 2)), model=model)
        assert [n.module for n in g.nodes if n.op == "Mul"] == ["", ""] and not g.written

    @pytest.mark.parametrize("call", [torch.tanh, F.gelu, F.silu, torch.sigmoid])
    def test_a_function_that_is_called_by_hand_is_no_child_that_runs_another(self, call):
        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), torch.nn.Linear(3, 1))
        for first in (model[0][0], torch.nn.Sequential(model[0][0])):
            g = capture(model[1](call(first(torch.ones(1, 2)))), model=model)
            (made,) = [n for n in g.nodes if n.op.lower() == call.__name__]
            assert made.module == "" and not g.written

    @pytest.mark.parametrize("kind", [each for each in _ELEMENTWISE if each is not torch.nn.Softmin])
    @pytest.mark.parametrize("training", [True, False])
    def test_an_activation_is_known_by_its_operation(self, kind, training):
        dims = dict.fromkeys((torch.nn.Softmax, torch.nn.LogSoftmax, torch.nn.GLU), (1,))
        made = kind(*{torch.nn.Threshold: (0.1, 0.0), **dims}.get(kind, ()))
        width = 1 if kind is torch.nn.GLU else 2
        model = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 1), made, torch.nn.Conv2d(width, 1, 1))
        g = capture(model.train(training)(torch.ones(1, 2, 3, 3)), model=model)
        assert [n.module for n in g.nodes if n.kind != "leaf"] == ["2", "1", "0"]

    def test_a_pooling_in_one_dimension_is_called_so(self):
        for function in (F.avg_pool1d, F.max_pool1d, F.adaptive_avg_pool1d, F.adaptive_max_pool1d):
            g = capture(function(torch.ones(1, 2, 8, requires_grad=True), 2))
            assert [*g.written.values()] == [function.__name__] and f"{function.__name__} " in g.text()
        assert not capture(F.avg_pool2d(torch.ones(1, 2, 8, 8, requires_grad=True), 2)).written

    def test_what_a_loop_does_between_two_calls_of_a_network_is_no_part_of_the_network(self):
        net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        y = x()
        for _ in range(3):
            y = y - net(y) * 0.1
        g = capture(y, model={"net": net, "other": Scale()})
        made = [module for op, module, _ in made_by(g) if op not in ("T", "View", "UnsafeView")]
        assert made == ["net.0", "net.1", "net.2", "", ""] * 3

    def test_layers_that_are_used_again_within_a_call_do_not_begin_another(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.stem, self.a, self.b = (torch.nn.Linear(2, 2) for _ in range(3))

            def forward(self, x):
                x = self.stem(x)
                for _ in range(3):
                    x = self.b(self.a(x)).tanh()
                return x

        model = Tied()
        g = capture(model(x()), model={"tied": model, "other": Scale()})
        assert [module for op, module, _ in made_by(g) if op == "Tanh"] == ["tied", "tied", ""]

    def test_leaves_have_the_paths_of_their_parameters(self):
        model = Nest()
        g = capture(model(x()), model=model)
        assert [(leaf.name, leaf.module, leaf.kind) for leaf in g.leaves if leaf.name] == [
            ("scale.by", "scale", "parameter")
        ]

    def test_a_tied_weight_has_every_path(self):
        model, loss = gpt2()
        (tied,) = (leaf for leaf in capture(loss(), model=model).leaves if len(leaf.names) > 1)
        assert set(tied.names) == {"transformer.wte.weight", "lm_head.weight"}

    def test_a_buffer_that_requires_grad_is_called_a_buffer(self):
        model = Sine()
        model.register_buffer("offset", torch.ones(2, requires_grad=True))
        (leaf,) = capture(model(model.offset), model=model).leaves
        assert (leaf.name, leaf.kind) == ("offset", "buffer")

    def test_without_model_or_log_nothing_is_claimed(self):
        g = capture(Nest()(x()))
        assert {n.module for n in g.nodes} == {None}
        assert g.modules == ()

    def test_an_empty_dict_of_models_is_no_model(self):
        assert capture(Nest()(x()), model={}).modules == ()


def test_nothing_that_the_user_overrides_is_called():
    class Hostile(Scale):
        def __getattr__(self, name):
            if name in ("by", "_parameters", "_modules"):
                return super().__getattr__(name)
            raise RuntimeError("user code ran")

        def named_modules(self, *args, **kwargs):
            raise RuntimeError("user code ran")

        named_parameters = parameters = named_buffers = named_children = children = modules = named_modules
        __eq__ = __hash__ = __repr__ = __len__ = __bool__ = __iter__ = named_modules

    model = Hostile()
    y = model.forward(x())
    for given in (model, {"hostile": model}):
        g = capture(y, model=given)
        assert [leaf.kind for leaf in g.leaves] == ["unknown", "parameter"]
        assert g.leaves[1].name.endswith("by")


class UNet(torch.nn.Module):
    """Interpolates between its blocks, outside of them."""

    def __init__(self, block):
        super().__init__()
        self.down, self.mid, self.up = block(3, 4), block(4, 4), block(8, 2)

    def forward(self, x):
        down = self.down(x)
        mid = self.mid(torch.nn.functional.max_pool2d(down, 2))
        mid = torch.nn.functional.interpolate(mid, scale_factor=2)
        return self.up(torch.cat([mid, down], 1))


def of_children(i, o):
    return torch.nn.Sequential(torch.nn.Conv2d(i, o, 3, padding=1), torch.nn.BatchNorm2d(o), torch.nn.ReLU())


class OfFunctions(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = torch.nn.Conv2d(i, o, 3, padding=1)
        self.drop = torch.nn.Dropout()

    def forward(self, x):
        return self.drop(torch.relu(self.conv(x)))


class Pooling(torch.nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv, self.pool = torch.nn.Conv2d(i, o, 3, padding=1), torch.nn.AvgPool2d(2)

    def forward(self, x):
        return self.pool(torch.relu(self.conv(x)))


class TestTails:
    @pytest.mark.parametrize(("block", "relu"), [(of_children, ".2"), (OfFunctions, "")])
    def test_what_is_computed_between_modules_is_in_none_of_them(self, block, relu):
        model = UNet(block)
        g = capture(model(torch.ones(2, 3, 8, 8)).sum(), model=model)
        between = ("MaxPool2DWithIndices", "UpsampleNearest2D", "Cat")
        assert {op: module for op, module, _ in made_by(g) if op in between} == dict.fromkeys(between, "")
        assert [module for op, module, _ in made_by(g) if op == "Relu"][:2] == [f"down{relu}", f"mid{relu}"]

    def test_the_last_module_ends_where_its_children_do(self):
        model = UNet(of_children)
        g = capture(model(torch.ones(2, 3, 8, 8)).relu().sum(), model=model)
        assert [module for op, module, _ in made_by(g) if op == "Relu"] == ["down.2", "mid.2", "up.2", ""]

    def test_a_pooling_that_a_module_has_a_child_for_is_in_it(self):
        model = torch.nn.Sequential(Pooling(3, 4), Pooling(4, 4))
        g = capture(model(torch.ones(2, 3, 8, 8)).sum(), model=model)
        assert next(module for op, module, _ in made_by(g) if op == "AvgPool2D") == "0"

    def test_branches_that_a_module_joins_are_in_it(self):
        class Branches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)

            def forward(self, x):
                return torch.cat([self.a(x), self.b(x)], 1)

        model = torch.nn.Sequential(Branches(), torch.nn.Linear(5, 1))
        g = capture(model(torch.ones(4, 2)).sum(), model=model)
        assert [module for op, module, _ in made_by(g) if op == "Cat"] == ["0"]

    def test_a_child_that_may_run_any_number_of_operations_is_not_counted(self):
        class Swish(torch.nn.Module):
            def forward(self, x):
                return x * x.sigmoid()

        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 3), Swish()), torch.nn.Linear(3, 1))
        g = capture(model(torch.ones(1, 2)), model=model)
        assert [module for op, module, _ in made_by(g) if op in ("Mul", "Sigmoid")] == ["0", "0"]
