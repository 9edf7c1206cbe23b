"""The page: forward and back by button, slider and key; the running node is lit; no name in it is markup."""

import re

import pytest
import torch
import walked

import backsight as bs

TITLE = "document.querySelector('#card h2').textContent"
MARKED = """(how) => [...document.querySelectorAll(`#picture .lamp.${how}, #picture g.${how}`)]
    .map((element) => element.querySelector("text").textContent)"""
EACH = f"steps.map((step, k) => {{ show(k); return [step.module, {TITLE}, ({MARKED})('lit'), ({MARKED})('run')]; }})"


@pytest.fixture
def error(visit):
    """The page of the mean squared error of a linear layer: six operations, two leaves without names."""
    return visit(bs.walk(walked.mean_squared_error()).run().to_html())


def title(page):
    return page.locator("#card h2").inner_text()


def test_buttons_go_forward_and_back_and_end_where_the_walk_does(error):
    forth, back = (error.get_by_role("button", name=f"one step {name}") for name in ("forward", "back"))
    assert (title(error), back.is_disabled()) == ("Mean", True)
    forth.click()
    assert title(error) == "Pow"
    back.click()
    assert title(error) == "Mean"
    for _ in range(7):
        forth.click()
    assert (error.locator("#count").inner_text(), forth.is_disabled()) == ("step 7 of 0–7, node #7", True)


def test_list_card_and_curve_tell_the_same_norm(visit):
    model = walked.Residual()
    walk = bs.walk(model(torch.randn(2, 3, 8, 8)).sum(), model=model).run()
    page = visit(walk.to_html())
    step = next(step for step in walk.steps if abs(step.norm_in - step.norm_out) > 0.1 * step.norm_in)
    page.evaluate("show", step.number)
    listed = page.locator("#steps .here .norm").inner_text()
    assert float(listed) == pytest.approx(step.norm_in, rel=1e-3)
    assert f"norm {listed}" in page.locator("#card figcaption").first.inner_text()
    heading = "getComputedStyle(document.getElementById('steps'), '::before').content"
    assert page.evaluate(heading) == '"# node · norm of what arrives"'
    assert page.locator("#curve").inner_text().startswith("norm of what arrives")
    assert page.locator("header p").inner_text() == f"all {len(walk)} steps"


def test_a_leaf_has_the_colour_in_the_list_that_it_has_in_the_picture(visit):
    w, delta = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    page = visit(bs.walk((w * delta).sum()).run().to_html())
    colours = page.evaluate("""() => Object.fromEntries([...document.querySelectorAll("#steps .name")].map(
        (name) => [name.textContent, getComputedStyle(name).color]))""")
    drawn = {name: page.locator(f"#picture .{name} >> nth=0") for name in ("trained", "untrained")}
    assert colours["→ w"] == drawn["trained"].evaluate("(e) => getComputedStyle(e).fill")
    assert colours["→ delta"] == drawn["untrained"].evaluate("(e) => getComputedStyle(e).stroke")
    assert len({colours[name] for name in ("→ w", "→ delta", "Mul")}) == 3
    del optimizer


def test_keys_go_forward_and_back(error):
    for key, there in (("ArrowRight", "Pow"), ("ArrowDown", "Sub"), ("ArrowLeft", "Pow"), ("Home", "Mean")):
        error.keyboard.press(key)
        assert title(error) == there
    error.keyboard.press("End")
    assert title(error).startswith("→ unnamed")


def test_the_slider_and_the_list_go_to_any_step(error):
    error.get_by_role("slider", name="step").fill("3")
    assert title(error) == "Add"
    error.get_by_role("list", name="steps").get_by_role("button").nth(5).click()
    assert title(error) == "Mm"


