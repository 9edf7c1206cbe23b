"""Programs in which the likeliest suspect is innocent: a wrong explanation is worse than none."""

import linecache

import pytest
import torch
from columns import COLUMNS
from failures import at, evidence, explained, failing

import backsight as bs


class TestOfSeveralStatementsOnOneLine:
    PROGRAM = """
    m = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    out = torch.tanh(m(torch.randn(4, 3)))
    first, second = out[:, 0].mean(), out[:, 1].mean()
    optimizer.zero_grad(); first.backward(); second.backward(); optimizer.step()
    """

    def test_the_one_that_failed_is_shown(self):
        said = explained(self.PROGRAM)
        assert said.title.startswith("first.backward() freed the part of the graph behind out")
        assert "train.py:5  first.backward()\n    frees" in evidence(said)
        failed = "second.backward()\n    " if COLUMNS else ""  # where only the line is known, that alone is shown
        assert f"train.py:5  {failed}needs them again." in evidence(said)

    def test_a_step_between_two_backwards_is_seen(self):
        said = explained("""
        g, d = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)
        d_optimizer = torch.optim.SGD(d.parameters(), lr=0.1)
        fake = torch.tanh(g(torch.randn(4, 2)))
        d_loss = d(fake).mean()
        d_optimizer.zero_grad(); d_loss.backward(); d_optimizer.step()
        g_loss = -d(fake).mean(); g_loss.backward()
        """)
        assert said.fix.startswith("Compute d_loss from fake.detach()")

    def test_the_right_copy_is_weighed(self):
        said = explained("""
        rows, labels = [[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0]
        x = torch.tensor(rows); y = torch.tensor(labels)
        w = torch.zeros(2)
        loss = (x @ w - y).pow(2).mean()
        loss.backward()
        """)
        assert said.title == "loss does not require grad: it is computed from x, w and y, and none of them does."


@pytest.mark.parametrize(
    "plain",
    [
        "factor = float({'factor': '2.5'}['factor'])",
        "settings = {'factor': '2.5'}; factor = float(settings['factor'])",
        "import numpy; data = numpy.ones(3, dtype='float32'); factor = torch.tensor(data)",
        "data = [1.0, 2.0, 3.0]; factor = torch.tensor(data)",
    ],
)
def test_numbers_that_never_had_a_history_have_lost_none(plain):
    said = explained(f"""
    {plain}
    w = torch.zeros(3)
    loss = (w * factor).sum()
    loss.backward()
    """)
    assert "it is computed from" in said.title
    assert "w = torch.zeros(3, requires_grad=True)" in said.fix


@pytest.mark.parametrize("value", ["w - 0.1 * w.grad", "w.detach() - 0.1 * w.grad"])
def test_a_weight_that_its_update_replaced_is_named_rather_than_the_block(value):
    source = f"""
    w = torch.randn(3, requires_grad=True)
    x = torch.randn(5, 3)
    for step in range(2):
        loss = (x @ w).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            w = {value}  # here
    """
    said = explained(source)
    assert said.title == "loss does not require grad: w was replaced in its update by a tensor that does not."
    assert said.source == at(source)
    assert "w -= lr * w.grad" in said.fix


def test_a_block_that_may_have_lost_the_history_of_something_is_not_said_to_contain_the_loss():
    said = explained("""
    def step(params):
        with torch.no_grad():
            return [p - 0.1 * p.grad for p in params]
    params = [torch.randn(3, requires_grad=True)]
    for _ in range(2):
        loss = (torch.ones(5, 3) @ params[0]).mean()
        loss.backward()
        params = step(params)
    """)
    assert said.title.startswith("loss does not require grad: one of its inputs was computed under")
    assert "w -= lr * w.grad" in said.fix


def test_gradients_switched_off_by_a_function_that_has_returned():
    source = """
    def evaluate():
        torch.set_grad_enabled(False)  # here
    w = torch.ones(3, requires_grad=True)
    evaluate()
    loss = w.sum()
    loss.backward()
    """
    error = failing(source)
    with torch.set_grad_enabled(False):
        said = bs.explain(error)
    assert "gradients are disabled globally" in said.title
    assert said.source == at(source)


