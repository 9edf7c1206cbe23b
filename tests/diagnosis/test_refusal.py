"""BS200: of an error of PyTorch's that no explanation knows, what the frames show, and no cause that was not seen."""

import re

import pytest
import torch
from columns import needs_columns
from failures import at, evidence, explained, failing

import backsight as bs


@needs_columns
def test_the_expression_its_tensors_and_the_module_inside_are_named():
    source = """
        net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 1))
        rows = torch.ones(8, 5)
        out = net(rows).sum()  # here
    """
    finding = explained(source)
    assert (finding.code, finding.severity, finding.source) == ("BS200", "error", at(source))
    assert re.match(r"net\(rows\) raised RuntimeError: (addmm: )?mat1 and mat2 shapes cannot be mul", finding.title)
    told = evidence(finding)
    assert "failed in net[1] (a Linear)." in told
    assert "computes rows: float32 tensor of shape 8×5, does not require grad." in told
    assert "net[1].weight: float32 tensor of shape 1×4, requires grad." in told
    assert "net[1] takes 4 features and gets 5" in finding.fix


def test_a_fix_is_given_only_where_the_message_leaves_one():
    assert explained("a, b = torch.ones(3), torch.ones(4)\na + b").fix == ""


FIXES = {
    "net = torch.nn.Linear(2, 1)\nnet.weight = net.weight * 2": "functional_call(net, {'weight': value}, (x,))",
    "a, b = torch.zeros(3), torch.ones(3).double()\na[torch.arange(3)] = b": "b.to(a.dtype)",
    "w = torch.ones(1, requires_grad=True)\ntorch.optim.LBFGS([w]).step()": "optimizer.step(closure)",
    "w = torch.ones(1, requires_grad=True)\ntorch.optim.SGD([{'params': [w]}, {'params': [w]}])": "Leave out group 1",
    "net = torch.nn.BatchNorm1d(3)\nnet(torch.ones(1, 3))": "drop_last=True",
    "out, pull = torch.func.vjp(torch.nn.Linear(3, 1), torch.ones(2, 3))\npull(torch.ones(2))": (
        "pull(torch.ones_like(out))"
    ),
    "x, v = torch.ones(2, 3), torch.ones(3)\ntorch.func.jvp(torch.sin, (x,), (v,))": "(v.expand_as(x),))",
    "x = torch.ones(2, 3)\ntorch.func.jvp(torch.mul, (x, x), (x, torch.ones(3)))": "(x, torch.ones_like(x)))",
    "e = torch.nn.Embedding(5, 3)\ne.register_backward_hook(print)\ne.register_full_backward_hook(print)": (
        "Register all hooks of e with register_full_backward_hook()"
    ),
    "def f(x):\n    return x**2\ntorch.autograd.functional.hessian(f, torch.ones(2))": "`return (x**2).sum()`",
    "f, x = torch.sin, torch.ones(2)\ntorch.autograd.functional.vjp(f, x)": "vjp(f, x, v=torch.ones_like(f(x)))`",
    "nets = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).eval()]\ntorch.func.stack_module_state(nets)": (
        "put `for each in nets: each.train()` above line"
    ),
    "net, w = torch.nn.Linear(2, 1), [1.0, 2.0, 3.0]\ntorch.nn.utils.vector_to_parameters(w, net.parameters())": (
        "vector_to_parameters(torch.tensor(w), net.parameters())"
    ),
    "net = torch.nn.Linear(2, 1)\nsgd = torch.optim.SGD(net.parameters(), 0.1)\n"
    "torch.optim.lr_scheduler.StepLR(net.parameters(), 3)": "StepLR(sgd, 3)",
    "net = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(2, 2))\ntorch.save(net, '/dev/null')": (
        "torch.save(net.state_dict(), '/dev/null')"
    ),
    "x = torch.ones(2)\ntorch.autograd.graph.get_gradient_edge(x)": "`if x.requires_grad:`",
    "f = lambda x: x.clone().requires_grad_()\ntorch.vmap(f)(torch.ones(4, 3))": "torch.func: grad(f)(x)",
}


@needs_columns
@pytest.mark.parametrize("source", FIXES)
def test_what_only_one_thing_can_mend_has_a_fix(source):
    finding = explained(source)
    assert (finding.code, finding.severity) == ("BS200", "error")
    assert FIXES[source] in finding.fix


@needs_columns
def test_a_tensor_that_the_program_has_no_name_for_is_no_evidence():
    finding = explained("pull = torch.func.vjp(torch.nn.Linear(3, 1), torch.ones(2, 3))[1]\npull(torch.ones(2))")
    assert finding is None or all(not str(each).startswith(":") for each in finding.evidence)


def test_what_a_function_saves_is_told_where_it_saves_it():
    source = """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                ctx.save_for_backward(x, factor)  # here
                return x * factor

        x = torch.ones(3, requires_grad=True)
        Scale.apply(x, 0.5)
    """
    finding = explained(source)
    assert (finding.code, finding.source) == ("BS200", at(source))
    assert "ctx.scale = scale" in finding.fix


