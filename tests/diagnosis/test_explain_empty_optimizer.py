"""BS223: why an optimizer was given nothing."""

import pytest
from columns import needs_columns
from failures import at, evidence, explained

NETS = """
from torch import nn
class Hidden(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers  # the list
linear = lambda: nn.Linear(2, 2)
"""


def test_a_generator_that_another_optimizer_has_gone_through():
    source = """
        model = torch.nn.Linear(3, 1)
        params = (p for p in model.parameters())  # here
        print(params)
        first = torch.optim.SGD(params, lr=0.1)
        second = torch.optim.SGD(params, lr=0.1)
        """
    finding = explained(source)
    assert finding.title == "params is an exhausted generator: it can be iterated only once."
    assert finding.fix == "Make a list of it: params = list((p for p in model.parameters()))."
    assert finding.source == at(source)
    assert "first = torch.optim.SGD(params, lr=0.1)\n    iterates over it." in evidence(finding)


def test_a_generator_that_the_iteration_before_has_gone_through():
    source = """
        model = torch.nn.Linear(3, 1)
        params = model.parameters()  # here
        for fold in range(3):
            optimizer = torch.optim.SGD(params, lr=0.1)
        """
    finding = explained(source)
    assert finding.source == at(source)
    assert "iterates over it in the iteration before." in evidence(finding)


LIST, DICT = "Make it an nn.ModuleList: ", "Make it an nn.ModuleDict"
CONTAINERS = {
    "Hidden([linear(), linear()])": ("plain list", "the 2 modules", f"{LIST}self.layers = nn.ModuleList(layers)."),
    "Hidden((linear(),))": ("plain tuple", "the 1 module ", LIST),
    "Hidden({'a': linear()})": ("plain dict", "the 1 module ", f"{DICT}: self.layers = nn.ModuleDict(layers)."),
    "Hidden({'a': [linear(), linear()]})": (
        "plain dict",
        "the 2 modules",
        (f"{DICT}, and do the same for the containers inside it"),
    ),
    "Hidden([nn.Parameter(torch.ones(2))])": ("plain list", "the 1 tensor ", "Make it an nn.ParameterList: "),
    "Hidden([torch.ones(2, requires_grad=True)])": ("plain list", "the 1 tensor ", "Make it an nn.ParameterList: "),
}


@pytest.mark.parametrize("model", CONTAINERS)
def test_layers_in_a_plain_container(model):
    source = f"{NETS}model = {model}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    kind, what, fix = CONTAINERS[model]
    finding = explained(source)
    assert finding.title.startswith(f"model.layers is a {kind}: model.parameters() does not see {what}")
    assert finding.fix.startswith(fix)
    assert finding.source == at(source, "# the list")


def test_a_container_of_a_module_inside_is_named_from_the_model():
    source = f"{NETS}model = nn.Sequential(nn.ReLU(), Hidden([linear()]))\ntorch.optim.SGD(model.parameters(), lr=0.1)"
    assert explained(source).title.startswith("model.1.layers is a plain list")


def test_what_holds_no_weights_is_not_blamed():
    source = f"{NETS}model = Hidden([nn.ReLU(), 3])\ntorch.optim.SGD(model.parameters(), lr=0.1)"
    assert explained(source).title == "model has no parameters: Hidden has nothing to train."


@pytest.mark.parametrize(
    "choice",
    [
        "params = [p for p in model.parameters() if p.requires_grad]",
        "params = []\nfor p in model.parameters():\n    if p.requires_grad:\n        params.append(p)",
        "params = filter(lambda p: p.requires_grad, model.parameters())\nprint(sum(1 for p in params))",
    ],
)
def test_a_model_that_is_frozen_with_the_line_that_froze_it(choice):
    source = (
        f"model = torch.nn.Linear(2, 2)\nmodel.requires_grad_(False)  # here\n{choice}\ntorch.optim.SGD(params, lr=1)"
    )
    finding = explained(source)
    assert finding.title.startswith("model is frozen: none of the 2 parameters requires grad")
    assert finding.source == at(source)


def test_a_list_that_is_filled_after_the_optimizer_was_made():
    source = """
        params = []
        optimizer = torch.optim.SGD(params, lr=0.1)  # here
        params.append(torch.ones(3, requires_grad=True))
        """
    finding = explained(source)
    assert finding.title == "params is still empty when the optimizer is created."
    assert finding.source == at(source)


@needs_columns
def test_the_parameters_are_followed_to_the_function_that_wrote_them():
    source = NETS + "\n".join(
        [
            "class Mine(torch.optim.SGD):",
            "    def __init__(self, params, speed):",
            "        super().__init__(params, lr=speed)",
            "def make(where, weights):",
            "    return Mine(weights, 0.1)",
            "model = Hidden([linear()])",
            "make('cpu', weights=model.parameters())",
        ]
    )
    assert explained(source).title.startswith("model.layers is a plain list")


UNKNOWN = {
    "an empty list": "torch.optim.SGD([], lr=0.1)",
    "what a function returned": "def chosen():\n    return []\ntorch.optim.SGD(chosen(), lr=0.1)",
    "a class with parameters() of its own": (
        "class Picky(torch.nn.Module):\n    def parameters(self):\n        return iter(())\n"
        "model = Picky()\ntorch.optim.SGD(model.parameters(), lr=0.1)"
    ),
}


@pytest.mark.parametrize("source", UNKNOWN.values(), ids=UNKNOWN)
def test_where_the_reason_does_not_show_none_is_given(source):
    finding = explained(source)
    assert finding.code == "BS223"
    assert finding.title.endswith("is empty: there is nothing to optimize.")
    assert not finding.exact