class TestACarriedState:
    SETUP = """
    cell = torch.nn.GRUCell(3, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    cache = {}
    def penalty():
        if "p" not in cache:
            cache["p"] = sum(p.pow(2).sum() for p in cell.parameters())
        return cache["p"]
    def repackage(h):
        return h.detach()
    h = torch.zeros(1, 4)
    """

    @pytest.mark.parametrize(
        "cell",
        [
            "h = cell(torch.randn(1, 3), h.detach())",
            "h = repackage(h); h = cell(torch.randn(1, 3), h)",
            "(h,) = (each.detach() for each in (h,)); h = cell(torch.randn(1, 3), h)",
        ],
    )
    def test_that_is_detached_is_not_to_blame(self, cell):
        said = explained(f"""{self.SETUP}
    for step in range(3):
        {cell}
        loss = h.sum() + penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """)
        assert said.code == "BS201"
        assert "carries" not in said.title
        assert not said.exact

    def test_is_shown_where_it_is_read_not_where_it_is_assigned(self):
        source = """
        class Loss:
            previous = None
            def __call__(self, out):
                smooth = 0 if self.previous is None else (out - self.previous).pow(2).mean()  # read
                self.previous = out  # here
                return out.pow(2).mean() + smooth
        m, criterion = torch.nn.Linear(3, 1), Loss()
        for x in torch.randn(3, 4, 3):
            loss = criterion(torch.tanh(m(x)))
            loss.backward()
        """
        said = explained(source)
        assert said.title.startswith("criterion.previous, a tensor of shape 4×1, carries the graph of one call")
        assert said.source == at(source)
        assert f"{at(source, '# read')}  smooth" in str(said.evidence[0])


def test_weights_that_a_function_of_the_users_clips_are_not_blamed_on_the_optimizer():
    source = """
    critic = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    def clip():
        with torch.no_grad():
            for p in critic.parameters():
                p.clamp_(-0.01, 0.01)  # here
    for step in range(2):
        loss = critic(torch.randn(4, 3)).mean()
        clip()
        loss.backward()
        optimizer.step()
    """
    said = explained(source)
    assert said.source == at(source)
    assert "optimizer.step()" not in evidence(said)


def test_two_losses_are_seen_behind_what_reduces_them():
    said = explained("""
    m = torch.nn.Linear(3, 2)
    delta = torch.tanh(m(torch.randn(4, 3)))
    actor, critic = delta[:, 0] * 2, delta.pow(2)
    actor.mean().backward()
    critic.mean().backward()
    """)
    assert said.exact
    assert said.fix == "Add the losses and call backward once: (actor.mean() + critic.mean()).backward()."


def test_a_loop_over_losses_is_fixed_by_their_sum():
    said = explained("""
    out = torch.tanh(torch.nn.Linear(3, 2)(torch.randn(4, 3)))
    losses = {"a": out[:, 0].mean(), "b": out[:, 1].mean()}
    for name, loss in losses.items():
        loss.backward()
    """)
    assert said.fix.endswith("sum(losses.values()).backward().")


def test_the_namespace_of_a_cell_is_no_result():
    """Where cells are run by `exec` in a loop, the dictionary of their variables holds every loss."""
    cells = ["w = torch.ones(3, requires_grad=True)\nloss = w.exp().sum()\n", "loss.backward()\n", "loss.backward()\n"]
    names = [f"<cell {number}>" for number in range(len(cells))]
    for name, cell in zip(names, cells, strict=True):
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    with pytest.raises(RuntimeError) as caught:
        variables = {"torch": torch}
        for name, cell in zip(names, cells, strict=True):
            exec(compile(cell, name, "exec"), variables)
    said = bs.explain(caught.value)
    assert said.source == "<cell 2>:1"
    assert (
        "This code does not compute loss. If it ran before, as when a notebook cell runs twice, it freed the graph "
        "then." in evidence(said)
    )
    assert said.fix.startswith(
        "Rerun the code that computes loss, then this. If that does not help, look for a result that is"
    )
