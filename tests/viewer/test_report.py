"""A run in one file: what it shows, that it fetches nothing, and what may go wrong."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

import backsight as bs
from backsight.viewer.notebook import view
from backsight.viewer.page import SCRIPTS, script, style


@pytest.fixture(scope="module")
def html(runs):
    return bs.view(runs / "broken").html()


def test_a_report_is_small_and_whole(html):
    assert len(html.encode()) < 3_000_000
    assert html.startswith("<!doctype html>")
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html


def test_the_script_and_the_styles_of_all_pages_stay_small():
    assert len(script().encode()) + len(style().encode()) <= 210_000


def test_no_two_parts_of_the_script_call_a_function_the_same():
    """A browser takes the last one without a word."""
    texts = [files("backsight.viewer.page").joinpath(part).read_text(encoding="utf-8") for part in SCRIPTS]
    every = re.findall(r"^(?:async )?function (\w+)", "\n".join(texts), re.MULTILINE)
    assert "show" in every
    assert sorted(every) == sorted(set(every))


def test_a_report_shows_heatmap_findings_and_tensors_from_disk(html, visit):
    page = visit(html)
    page.locator(".labels .row").first.wait_for()
    assert page.locator(".labels a.row").count() == 10
    page.get_by_role("link", name="Findings").click()
    page.get_by_role("link", name="head.bias (gradients)").click()
    page.locator("figure canvas").first.wait_for()
    assert page.locator("h2").first.inner_text() == "head.bias"
    assert "NaN or ∞ from step 30 on" in page.locator(".title").inner_text()
    page.get_by_role("link", name="About").click()
    assert "50 recorded" in page.locator("main").inner_text()


def test_a_report_says_what_it_does_not_hold(html, visit):
    page = visit(html)
    page.get_by_label("statistic").select_option("min")
    page.get_by_text("This report does not contain that; open the run with `backsight view`.").wait_for()


def test_a_hostile_run_makes_a_harmless_report(runs, visit):
    page = visit(bs.view(runs / "hostile").html())
    page.locator(".labels .row").first.wait_for()
    assert page.locator("img").count() == 0
    assert "<img" in page.locator(".labels").inner_text()
    page.get_by_role("link", name="About").click()
    assert page.locator("img").count() == 0


@pytest.mark.slow
def test_a_report_of_a_large_run_keeps_to_its_size(tmp_path):
    import numpy as np

    from backsight.runs import STATISTICS, RunWriter

    with RunWriter(tmp_path / "large") as writer:
        numbers = [writer.tensor(f"layer{k}.weight", "grad", f"layer{k}", (4,), "float32") for k in range(400)]
        rng = np.random.default_rng(0)
        for step in range(300):
            rows = np.zeros(400, STATISTICS)
            rows["count"], rows["mean"], rows["max"] = 4, rng.normal(size=400), rng.random(400)
            writer.append(step, numbers, rows, histograms=rng.integers(0, 4, (400, 64)).astype("u4"))
    assert (tmp_path / "large.html").exists() is False
    written = bs.open_run(tmp_path / "large").to_report(tmp_path / "large.html")
    assert written.stat().st_size < 3_000_000


def test_a_report_has_to_be_html(runs, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.html, not .*run\.pdf"):
        bs.open_run(runs / "first").to_report(tmp_path / "run.pdf")


def test_a_report_that_cannot_be_written_leaves_nothing(runs, tmp_path):
    with pytest.raises(FileNotFoundError):
        bs.open_run(runs / "first").to_report(tmp_path / "nowhere" / "run.html")
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_a_run_in_a_frame_of_its_own(runs, visit):
    shown = view(runs / "first", height=500)
    page = visit(f"<!doctype html><meta charset=utf-8>{shown._repr_html_()}", name="notebook.html")
    frame = page.frame_locator("iframe")
    frame.locator(".labels .row").first.wait_for()
    frame.get_by_role("link", name="About").click()
    frame.get_by_text("60 recorded").wait_for()
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    assert "displays in a notebook" in repr(shown)


def test_the_newest_of_a_folder_is_shown(runs):
    assert view(runs).run.name == "hostile"


def test_what_cannot_be_shown_is_said(tmp_path, runs):
    with pytest.raises(bs.RunError, match="there is no run in"):
        view(tmp_path)
    with pytest.raises(bs.RunError, match="there is no run at"):
        view(tmp_path / "nothing")
    with pytest.raises(ValueError, match="at least 100 pixels, not 5"):
        view(runs / "first", height=5)
