"""A run of several models as people look at it, in Chromium: the one that gets no gradient is in sight."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import backsight as bs
from backsight.runs import add_event
from backsight.viewer import Library, Server

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CULPRIT = {"file": "/gan.py", "line": 20, "end_line": 20, "code": "fake = G(noise).detach()", "says": "ends it."}
FOUND = {
    "code": "BS115",
    "severity": "warning",
    "title": "opt_g gets no gradients.",
    "fix": "Write `fake = G(noise)`.",
    "exact": True,
    "source": {"text": "gan.py:20", "file": "/gan.py", "line": 20, "end_line": 20},
    "evidence": [
        {"text": "No path leads from the loss to G.0.weight and 3 more.", "certainty": "held"},
        {"text": "gan.py:6  G = net()\n    creates G.", "certainty": "held", **CULPRIT, "line": 6, "code": "G = net()"},
        {"text": "gan.py:20  fake = G(noise).detach()\n    ends it.", "certainty": "seen", **CULPRIT},
    ],
}


@pytest.fixture(scope="module")
def gan(tmp_path_factory):
    """A run of a generator whose output is detached for its own loss."""
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    folder = tmp_path_factory.mktemp("gan")
    with bs.record({"G": generator, "D": critic}, optimizer, folder / "gan") as rec:
        for _ in range(12):
            fake = generator(torch.randn(8, 4)).detach()
            loss = critic(fake).mean() - critic(torch.randn(8, 2)).square().mean()
            rec.mark(loss=loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    add_event(folder / "gan", 0, "findings", findings=[FOUND])
    return folder


@pytest.fixture
def page(look, gan):
    with Server(Library(gan)) as server:
        yield lambda view: look(view, server=server)


def test_the_heatmap_names_the_model_of_each_row_and_the_one_without_gradients(page):
    shown = page("#/gan/heatmap")
    labels = [" ".join(text.split()) for text in shown.locator(".labels .row").all_inner_texts()]
    assert labels == ["G Sequential", "▾ D Sequential", "0.weight", "0.bias", "2.weight", "2.bias"]
    assert shown.locator(".labels .row").first.get_attribute("title") == "G: no gradient in any recorded step"
    shown.locator(".cells canvas").hover(position={"x": 40, "y": 8})
    assert shown.locator(".bubble").inner_text().split("\n") == ["G", "4 weights: no gradient in any recorded step"]


def test_the_graph_shows_what_there_is_of_the_drawn_model_and_says_what_is_not_drawn(page):
    shown = page("#/gan/graph")
    assert shown.locator("[role=radio].on").first.inner_text() == "weights"
    notes = shown.locator(".notes").inner_text()
    assert "not in this graph: D" in notes
    assert "no gradients of what is drawn in any recorded step" in notes


def test_the_statement_at_fault_is_marked_and_nothing_says_that_there_is_nothing_to_do(page):
    shown = page("#/gan/findings")
    shown.locator(".finding").first.wait_for()
    (culprit,) = shown.locator(".statement.culprit").all()
    assert " ".join(culprit.inner_text().split()) == ">gan.py:20 fake = G(noise).detach() ends it."
    assert shown.locator(".finding p", has_text="at gan.py:20").count() == 0
    assert shown.locator(".finding .code", has_text="BS306").count() == 0
