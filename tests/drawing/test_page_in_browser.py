"""The page in a browser: what a reader does, done by events, and what is then to be seen."""

import json
import re
import shutil
import subprocess

import pytest
from graphs import tangle, transformer

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not BROWSER, reason="needs Chromium")

_HANDS = """
const box = (name) => [...world.children].find((g) => g.box && (g.box.name === name || g.box.op === name));
const click = (g) => g.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const pressed = (name) => new KeyboardEvent("keydown", { key: name, bubbles: true });
const key = (name, on) => (on || document.body).dispatchEvent(pressed(name));
const type = (words) => { $("find").value = words; $("find").dispatchEvent(new Event("input")); };
const names = () => [...scene.shown].map((i) => boxes[i].name || boxes[i].op);
const lit = (style) => [...world.querySelectorAll(".box." + style)].map((g) => g.box.name || g.box.op);
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


def test_a_click_opens_a_module_and_a_click_on_its_head_closes_it(tmp_path):
    actions = """const out = [names()]; click(box("h.0…3")); out.push(names());
        click([...world.querySelectorAll(".knob")][0]); out.push(names())"""
    closed, opened, again = seen(transformer().to_html(max_boxes=5), actions, tmp_path)
    assert closed == again == ["embed", "h.0…3", "head", "LogSoftmax", "NllLoss"]
    assert opened == ["embed", "norm1", "attn", "Add", "norm2", "mlp", "Add", "head", "LogSoftmax", "NllLoss"]


def test_the_keyboard_opens_follows_and_closes(tmp_path):
    actions = """const out = []; box("h.0…3").focus(); key("Enter", document.activeElement);
        out.push(names().length, document.activeElement.getAttribute("aria-expanded"));
        box("norm1").focus(); key("ArrowDown", document.activeElement); out.push(document.activeElement.box.name);
        key("c"); out.push(names().length); key("o"); out.push(names().length);
        key("/"); out.push(document.activeElement.id)"""
    out = seen(transformer().to_html(max_boxes=5), actions, tmp_path)
    assert out == [10, "true", "attn", 5, 16, "find"]


def test_an_operation_shows_where_its_gradient_comes_from_and_where_it_goes(tmp_path):
    actions = """click(box("Softmax")); const out = [lit("origin"), lit("from"), lit("to"), lit("dim")];
        key("Escape"); out.push(lit("from"), lit("dim"))"""
    origin, back, forth, dim, *after = seen(transformer().to_html(max_boxes=20), actions, tmp_path)
    assert origin == ["Softmax"]
    assert back == ["Mul", "out", "Add", "norm2", "0", "1", "2", "Add", "head", "LogSoftmax", "NllLoss"]
    assert forth == ["embed", "norm1", "mix", "Split"]
    assert dim == []
    assert after == [[], []]


def test_a_search_finds_within_closed_modules_and_goes_there(tmp_path):
    actions = """type("gelu"); const out = [lit("hit"), $("count").textContent];
        $("find").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
        out.push(lit("here"), $("count").textContent)"""
    before, count, after, place = seen(transformer().to_html(max_boxes=5), actions, tmp_path)
    assert (before, count) == (["h.0…3"], "1 found")
    assert (after, place) == (["1"], "1 of 1")


def test_everything_open_stays_within_what_can_be_laid_out(tmp_path):
    (count,) = seen(tangle(1000).to_html(), "openAll(); const out = [names().length]", tmp_path)
    assert 60 < count <= 500


def test_the_pointer_is_told_what_is_known(tmp_path):
    actions = """box("embed").dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 9, clientY: 9 }));
        const out = [tip.hidden, tip.textContent]"""
    hidden, told = seen(transformer().to_html(), actions, tmp_path)
    assert not hidden
    assert "EmbeddingBackward0" in told
    assert "2×5×8 float32" in told
    assert "embed.weight" in told
