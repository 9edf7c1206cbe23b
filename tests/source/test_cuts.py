"""Where the text cuts autograd, checked against what PyTorch does with the same line."""

import ast
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from backsight.source import statement_at
from backsight.source.cut_rules import rule_of
from backsight.source.cuts import cuts, lets_through

CUTTING = {
    "x.detach() * 2": "detach",
    "x.clone().detach_()": "detach",
    "x.data * 2": "detach",
    "x.data.exp().sum()": "detach",
    "torch.stack([x.detach()])": "detach",
    "x.sum().item() + w.data": "number",
    "x.tolist()": "number",
    "x.detach().cpu().numpy()": "number",
    "float(x.sum())": "number",
    "math.floor(x.sum())": "number",
    "np.array(x.tolist())": "number",
    "torch.tensor(x)": "copy",
    "torch.tensor([each.item() for each in x])": "copy",
    "torch.as_tensor([x[0], x[1]])": "copy",
    "x.new_tensor(x)": "copy",
    "torch.from_numpy(x.detach().numpy())": "copy",
    "x.argmax()": "index",
    "torch.argmax(x, 0)": "index",
    "x.max(0)[1]": "index",
    "torch.max(x, 0)[1]": "index",
    "x.topk(2)[1]": "index",
    "x.sort().indices": "index",
    "x.nonzero()": "index",
    "x.long()": "integer",
    "x.int().float()": "integer",
    "x.bool()": "integer",
    "x.to(torch.int64)": "integer",
    "x.to(dtype=torch.long)": "integer",
    "x.type(torch.LongTensor)": "integer",
    "(x > 0).float()": "comparison",
    "(x == w).sum()": "comparison",
    "x.eq(w).float().mean()": "comparison",
    "torch.isfinite(x)": "comparison",
    "torch.autograd.grad((x * x).sum(), x)[0]": "gradient",
}

PASSING = [
    "x * 2",
    "x.float()",
    "x.to(torch.float64)",
    "x.view(-1)[1]",
    "x[x.argmax()]",
    "x[x > 0].sum()",
    "x.max(0)[0]",
    "x.max(0).values",
    "x * torch.tensor(2.0)",
    "x / x.shape[0]",
    "x / x.detach().shape[0]",
    "x / len(x)",
    "x + torch.zeros_like(x)",
    "x.masked_fill(x > 1, 0.0)",
    "torch.masked_fill(x, x > 1, 0.0)",
    "torch.where(x > 0, x, 0.0)",
    "x.gather(0, x.argsort())",
    "F.cross_entropy(x.view(1, -1), x.argmax().view(1))",
    "x if x.sum() > 100 else x * 2",
    "sum([each for each in x if each > -10])",
    "(lambda x: x * 2)(x)",
    "torch.autograd.grad((x * x).sum(), x, create_graph=True)[0]",
    "x.requires_grad_(True) * 1",
]


def gradient_of(expression):
    """The gradient that reaches `x` from the expression; None where it has no graph."""
    x = torch.tensor([0.5, -1.5, 2.5], requires_grad=True)
    value = eval(expression, {"torch": torch, "F": F, "np": np, "math": math, "x": x, "w": x * 1})
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return None
    return torch.autograd.grad(value.sum(), x)[0]


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's own advice on these expressions
class TestExpressions:
    @pytest.mark.parametrize(("expression", "kind"), CUTTING.items())
    def test_what_leaves_no_graph_is_a_cut(self, body_of, expression, kind):
        assert gradient_of(expression) is None
        found = cuts(body_of(f"loss = {expression}\nloss.backward()\n"), "loss", 2)
        assert found[0].kind == kind
        assert found[0].place.line == 1
        assert found[0].expression in expression

    @pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign"])
    def test_what_leaves_a_gradient_of_zero_is_a_cut_that_can_be_looked_behind(self, body_of, name):
        assert not gradient_of(f"x.{name}()").any()
        body = body_of(f"y = x.detach()\nloss = (y * 2).{name}().sum()\nloss.backward()\n")
        assert [cut.kind for cut in cuts(body, "loss", 3)] == ["rounding", "detach"]

    @pytest.mark.parametrize("expression", PASSING)
    def test_what_passes_a_gradient_on_is_none(self, body_of, expression):
        assert gradient_of(expression).any()
        assert cuts(body_of(f"loss = {expression}\nloss.backward()\n"), "loss", 2) == ()

    def test_says_why(self, body_of):
        (cut,) = cuts(body_of("pred = logits.argmax(1)\npred.backward()\n"), "pred", 2)
        assert cut.why == "argmax returns integer indices, which have no gradient"
        assert (cut.expression, cut.place.text) == ("logits.argmax(1)", "pred = logits.argmax(1)")

    def test_attributes_called_data_that_are_not_of_tensors(self, body_of):
        body = body_of("loss = self.data + torch.utils.data.default_collate(x)\nloss.backward()\n")
        assert cuts(body, "loss", 2) == ()


