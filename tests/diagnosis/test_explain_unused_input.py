"""BS204: which input a gradient was asked for in vain, and what stands in its place."""

from failures import at, evidence, explained

SETUP = """
from torch import nn
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.rand(10, 2, requires_grad=True)
t = torch.rand(10, 2, requires_grad=True)
"""


def test_an_input_that_takes_no_part():
    source = f"""{SETUP}
u = net(x)  # here
u_x, u_t = torch.autograd.grad(u.sum(), (x, t))
"""
    finding = explained(source)
    assert finding.code == "BS204"
    assert finding.title == "u does not depend on t: t is not used to compute it."
    assert finding.source == at(source)
    assert "computes u from x and 4 parameters." in evidence(finding)
    assert "Compute u from t too" in finding.fix
    assert finding.exact


def test_every_unused_input_is_named_not_only_the_first():
    finding = explained(f"{SETUP}s = torch.rand(1, requires_grad=True)\ntorch.autograd.grad(net(x).sum(), [x, s, t])\n")
    assert "does not depend on s and t: they are not used" in finding.title


def test_parameters_are_named_by_their_module():
    source = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.spare, self.head = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):  # here
        return self.head(self.body(x))

def inner_step(model, x):
    loss = model(x).pow(2).mean()
    return torch.autograd.grad(loss, model.parameters())

inner_step(Net(), torch.randn(4, 3))
"""
    finding = explained(source)
    assert finding.title.startswith("loss does not depend on model.spare.weight and model.spare.bias")
    assert "2 of the 6 requested inputs are not in the graph." in finding.evidence
    assert finding.source == at(source)
    assert finding.fix == "Use self.spare in forward, or remove it from Net. allow_unused=True would only return None."


def test_a_slice_made_after_the_output_is_a_tensor_of_its_own():
    finding = explained(f"{SETUP}u = net(x)\nu_x = torch.autograd.grad(u.sum(), x[:, :1])[0]\n")
    assert finding.title == "u is not computed from x[:, :1]: both are computed from x."
    assert "torch.autograd.grad(..., x)[0][:, :1]." in finding.fix
    assert finding.exact


def test_a_result_computed_beside_the_output():
    finding = explained(f"{SETUP}half = x / 2\nu = net(x)\ntorch.autograd.grad(u.sum(), half)\n")
    assert "u is not computed from half: both are computed from x" in finding.title
    assert "compute half first, then u from half" in finding.fix


def test_a_name_that_was_given_to_another_tensor_since():
    source = f"""{SETUP}
u = net(x)
x = x.detach().requires_grad_()  # here
u_x = torch.autograd.grad(u.sum(), x)[0]
"""
    finding = explained(source)
    assert finding.title == "x is not the tensor that u was computed from."
    assert finding.source == at(source)


def test_an_input_that_was_detached_on_the_way():
    source = f"""{SETUP}
def solve(x, t):
    u = net(x + t.detach())  # here
    return torch.autograd.grad(u.sum(), (x, t))

solve(x, t)
"""
    finding = explained(source)
    assert finding.title == "u is computed from detached values of t: t.detach() detaches it."
    assert finding.source == at(source)
    assert "write `u = net(x + t)`, without .detach()" in finding.fix


def test_the_second_derivative_of_a_linear_function():
    source = """
net = torch.nn.Linear(1, 1)
x = torch.rand(10, 1, requires_grad=True)
u = net(x)
u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
u_xx = torch.autograd.grad(u_x.sum(), x)[0]  # here
"""
    finding = explained(source)
    assert finding.title.startswith("u_x is a derivative that does not depend on x")
    assert "materialize_grads=True" in finding.fix
    assert finding.source == at(source)


def test_code_without_source_still_names_the_input():
    finding = explained(f"{SETUP}u = net(x)\ntorch.autograd.grad(u.sum(), (x, t))\n", readable=False)
    assert "t is not used to compute it" in finding.title
    assert finding.exact