def test_a_card_shows_gradients_jacobians_and_the_check(error):
    error.get_by_role("slider", name="step").fill("3")
    captions = error.locator("#card figcaption").all_inner_texts()
    assert [c.split(" · ")[0] for c in captions] == [
        "g arriving",
        "Jacobian for self",
        "to self",
        "Jacobian for other",
        "to other",
    ]
    assert error.locator("#card td").count() == 8 + 64 + 8 + 32 + 4
    assert "other was broadcast: its gradient is summed from 2×4 to 4" in error.locator("#card").inner_text()
    assert error.locator("#card .check.yes").inner_text().startswith("checked against forward-mode AD: agrees to ")


def test_a_card_of_a_longer_walk_shows_first_values_and_what_kind_of_jacobian(visit, monkeypatch):
    walk = bs.walk(walked.residual()).run()
    k = next(step.number for step in walk.steps if step.node.op == "Relu")
    page = visit(walk.to_html())
    page.evaluate("(k) => show(k)", k)
    said = page.locator("#card").inner_text()
    assert str(walk.steps[k].jacobian[0]) in said and page.locator("#card .check.yes").count() == 1
    assert all(re.fullmatch(r"\[.*, …\]", each) for each in page.locator("#card figure code").all_inner_texts())
    assert page.locator("#card figure code").count() == 2
    monkeypatch.setattr("backsight.walkthrough.page.CLOSELY", 10)
    page = visit(walk.to_html())
    page.evaluate("(k) => show(k)", k)
    assert page.locator("#card .check").inner_text() == f"print(walk.steps[{k}]) shows the Jacobian, and checks it."
    assert "Jacobian for" not in page.locator("#card").inner_text()


def test_a_jacobian_of_few_entries_shows_its_numbers(visit):
    x = torch.tensor(0.5, requires_grad=True)
    page = visit(bs.walk((x * 3).exp()).run().to_html())
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert title(page) == "Mul"
    assert page.locator("#card td").all_inner_texts() == ["4.48", "3", "13.4"]


def test_the_node_of_a_step_is_lit_in_the_picture_and_what_has_run_is_marked(error):
    told = error.evaluate(EACH)
    operations = [(title, lit) for _, title, lit, _ in told if "→" not in title]
    assert operations == [(op, [op]) for op in ("Mean", "Pow", "Sub", "Add", "Mm", "T")]
    assert [lit for _, title, lit, _ in told if "→" in title] == [["unnamed 4"], ["unnamed 4×3"]]
    assert [len(run) for *_, run in told] == list(range(8))


def test_where_the_gradient_goes_next_is_marked(error):
    goes = error.evaluate(f"Object.fromEntries(steps.map((step, k) => (show(k), [step.name, ({MARKED})('next')])))")
    assert (goes["Mean"], goes["Mm"], goes["T"]) == (["Pow"], ["T"], ["unnamed 4×3"])
    assert goes["Add"] == ["Mm", "unnamed 4"]
    assert goes["unnamed leaf of shape 4"] == []


def test_behind_a_view_that_is_not_in_the_picture_it_goes_to_what_is(visit):
    x = torch.ones(2, 3, requires_grad=True)
    walk = bs.walk(x.exp().t().unsqueeze(0).sum()).run()
    goes = f"steps.map((step, k) => (show(k), [{TITLE}, ({MARKED})('lit'), ({MARKED})('next')]))"
    page = visit(walk.to_html(picture=walk.graph.to_svg))
    assert page.evaluate(goes)[:4] == [[op, ["Sum"], ["Exp"]] for op in ("Sum", "Unsqueeze", "T")] + [
        ["Exp", ["Exp"], ["x"]]
    ]


def test_a_closed_module_is_lit_when_one_of_its_operations_runs(visit):
    torch.manual_seed(0)
    model = walked.Residual()
    walk = bs.walk(model(torch.randn(2, 3, 8, 8)).sum(), model=model).run()
    page = visit(walk.to_html(picture=lambda: walk.graph.to_svg(max_boxes=10)))
    lit = {module: lit for module, title, lit, _ in page.evaluate(EACH) if module and "→" not in title}
    assert lit["model.fc"] == ["model.fc"]
    assert {tuple(boxes) for module, boxes in lit.items() if module.startswith("model.layer2.1.")} == {("1",)}
    assert {tuple(boxes) for module, boxes in lit.items() if module.startswith("model.layer2.0.")} == {("0",)}


