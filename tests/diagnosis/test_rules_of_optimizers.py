"""BS102, BS106, BS109: what an optimizer holds, and what the loss depends on."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from audits import batches, codes, mlp, of, one
from torch import nn

import backsight as bs


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, cut: bool = True) -> torch.Tensor:
        a = self.left(x)
        b = F.normalize(self.right(x)).detach()
        return (a * b).sum()


class Both(nn.Module):
    """Returns what two layers compute."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(x), self.second(x)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(self.trunk(x))


class CompactTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = self.left(x)
        w = 1; v = self.right(x).detach()  # noqa: E702  # fmt: skip
        return (u * v).sum() * w


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.last, self.unused = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def grow(self) -> None:
        self.last.weight = nn.Parameter(torch.cat([self.last.weight.detach(), torch.zeros(2, 3)]))
        self.last.bias = nn.Parameter(torch.cat([self.last.bias.detach(), torch.zeros(2)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.trunk(x))


class TestParameterNotReached:
    def test_a_detached_branch_is_shown_in_the_source(self) -> None:
        model = Towers()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit(model(torch.randn(2, 4))), "BS102")
        assert (finding.severity, finding.title) == (
            "warning",
            "optimizer holds parameters that are detached from this loss.",
        )
        first, *shown = finding.evidence
        assert first == (
            "No path leads from the loss to model.right.weight and model.right.bias: 2 of its 4 trainable parameters."
        )
        assert [each.text for each in shown] == [
            "creates model.right.",
            "passes them to optimizer.",
            "ends their path to the loss at `F.normalize(self.right(x)).detach()`: detach returns a tensor that is "
            "detached from the graph.",
        ]
        assert [each.place.text for each in shown[:2]] == [
            "self.left, self.right = nn.Linear(4, 3), nn.Linear(4, 3)",
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        ]
        assert finding.fix == (
            "On line 23, write `b = F.normalize(self.right(x))`, without .detach(), if they should learn from this "
            "loss. Otherwise, freeze them with requires_grad_(False) and leave them out of the optimizer."
        )
        line = Towers.forward.__code__.co_firstlineno + 2
        assert finding.source is not None and finding.source.endswith(f"test_rules_of_optimizers.py:{line}")
        del optimizer

    def test_one_that_shares_its_line_with_another_statement(self) -> None:
        model = CompactTowers()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit(model(torch.randn(2, 4))), "BS102")
        assert finding.evidence[-1].text.startswith("ends their path to the loss at `self.right(x).detach()`")
        del optimizer

    def test_the_same_branch_frozen_is_in_order(self) -> None:
        model = Towers()
        model.right.requires_grad_(False)
        optimizer = torch.optim.SGD(model.left.parameters(), lr=0.1)
        assert not bs.audit(model(torch.randn(2, 4))).findings
        del optimizer

    def test_an_encoder_that_ran_under_no_grad(self) -> None:
        encoder, head = nn.Linear(4, 3), nn.Linear(3, 1)
        optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
        with torch.no_grad():
            features = encoder(torch.randn(2, 4))
        loss = head(features).mean()
        finding = one(bs.audit(loss), "BS102")
        assert (finding.severity, finding.evidence[-1].text) == (
            "warning",
            "ends their path to the loss at `torch.no_grad()`: nothing is recorded here, so what it computes has no "
            "graph.",
        )
        assert finding.evidence[0].startswith("No path leads from the loss to encoder.weight and encoder.bias")
        del optimizer

    def test_a_result_that_nothing_uses_is_shown_in_the_note(self) -> None:
        class Drops(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.both = Both()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                first, _second = self.both(x)
                return first

        model = Drops()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit(model(torch.randn(2, 4)).sum()), "BS102")
        assert finding.severity == "note"
        assert finding.evidence[-1].text == "takes result 2 from self.both. Nothing uses result 2."
        del optimizer

    def test_an_unused_head_is_a_note(self) -> None:
        model = Heads()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit(model(torch.randn(2, 4)).sum()), "BS102")
        assert (finding.severity, finding.title) == (
            "note",
            "optimizer holds parameters that this loss does not depend on.",
        )
        assert finding.evidence == (
            "No path leads from the loss to model.second.weight and model.second.bias: 2 of its 6 trainable "
            "parameters.",
        )
        assert finding.fix == (
            "Nothing to do if this step should not use them. Otherwise, look between their output and the loss for "
            ".detach(), .data, .item(), torch.no_grad(), or an unused result."
        )
        del optimizer

    def test_what_was_replaced_belongs_to_no_module_and_is_told_apart_from_an_unused_head(self) -> None:
        net = Growing()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.grow()
        optimizer.add_param_group({"params": [*net.last.parameters()]})
        left, unused = of(bs.audit(net(torch.randn(2, 4)).sum()), "BS102")
        assert left.severity == "note"
        assert left.title == "optimizer holds parameters that belong to no module anymore."
        assert left.evidence[0] == "Only optimizer still holds 2 of its 8 trainable parameters."
        assert [str(each).rpartition("\n    ")[2] for each in left.evidence[1:]] == [
            "replaces net.last.weight.",
            "replaces net.last.bias.",
        ]
        assert left.fix.startswith("Create optimizer again after each replacement to drop them.")
        assert "net.unused.weight and net.unused.bias: 2 of its 8" in str(unused.evidence[0])
        assert "param_groups" not in str(unused)

    def test_what_another_loss_trains_is_said_to_be_trained(self) -> None:
        model = Heads()
        optimizer = torch.optim.Adam(model.parameters())
        model.second(model.trunk(torch.randn(2, 4))).sum().backward()
        optimizer.step()
        finding = one(bs.audit(model(torch.randn(2, 4)).sum()), "BS102")
        assert finding.evidence[1] == "2 of them have a gradient or took a step before, from another loss or batch."

    def test_an_optimizer_for_another_loss_is_in_order(self) -> None:
        model, other = mlp(), mlp()
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
        assert not bs.audit(model(torch.randn(3, 4)).mean()).findings
        del optimizers

    def test_tied_weights_are_reached_by_either_name(self) -> None:
        table, head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        head.weight = table.weight
        optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
        assert not bs.audit(head(torch.randn(2, 4)).sum()).findings
        del optimizer

    def test_a_shared_module_is_reached_from_either_place(self) -> None:
        shared = nn.Linear(4, 4)
        model = nn.ModuleDict({"a": nn.Sequential(shared), "b": nn.Sequential(shared)})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert not bs.audit(model["b"](torch.randn(2, 4)).sum()).findings
        del optimizer

    def test_only_the_given_optimizer_is_judged(self) -> None:
        model = Heads()
        all_of_it = torch.optim.SGD(model.parameters(), lr=0.1)
        used = torch.optim.SGD([*model.trunk.parameters(), *model.first.parameters()], lr=0.1)
        loss = model(torch.randn(2, 4)).sum()
        assert not bs.audit(loss, model=model, optimizer=used).findings
        assert codes(bs.audit(loss, model=model, optimizer={"all": all_of_it})) == ["BS102"]