class TestDefinitions:
    @pytest.fixture
    def found(self, body_of, line_of):
        """The cut expressions behind `loss` at the line that says `backward()`, the nearest first."""

        def expressions(source, name="<module>", root="loss"):
            body = body_of(source, name)
            return [cut.expression for cut in cuts(body, root, line_of(body, "backward()"))]

        return expressions

    def test_are_followed_to_the_front_of_the_function(self, found):
        source = """
            features = encoder(x)
            features = features.detach()
            a, (b, *c) = head(features), (1, 2)
            loss: Tensor = criterion(a, y)
            loss.backward()
        """
        assert found(source) == ["features.detach()"]

    def test_that_were_overwritten_do_not_count(self, found):
        source = """
            out = x.detach()
            out = model(x)
            with autocast():
                scaled = out.data
                scaled = out * 2
            loss = scaled.sum()
            loss.backward()
            loss = x.item()
        """
        assert found(source) == []

    def test_under_conditions_all_count_the_latest_first(self, found):
        source = """
            out = x.item()
            if a:
                out = x.detach()
            elif b:
                out = x.data
            loss = out.sum()
            loss.backward()
        """
        assert found(source) == ["x.data", "x.detach()", "x.item()"]

    def test_in_the_other_branch_do_not_count(self, found):
        source = """
            if train:
                loss = model(x)
                loss.backward()
            else:
                loss = model(x).item()
        """
        assert found(source) == []
        assert found("if evaluate:\n    out = x.data\nelse:\n    out = x\n    loss = out\n    loss.backward()\n") == []

    def test_in_the_other_branch_count_when_a_loop_leads_from_one_to_the_other(self, found):
        source = """
            out = model(x)
            {}
                if again:
                    out = out.data
                else:
                    loss = out.sum()
                    loss.backward()
        """
        assert found(source.format("with scope():")) == []
        assert found(source.format("for x in loader:")) == ["out.data"]

    def test_of_an_attribute_come_before_those_of_its_object(self, found):
        source = "out = x.data\nout.loss = model(x)\nout.loss.backward()\n"
        assert found(source, root="out.loss") == []
        assert found(source.replace("out.loss =", "out.aux ="), root="out.loss") == ["x.data"]

    def test_further_down_in_a_loop_count_for_the_iteration_before(self, found):
        source = """
            for x in loader:
                out, hidden = rnn(x, hidden)
                loss = out.sum()
                loss.backward()
                hidden = hidden.detach()
        """
        assert found(source) == ["hidden.detach()"]

    def test_further_down_in_a_loop_do_not_count_when_overwritten_first(self, found):
        source = """
            for x in loader:
                hidden = start()
                loss = rnn(x, hidden)
                loss.backward()
                hidden = hidden.detach()
                x = x.data
        """
        assert found(source) == []

    def test_of_a_tuple_of_values_and_indices(self, found):
        assert found("values, picks = torch.max(out, 1)\nloss = picks.sum()\nloss.backward()\n") == [
            "torch.max(out, 1)"
        ]
        assert found("values, picks = torch.max(out, 1)\nloss = values.sum()\nloss.backward()\n") == []

    def test_by_filling_a_list(self, found):
        source = """
            losses = []
            for x, y in loader:
                losses.append(criterion(model(x), y).detach())
                table["x"] = x.data
            loss = torch.stack(losses).sum() + table["x"]
            loss.backward()
        """
        assert set(found(source)) == {"criterion(model(x), y).detach()", "x.data"}

    def test_by_augmented_assignment_add_to_the_old_value(self, found):
        source = """
            loss = torch.tensor(0.0)
            for x in loader:
                loss += model(x).item()
            loss.backward()
        """
        assert found(source) == ["model(x).item()"]

    def test_by_a_loop_a_with_statement_or_a_walrus(self, found):
        source = """
            for part in model(x).detach():
                with scope(part) as scoped:
                    if (loss := scoped.sum()) is not None:
                        loss.backward()
        """
        assert found(source) == ["model(x).detach()"]

    def test_of_attributes_of_self(self, found):
        source = """
            class Trainer:
                def step(self, batch):
                    self.out = self.model(batch).detach()
                    self.losses.total = self.criterion(self.out.logits)
                    self.losses.total.backward()
        """
        assert found(source, "step", "self.losses.total") == ["self.model(batch).detach()"]

    def test_of_a_local_function(self, found):
        assert found("f = lambda x: x.detach()\nloss = f(x)\nloss.backward()\n") == ["x.detach()"]

    def test_of_an_expression_that_stands_at_the_line(self, found):
        source = "out = model(x).data\n(out * 2).sum().backward()\n"
        assert found(source, root="(out * 2).sum()") == ["model(x).data"]
        assert found("loss.detach().backward()\n", root="loss.detach()") == ["loss.detach()"]

    def test_stop_at_parameters_imports_and_cycles(self, found):
        source = """
            def train(x):
                from model import y
                while x:
                    y = x
                    x = y
                loss = x + y
                loss.backward()
        """
        assert found(source, "train") == []


