"""What is not known is not claimed: other errors with such a text, and causes that do not show."""

import pytest
import torch
from failures import at, evidence, explained, failing
from setups import CLASSIFIER
from torch import nn

import backsight as bs
from backsight.diagnosis.evidence.idle import trainable

OTHERS = {
    "None that is no gradient": "name = None\nname.upper()",
    "None beside a gradient": "w = torch.ones(3, requires_grad=True)\ng = w.grad\nname = None\nname.upper()",
    "None of a dict": "w = torch.ones(3, requires_grad=True)\n{}.get('a').mul(w.grad)",
    "None that is added": "w = torch.ones(3, requires_grad=True)\n(w * 2).sum().backward()\nother = None\n"
    "w.grad.add_(other)",
    "grad of a class": "class Config:\n    grad = None\nConfig().grad.norm()",
    "a bias that is left out": "from torch import nn\nnn.Linear(2, 2, bias=False).bias.grad",
    "an error with such a name": "raise TypeError('NoneType')",
    "backward of a class": "class Layer:\n    pass\nlayer = Layer()\nlayer.backward()",
    "backward of a missing layer": "class Net:\n    def __init__(self):\n        self.layer = None\nnet = Net()\n"
    "net.layer.backward(torch.ones(3))",
    "an error of another kind": "raise KeyError(\"'float' object has no attribute 'backward'\")",
    "an error with the scaler's text": "raise RuntimeError('outputs must be a Tensor or an iterable of Tensors')",
    "an operation without any derivative": "raise RuntimeError('derivative for aten::foo is not implemented')",
    "in-place sizes without vmap": "torch.zeros(3).add_(torch.ones(4, 3))",
}


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS)
def test_another_error_is_left_alone(source):
    error = failing(source)
    assert bs.explain(error).code == "BS200"
    with pytest.raises(type(error)), bs.explaining() as explaining:
        raise error
    assert all(each.code == "BS200" for each in explaining.findings)


def test_nothing_is_said_of_a_loss_where_pytorch_is_not_in_sight():
    source = "class Loss:\n    def __call__(self):\n        return 0.5\nloss = Loss()()\nloss.backward()"
    assert bs.explain(failing("del torch\n" + source)).code == "BS200"
    assert bs.explain(failing(source)).code == "BS222"


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("derivative for aten::_scaled_dot_product_efficient_attention_backward is not implemented", "scaled_dot"),
        ("derivative for aten::_thnn_fused_lstm_cell_backward is not implemented", "lstm"),
        ("derivative for aten::grid_sampler_2d_backward is not implemented", "grid_sampler_2d"),
        ("the derivative for '_pdist_backward' is not implemented.", "pdist"),
        ("Double backwards is not supported for CuDNN RNNs due to limitations in the CuDNN API.", "rnn"),
    ],
)
def test_what_pytorch_says_on_other_devices_is_known_by_its_operation(text, operation):
    finding = explained(f"raise RuntimeError({text!r})")
    assert finding.code == "BS215"
    assert finding.title.startswith(operation)


def test_the_text_of_torch_func_from_elsewhere_names_no_function():
    finding = explained("raise RuntimeError(\"Expected f(*args) to return a Tensor, got <class 'float'>\")")
    assert (finding.code, finding.exact) == ("BS233", False)


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('Output 0 of the user-provided function does not require gradients.')",
        "torch.autograd.functional.jacobian(lambda x: torch.ones(3), torch.ones(3), strict=True)",
    ],
    ids=["the text from elsewhere", "a constant"],
)
def test_nothing_is_said_to_detach_an_output_where_nothing_does(source):
    finding = explained(source)
    assert (finding.code, finding.exact) == ("BS203", False)
    assert "not computed from the inputs, or was detached" in finding.title


