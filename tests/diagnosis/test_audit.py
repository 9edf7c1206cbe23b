"""`audit`: what it finds by itself, what it can be given, and that it leaves no trace."""

from __future__ import annotations

import copy
import gc
import linecache
import sys
import threading
import warnings
import weakref
from typing import Any

import fresh
import pytest
import torch
from audits import codes, mlp, one
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import backsight as bs
from backsight.diagnosis import AuditFailed
from backsight.diagnosis import scene as remembered

LOST = """
import torch
import backsight

model = torch.nn.Linear(2, 1)
delta = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = (model(torch.ones(3, 2)) + delta).mean()
report = backsight.audit(loss)
"""


# ---- what it finds


def test_a_report_says_what_was_looked_at() -> None:
    model = mlp()
    report = bs.audit(model(torch.randn(3, 4)).mean())
    assert str(report).startswith(
        "backsight: nothing found in 6 operations and 4 leaves\n  This is what the graph shows."
    )
    assert '<code class="code">backsight run</code>' in report._repr_html_()
    with bs.watch(level="exact"):
        report = bs.audit(model(torch.randn(3, 4)).mean())
    assert str(report) == "backsight: nothing found in 6 operations and 4 leaves"


def test_the_gravest_finding_comes_first() -> None:
    model, delta = mlp(), torch.zeros(1, requires_grad=True)
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hidden = model[0](torch.randn(3, 4)).exp()
    hidden += delta
    report = bs.audit(model[2](hidden).mean())
    assert [(f.severity, f.code) for f in report] == [("error", "BS104"), ("warning", "BS101"), ("note", "BS109")]
    assert len(report) == 3
    with pytest.raises(AuditFailed, match=r"^3 findings\nerror BS104  hidden was modified in place"):
        report.raise_if("error")
    del optimizer


def test_code_of_a_notebook_cell() -> None:
    cell = "<ipython-input-7-abc>"
    linecache.cache[cell] = (len(LOST), None, LOST.splitlines(keepends=True), cell)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(LOST, cell, "exec"), namespace)
    assert one(namespace["report"], "BS101").title == "delta requires grad, but no optimizer updates it."


def test_code_without_a_source_text() -> None:
    namespace: dict[str, Any] = {}
    exec(LOST, namespace)
    assert codes(namespace["report"]) == ["BS101"]


def test_an_audit_deep_inside_of_other_functions_finds_what_they_hold() -> None:
    class Engine:
        def __init__(self) -> None:
            self.parts = {"net": mlp()}
            self.optimizers = [torch.optim.SGD(self.parts["net"].parameters(), lr=0.1)]

        def run(self, penalty: torch.Tensor) -> bs.Report:
            return self.check(self.parts["net"](torch.randn(3, 4)).mean() + penalty.sum())

        @staticmethod
        def check(loss: torch.Tensor) -> bs.Report:
            return bs.audit(loss)

    forgotten = torch.zeros(2, requires_grad=True)
    finding = one(Engine().run(forgotten), "BS101")
    assert finding.title.startswith(("penalty requires", "forgotten requires"))
    assert "self.optimizers[0]" in finding.fix


def test_several_roots_are_one_graph() -> None:
    model = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(3, 4)
    losses = {"a": model["a"](x).mean(), "b": model["b"](x).mean()}
    assert codes(bs.audit(losses["a"])) == ["BS102"]
    assert not bs.audit(losses["a"], losses["b"]).findings
    assert not bs.audit(losses).findings
    del optimizer


# ---- what it is given


def test_a_given_optimizer_is_called_by_the_given_name() -> None:
    def made() -> tuple[torch.Tensor, torch.optim.Optimizer]:
        model = mlp()
        scale = torch.ones(1, requires_grad=True)
        return (scale * model(torch.randn(3, 4))).mean(), torch.optim.SGD(model.parameters(), lr=0.1)

    loss, sgd = made()
    assert bs.audit(loss, optimizer={"main": sgd}).findings[0].evidence[0].endswith(", but main does not hold it.")


def test_a_given_model_names_the_modules() -> None:
    model = mlp()
    loss = model(torch.randn(3, 4)).mean()
    loss.backward()
    assert "AddmmBackward0 (3×1, in 2)" in one(bs.audit(loss, model=model), "BS105").evidence[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": 3}, r"model must be a torch.nn.Module or a dict of them by name, not int"),
        ({"optimizer": "adam"}, r"optimizer must be a torch.optim.Optimizer or a dict of them by name, not str"),
        ({"optimizer": {"a": 3}}, r"optimizer\['a'\] must be a torch.optim.Optimizer, not int"),
    ],
)
def test_something_else_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bs.audit(torch.ones(1, requires_grad=True).sum(), **arguments)