class TestGradMode:
    @pytest.mark.parametrize(
        "context",
        ["torch.no_grad()", "torch.inference_mode()", "torch.set_grad_enabled(False)", "no_grad()"],
    )
    def test_a_context_manager_around_the_definition(self, body_of, context):
        body = body_of(f"with autocast(), {context}:\n    for x in y:\n        out = model(x)\nout.backward()\n")
        (cut,) = cuts(body, "out", 4)
        assert (cut.kind, cut.expression, cut.place.line) == ("no_grad", context, 1)
        assert cut.place.text == f"with autocast(), {context}:"

    @pytest.mark.parametrize(
        "context", ["torch.enable_grad()", "torch.set_grad_enabled(True)", "torch.inference_mode(False)", "autocast()"]
    )
    def test_other_context_managers_are_none(self, body_of, context):
        inner = "    with torch.enable_grad():\n        out = model(x)\n"
        assert cuts(body_of(f"with {context}:\n    out = model(x)\nout.backward()\n"), "out", 3) == ()
        assert cuts(body_of(f"with torch.no_grad(), {context}:\n{inner}out.backward()\n"), "out", 4) == ()

    def test_a_mode_that_the_text_does_not_know_may_cut(self, body_of):
        body = body_of("with torch.set_grad_enabled(train):\n    out = model(x).detach()\nout.backward()\n")
        assert [cut.kind for cut in cuts(body, "out", 3)] == ["no_grad", "detach"]

    def test_constants_lose_nothing(self, body_of):
        assert cuts(body_of("with torch.no_grad():\n    scale = 2\nloss = scale * x\n"), "scale * x", 3) == ()

    @pytest.mark.parametrize("decorator", ["torch.no_grad()", "torch.no_grad", "torch.inference_mode()"])
    def test_a_decorator_of_the_function(self, body_of, decorator):
        body = body_of(f"@{decorator}\ndef evaluate(x):\n    loss = model(x)\n    loss.backward()\n", "evaluate")
        (cut,) = cuts(body, "loss", 4)
        assert (cut.kind, cut.place.line, cut.place.text) == ("no_grad", 1, f"@{decorator}")


class TestFrozen:
    @pytest.mark.parametrize(
        "statement",
        [
            "model.requires_grad_(False)",
            "model.requires_grad = False",
            "for p in model.parameters():\n    p.requires_grad = False",
            "for n, p in model.named_parameters():\n    p.requires_grad_(False)",
        ],
    )
    def test_turning_requires_grad_off_is_a_cut(self, body_of, line_of, statement):
        body = body_of(f"model = Net()\n{statement}\nloss = model(x).sum()\nloss.backward()\n")
        (cut,) = cuts(body, "loss", line_of(body, "backward()"))
        assert cut.kind == "frozen"
        assert cut.expression == cut.place.text == statement.split("\n")[-1].strip()

    def test_turning_it_on_is_not(self, body_of):
        assert cuts(body_of("x.requires_grad_(True)\nx.requires_grad = True\nloss = x.sum()\n"), "x.sum()", 3) == ()


class TestLetsThrough:
    @pytest.mark.parametrize(
        "text",
        [
            "h = cell(x, h)",
            "h += x",
            "h = [f(each) for each in h]",
            "for each in h: pass",
            "h = h.detach() + h",
            "h = g(h.a)",
        ],
    )
    def test_a_history_that_is_read_on(self, body_of, text):
        assert lets_through(statement_at(body_of(text), 1), "h")

    @pytest.mark.parametrize(
        "text",
        ["h = cell(x, h.detach())", "h = tuple(each.detach() for each in h)", "log(h.item())", "n = h.shape[0]"],
    )
    def test_a_history_that_is_cut_off(self, body_of, text):
        assert not lets_through(statement_at(body_of(text), 1), "h")


def test_a_module_that_is_called_item_cuts_nothing() -> None:
    assert rule_of(ast.parse("self.item(ids)", mode="eval").body) is None
    assert rule_of(ast.parse("loss.item()", mode="eval").body) is not None
