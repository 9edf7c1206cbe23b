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
const words = (e) => e.querySelector("text").textContent;
const marked = (how) => [...document.querySelectorAll(`#picture .${how}`)].map(words);
const each = (look) => steps.map((step, k) => (show(k), look(step)));
"""

PICTURE = '<svg><g data-node="1-2" id="a"></g><g data-node="3 6" id="b"></g><g data-node="2" id="c"></g></svg>'


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
    assert seen(html, actions, tmp_path) == ["Mean", True, "Pow", "Sub", "Pow", "Mean", "step 7 / 7", True, "Add"]


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
def test_the_node_of_a_step_is_lit_in_the_graph_beside_the_steps_and_what_has_run_is_marked(tmp_path):
    html = bs.walk(programs.mean_squared_error()).run().to_html()
    told = seen(html, """const out = each(() => [title(), marked("lit"), marked("run").length])""", tmp_path)
    assert [(title, lit) for title, lit, _ in told if "→" not in title] == [
        (op, [op]) for op in ("Mean", "Pow", "Sub", "Add", "Mm", "T")
    ]
    assert [lit for title, lit, _ in told if "→" in title] == [["unnamed 4"], ["unnamed 4×3"]]
    assert [run for *_, run in told] == list(range(8))


@needs_browser
def test_a_closed_module_is_lit_when_one_of_its_operations_runs(tmp_path):
    torch.manual_seed(0)
    model = programs.Residual()
    walk = bs.walk(model(torch.randn(2, 3, 8, 8)).sum(), model=model).run()
    html = walk.to_html(picture=lambda: walk.graph.to_svg(max_boxes=8))
    actions = """const all = each(({ op, module }) => op && `${module}: ${marked("lit")}`);
        const out = [...new Set(all.filter((told) => /^layer2|^fc/.test(told)))]"""
    told = seen(html, actions, tmp_path)
    assert told[0] == "fc: fc"
    assert {line.partition(": ")[2] for line in told if line.startswith("layer2.1.")} == {"1"}
    assert {line.partition(": ")[2] for line in told if line.startswith("layer2.0.")} == {"0"}


@needs_browser
def test_a_leaf_that_is_used_twice_is_lit_twice(tmp_path):
    x1, x2 = torch.tensor(0.5, requires_grad=True), torch.tensor(0.75, requires_grad=True)
    html = bs.walk(torch.log(x1 * x2) * torch.sin(x2)).run().to_html()
    actions = """show(4); const out = [[title(), marked("lit")]]; show(5); out.push([title(), marked("lit")])"""
    assert seen(html, actions, tmp_path) == [["→ x1", ["x1"]], ["→ x2", ["x2", "x2"]]]


@needs_browser
def test_a_click_on_a_box_goes_to_its_next_step(tmp_path):
    html = bs.walk(programs.mean_squared_error()).run().to_html(picture=PICTURE)
    actions = """const out = []; for (const of of ["a", "a", "b", "b", "c"]) {
        document.getElementById(of).dispatchEvent(new MouseEvent("click", { bubbles: true })); out.push(now); }"""
    assert seen(html, actions, tmp_path) == [1, 2, 3, 4, 2]


@needs_browser
def test_nodes_are_told_as_numbers_and_ranges(tmp_path):
    html = bs.walk(programs.mean_squared_error()).run().to_html()
    actions = """const out = ["", "7", "1 4-7 20-24/2"].map(numbers)"""
    assert seen(html, actions, tmp_path) == [[], [7], [1, 4, 5, 6, 7, 20, 22, 24]]


@needs_browser
def test_a_long_walk_has_its_norms_as_a_curve_and_a_click_goes_there(tmp_path):
    actions = """const svg = document.querySelector("#curve svg"), box = svg?.getBoundingClientRect();
        svg?.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: box.left + box.width * 0.5 }));
        const count = (what) => (svg?.querySelector(what).getAttribute("d").match(/[ML]/g) || []).length;
        const out = svg ? [now, steps.length, count(".line") + count(".leaf"), count(".bad")] : []"""
    long, short = programs.residual(), programs.mean_squared_error()
    assert seen(bs.walk(long).run().to_html(), actions, tmp_path) == [32, 64, 64, 0]
    assert seen(bs.walk(short).run().to_html(), actions, tmp_path) == []


def test_the_graph_may_be_left_out():
    assert 'id="picture"' not in bs.walk(programs.mean_squared_error()).run().to_html(picture="")


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
    assert not re.search(r"(?:src|href)=|https?://|@import|url\(", html.replace("http://www.w3.org/2000/svg", ""))
    assert "default-src 'none'" in html


def test_a_model_s_page_stays_small():
    assert len(bs.walk(programs.gpt2()).run().to_html()) < 120_000


def test_a_notebook_shows_the_page_in_a_frame():
    shown = bs.walk(programs.mean_squared_error()).run()._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown


def test_a_walk_that_has_not_begun_has_a_page():
    assert "No step has been made" in bs.walk(programs.mean_squared_error()).to_html()
