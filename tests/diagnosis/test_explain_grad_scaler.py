"""BS224: which call of a GradScaler came too often, too late or not at all."""

import pytest
from failures import at, evidence, explained

START = """
model = torch.nn.Linear(3, 1)
x = torch.ones(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
"""


def told(steps):
    source = START + steps.strip("\n")
    finding = explained(source)
    assert finding.code == "BS224"
    return source, finding


def test_of_two_calls_in_a_row_the_first_is_named():
    source, finding = told(
        """
scaler.scale(model(x).sum()).backward()
scaler.unscale_(optimizer)  # here
scaler.unscale_(optimizer)
"""
    )
    assert finding.title == "scaler.unscale_(optimizer) runs twice without scaler.update() in between."
    assert finding.source == at(source)
    assert "remove line 6, or this one" in finding.fix
    assert finding.exact


def test_another_optimizer_of_the_same_scaler_is_not_blamed():
    _, finding = told(
        """
other = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    scaler.scale(model(x).sum()).backward()
    scaler.step(other)
    scaler.step(optimizer)
    break
scaler.scale(model(x).sum()).backward()
scaler.step(other)  # here
"""
    )
    assert "scaler.step(other) runs twice" in finding.title
    assert "optimizer)" not in evidence(finding)


def test_alternatives_are_not_taken_for_two_calls():
    source, finding = told(
        """
for step in range(2):
    scaler.scale(model(x).sum()).backward()
    if step:
        scaler.step(optimizer)  # here
    else:
        scaler.step(optimizer)
"""
    )
    assert finding.source == at(source)
    assert "scaler.update() is never called in the loop." in evidence(finding)


def test_a_loss_that_another_scaler_has_scaled():
    source, finding = told(
        """
def loss_of(x):
    return torch.amp.GradScaler("cpu").scale(model(x).sum())
mine = torch.amp.GradScaler("cpu")
mine.scale(model(x).sum()).backward()  # here
scaler.step(optimizer)
"""
    )
    assert finding.source == at(source)
    assert "scales with another scaler, mine." in evidence(finding)


def test_a_plain_backward_in_a_function_that_the_step_calls():
    source, finding = told(
        """
def backward(loss):
    loss.backward()  # here
backward(model(x).sum())
scaler.unscale_(optimizer)
"""
    )
    assert finding.title == "scaler.unscale_() runs, but scaler.scale() never did: the loss was not scaled."
    assert finding.source == at(source)
    assert finding.fix == "Scale the loss: scaler.scale(loss).backward()."


def test_gradients_in_a_model_of_which_the_optimizer_holds_nothing():
    _, finding = told(
        """
teacher = torch.nn.Linear(3, 1)
scaler.scale(teacher(x).sum()).backward()
scaler.step(optimizer)
"""
    )
    assert finding.title == "scaler.step(optimizer): none of the parameters of optimizer has a gradient."
    assert "teacher has gradients, but optimizer holds none of its parameters." in evidence(finding)
    assert "teacher.parameters()" in finding.fix


def test_an_update_that_runs_more_often_than_the_step():
    source, finding = told(
        """
for i in range(4):
    scaler.scale(model(x).sum()).backward()
    if i % 2:
        scaler.step(optimizer)
    scaler.update()  # here
"""
    )
    assert finding.source == at(source)
    assert finding.fix == "Call scaler.update() under the condition on line 7, like scaler.step()."


def test_an_order_that_is_right_lacks_the_update_between_two_steps():
    source, finding = told(
        """
def step(loss):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)  # here
for i in range(3):
    step(model(x).sum())
"""
    )
    assert finding.title.endswith("runs again without scaler.update() since the last scaler.step(optimizer).")
    assert finding.source == at(source)


@pytest.mark.parametrize("call", ["step(optimizer)", "unscale_(optimizer)"])
def test_where_the_text_does_not_show_who_called_before_it_is_not_said(call):
    _, finding = told(
        f"""
scaler.scale(model(x).sum()).backward()
getattr(scaler, "{call}"[:-11])(optimizer)
scaler.{call}
"""
    )
    assert not finding.exact
    assert "the source text does not show which one" in evidence(finding)


def test_of_two_callbacks_that_are_called_by_name_both_are_replaced():
    _, finding = told(
        """
class Clip:
    def after(self, trainer):
        trainer.scaler.unscale_(trainer.optimizer)
class Log:
    def after(self, trainer):
        trainer.scaler.unscale_(trainer.optimizer)  # here
class Trainer:
    def __init__(self):
        self.optimizer, self.scaler = optimizer, scaler
    def run(self, name):
        for each in (Clip(), Log()):
            getattr(each, name)(self)
    def step(self):
        self.scaler.scale(model(x).sum()).backward()
        self.run("after")
        self.scaler.step(self.optimizer)
        self.scaler.update()
Trainer().step()
"""
    )
    assert finding.source == "train.py:7"
    assert finding.fix.endswith("remove lines 7 and 10, and put `self.scaler.unscale_(self.optimizer)` above line 19.")
    assert not finding.exact


def test_weights_that_are_frozen_for_a_while_are_not_said_to_be_left_out():
    source = """
import torch

body, head = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
of_body, of_head = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (body, head))
scaler = torch.amp.GradScaler("cpu")
for epoch in range(2):
    body.requires_grad_(epoch > 0)
    loss = head(body(torch.randn(5, 3))).square().mean()
    scaler.scale(loss).backward()
    scaler.step(of_body)
    scaler.step(of_head)
    scaler.update()
"""
    finding = explained(source)
    assert finding.title.endswith("body is frozen.")
    assert "leave scaler.step(of_body) out" in finding.fix
