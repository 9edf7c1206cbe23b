"""Two runs that were traced: the viewer shows where they diverge, with both lines and the graph."""

from __future__ import annotations

import http.client
from contextlib import closing

import pytest
import torch
from looking import drawn, expect
from torch import nn

import backsight as bs
from backsight.cli import main
from backsight.runs import NotARun
from backsight.viewer import Library, Server
from backsight.viewer.library import NoSuchThing
from backsight.viewer.question import BadQuestion


def recorded(folder, scale: float = 1.0, traced: bool = True):
    """Record a training, and trace its first step into the same folder, as `backsight run --record --trace` does."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, folder):
        tracer = bs.trace(folder / "trace", model=model) if traced else None
        for _ in range(3):
            optimizer.zero_grad()
            (model(torch.ones(4, 8)) * scale).square().mean().backward()
            optimizer.step()
        if tracer is not None:
            tracer.close()


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    recorded(folder / "old")
    recorded(folder / "new", scale=0.5)
    recorded(folder / "untraced", traced=False)
    return folder


def test_a_comparison_says_whether_both_were_traced(traced):
    library = Library(traced)
    assert library.ask("old", "compare", {"with": "new"})["traced"]
    assert not library.ask("old", "compare", {"with": "untraced"})["traced"]


def test_what_has_no_trace_is_said_to_have_none(traced):
    library = Library(traced)
    with pytest.raises(BadQuestion, match="holds no trace"):
        library.difference("old", "untraced")
    with pytest.raises(NoSuchThing):
        library.difference("old", "../old")


def test_the_page_runs_nothing_and_is_shown_by_the_viewer_alone(traced):
    pytest.importorskip("uvicorn", reason='THE VIEWER IS NOT TESTED: pip install "backsight[view]"')
    with Server(Library(traced)) as server, closing(http.client.HTTPConnection("127.0.0.1", server.port)) as asked:
        asked.request("GET", "/difference?run=old&with=new", headers={"x-backsight-token": server.token})
        answer = asked.getresponse()
        page, policy = answer.read().decode(), answer.headers["content-security-policy"]
        assert answer.status == 200 and "BS501" in page and "<script" not in page
        assert policy.startswith("default-src 'none'") and "script-src" not in policy
        assert "frame-ancestors 'self'" in policy and answer.headers["cache-control"] == "no-store"
        asked.request("GET", "/difference?run=old&with=new")
        assert asked.getresponse().status == 403


def test_the_comparison_shows_both_lines_and_the_graph(look, traced):
    pytest.importorskip("uvicorn", reason='THE VIEWER IS NOT TESTED: pip install "backsight[view]"')
    with Server(Library(traced)) as server:
        page = look("#/old/compare?with=new", server=server)
        page.get_by_text("The first operation that differs").click()
        shown = page.frame_locator(".operations iframe")
        expect(shown.locator(".pair .side pre").first).to_contain_text("(model(torch.ones(4, 8)) * scale)")
        expect(shown.locator(".picture svg").first).to_be_visible()
        page.goto(f"http://127.0.0.1:{server.port}/#/old/compare?with=untraced")
        drawn(page)
        expect(page.locator(".operations")).to_have_count(0)


@pytest.mark.parametrize("show", [Library, bs.view], ids=["in a browser", "in a notebook"])
def test_what_is_a_trace_and_no_run_is_said_to_be_one(traced, show):
    with pytest.raises(NotARun, match=r"is a trace, which `backsight diff .*/old/trace OTHER` compares"):
        show(traced / "old/trace")


def test_a_folder_of_traces_says_what_compares_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("backsight.viewer.command.serve", lambda path, *, ready, **_: ready("http://here"))
    assert main(["view", str(tmp_path)]) == 0
    assert f"no run in {tmp_path} yet\n" in (said := capsys.readouterr().out) and "it holds" not in said
    bs.trace(tmp_path / "one").close()
    assert main(["view", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"it holds traces: compare two of them with `backsight diff {tmp_path}/A {tmp_path}/B`" in said