SCHEDULE = """
sgd = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
batches = torch.ones(4, 3)
schedule = torch.optim.lr_scheduler.OneCycleLR(sgd, max_lr=0.1, total_steps={total})
sgd.step()
"""
OVER = {
    "the text from elsewhere": "raise ValueError('Tried to step 4 times. The specified number of total steps is 3')",
    "a loop without a number": SCHEDULE.format(total=3) + "while True:\n    schedule.step()",
    "a condition": SCHEDULE.format(total=1) + "for k in range(9):\n    if k % 2:\n        schedule.step()",
    "a round that is left out": SCHEDULE.format(total=1)
    + "for x in batches:\n    if x.sum() > 9:\n        continue\n    schedule.step()",
    "data that is there later": SCHEDULE.format(total=1) + "data = batches * 2\nfor x in data:\n    schedule.step()",
    "a state that may not be loaded": SCHEDULE.format(total="len(batches) - 2").replace("sgd.step()", "resume = False")
    + "if resume:\n    schedule.load_state_dict({})\nwhile True:\n    schedule.step()",
    "two statements": SCHEDULE.format(total=2) + "schedule.step()\nfor x in batches:\n    schedule.step()",
    "a loop that runs again": SCHEDULE.format(total=4)
    + "def train():\n    for x in batches:\n        schedule.step()\ntrain()\ntrain()",
}


@pytest.mark.parametrize("source", OVER.values(), ids=OVER)
def test_a_schedule_is_given_no_number_of_steps_where_the_loops_do_not_tell_it(source):
    finding = explained(source)
    assert (finding.code, finding.exact, finding.edits) == ("BS234", False, ())


EMPTY = {
    "an empty list": "torch.optim.SGD([], lr=0.1)",
    "what a function returned": "def chosen():\n    return []\ntorch.optim.SGD(chosen(), lr=0.1)",
    "a class with parameters() of its own": (
        "class Picky(torch.nn.Module):\n    def parameters(self):\n        return iter(())\n"
        "model = Picky()\ntorch.optim.SGD(model.parameters(), lr=0.1)"
    ),
}


@pytest.mark.parametrize("source", EMPTY.values(), ids=EMPTY)
def test_where_the_reason_why_an_optimizer_got_nothing_does_not_show_none_is_given(source):
    finding = explained(source)
    assert (finding.code, finding.exact) == ("BS223", False)
    assert finding.title.endswith("is empty: there is nothing to optimize.")


def test_without_a_watch_a_teacher_that_no_optimizer_trains_is_not_blamed():
    source = f"""{CLASSIFIER}
teacher = nn.Linear(4, 3)
with torch.no_grad():
    target = teacher(x)
loss = F.mse_loss(model(x).detach(), target)  # here
loss.backward()
"""
    finding = explained(source)
    assert finding.source == at(source)
    assert "no_grad" not in evidence(finding)


def test_without_a_watch_a_block_that_may_have_lost_something_is_not_said_to_contain_the_loss():
    said = explained("""
    def step(params):
        with torch.no_grad():
            return [p - 0.1 * p.grad for p in params]
    params = [torch.randn(3, requires_grad=True)]
    for _ in range(2):
        loss = (torch.ones(5, 3) @ params[0]).mean()
        loss.backward()
        params = step(params)
    """)
    assert said.title.startswith("loss does not require grad: one of its inputs was computed under")
    assert "w -= lr * w.grad" in said.fix


def test_gradients_that_are_disabled_still_are_not_only_so_inside_of_explain():
    source = """
    def evaluate():
        torch.set_grad_enabled(False)  # here
    w = torch.ones(3, requires_grad=True)
    evaluate()
    loss = w.sum()
    loss.backward()
    """
    error = failing(source)
    with torch.set_grad_enabled(False):
        said = bs.explain(error)
    assert "gradients are disabled globally" in said.title
    assert said.source == at(source)


def test_a_loss_of_a_library_that_checkpoints_is_told_how_its_inputs_require_grad():
    source = f"{CLASSIFIER}model.gradient_checkpointing = True\nloss = criterion(model(x))\nloss.backward()\n"
    assert "enable_input_require_grads()" in explained(source, criterion=lambda out: out.sum().detach()).fix


def test_a_weight_that_two_modules_share_is_counted_once():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert list(trainable(model)) == ["0.weight", "0.bias", "1.bias"]