# ---- no trace


def train(model: nn.Module, steps: int, audited: bool) -> list[torch.Tensor]:
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = model(torch.randn(6, 4)).pow(2).mean()
        if audited:
            bs.audit(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        again = model(torch.ones(1, 4)).mean()
        if audited:
            bs.audit(again)
    return [p.detach().clone() for p in (*model.parameters(), *model.buffers())]


def test_training_is_bit_identical() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Dropout(0.3), nn.GELU(), nn.Linear(8, 1))
    twin, state = copy.deepcopy(model), torch.get_rng_state()
    plain = train(model, 5, audited=False)
    torch.set_rng_state(state)
    with bs.watch():
        audited = train(twin, 5, audited=True)
    assert len(plain) == 6
    assert all(torch.equal(p, q) for p, q in zip(plain, audited, strict=True))


def test_an_audit_draws_no_random_numbers_and_changes_no_version() -> None:
    model = mlp()
    loss = model(torch.randn(3, 4)).mean()
    state, versions = torch.get_rng_state(), [p._version for p in model.parameters()]
    bs.audit(loss)
    assert torch.equal(state, torch.get_rng_state())
    assert versions == [p._version for p in model.parameters()]
    assert all(p.grad is None for p in model.parameters())


def test_nothing_is_kept_alive() -> None:
    def step() -> tuple[list[weakref.ref[Any]], bs.Report]:
        model, extra = mlp(), torch.ones(1, requires_grad=True)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            hidden = model(torch.randn(3, 4))
            loss = (hidden * extra).mean()
            report = bs.audit(loss)
            loss.backward()
            optimizer.step()
        return [weakref.ref(x) for x in (model, extra, optimizer, hidden, loss, *model.parameters())], report

    alive, report = step()
    gc.collect()
    assert codes(report)
    assert [ref() for ref in alive if ref() is not None] == []


def test_an_audit_that_raises_keeps_nothing_alive_either() -> None:
    def attempt() -> weakref.ref[Any]:
        x = torch.randn(3)
        with pytest.raises(bs.NothingToCapture):
            bs.audit(x)
        return weakref.ref(x)

    ref = attempt()
    gc.collect()
    assert ref() is None


def test_what_is_remembered_of_call_sites_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_LIMIT", 4)
    model = mlp()
    for line in range(3 * remembered._LIMIT):
        exec(compile("\n" * line + "import backsight\nbacksight.audit(model(x).mean())", "<many>", "exec"), {
            "model": model, "x": torch.ones(1, 4)
        })  # fmt: skip
    assert len(remembered._past) <= remembered._LIMIT


THREADS = """
import torch, backsight
from concurrent.futures import ThreadPoolExecutor

def work(seed):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    findings = []
    for _ in range(40):
        loss = model(torch.randn(3, 4)).mean()
        findings += backsight.audit(loss).findings
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [finding.title for finding in findings]

with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(8))))
"""


@pytest.mark.slow
def test_many_threads_that_audit_and_train_at_one_line() -> None:
    # A gradient read while another thread's backward replaces it would crash the process.
    done = fresh.run([sys.executable, "-c", THREADS], timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, str([[]] * 8)), done.stderr


def test_a_loss_made_in_another_thread() -> None:
    made: list[torch.Tensor] = []
    model, delta = mlp(), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    thread = threading.Thread(target=lambda: made.append((model(torch.randn(3, 4)) + delta).mean()))
    thread.start()
    thread.join()
    assert codes(bs.audit(made[0])) == ["BS101"]
    del optimizer


def test_a_mode_of_the_user_is_not_asked() -> None:
    seen: list[str] = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.randn(3, 4)).mean()
    with Mode():
        bs.audit(loss)
    assert seen == []
    del optimizer


def test_a_dispatch_mode_and_a_subclass_of_the_user_see_nothing_of_an_audit() -> None:
    model = mlp()
    loss = model(torch.randn(3, 4)).mean()
    seen = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Counting():
        bs.audit(loss)
    assert seen == []
    with FakeTensorMode():
        assert codes(bs.audit(loss)) == codes(bs.audit(loss))


@pytest.mark.filterwarnings("error")
def test_an_audit_within_a_trace_is_no_part_of_it() -> None:
    class Audited(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            loss = super().forward(x).sum()
            bs.audit(loss)
            return loss

    x = torch.ones(2, 3)
    audited = Audited(3, 1)
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):  # of torch.jit: the one from 2.14 on, the other from 2.15
            warnings.simplefilter("ignore", category)
        graph = torch.jit.trace(audited, x, check_trace=False).graph
    assert {node.kind() for node in graph.nodes()} == {"prim::GetAttr", "aten::linear", "aten::sum", "prim::Constant"}
