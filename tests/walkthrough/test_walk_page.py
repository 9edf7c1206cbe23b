"""The page: forward and back by button, slider and key; no name in it is markup; it needs nothing else."""

import json
import re
import shutil
import subprocess

import programs
import pytest
import torch

import backsight as bs

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(not BROWSER, reason="needs Chromium")

_HANDS = """
const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const title = () => document.querySelector("#card h2").textContent;
"""


def seen(html, actions, tmp_path):
    """Return what `actions` leave in the variable `out`, as the browser sees it."""
    at = html.rindex("</script>")
    put = 'const pre = document.createElement("pre"); pre.id = "out"; pre.textContent = JSON.stringify(out);'
    (tmp_path / "page.html").write_text(f"{html[:at]}{_HANDS}{actions};{put} document.body.append(pre);{html[at:]}")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,800", "--dump-dom"]
    url = (tmp_path / "page.html").as_uri()
    done = subprocess.run([*command, url], capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@needs_browser
def test_buttons_and_keys_go_forward_and_back(tmp_path):
    html = bs.walk(programs.mean_squared_error()).run().to_html()
    actions = """const out = [title(), $("back").disabled]; $("forth").click(); out.push(title());
        press("ArrowRight"); out.push(title()); press("ArrowLeft"); out.push(title()); $("back").click();
        out.push(title()); press("End"); out.push($("count").value, $("forth").disabled); $("at").value = 3;
        $("at").dispatchEvent(new Event("input")); out.push(title())"""
    assert seen(html, actions, tmp_path) == ["Mean", True, "Pow", "Sub", "Pow", "Mean", "step 8 of 8", True, "Add"]


@needs_browser
def test_a_card_shows_gradients_jacobians_and_the_check(tmp_path):
    html = bs.walk(programs.mean_squared_error()).run().to_html()
    actions = """show(3); const all = (what) => [...$("card").querySelectorAll(what)];
        const out = [all("figcaption").map((e) => e.textContent), all("td").length, all(".check")[0].className]"""
    captions, cells, check = seen(html, actions, tmp_path)
    assert [c.split(" · ")[0] for c in captions] == ["g arriving", "J of self", "to self", "J of other", "to other"]
    assert cells == 8 + 64 + 8 + 32 + 4
    assert check == "check yes"


@needs_browser
def test_the_node_of_a_step_is_lit_in_the_picture(tmp_path):
    picture = '<svg><g data-node="0"></g><g data-node="1 2"></g></svg>'
    html = bs.walk(programs.mean_squared_error()).run().to_html(picture=lambda: picture)
    actions = """$("forth").click(); const out = [...document.querySelectorAll(".lit")].map((e) => e.dataset.node)"""
    assert seen(html, actions, tmp_path) == ["1 2"]


@needs_browser
def test_names_are_text(tmp_path):
    hostile = {"</script><img src=x onerror=alert(1)>": torch.ones(2, requires_grad=True)}
    html = bs.walk(sum(value.sum() for value in hostile.values())).run().to_html()
    assert "<img" not in html
    out = seen(html, 'press("End"); const out = [document.images.length, title()]', tmp_path)
    assert out[0] == 0 and "<img" in out[1]


def test_the_page_needs_nothing_else(tmp_path):
    w = bs.walk(programs.residual()).run()
    html = w.to_html(tmp_path / "walk.html")
    assert (tmp_path / "walk.html").read_text(encoding="utf-8") == html
    assert not re.search(r"(?:src|href)=|https?://|@import|url\(", html)
    assert "default-src 'none'" in html


def test_a_model_s_page_stays_small():
    assert len(bs.walk(programs.gpt2()).run().to_html()) < 100_000


def test_a_notebook_shows_the_page_in_a_frame():
    shown = bs.walk(programs.mean_squared_error()).run()._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown


def test_a_walk_that_has_not_begun_has_a_page():
    assert "No step has been made" in bs.walk(programs.mean_squared_error()).to_html()
