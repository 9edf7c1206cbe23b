"""A report as a picture: every finding is pinned to the nodes that it is about."""

import pytest
import torch
from torch import nn

import backsight
from backsight.diagnosis import Report


def pins(report):
    """Return, for each remark of the picture, its code and the operations to which it is pinned."""
    scene = report.draw().scene
    return [(r.text[:5], [b.op for b in scene.boxes if r.number in b.pins]) for r in scene.remarks]


def test_a_leaf_without_optimizer_is_pinned_to_what_consumes_it():
    body, head = nn.Linear(4, 4), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    loss = head(body(torch.ones(2, 4)).relu()).sum()
    report = backsight.audit(loss, model={"body": body, "head": head}, optimizer=optimizer)
    assert [finding.code for finding in report] == ["BS101"]
    assert pins(report) == [("BS101", ["Addmm"])]
    (pinned,) = [b for b in report.draw().scene.boxes if b.pins]
    assert [chip.text for chip in pinned.chips] == ["head.bias", "head.weight"] or pinned.name == "head"


def test_a_modified_tensor_is_pinned_to_the_operation_that_saved_it():
    x = torch.ones(3, requires_grad=True)
    y = x.sigmoid()
    loss = (y * 2).sum()
    y.add_(1)
    assert ("BS104", ["Sigmoid"]) in pins(backsight.audit(loss))


def test_a_freed_graph_is_pinned_where_backward_will_raise():
    x = torch.ones(3, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    assert ("BS105", ["Exp"]) in pins(backsight.audit(loss))


def test_the_first_tensor_that_is_not_finite_is_pinned():
    x = torch.zeros(3, requires_grad=True)
    report = backsight.audit((x.log() * x).exp().sum())
    assert pins(report) == [("BS108", ["Mul"])]


def test_a_report_is_written_where_it_is_asked_for(tmp_path):
    x = torch.ones(3, requires_grad=True)
    backsight.audit(x.exp().sum()).draw(tmp_path / "audit.svg", title="audited")
    assert "audited" in (tmp_path / "audit.svg").read_text(encoding="utf-8")


def test_a_report_of_a_recorded_run_has_no_graph_to_draw():
    with pytest.raises(ValueError, match="not about a graph"):
        Report(()).draw()


def test_a_picture_of_an_audit_that_found_nothing_says_so():
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    loss = layer(torch.ones(1, 2)).sum()
    report = backsight.audit(loss, model=layer, optimizer=optimizer)
    assert len(report) == 0
    assert report.draw().scene.summary.startswith(f"audit: nothing found in {report.looked_at} · ")
    assert report.draw().html() != backsight.graph(loss, model=layer).draw().html()


def test_what_is_about_no_place_is_told_above_the_picture():
    graph = backsight.graph(nn.Linear(2, 2)(torch.ones(1, 2)).sum())
    finding = backsight.Finding("BS103", "warning", "Gradients were not zeroed.")
    assert (
        Report((finding,), "x", graph)
        .draw()
        .scene.summary.startswith("audit, about no place in it: BS103: Gradients were not zeroed. · ")
    )