OTHERS = {
    "raised by the program": "x = torch.ones(3)\nraise RuntimeError(f'bad {x}')",
    "asserted by the program": "x = torch.ones(3)\nassert x.sum() == 4, 'tensor'",
    "of a list": "items, w = [1], torch.ones(3)\nitems[5] * w",
    "of a missing key": "held = {}\nheld['w']",
    "of a missing attribute": "torch.nn.Linear(1, 1).wieght",
    "a text that names a tensor": "x = torch.ones(3)\ny = int('tensor') + x",
    "a text with a tensor": "x = torch.ones(3)\ny = 'a tensor: ' + x",
    "arguments of a function": "x = torch.ones(3)\ndef f(a, tensor): pass\nf(x)",
    "arguments of a forward": "class Net(torch.nn.Module):\n    def forward(self, tensor): pass\nNet()()",
    "tensors that are compared": "x = torch.ones(3)\nsorted([x, 'tensor'])",
    "a call of a tensor": "x = torch.ones(3)\nx(1)",
    "a list that lacks a tensor": "x = torch.ones(3)\n[1, x].index('tensor')",
    "of NumPy": "import numpy\nx = torch.ones(2, 3)\nnumpy.concatenate([x.numpy(), numpy.zeros(3)])",
}


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_an_error_that_is_not_of_pytorch_is_only_called_unknown(source):
    finding = bs.explain(failing(source))
    assert (finding.code, finding.severity, finding.source) == ("BS200", "note", None)


def test_what_failed_is_the_expression_alone():
    assert explained("x = torch.ones(3)\ny = x.view(7) + x.sum()").title.startswith("x.view(7) raised RuntimeError")


@needs_columns
def test_an_operand_that_is_none_is_named_with_the_line_that_assigns_it():
    told = evidence(explained("w = torch.ones(3)\nextra = print()\nloss = w.sum() + extra"))
    assert "assigns extra, which is None." in told and "computes w" in told


BARE = {
    "a learning rate": "model = torch.nn.Linear(1, 1)\ntorch.optim.SGD(model.parameters(), lr=-1)",
    "lengths of a split": "torch.utils.data.random_split(list(range(10)), [3, 4])",
}


@pytest.mark.parametrize("source", BARE.values(), ids=BARE)
def test_what_the_traceback_already_says_is_not_repeated(source):
    finding = bs.explain(failing(source))
    assert (finding.code, finding.severity, finding.source) == ("BS200", "note", None)


def test_a_state_that_does_not_fit_is_told_with_what_does_not_fit():
    finding = explained("model = torch.nn.Linear(8, 1)\nmodel.load_state_dict({'weight': torch.ones(1, 8)})")
    assert 'Error(s) in loading state_dict for Linear: Missing key(s) in state_dict: "bias".' in finding.title


def test_nothing_of_the_users_is_evaluated():
    class Loud(torch.nn.Module):
        @property
        def weight(self):
            raise AssertionError("evaluated")

        def forward(self, x):
            return x

    finding = explained(
        "loud.weight_of if False else x + torch.ones(loud(x).numel() + 1)", loud=Loud(), x=torch.ones(3)
    )
    assert finding.code == "BS200"
    assert "The size of tensor a (3) must match" in finding.title


SPARSE = """
class Tables(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Embedding(5, 2, sparse=True)  # here
        self.two = torch.nn.Embedding(5, 2)
        self.three = torch.nn.Embedding(5, 2, sparse=True)
    def forward(self, x):
        return (self.one(x) * self.two(x) * self.three(x)).sum()
tables = Tables()
opt = torch.optim.OPTIMIZER
tables(torch.tensor([1, 2])).backward()
opt.step()
"""


@needs_columns
def test_adagrad_keeps_sparse_gradients_without_decay():
    finding = explained(SPARSE.replace("OPTIMIZER", "Adagrad(tables.parameters(), weight_decay=0.1)"))
    assert "Adagrad(tables.parameters(), weight_decay=0)" in finding.fix


REFUSALS = {
    "SGD(tables.parameters(), 0.1, weight_decay=0.1)": ("cannot apply weight_decay", "0.1, weight_decay=0)"),
    "SGD(tables.parameters(), 0.1, fused=True)": ("sparse gradients with fused=True", "0.1, fused=False)"),
    "Adagrad(tables.parameters(), fused=True)": ("sparse gradients with fused=True", "fused=False)"),
}


@needs_columns
@pytest.mark.parametrize("optimizer", REFUSALS)
def test_why_an_optimizer_refuses_sparse_gradients(optimizer):
    finding = explained(SPARSE.replace("OPTIMIZER", optimizer))
    why, fix = REFUSALS[optimizer]
    assert why in finding.title
    assert fix in finding.fix


@needs_columns
def test_a_variable_called_sparse_is_no_setting():
    source = SPARSE.replace("OPTIMIZER", "Adam(tables.parameters())")
    finding = explained(source + "sparse = [each for each in tables.parameters() if each.grad.is_sparse]\n")
    assert finding.source == at(source)
    assert "each for each" not in finding.fix


