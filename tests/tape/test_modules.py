"""Which module made a node: exactly from a log of calls, by good guesses from the graph alone."""

import contextlib
import gc
import threading
import weakref

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backsight.tape import CallLog, announce, capture


@contextlib.contextmanager
def logged():
    """Log every module call in this block, and let captures use the log for as long as it is held."""
    log = CallLog()
    announce(log)

    def enter(module, args):
        log.enter(module)

    def leave(module, args, output):
        log.leave(module)

    hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield log
    finally:
        for hook in hooks:
            hook.remove()
        log.close()


def made_by(graph):
    """The operations in forward order, each with its module and the number of the call."""
    return [(n.op, n.module, n.call) for n in reversed(graph.nodes) if n.kind != "leaf"]


class Sine(torch.nn.Module):
    def forward(self, x):
        return x.sin()


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by = torch.nn.Parameter(torch.full((2,), 2.0))

    def forward(self, x):
        return x * self.by


class Nest(torch.nn.Module):
    """Operations of its own before, between and after the calls of its children; one of them is called twice."""

    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.sine = Sine()

    def forward(self, x):
        x = self.scale(x.exp())
        x = self.sine(x.cos())
        return self.scale(x).tanh()


NEST = [("Exp", "", 0), ("Mul", "scale", 0), ("Cos", "", 0), ("Sin", "sine", 0), ("Mul", "scale", 1), ("Tanh", "", 0)]


def x():
    return torch.ones(2, requires_grad=True)