class TestTheGivenOptimizerIsNotReached:
    """An audit that was told which optimizer goes with the loss may say more than one that has found them around."""

    def test_the_cut_is_shown_also_among_several_backwards(self) -> None:
        generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
        optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (generator, critic))
        fake = generator(torch.randn(3, 2)).detach()
        critic(fake).mean().backward()
        loss = critic(fake).mean()
        report = bs.audit(loss, optimizer={"optimizer": optimizer})
        loss.backward()
        finding = one(report, "BS102")
        assert (finding.severity, finding.title) == (
            "warning",
            "optimizer holds parameters that are detached from this loss.",
        )
        first, *shown = finding.evidence
        assert first == ("No path leads from the loss to generator.weight and generator.bias.")
        assert [each.text for each in shown] == [
            "creates generator.",
            "passes them to optimizer.",
            "ends their path to the loss at `generator(torch.randn(3, 2)).detach()`: detach returns a tensor that is "
            "detached from the graph.",
        ]
        assert not bs.audit(critic(fake).mean(), optimizer={"optimizer": optimizer, "other": other}).findings

    def test_without_a_cut_in_the_source(self) -> None:
        model, other = nn.Linear(4, 1), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
        finding = one(bs.audit(model(torch.randn(3, 4)).mean(), optimizer=optimizer), "BS102")
        assert (finding.severity, finding.title) == ("warning", "optimizer learns nothing from this loss.")
        assert finding.fix == (
            "Look between their output and the loss for .detach(), .data, .item(), torch.no_grad(), or an unused "
            "result. Or pass audit() the optimizer that belongs to this loss."
        )


