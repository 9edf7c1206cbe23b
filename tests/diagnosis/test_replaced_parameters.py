"""BS101 of parameters that are replaced one by one: in a file of its own, since the rule looks for who assigns them."""

import torch
from audits import one
from torch import nn

import backsight as bs


def test_parameters_that_are_replaced_one_by_one() -> None:
    net = nn.Module()
    net.body, net.head = nn.Linear(4, 8), nn.Linear(8, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for layer in (net.body, net.head):
        layer.weight = nn.Parameter(layer.weight.detach() * 0.5)
    finding = one(bs.audit(net.head(net.body(torch.randn(3, 4))).mean()), "BS101")
    assert finding.title == "net.body.weight and net.head.weight require grad, but no optimizer updates them."
    told, replaced = finding.evidence
    assert told == "The loss depends on them, but optimizer does not hold them."
    assert str(replaced).endswith(
        "replaces net.body.weight and net.head.weight, which optimizer still holds in their old form."
    )
    assert finding.fix == f"Create optimizer again after line {replaced.place.line}."
    del optimizer
