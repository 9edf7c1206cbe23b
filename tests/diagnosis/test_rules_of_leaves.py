"""BS101, BS107: leaves that collect gradients which nobody uses."""

from __future__ import annotations

import pytest
import torch
from audits import codes, mlp, of, one
from torch import nn

import backsight as bs
from backsight.findings import Finding
from backsight.findings.evidence import evidence_of
from backsight.tracing import Level


class TestLeafWithoutOptimizer:
    def test_a_forgotten_leaf_is_named_with_its_fix(self) -> None:
        model, delta = mlp(), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = (model(torch.randn(3, 4)) + delta).mean()
        finding = one(bs.audit(loss), "BS101")
        assert (finding.severity, finding.title) == (
            "warning",
            "delta requires grad, but no optimizer updates it.",
        )
        assert finding.evidence[0] == "The loss depends on it (a leaf of shape 1), but optimizer does not hold it."
        assert finding.fix.endswith(" Otherwise, freeze it with requires_grad_(False).")
        del optimizer

    def test_where_it_and_the_optimizer_are_made_is_shown_and_what_to_write(self) -> None:
        model = mlp()
        delta = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
        finding = one(bs.audit((model(torch.randn(3, 4)) + delta).mean()), "BS101")
        leaf, made = [each for each in map(evidence_of, finding.evidence) if each.place is not None]
        assert (leaf.place.text, leaf.text) == (
            "delta = torch.zeros(1, requires_grad=True)",
            "assigns delta, which requires grad.",
        )
        assert (made.text, str(made.place)) == ("leaves out delta.", finding.source)
        written = "optimizer = torch.optim.SGD([*model.parameters(), delta], lr=1e-1)"
        assert finding.fix.startswith(f"To train it, write {written}. Otherwise, ")
        del optimizer

    def test_what_is_made_after_an_optimizer_of_frozen_parameters_is_told_with_both_facts(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.requires_grad_(False)
        model[2] = nn.Linear(8, 1)
        finding = one(bs.audit(model(torch.randn(3, 4)).mean()), "BS101")
        assert finding.title == "model.2.weight and model.2.bias require grad, but no optimizer updates them."
        assert finding.evidence[0] == (
            "The loss depends on them, but optimizer does not hold them: all 4 parameters in it are frozen."
        )
        assert finding.fix.endswith(
            "the parameters that require grad: [p for p in model.parameters() if p.requires_grad]."
        )
        del optimizer

    def test_an_input_whose_gradient_is_used_is_a_note_beside_an_optimizer_of_frozen_parameters(self) -> None:
        model, pixels = mlp(), torch.randn(3, 4, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.requires_grad_(False)
        loss = model(pixels).mean()
        assert one(bs.audit(loss), "BS101").severity == "note"
        loss.backward()
        assert pixels.grad is not None
        del optimizer

    @pytest.mark.parametrize("level", ["lines", "exact"])
    def test_where_a_watch_saw_it_used_first_is_shown_of_what_no_variable_holds(self, level: Level) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def residual(x: torch.Tensor) -> torch.Tensor:
            t = x.clone().requires_grad_()
            return (2 * t).sum() + t.sin().sum()

        with bs.watch(level=level):
            finding = one(bs.audit(model(torch.randn(3, 4)).mean() + residual(torch.randn(3))), "BS101")
        assert str(finding.evidence[-1]).endswith("uses it first.")
        assert "(2 * t).sum()" in str(finding.evidence[-1])
        del optimizer

    def test_a_list_of_parameters_gets_one_more(self) -> None:
        model = mlp()
        scale = torch.ones(1, requires_grad=True)
        delta = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)
        finding = one(bs.audit((model(torch.randn(3, 4)) * scale + delta).mean()), "BS101")
        assert "write optimizer = torch.optim.SGD([*model.parameters(), scale, delta], lr=0.1). " in finding.fix
        del optimizer

    def test_a_name_that_an_argument_or_a_second_statement_may_have_given_is_not_shown(self) -> None:
        model = mlp()

        def audited(delta: torch.Tensor | None = None) -> Finding:
            if delta is None:
                delta = torch.zeros(1, requires_grad=True)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            finding = one(bs.audit((model(torch.randn(3, 4)) + delta).mean()), "BS101")
            del optimizer
            return finding

        assert audited(torch.zeros(1, requires_grad=True)).source is None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        delta = torch.zeros(1, requires_grad=True)  # too late to be given to it
        found = one(bs.audit((model(torch.randn(3, 4)) + delta).mean()), "BS101")
        assert [each.text for each in map(evidence_of, found.evidence[1:])] == ["assigns delta, which requires grad."]
        del optimizer

    def test_modules_in_a_plain_list_are_to_be_registered(self) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers, self.head = [nn.Linear(4, 4), nn.Linear(4, 4)], nn.Linear(4, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.head(self.layers[1](self.layers[0](x)))

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        finding = one(bs.audit(net(torch.randn(3, 4)).mean()), "BS101")
        assert finding.title.startswith("net.layers[0].weight and 3 more require grad")
        assert finding.fix == (
            "Make it an nn.ModuleList: self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]). "
            "net.parameters() does not look inside a plain list."
        )
        del optimizer

    @pytest.mark.parametrize("of_program", [False, True], ids=["library", "program"])
    def test_a_buffer_is_the_affair_of_the_library_whose_module_holds_it(self, of_program: bool) -> None:
        class Quantizer(nn.Module):
            pass

        quantizer, model = Quantizer() if of_program else nn.Identity(), mlp()
        quantizer.register_buffer("zero", torch.zeros((), requires_grad=True))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = quantizer.zero + model(torch.randn(3, 4)).mean()
        assert codes(bs.audit(loss)) == (["BS101"] if of_program else [])
        del optimizer

    def test_a_leaf_in_a_group_of_its_own_is_in_order(self) -> None:
        model, delta = mlp(), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": [delta], "lr": 1.0}], lr=0.1)
        assert not bs.audit((model(torch.randn(3, 4)) + delta).mean()).findings
        del optimizer

    def test_a_leaf_added_later_is_in_order(self) -> None:
        model, delta = mlp(), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.add_param_group({"params": [delta]})
        assert not bs.audit((model(torch.randn(3, 4)) + delta).mean()).findings

    def test_a_leaf_in_a_closure_is_named(self) -> None:
        def offset_model() -> nn.Module:
            offset = torch.zeros(1, requires_grad=True)

            class Offset(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    return x + offset

            return Offset()

        model = nn.Sequential(mlp(), offset_model())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit(model(torch.randn(3, 4)).mean()), "BS101")
        assert finding.title.startswith("offset requires grad")
        del optimizer

    def test_a_whole_module_outside_is_one_finding(self) -> None:
        model, extra = mlp(), nn.Linear(1, 1)
        layers = [extra]  # a plain list: model.parameters() does not see it
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit(layers[0](model(torch.randn(3, 4))).mean()), "BS101")
        assert finding.title == "extra.weight and extra.bias require grad, but no optimizer updates them."
        told, left_out = finding.evidence
        assert told == "The loss depends on them, but optimizer does not hold them."
        assert str(left_out).split("  ")[1].startswith("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
        assert "leaves them out." in str(left_out)
        del optimizer

    def test_a_model_through_which_an_input_is_optimised_is_a_note(self) -> None:
        model, image = mlp(), torch.randn(3, 4, requires_grad=True)
        optimizer = torch.optim.Adam([image])
        finding = one(bs.audit(model(image).mean()), "BS101")
        assert finding.severity == "note"
        assert finding.evidence[1] == "Only image is optimized here, and no parameter of model."
        assert finding.fix == (
            "Nothing to do if model should not be trained: requires_grad_(False) on it saves the time and memory for "
            "its gradients."
        )
        del optimizer

    def test_a_model_beside_one_that_is_optimised_is_a_warning(self) -> None:
        encoder, head, prompt = nn.Linear(4, 4), nn.Linear(4, 1), torch.randn(4, requires_grad=True)
        optimizer = torch.optim.Adam([prompt, *head.parameters()])
        finding = one(bs.audit(head(encoder(prompt)).mean()), "BS101")
        assert (finding.severity, finding.title.partition(" ")[0]) == ("warning", "encoder.weight")
        del optimizer

    def test_a_head_that_was_replaced_after_the_optimizer_was_made(self) -> None:
        net = mlp()
        optimizer = torch.optim.Adam(net.parameters())
        net[2] = nn.Linear(8, 2)
        finding = one(bs.audit(net(torch.randn(3, 4)).mean()), "BS101")
        assert finding.severity == "warning"
        built, replaced = [each.place.line for each in map(evidence_of, finding.evidence) if each.place is not None]
        assert finding.fix == f"Create optimizer after this: move line {built} below line {replaced}."
        del optimizer

    def test_a_head_that_is_replaced_again_and_again(self) -> None:
        net = mlp()
        optimizer = torch.optim.Adam(net.parameters())
        for width in (2, 3):
            net[2] = nn.Linear(8, width)
        assert one(bs.audit(net(torch.randn(3, 4)).mean()), "BS101").fix == (
            "Create optimizer again after each replacement of a module: it holds 2 parameters that nothing else uses "
            "anymore, but not these."
        )
        del optimizer

    def test_a_replaced_module_and_a_parameter_of_its_own_are_two_findings(self) -> None:
        net = nn.Module()
        net.body, net.head = nn.Linear(4, 8), nn.Linear(8, 2)
        optimizer = torch.optim.Adam(net.parameters())
        net.head = nn.Linear(8, 3)
        temperature = nn.Parameter(torch.ones(()))
        found = bs.audit((net.head(net.body(torch.randn(3, 4))) * temperature).mean()).findings
        replaced, own = [each for each in found if each.code == "BS101"]
        assert replaced.title == "net.head.weight and net.head.bias require grad, but no optimizer updates them."
        line = replaced.evidence[1].place.line
        assert str(replaced.evidence[1]).endswith("replaces net.head, whose old parameters optimizer still holds.")
        assert replaced.fix == (
            f"Create optimizer after line {line}. It still holds the 2 parameters of the old net.head."
        )
        assert own.title == "temperature requires grad, but no optimizer updates it."
        assert own.fix == (
            f"Create optimizer after line {line + 1}, with temperature as well: "
            "optimizer = torch.optim.Adam([*net.parameters(), temperature])."
        )
        del optimizer

    def test_many_leaves_are_counted_once(self) -> None:
        net = nn.Module()
        net.layers = [nn.Linear(4, 4) for _ in range(3)]
        net.head = nn.Linear(4, 1)
        optimizer = torch.optim.Adam(net.parameters())
        x = torch.randn(3, 4)
        for layer in net.layers:
            x = layer(x)
        del layer
        finding = one(bs.audit(net.head(x).mean()), "BS101")
        assert finding.title.startswith("net.layers[0].weight and 5 more require grad")
        assert finding.evidence[0] == (
            "The loss depends on them (parameters of net.layers[0], net.layers[1] and net.layers[2]), but optimizer "
            "does not hold them."
        )
        del optimizer

    def test_without_any_optimizer_there_is_nothing_to_say(self) -> None:
        weight = torch.zeros(2, requires_grad=True)
        assert not bs.audit((weight * 2).sum()).findings

    def test_an_optimizer_of_another_model_is_not_held_against_a_leaf(self) -> None:
        other = torch.optim.SGD(mlp().parameters(), lr=0.1)
        weight = torch.zeros(2, requires_grad=True)
        assert not bs.audit((weight * 2).sum()).findings
        del other

    def test_the_critic_of_another_optimizer_is_in_order_even_if_only_one_optimizer_was_given(self) -> None:
        generator, critic = mlp(), nn.Linear(1, 1)
        opt_g, opt_d = torch.optim.SGD(generator.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
        loss = critic(generator(torch.randn(3, 4))).mean()
        assert not bs.audit(loss, optimizer=opt_g).findings
        del opt_d

    def test_an_input_that_is_differentiated_is_a_note(self) -> None:
        model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        place = torch.rand(3, 1, requires_grad=True)
        (slope,) = torch.autograd.grad(model(place).sum(), place, create_graph=True)
        finding = one(bs.audit(slope.pow(2).mean()), "BS101")
        assert (finding.severity, finding.title) == (
            "note",
            "place requires grad, but no optimizer updates it.",
        )
        assert finding.evidence[1] == ("This loss contains gradients (create_graph=True) with respect to such leaves.")
        assert finding.fix == "Nothing to do if you only want its gradient. Otherwise, add it to an optimizer."
        del optimizer

    def test_a_leaf_that_is_updated_by_hand_is_a_note_that_says_where(self) -> None:
        model, scale = mlp(), torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        finding = one(bs.audit((scale * model(torch.randn(3, 4))).mean()), "BS101")
        assert finding.severity == "note"
        line = self.test_a_leaf_that_is_updated_by_hand_is_a_note_that_says_where.__code__.co_firstlineno + 8
        assert finding.evidence[1] == f"Its gradient is used on line {line}."
        with torch.no_grad():
            scale -= 0 if scale.grad is None else scale.grad
        del optimizer

    def test_printing_the_gradient_of_a_forgotten_leaf_does_not_excuse_it(self) -> None:
        model, bias = mlp(), torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert one(bs.audit((bias * model(torch.randn(3, 4))).mean()), "BS101").severity == "warning"
        print(bias.grad)
        del optimizer

    def test_a_new_leaf_in_each_step_is_an_input(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        severities = []
        for _ in range(3):
            fresh = torch.randn(3, 4, requires_grad=True)
            severities.append(one(bs.audit(model(fresh).mean()), "BS101").severity)
        assert severities == ["warning", "note", "note"]
        del optimizer


class TestOverwrittenLeaf:
    def test_a_variable_that_took_its_own_result(self) -> None:
        model, delta = mlp(), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        delta = delta / 2
        finding = one(bs.audit((model(torch.randn(3, 4)) * delta).mean()), "BS107")
        assert (finding.severity, finding.exact) == ("warning", False)
        assert finding.title == "delta (overwritten) is a leaf that no variable holds anymore."
        *shown, last = finding.evidence
        assert [(each.place.text, each.text, each.certainty) for each in shown] == [
            ("model, delta = mlp(), torch.zeros(1, requires_grad=True)", "creates delta, the leaf.", "read"),
            ("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "leaves it out.", "held"),
            ("delta = delta / 2", "rebinds delta, the leaf, to a result computed from it.", "read"),
        ]
        assert finding.source == str(shown[-1].place)
        assert last == "Its gradient can no longer be read, and no optimizer updates it."
        assert finding.fix == (
            "Give the result another name, keep the leaf's name, and recompute the result in each step."
        )
        del optimizer

    def test_an_optimizer_that_still_holds_it_is_named(self) -> None:
        delta = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([delta], lr=0.1)
        delta = delta + 1
        evidence = one(bs.audit(delta.mean()), "BS107").evidence
        assert evidence[1].text == "passes it to optimizer."
        assert evidence[-1] == "Its gradient can no longer be read, and optimizer still updates it."
        del optimizer

    def test_a_result_with_a_name_of_its_own_is_in_order(self) -> None:
        delta = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([delta], lr=0.1)
        scaled = delta / 2
        assert codes(bs.audit(scaled.mean())) == []
        del optimizer

    def test_a_parameter_of_a_module_is_never_lost(self) -> None:
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        weight = model[0].weight
        weight = weight * 2
        assert not of(bs.audit(weight.sum() + model(torch.randn(3, 4)).mean()), "BS107")
        del optimizer


@pytest.mark.parametrize("set_up", [torch.nn.Identity, torch.nn.Tanh])
def test_a_hidden_state_made_in_a_function_that_has_returned_is_a_note(set_up: type[nn.Module]) -> None:
    model, extra = mlp(), set_up()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def penalty() -> torch.Tensor:
        mixed = torch.randn(3, 4).requires_grad_()
        return extra(model(mixed)).mean()

    finding = one(bs.audit(penalty()), "BS101")
    assert finding.severity == "note"
    assert finding.evidence[1] == "No variable holds it anymore, so it lives only for this step."
    del optimizer


def test_what_is_converted_after_it_was_made_a_parameter_is_to_be_converted_before():
    from backsight.diagnosis.rules.leaf_without_optimizer import _converted_first

    assert _converted_first("nn.Parameter(torch.randn(n, dim) * 0.5).to(device)") == (
        "(torch.randn(n, dim) * 0.5).to(device)"
    )
    assert _converted_first("nn.Parameter(torch.zeros(3)).cuda()") == "torch.zeros(3).cuda()"
    assert _converted_first("zeros.clone()") == "zeros.clone()"