def test_a_leaf_that_is_used_twice_is_lit_twice(visit):
    x1, x2 = torch.tensor(0.5, requires_grad=True), torch.tensor(0.75, requires_grad=True)
    page = visit(bs.walk(torch.log(x1 * x2) * torch.sin(x2)).run().to_html())
    page.keyboard.press("End")
    assert (title(page), page.evaluate(MARKED, "lit")) == ("→ x2", ["x2", "x2"])


def test_a_click_on_a_box_goes_to_its_next_step(visit):
    box = '<g data-node="{}" id="{}"><rect x="{}" width="20" height="20"/></g>'
    boxes = box.format("1-2", "a", 0) + box.format("3 6", "b", 30) + box.format("2", "c", 60)
    page = visit(bs.walk(walked.mean_squared_error()).run().to_html(picture=f'<svg width="90">{boxes}</svg>'))
    reached = []
    for name in "aabbc":
        page.locator(f"#{name}").click()
        reached.append(page.evaluate("now"))
    assert reached == [1, 2, 3, 4, 2]  # node 6 is a leaf's and runs fourth
    assert set(page.locator("#a").get_attribute("class").split()) == {"lamp", "lit", "run"}


def test_nodes_are_told_as_numbers_and_ranges(error):
    assert error.evaluate("['', '7', '1 4-7 20-24/2'].map(numbers)") == [[], [7], [1, 4, 5, 6, 7, 20, 22, 24]]


def test_what_is_lit_and_the_step_in_the_list_are_in_sight_though_the_page_does_not_scroll(visit):
    model = walked.Residual()
    page = visit(bs.walk(model(torch.randn(2, 3, 8, 8)).sum(), model=model).run().to_html())
    for k in (0, 30, 60, 15):
        page.evaluate("show", k)
        for place in ("#picture .lit", "#steps .here"):
            box = page.locator(place).first.bounding_box()
            assert box["y"] > 40 and box["y"] + box["height"] <= 800 - 30, (k, place)  # above the key
    assert page.evaluate("document.scrollingElement.scrollTop") == 0


def test_in_a_notebook_the_page_does_not_scroll_what_is_around_it(visit):
    frame = bs.walk(walked.residual()).run()._repr_html_()
    page = visit(f"<!doctype html><div style='height:3000px'></div>{frame}<div style='height:3000px'></div>")
    inside = page.frames[1]
    inside.wait_for_selector("#card h2")
    inside.evaluate("show(40, true)")
    assert title(inside) == "Convolution"
    assert page.evaluate("scrollY") == 0


def test_a_long_walk_has_its_norms_as_a_curve_and_a_click_goes_there(visit, error):
    assert error.locator("#curve svg").count() == 0
    page = visit(bs.walk(walked.residual()).run().to_html())
    points = "(what) => document.querySelector(`#curve .${what}`).getAttribute('d').match(/[ML]/g)?.length ?? 0"
    count = {what: page.evaluate(points, what) for what in ("line", "leaf", "bad")}
    assert (count["line"] + count["leaf"], count["bad"]) == (64, 0)
    width = page.locator("#curve svg").bounding_box()["width"]
    page.locator("#curve svg").click(position={"x": width * 40.5 / 64, "y": 20})
    assert page.evaluate("now") == 40