@needs_columns
@pytest.mark.parametrize("clip", ["clip_grad_norm_", "clip_grad_value_"])
def test_neither_way_to_clip_takes_sparse_gradients(clip):
    source = SPARSE.replace("OPTIMIZER", "SGD(tables.parameters(), 0.1)").replace(
        "opt.step()", f"torch.nn.utils.{clip}([*tables.parameters()], 0.5)"
    )
    if clip == "clip_grad_norm_" and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15):
        pytest.skip("PyTorch takes them from 2.15 on")
    assert explained(source).title.startswith(f"{clip}() does not take sparse gradients")


@needs_columns
def test_dense_gradients_are_left_to_another_optimizer():
    finding = explained(SPARSE.replace("OPTIMIZER", "SparseAdam(list(tables.parameters()))"))
    assert "tables.two.weight has a dense gradient" in finding.title
    assert "torch.optim.SparseAdam([tables.one.weight, tables.three.weight])" in finding.fix


UNDER_AUTOCAST = {
    """
net, x, to = torch.nn.Linear(4, 3), torch.ones(5, 4), torch.tensor([0, 1, 1, 0, 1])
def pool(x):
    m = net(x)
    pooled = torch.zeros(2, m.size(1), device=m.device)  # here
    pooled.index_add_(0, to, m)
with torch.autocast("cpu"):
    pool(x)
""": "write `pooled = torch.zeros(2, m.size(1), device=m.device, dtype=m.dtype)`",
    """
net, x = torch.nn.Linear(4, 3), torch.ones(5, 4)
with torch.autocast("cpu"):
    out = torch.empty(5, 3)
    m = net(x)
    out[torch.arange(5)] = m  # here
""": "write `out[torch.arange(5)] = m.float()`",
    """
net, x, to = torch.nn.Linear(4, 3), torch.ones(5, 4), torch.tensor([0, 1, 1, 0, 1])
with torch.autocast("cpu"):
    h = net(x)
    pooled = torch.zeros(2, 3).index_add_(0, to, h)  # here
""": "write `pooled = torch.zeros(2, 3, dtype=h.dtype).index_add_(0, to, h)`",
}


@needs_columns
@pytest.mark.parametrize("source", UNDER_AUTOCAST)
def test_what_is_made_beside_autocast_gets_the_dtype_that_it_computes_in(source):
    finding = explained(source)
    assert (finding.code, finding.source) == ("BS200", at(source))
    assert "makes float32, and" in finding.fix and "is bfloat16, as autocast computes it" in finding.fix
    assert UNDER_AUTOCAST[source] in finding.fix


STATES = """
def adam(*sizes):
    net = torch.nn.Sequential(*(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))
    return net, torch.optim.Adam(net.parameters())
def step(net, opt, size):
    net(torch.ones(1, size)).sum().backward()
    opt.step()
def restore(opt, state):
    opt.load_state_dict(state)
before, old = adam(3, 5, 2)
step(before, old, 3)
"""


def test_a_state_of_another_net_fails_in_the_step_and_no_order_is_told():
    finding = explained(STATES + "net, opt = adam(3, 4, 2)\nrestore(opt, old.state_dict())\nstep(net, opt, 3)")
    assert finding.title.endswith("the state of net[0].weight has shape 5×3, and the parameter 4×3.")
    assert "order of" not in finding.fix
    assert not finding.exact


def test_what_a_state_lacks_is_told_only_where_its_shapes_leave_one_way():
    source = "net, opt = adam(SIZES)\nrestore(opt, old.state_dict())"
    named = explained(STATES + source.replace("SIZES", "3, 5, 2, 7"))
    assert named.title == "opt has 6 parameters, and the state was saved with 4: net[2] was not among them."
    open_ = explained(STATES.replace("3, 5, 2", "3, 3") + source.replace("SIZES", "3, 3, 3"))
    assert open_.fix.startswith("It was saved with 2 parameters, and this optimizer has 4 parameters.")


def test_what_a_model_keeps_is_detached_before_it_is_sent_to_a_process():
    source = """
import torch.multiprocessing as mp
encoder = torch.nn.Linear(3, 2)
encoder.codes = encoder(torch.ones(4, 3))
encoder.codes.sum().backward()
inbox, outbox = mp.Pipe()
outbox.send(encoder)  # here
"""
    finding = explained(source)
    assert finding.source == at(source)
    detached = "encoder.codes = encoder.codes.detach()"
    assert f"Put `{detached}` above line" in finding.fix
    assert finding.fix.endswith("if no loss is computed from it any more.")


def test_a_state_is_told_by_the_model_of_the_object_that_has_it():
    source = """
class Trainer:
    def __init__(self, order):
        self.net = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 4), "b": torch.nn.Linear(4, 3)})
        held = [p for name in order for p in self.net[name].parameters()]
        self.all = {"main": torch.optim.SGD(held, 0.1, momentum=0.9)}
    def step(self):
        self.net["b"](self.net["a"](torch.ones(2, 3))).sum().backward()
        for each in self.all.values():
            each.step()
before, after = Trainer("ab"), Trainer("ba")
before.step()
for name, each in after.all.items():
    each.load_state_dict(before.all[name].state_dict())  # here
after.step()
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert finding.fix.endswith("Its shapes fit self.net in the order of its parameters.")