class TestParameterTwice:
    def test_two_optimizers_are_a_note(self) -> None:
        model = mlp()
        a, b = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())
        finding = one(bs.audit(model(torch.randn(3, 4)).mean()), "BS106")
        assert (finding.severity, finding.title) == ("note", "model.2.weight and 1 more are in 2 optimizers.")
        assert finding.evidence == ("They are among the parameters of a and b.",)
        assert finding.fix == (
            "Nothing to do if they take turns. If all of them step after one backward(), each parameter moves 2 "
            "times: give it to one of them only."
        )
        del a, b

    def test_two_optimizers_that_use_one_gradient_are_seen_under_a_watch(self) -> None:
        model = mlp()
        a, b = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())
        with bs.watch():
            for x in batches(2):
                loss = model(x).mean()
                report = bs.audit(loss)
                a.zero_grad()
                loss.backward()
                a.step()
                b.step()
        finding = one(report, "BS106")
        assert (finding.severity, finding.title) == ("warning", "model.2.weight and 1 more will be stepped twice.")
        assert finding.fix == "Give each parameter to one group of one optimizer."

    def test_two_optimizers_that_take_turns_stay_a_note(self) -> None:
        model = mlp()
        pair = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())
        with bs.watch():
            for x, optimizer in zip(batches(4), pair * 2, strict=True):
                loss = model(x).mean()
                report = bs.audit(loss)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        assert one(report, "BS106").severity == "note"

    def test_a_parameter_twice_in_one_optimizer(self) -> None:
        model = mlp()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = torch.optim.SGD([*model.parameters(), model[0].weight], lr=0.1)
        finding = one(bs.audit(model(torch.randn(3, 4)).mean()), "BS106")
        assert (finding.severity, finding.title) == ("warning", "model.0.weight will be stepped twice.")
        assert finding.evidence == ("It is among the parameters of optimizer (2 times).",)
        del optimizer

    def test_the_part_that_was_meant_is_named(self) -> None:
        class Judges(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.wide, self.deep = nn.Linear(4, 1), nn.Linear(4, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                out: torch.Tensor = self.wide(x) + self.deep(x)
                return out

            def trained(self) -> list[torch.Tensor]:
                return [*self.wide.parameters(), *self.wide.parameters()]

        judges = Judges()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = torch.optim.SGD(judges.trained(), lr=0.1)
        finding = one(bs.audit(judges(torch.randn(3, 4)).mean()), "BS106")
        assert finding.fix.startswith("No optimizer has self.deep. If it was meant: on line ")
        (((edit,),),) = (finding.edits,)
        assert edit.code == "return [*self.wide.parameters(), *self.deep.parameters()]"
        assert any("lists them twice" in str(each) for each in finding.evidence)
        del optimizer

    def test_groups_of_one_optimizer_are_in_order(self) -> None:
        model = mlp()
        groups: list[dict[str, Any]] = [{"params": layer.parameters()} for layer in (model[0], model[2])]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        assert not bs.audit(model(torch.randn(3, 4)).mean()).findings
        del optimizer

    def test_a_wrapper_of_an_optimizer_is_that_optimizer(self) -> None:
        class Wrapper(torch.optim.Optimizer):
            def __init__(self, inner: torch.optim.Optimizer) -> None:
                self.inner = inner

            @property
            def param_groups(self) -> Any:
                raise AssertionError("evaluated")

        model = mlp()
        optimizer = Wrapper(torch.optim.SGD(model.parameters(), lr=0.1))
        assert not bs.audit(model(torch.randn(3, 4)).mean()).findings
        del optimizer

    def test_an_average_of_the_weights_is_no_second_holder(self) -> None:
        model = mlp()
        average = torch.optim.swa_utils.AveragedModel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert not bs.audit(model(torch.randn(3, 4)).mean()).findings
        del average, optimizer


class TestFrozenInOptimizer:
    def test_frozen_parameters_are_a_note(self) -> None:
        model = mlp()
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        report = bs.audit(model(torch.randn(3, 4)).mean())
        finding = one(report, "BS109")
        assert (finding.severity, finding.title) == ("note", "2 of the 4 parameters in optimizer are frozen.")
        assert finding.evidence == (
            "requires_grad is False for model.0.weight and model.0.bias. The optimizer skips parameters without a "
            "gradient.",
        )
        assert finding.fix == (
            "If you froze them on purpose, there is nothing to do. Otherwise, unfreeze them with "
            "requires_grad_(True) before the forward pass."
        )
        assert codes(report) == ["BS109"]
        report.raise_if("warning")
        del optimizer

    def test_a_gradient_from_before_the_freezing_goes_on_moving_a_parameter(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.randn(3, 4)).mean().backward()
        model[2].weight.requires_grad_(False)
        finding = one(bs.audit(model(torch.randn(3, 4)).mean()), "BS109")
        assert finding.title == "1 of the 4 parameters in optimizer is frozen."
        assert finding.evidence == (
            "requires_grad is False for model.2.weight. model.2.weight still has an old gradient: step() applies "
            "it, with momentum and weight decay, until it is None.",
        )
        del optimizer

    def test_a_backbone_left_out_of_the_optimizer_is_in_order(self) -> None:
        model = mlp()
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
        assert not of(bs.audit(model(torch.randn(3, 4)).mean()), "BS109")
        del optimizer