class TestByLoggedCalls:
    def test_each_node_belongs_to_the_innermost_call(self):
        model = Nest()
        with logged() as log:
            g = capture(model(x()), model=model)
        assert made_by(g) == NEST
        assert log

    def test_what_no_module_made_is_outside(self):
        model = Scale()
        with logged() as log:
            g = capture(model(x().exp()).sum(), model=model)
        assert made_by(g) == [("Exp", "(outside)", 0), ("Mul", "", 0), ("Sum", "(outside)", 0)]
        assert log

    def test_a_shared_module_keeps_its_first_path_and_counts_its_calls(self):
        sine = Sine()
        model = torch.nn.Sequential(sine, Scale(), sine, sine)
        with logged() as log:
            g = capture(model(x()), model=model)
        assert made_by(g) == [("Sin", "0", 0), ("Mul", "1", 0), ("Sin", "0", 1), ("Sin", "0", 2)]
        assert log

    def test_calls_are_counted_over_an_unrolled_loop(self):
        cell = Scale()
        with logged() as log:
            h = x()
            for _ in range(4):
                h = cell(h)
            g = capture(h, model={"cell": cell})
        assert [n.call for n in reversed(g.nodes) if n.op == "Mul"] == [0, 1, 2, 3]
        assert log

    def test_several_models_are_told_apart_by_name(self):
        first, second = Nest(), Scale()
        with logged() as log:
            g = capture(second(first(x())), model={"body": first, "head": second})
        assert [m for _, m, _ in made_by(g)] == [
            "body",
            "body.scale",
            "body",
            "body.sine",
            "body.scale",
            "body",
            "head",
        ]
        assert log

    def test_without_a_model_modules_go_by_their_class(self):
        with logged() as log:
            g = capture(Scale()(x()))
        assert log
        assert made_by(g)[0][1] in ("Scale", "(outside)")  # the module is gone, unless its cycle still waits

    def test_an_exception_in_forward_does_not_shift_what_follows(self):
        class Failing(torch.nn.Module):
            def forward(self, x):
                raise ValueError("inside")

        class Tolerant(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.failing, self.sine = Failing(), Sine()

            def forward(self, x):
                with contextlib.suppress(ValueError):
                    self.failing(x.exp())
                return self.sine(x.cos()).tan()

        model = Tolerant()
        with logged() as log:
            g = capture(model(x()), model=model)
        assert made_by(g) == [("Cos", "", 0), ("Sin", "sine", 0), ("Tan", "", 0)]
        assert log

    def test_calls_whose_exits_were_missed_end_with_the_call_around_them(self):
        outer, inner = Nest(), Sine()
        log = CallLog()
        announce(log)
        log.enter(outer)
        log.enter(inner)
        within = x().sin()
        assert log.leave(outer)
        after = within.cos()
        g = capture(after, model={"outer": outer, "inner": inner})
        assert made_by(g) == [("Sin", "inner", 0), ("Cos", "(outside)", 0)]

    def test_a_log_that_began_inside_a_call_ignores_its_end(self):
        log = CallLog()
        assert log.leave(Sine()) is False

    def test_a_call_that_still_runs_owns_what_it_has_made(self):
        captured = []

        class Inspecting(torch.nn.Module):
            def forward(self, x):
                y = x.sin()
                captured.append(capture(y, model=self))
                return y

        with logged() as log:
            Inspecting()(x())
        assert made_by(captured[0]) == [("Sin", "", 0)]
        assert log

    def test_threads_are_logged_apart(self):
        found = {}

        def work(name, ops):
            model = Nest()
            y = x()
            for _ in range(ops):
                y = y.neg()
            barrier.wait()
            y = model(y)
            barrier.wait()
            found[name] = made_by(capture(y, model=model))

        with logged() as log:
            barrier = threading.Barrier(2)
            threads = [threading.Thread(target=work, args=args) for args in [("a", 0), ("b", 3)]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert log
        assert found["a"] == NEST
        # The log may have begun after the first operations of a thread, so where these were made is not known.
        assert found["b"] == [("Neg", None, 0)] * 3 + NEST

    def test_a_log_tells_nothing_of_what_was_made_after_its_end(self):
        model = Nest()
        with logged() as log:
            model(x())
        assert capture(model(x())).modules == ()
        assert log

    def test_the_first_operation_after_its_end_is_after_its_end(self):
        model = Nest()
        with logged() as log:
            y = model(x())
        assert made_by(capture(y, model=model)) == NEST
        assert capture(y.neg(), model=model).calls == ()
        assert log

    def test_what_was_made_before_the_log_began_is_not_known(self):
        model = Sine()
        before = model(x()).exp()
        with logged() as log:
            between = before.neg()
            g = capture(model(between), model=model)
        assert made_by(g) == [("Sin", None, 0), ("Exp", None, 0), ("Neg", "(outside)", 0), ("Sin", "", 0)]
        assert log

    def test_nor_what_a_bounded_log_has_dropped(self):
        sine = Sine()
        log = CallLog(limit=2)
        announce(log)
        y = x()
        for _ in range(3):
            log.enter(sine)
            y = y.sin()
            log.leave(sine)
        assert made_by(capture(y, model=sine)) == [("Sin", None, 0), ("Sin", "", 0), ("Sin", "", 1)]

    def test_each_graph_counts_its_own_calls(self):
        model = Sine()
        with logged() as log:
            first, second = capture(model(x()), model=model), capture(model(model(x())), model=model)
        assert made_by(first) == [("Sin", "", 0)]
        assert made_by(second) == [("Sin", "", 0), ("Sin", "", 1)]
        assert log

    def test_a_thread_is_not_taken_for_one_that_ended_before_it(self):
        found, ids = [], set()
        scale, sine = Scale(), Sine()

        def work(*models):
            ids.add(threading.get_ident())  # of a thread that has ended it is free for the next
            y = x()
            for model in models:
                y = model(y)
            found.append(made_by(capture(y, model={"scale": scale, "sine": sine})))

        with logged() as log:
            for models in ((scale, scale, scale), (sine, sine)):
                thread = threading.Thread(target=work, args=models)
                thread.start()
                thread.join()
        if len(ids) == 2:
            pytest.skip("this system gave the second thread an identifier of its own")
        assert found == [
            [("Mul", "scale", 0), ("Mul", "scale", 1), ("Mul", "scale", 2)],
            [("Sin", "sine", 0), ("Sin", "sine", 1)],
        ]
        assert log

    def test_a_log_that_nobody_holds_is_not_used(self):
        model = Nest()
        with logged() as log:
            y = model(x())
        gone = weakref.ref(log)
        del log
        gc.collect()
        assert gone() is None
        assert capture(y).modules == ()

    def test_a_log_keeps_no_module_alive(self):
        model = Nest()
        with logged() as log:
            y = model(x())
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None
        assert [m for _, m, _ in made_by(capture(y))] == ["(outside)"] * 6
        assert log

    def test_a_log_is_bounded(self):
        log = CallLog(limit=100)
        sine = Sine()
        for _ in range(1000):
            log.enter(sine)
            x().sin()
            log.leave(sine)
        assert sum(map(len, log._calls.values())) <= 100


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


def gpt2():
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 3, "n_embd": 16, "n_head": 2, "vocab_size": 50, "n_positions": 16}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.arange(8)[None]
    return model, lambda: model(ids, labels=ids).loss


class TestByLeaves:
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
        assert [n.module for n in g.nodes if n.op == "Tanh"] == ["0"]

    def test_what_a_loop_does_between_two_calls_of_a_network_is_no_part_of_the_network(self):
        net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        y = x()
        for _ in range(3):
            y = y - net(y) * 0.1
        g = capture(y, model={"net": net, "other": Scale()})
        made = [module for op, module, _ in made_by(g) if op not in ("T", "View")]
        assert made == ["net.0", "net", "net.2", "", ""] * 3

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