def test_of_a_walk_of_many_steps_the_last_are_shown_and_what_ran_before_is_marked(visit, monkeypatch):
    monkeypatch.setattr("backsight.walkthrough.page.MOST_STEPS", 3)
    walk = bs.walk(walked.mean_squared_error())
    walk.until("Mm")
    page = visit(walk.to_html())
    assert "the last 3 are shown" in page.locator("header").inner_text()
    assert [title for _, title, *_ in page.evaluate(EACH)] == ["Add", "→ unnamed leaf of shape 4", "Mm"]
    page = visit(walk.run().to_html())
    assert page.evaluate(f"show(0), ({MARKED})('run')") == ["Add", "unnamed 4", "Sub", "Pow", "Mean"]


def test_a_gradient_that_is_not_finite_is_marked_in_list_and_curve(visit):
    x = torch.tensor([4.0, -1.0], requires_grad=True)
    y = x
    for _ in range(8):
        y = y + 0
    page = visit(bs.walk(torch.where(x > 0, y.sqrt(), torch.zeros(2)).sum()).run().to_html())
    first = page.locator("#steps .bad").first.inner_text().split()
    assert first == ["#2", "Sqrt", "1", "→", "nan"]
    assert page.locator("#curve .bad").get_attribute("d").startswith("M")


@pytest.mark.parametrize(
    "name",
    ["</script><img src=x onerror=alert(1)>", "\"'`\\", "first\nsecond", "\u202eשלום\u202c", "n" * 500, "${alert(1)}"],
    ids=["markup", "quotes", "newline", "right to left", "long", "template"],
)
def test_names_are_text_and_stay_within_the_card(visit, name):
    hostile = {name: torch.ones(2, requires_grad=True)}
    walk = bs.walk(sum(value.sum() for value in hostile.values())).run()
    page = visit(walk.to_html())
    page.keyboard.press("End")
    assert page.locator("#card h2").text_content() == f"→ {walk.graph.leaves[0].label}"
    assert "hostile" in title(page) and page.locator("img").count() == 0
    assert page.evaluate("$('card').scrollWidth <= $('card').clientWidth")


@pytest.mark.parametrize("width", [1280, 800, 420])
def test_nothing_hangs_out_of_the_window(visit, width):
    html = bs.walk(walked.residual()).run().to_html()
    page = visit(html, viewport={"width": width, "height": 700})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    assert page.locator("#picture .lit").first.is_visible() and page.locator("#card h2").is_visible()
    legible = "(svg) => svg.getBoundingClientRect().width / svg.width.baseVal.value"
    assert 0.7 <= page.locator("#picture svg").evaluate(legible) <= 1


def test_the_page_needs_nothing_else(tmp_path):
    w = bs.walk(walked.residual()).run()
    html = w.to_html()
    assert w.to_html(str(tmp_path / "walk.html")) == tmp_path / "walk.html"
    assert (tmp_path / "walk.html").read_text(encoding="utf-8") == html
    assert not re.search(r"(?:src|href)=|https?://|@import|url\(", html.replace("http://www.w3.org/2000/svg", ""))
    assert "default-src 'none'" in html


def test_a_model_s_page_stays_small():
    assert len(bs.walk(walked.gpt2()).run().to_html()) < 140_000


def test_the_picture_may_be_left_out():
    assert 'id="picture"' not in bs.walk(walked.mean_squared_error()).run().to_html(picture="")


def test_a_notebook_shows_the_page_in_a_frame():
    shown = bs.walk(walked.mean_squared_error()).run()._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown


def test_a_walk_that_has_not_begun_is_run_for_its_page(visit):
    walk = bs.walk(walked.mean_squared_error())
    page = visit(walk.to_html())
    assert walk.done and page.locator("#steps li").count() == len(walk)


def test_a_walk_that_stands_where_it_was_told_to_is_not_run_further():
    walk = bs.walk(walked.mean_squared_error())
    walk.step()
    walk.to_html()
    assert len(walk.steps) == 1


def test_a_notebook_shows_a_walk_that_has_not_begun(visit):
    walk = bs.walk(walked.mean_squared_error())
    page = visit(walk._repr_html_()).frame_locator("iframe")
    assert not walk.steps
    assert "No step has been made" in page.locator("#card").inner_text()
