"""BS214: tensors made under inference mode that meet autograd."""

from failures import at, evidence, explained

SETUP = """
from torch import nn
model, head = nn.Linear(4, 3), nn.Linear(3, 2)
x = torch.randn(5, 4)
"""


def test_a_constant_that_has_to_be_saved():
    source = f"""{SETUP}
with torch.inference_mode():  # here
    features = model(x)
head(features).sum()
"""
    finding = explained(source)
    assert finding.code == "BS214"
    assert finding.title == (
        "features was made under torch.inference_mode(), and autograd cannot save it for backward: changes of such a "
        "tensor are not counted."
    )
    assert finding.source == at(source)
    assert finding.fix == (
        "Use torch.no_grad() in place of torch.inference_mode() in line 5: what that makes can take part in autograd "
        "as a constant. Or go on with a copy, made outside: features = features.clone()."
    )
    assert finding.exact


def test_a_function_that_runs_under_it():
    source = f"""{SETUP}
@torch.inference_mode()  # here
def encode(x):
    return model(x)

features = encode(x)
head(features).sum()
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert "gets features from there." in evidence(finding)
    assert "the statements of encode() run under torch.inference_mode(), features among them." in evidence(finding)


def test_a_change_in_place():
    source = f"""{SETUP}
with torch.inference_mode():  # here
    average = torch.zeros(3)
average.mul_(0.9)
"""
    finding = explained(source)
    assert finding.title == (
        "average was made under torch.inference_mode(), and it can be changed in place in that mode only."
    )
    assert finding.source == at(source)


def test_a_request_for_a_gradient():
    finding = explained(f"{SETUP}with torch.inference_mode():\n    z = model(x)\nz.requires_grad_()\n")
    assert finding.title == "z was made under torch.inference_mode(), and it can never require grad."
    assert finding.fix.startswith("Ask for the gradient of a copy, made outside: z = z.clone().requires_grad_().")


def test_parameters_that_were_made_under_it():
    source = """
from torch import nn
with torch.inference_mode():  # here
    net = nn.Sequential(nn.Linear(4, 3))
net(torch.randn(5, 4, requires_grad=True)).sum()
"""
    finding = explained(source)
    assert finding.title.startswith("net.0.weight was made under torch.inference_mode()")
    assert finding.source == at(source)
    assert finding.fix == ("Make net outside of torch.inference_mode(): what is to be trained cannot come from it.")


def test_where_it_was_made_is_not_found_the_failing_statement_is_named():
    with_tensor = "import torch\nwith torch.inference_mode():\n    return_value = torch.ones(3)\n"
    namespace: dict = {}
    exec(with_tensor, namespace)
    finding = explained("y = given * torch.ones(3, requires_grad=True)\n", given=namespace["return_value"])
    assert finding.code == "BS214"
    assert finding.source == "train.py:1"
    assert not finding.exact
