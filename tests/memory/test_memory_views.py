"""A step's memory in words, as tables, picture, page, trace and snapshot."""

from __future__ import annotations

import json
import pickle
import re
import sys
from html.parser import HTMLParser

import pytest
import torch
from torch import nn
from torch.cuda import _memory_viz
from torch.nn import functional as F

import backsight as bs
from backsight.memory.curves import at_moments, by_kind, thinned
from backsight.memory.explain import label, short_op
from backsight.memory.ledger import Ledger
from backsight.text import amount


@pytest.fixture(scope="module")
def measured() -> bs.StepMemory:
    """A step whose peak is the loss over many classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 5000))
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(512, 32), torch.randint(0, 5000, (512,))

    def step() -> None:
        logits = model(x)
        F.cross_entropy(logits, y).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    return bs.measure_memory(step)


def told(script: list[tuple[str, int, int]]) -> bs.StepMemory:
    """Return a step of which a script tells: births, deaths and sizes by key, one a millisecond."""
    ledger = Ledger(began=0)
    ledger.enter("forward", 0)
    for at, (what, key, size) in enumerate(script, 1):
        if what == "born":
            ledger.born(key, size, "cpu", at * 1_000_000)
        elif what == "died":
            ledger.died(key, at * 1_000_000)
        else:
            ledger.resized(key, size, at * 1_000_000)
    return bs.StepMemory(ledger.history((len(script) + 1) * 1_000_000))


def spiked() -> bs.StepMemory:
    """A step of a second with a spike of a microsecond in its midst."""
    ledger = Ledger(began=0)
    ledger.enter("forward", 0)
    ledger.born(1, 1000, "cpu", 1_000_000)
    ledger.born(2, 5000, "cpu", 500_000_000)
    ledger.died(2, 500_001_000)
    return bs.StepMemory(ledger.history(1_000_000_000))


# Words


def test_the_peak_is_told_where_it_was_and_what_was_alive(measured):
    words = str(measured.at_peak)
    assert words.startswith(f"peak {amount(measured.peak)} in the backward pass")
    assert " MB in the backward pass, at LogSoftmaxBackward0: 4 × 9.77 MB of shape (512, 5000): logits, " in words
    assert "log_softmax (saved for backward)" in words
    assert "optimizer state 2.50 MB" in words


def test_the_largest_tensors_have_the_lines_and_modules_that_made_them(measured):
    logits = next(held for held in measured.at_peak.held if "logits" in held.names)
    file = re.escape(__file__.rpartition("/")[2])
    assert all(re.fullmatch(rf"{file}:\d+", line) for line in logits.sources if line)
    made = dict(zip(logits.names, zip(logits.modules, logits.sources, strict=True), strict=True))
    assert made["logits"][0] == "2"
    lines = {name: int(source.rpartition(":")[2]) for name, (_, source) in made.items()}
    assert lines["log_softmax (saved for backward)"] == lines["logits"] + 1, "the next line of the step"
    assert lines["nll_loss_backward (temporary)"] == lines["logits"] + 1, "that of the operation in the forward pass"
    assert re.search(rf"logits, .*, made at {file}:{lines['logits'] + 1} and 1 more;", str(measured.at_peak))
    assert f"{file.replace(chr(92), '')}:{lines['logits'] + 1} and 1 more" in measured.table(width=120)


def test_where_only_the_function_is_known_the_line_says_so():
    weight = torch.randn(300, 300, requires_grad=True)

    def product() -> torch.Tensor:
        return weight @ weight

    step = bs.measure_memory(lambda: product().sum().backward())
    made = next(block for block in step.history.blocks if block.op == "aten::mm" and block.phase == "forward")
    first = product.__code__.co_firstlineno
    assert made.source == f"product of test_memory_views.py:{first}"


def test_a_forecast_has_the_lines_too():
    weight = torch.randn(300, 300, requires_grad=True)

    def step() -> None:
        (weight @ weight).sum().backward()

    forecast = bs.forecast(step, device="cpu", variants=False)
    line = step.__code__.co_firstlineno + 1
    made = [block for block in forecast.memory.history.blocks if "aten::mm" in block.op]
    assert {block.source for block in made} == {f"test_memory_views.py:{line}"}


def test_beside_another_profiler_of_python_there_are_no_lines_and_it_goes_on():
    def theirs(*event: object) -> None: ...

    weight = torch.randn(30, 30, requires_grad=True)
    sys.setprofile(theirs)
    try:
        step = bs.measure_memory(lambda: weight.exp().sum().backward())
        assert sys.getprofile() is theirs
    finally:
        sys.setprofile(None)
    assert {block.source for block in step.history.blocks} == {""}


def test_layers_that_differ_in_their_number_are_told_together():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(5)))
    words = str(bs.measure_memory(lambda: model(torch.randn(1000, 64)).sum().backward()).at_peak)
    assert "tanh of layer `*.1`" in words


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "0.98 KB"), (1024, "1.00 KB"), (823 << 20, "823 MB"), (80 << 30, "80.0 GB")],
)
def test_amounts_have_three_figures(count, text):
    assert amount(count) == text


def test_an_amount_that_rounds_up_goes_to_the_next_unit():
    assert [amount(1024 * n) for n in (9.999, 99.99, 999.4, 999.6)] == ["10.0 KB", "100 KB", "999 KB", "0.98 MB"]


def test_operators_are_told_without_their_namespace():
    assert [short_op(op) for op in ("aten::_log_softmax", "aten::empty.memory_format", "mine::op")] == [
        *("log_softmax", "empty", "op")
    ]


# Tables


def test_the_table_tells_kinds_modules_and_tensors(measured):
    table = measured.table()
    assert table.startswith(f"Peak {amount(measured.peak)} in the backward pass, at LogSoftmaxBackward0: ")
    assert re.search(r"optimizer state +2\.50 MB +\d %  ", table)
    assert re.search(r"logits, log_softmax .saved for backward. +|logits", table)
    assert "\x1b" not in table  # plain where the output is no terminal
    assert str(measured) == table


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_table_keeps_its_width_and_its_numbers(measured, width):
    lines = measured.table(width=width).splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert f"{amount(measured.by_kind['optimizer state'])}" in "\n".join(lines)


def test_rows_beyond_those_asked_for_are_summed_up(measured):
    assert re.search(r"\d+ more +\d", measured.table(rows=2))


def test_rich_prints_it_in_colour(measured):
    from rich.console import Console

    console = Console(force_terminal=True, width=100)
    with console.capture() as printed:
        console.print(measured)
    assert "\x1b[1m" in printed.get()


# Curves


def test_curves_add_up_to_the_total(measured):
    curves = by_kind(measured.history)
    assert (sum(curves.values())[1:] == measured.history.total).all()
    assert {kind: int(curve[measured.at_peak.at + 1]) for kind, curve in curves.items()} == measured.by_kind


def test_a_thinned_curve_keeps_its_peak_and_its_ends(measured):
    total = measured.history.total
    kept = thinned(total, 40)
    assert len(kept) < 60 <= len(total)
    assert total[kept].max() == measured.peak
    assert (kept[0], kept[-1]) == (0, len(total) - 1)


def test_a_moment_has_the_most_bytes_of_its_time():
    history = told([("born", 1, 100), ("born", 2, 900), ("died", 2, 0), ("born", 3, 50)]).history
    total = sum(by_kind(history).values())
    assert at_moments(history, total, 5).tolist() == [100, 1000, 1000, 150, 150]


# Picture


def test_the_picture_stacks_the_kinds_and_names_the_peak(measured, tmp_path):
    pytest.importorskip("matplotlib")
    figure = measured.plot(tmp_path / "step.png")
    for picture in (figure._repr_png_(), (tmp_path / "step.png").read_bytes()):  # the first for a notebook
        assert picture.startswith(b"\x89PNG") and len(picture) > 10_000
    (ax,) = figure.axes
    texts = " ".join(text.get_text() for text in ax.texts)
    assert str(measured.at_peak).partition(":")[0] in texts
    assert {"forward", "backward"} <= {text.get_text() for text in ax.texts}
    legend = [text.get_text().partition("\n")[0] for text in ax.get_legend().get_texts()]
    assert legend == [kind for kind, curve in by_kind(measured.history).items() if curve.any()][::-1]


def test_the_picture_has_round_numbers_of_the_unit_that_it_names(measured):
    pytest.importorskip("matplotlib")
    (ax,) = measured.plot().axes
    unit = {"B": 1, "KB": 1024, "MB": 1024**2}
    zero, *labels = [label.get_text() for label in ax.get_yticklabels()]
    assert zero == "0"
    said = [float(number) * unit[name] for number, name in (label.split(" ") for label in labels)]
    assert said == pytest.approx(list(ax.get_yticks())[1:])
    assert all(len(label.split(" ")[0].replace(".", "").rstrip("0")) <= 2 for label in labels)


def test_the_picture_goes_into_axes_of_the_user(measured):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    left, right = figure.subplots(1, 2)
    assert measured.plot(ax=right) is figure
    assert right.has_data()
    assert not left.has_data()


def test_without_matplotlib_the_error_tells_what_to_install(measured, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "backsight.memory.picture", raising=False)
    with pytest.raises(ImportError, match=r"pip install matplotlib \(to_html\(\) needs nothing\)"):
        measured.plot()


# Page


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.tags, self.data, self._inside = [], [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        self._inside = dict(attrs).get("id")

    def handle_data(self, data):
        if self._inside:
            self.data.setdefault(self._inside, data)


def test_the_page_holds_everything_and_loads_nothing(measured, tmp_path):
    text = measured.to_html()
    assert measured.to_html(str(tmp_path / "step.html")) == tmp_path / "step.html"
    assert (tmp_path / "step.html").read_text(encoding="utf-8") == text
    page = Elements(text)
    assert page.links == []
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "prefers-color-scheme:dark" in text
    data = json.loads(page.data["data"])
    peak = data["peak"]["at"]
    assert sum(kind["bytes"][peak] for kind in data["kinds"]) == data["peak"]["bytes"] == measured.peak
    assert "logits" in {block[0] for block in data["blocks"]}


def test_what_was_there_before_is_told_apart_from_what_the_step_made():
    held = [torch.randn(50_000) for _ in range(5)]
    with bs.measure_memory() as measured:
        made = [each + 1 for each in held[:2]]
    assert len(made) == 2
    groups = [each.names for each in measured.at_peak.held if each.each == 200_000 and each.kind == "other"]
    assert sorted(groups, key=len) == [("made[0]", "made[1]"), ("held[2]", "held[3]", "held[4]")]


def test_code_in_the_words_of_the_page_is_shown_as_code():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    with bs.measure_memory(model) as measured:
        model(torch.randn(512, 64)).sum().backward()
    text = measured.to_html().partition("<script")[0]
    assert "`" in str(measured.at_peak) and "`" not in text and "<code>" in text


def test_names_cannot_break_out_of_the_page():
    held = {"</script><b>": torch.randn(50_000)}
    measured = bs.measure_memory(lambda: held["</script><b>"] + 1)
    page = Elements(measured.to_html())
    assert "</script><b>" in str(json.loads(page.data["data"])["blocks"])
    assert "b" not in page.tags
    assert page.tags.count("script") == 2


# Trace and snapshot


def test_the_trace_has_counters_phases_and_storages(measured, tmp_path):
    measured.export_chrome_trace(tmp_path / "step.json")
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert max(sum(event["args"].values()) for event in counters) == measured.peak
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"forward", "backward"}
    assert [e["ts"] for e in counters] == sorted(e["ts"] for e in counters)
    begun, ended = ({event["id"] for event in events if event["ph"] == phase} for phase in "be")
    assert begun == ended
    assert "logits" in {event["name"] for event in events if event["ph"] == "b"}


def viewed(snapshot: dict) -> tuple[int, int]:
    """Return the most and the last bytes, as MemoryViz.js sums them up: `process_alloc_data`."""
    (trace,) = (trace for trace in snapshot["device_traces"] if trace)
    there, before, actions = {}, 0, []
    for event in trace:
        if event["action"] == "alloc":
            assert event["addr"] not in there
            there[event["addr"]] = event["size"]
            actions.append(event["size"])
        elif event["action"] == "free_completed":
            if event["addr"] in there:
                assert there.pop(event["addr"]) == event["size"]
            else:
                before += event["size"]
            actions.append(-event["size"])
    address = snapshot["segments"][0]["address"]
    for block in snapshot["segments"][0]["blocks"]:
        if block["state"] == "active_allocated" and address not in there:
            before += block["requested_size"]
        address += block["size"]
    now = most = before
    for size in actions:
        now += size
        most = max(most, now)
    return most, now


def test_the_snapshot_shows_the_same_in_the_viewer_of_pytorch(measured, tmp_path):
    measured.export_cuda_snapshot(tmp_path / "step.pickle")
    snapshot = pickle.loads((tmp_path / "step.pickle").read_bytes())
    assert viewed(snapshot) == (measured.peak, measured.end)
    categories = {event["category"] for event in snapshot["device_traces"][0]}
    assert {"saved for backward", "unknown"} <= categories  # without "unknown" the viewer fails
    assert {"filename": "tensor", "line": 0, "name": "logits"} in [
        frame for event in snapshot["device_traces"][0] for frame in event.get("frames", ())
    ]
    assert "Device 0" in _memory_viz.trace(snapshot)
    assert "snapshot.pickle" in _memory_viz.trace_plot(snapshot)


def test_a_storage_that_changes_its_size_is_freed_and_taken_anew():
    step = told([("born", 1, 100), ("size", 1, 300), ("born", 2, 10), ("died", 1, 0)])
    from backsight.memory.cuda import snapshot

    assert viewed(snapshot(step.history)) == (310, 10) == (step.peak, step.end)


def test_what_nobody_named_is_told_by_its_maker():
    (block,) = told([("born", 1, 100)]).history.blocks
    assert label(block) == "from before the step"
    block.op, block.module = "aten::_softmax", "head"
    assert label(block) == "softmax of layer `head`"


# Spikes


def test_a_spike_is_drawn_as_high_as_the_peak_however_short_it_was():
    pytest.importorskip("matplotlib")
    step = spiked()
    axes = step.plot().axes[0]
    tops = [path.vertices for area in axes.collections for path in area.get_paths()]
    highest = max(float(vertices[:, 1].max()) for vertices in tops)
    assert highest == step.peak
    wide = [v[v[:, 1] == highest][:, 0] for v in tops if v[:, 1].max() == highest]
    left, right = axes.get_xlim()
    assert max(float(x.max() - x.min()) for x in wide) >= (right - left) / 1000


def test_the_marker_of_the_peak_stands_on_the_area_of_the_page(visit):
    page = visit(spiked().to_html())
    marker = page.locator("#chart circle").bounding_box()
    x, y = marker["x"] + marker["width"] / 2, marker["y"] + marker["height"] / 2
    filled = page.evaluate(
        """([x, y]) => [...document.querySelectorAll("#chart path")].some(path => {
            const at = new DOMPoint(x, y + 6).matrixTransform(path.getScreenCTM().inverse());
            return [-1, 0, 1].some(dx => path.isPointInFill(new DOMPoint(at.x + dx, at.y)));
        })""",
        [x, y],
    )
    assert filled, "the marker floats above the area"
    column = page.locator("#chart .at-peak").last.bounding_box()
    assert column["x"] < x - 3 and x + 3 < column["x"] + column["width"], "the mark hides what is below it"
    assert column["y"] == pytest.approx(y, abs=1.5)
    assert re.search(r"peak .+ for [\d.]+ (ms|µs)", page.locator("#chart").inner_text())


def test_the_page_tells_the_line_of_each_tensor(visit, measured):
    page = visit(measured.to_html())
    assert "test_memory_views.py:" in page.locator("#alive").inner_text()
