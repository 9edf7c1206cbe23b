"""BS302, BS303: gradients and activations through depth."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from audits import codes, one
from recorded import EVERYTHING, batch, layers, train
from torch import nn

import backsight as bs
from backsight.diagnosis.recordings.depth import Architecture
from backsight.diagnosis.recordings.recording import Recording


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def scaled(model: nn.Module, gain: float) -> nn.Module:
    """Weights so many times as large as ReLU needs."""
    for each in model.modules():
        if isinstance(each, nn.Linear):
            nn.init.kaiming_normal_(each.weight)
            each.weight.data *= gain
            nn.init.zeros_(each.bias)
    return model


def slow(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-4)


class TestVanishing:
    def test_sigmoids_one_after_the_other_are_found(self, tmp_path: Path) -> None:
        model = layers(10, nn.Sigmoid)
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS302")
        assert finding.severity == "warning"
        assert finding.title.startswith("Gradients vanish through 11 layers: a factor of 0.1")
        assert finding.title.endswith(" from each layer to the previous one.")
        assert finding.evidence[0].startswith("Norms, median of 20 steps: 0.weight ")
        assert finding.evidence[1] == "The first layers hardly learn."

    def test_the_order_is_that_of_the_forward_pass_and_not_of_the_attributes(self, tmp_path: Path) -> None:
        class Shuffled(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.last = nn.Linear(32, 1), nn.Linear(8, 32)
                self.between = nn.ModuleList(nn.Linear(32, 32) for _ in range(9))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = self.last(x).sigmoid()
                for k in (4, 8, 0, 2, 6, 1, 3, 5, 7):
                    x = self.between[k](x).sigmoid()
                return self.first(x)

        model = Shuffled()
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS302")
        assert finding.evidence[0].startswith("Norms, median of 20 steps: last.weight ")

    def test_a_signal_that_dies_on_its_way_forward_is_found(self, tmp_path: Path) -> None:
        model = scaled(layers(10), 0.2)
        finding = one(train(tmp_path / "run", model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-6)), "BS302")
        assert finding.title.startswith("Activations vanish through 11 layers: a factor of 0.")
        assert finding.evidence[1] == "The last layers hardly see the data."

    def test_the_fix_of_plain_layers_is_what_they_lack(self, tmp_path: Path) -> None:
        model = layers(10, nn.Sigmoid)
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS302")
        assert finding.fix == (
            "Use ReLU or GELU instead of Sigmoid; or initialize weights for the activation "
            "(torch.nn.init.kaiming_normal_) and add normalization layers; or add residual connections."
        )

    def test_an_activation_that_is_no_module_is_known_by_the_graph(self, tmp_path: Path) -> None:
        class Deep(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(12)])
                self.out = nn.Linear(8, 1)
                for each in self.layers:
                    nn.init.normal_(each.weight, std=0.05)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for each in self.layers:
                    x = torch.tanh(each(x))
                return self.out(x)

        model = Deep()
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS302")
        assert finding.fix == (
            "Use ReLU or GELU instead of Tanh; or initialize weights for the activation (torch.nn.init.xavier_normal_ "
            "with a gain of 5/3 for tanh) and add normalization layers; or add residual connections."
        )

    def test_a_model_with_normalization_and_residuals_is_not_told_to_add_them(self, tmp_path: Path) -> None:
        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)
                self.linear.bias.data = torch.tensor([2.0, -2.0] * 16)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                normal: torch.Tensor = self.norm(0.2 * x + self.linear(x).tanh())
                return normal

        model = nn.Sequential(nn.Linear(8, 32), *(Block() for _ in range(24)), nn.Linear(32, 1))
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS302")
        assert finding.fix == (
            "Use ReLU or GELU instead of Tanh; or normalize the input of each block instead of its output, or warm up "
            "the learning rate."
        )

    @pytest.mark.parametrize("first", [False, True])
    def test_the_blocks_of_a_transformer_are_known(self, tmp_path: Path, first: bool) -> None:
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=first)
        model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with bs.record(model, optimizer, tmp_path / "run"):
            model(torch.randn(2, 5, 16)).square().mean().backward()
            optimizer.step()
        recording = Recording(bs.open_run(tmp_path / "run"))
        found = Architecture.of(recording, [(tensor.name, 0.0, 0) for tensor in recording.kinds["grad"]])
        assert found == Architecture((), 8, normalizes_after=not first, has_norm_first=not first, residual=True)

    def test_residual_connections_are_in_order(self, tmp_path: Path) -> None:
        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(32, 32)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + self.linear(x).sigmoid() - 0.5

        model = nn.Sequential(nn.Linear(8, 32), *(Block() for _ in range(10)), nn.Linear(32, 1))
        assert not train(tmp_path / "run", model, optimizer=slow(model), taps=EVERYTHING).findings

    def test_four_layers_are_not_enough_to_speak_of_depth(self, tmp_path: Path) -> None:
        model = layers(3, nn.Sigmoid)
        assert "BS302" not in codes(train(tmp_path / "run", model, optimizer=slow(model)))

    def test_nine_steps_are_not_enough(self, tmp_path: Path) -> None:
        model = layers(10, nn.Sigmoid)
        assert "BS302" not in codes(train(tmp_path / "run", model, optimizer=slow(model), steps=9))

    def test_one_layer_that_hardly_gets_a_gradient_is_not_depth(self, tmp_path: Path) -> None:
        model = scaled(layers(8), 1.0)

        def loss(step: int) -> torch.Tensor:
            x, y = batch()
            return (model(x * 1e-6) - y).square().mean()  # the first layer is given next to nothing

        for each in model[::2]:
            nn.init.constant_(each.bias, 0.1)
        assert "BS302" not in codes(train(tmp_path / "run", model, loss, slow(model)))


class TestExploding:
    def test_a_signal_that_grows_on_its_way_forward_is_found(self, tmp_path: Path) -> None:
        model = scaled(layers(10), 4.0)
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS303")
        assert finding.severity == "warning"
        assert finding.title.startswith("Activations explode through 11 layers: a factor of ")
        assert finding.evidence[1] == "Gradients that pass through these layers are multiplied the same way."

    def test_gradients_that_grow_on_their_way_back_are_found(self, tmp_path: Path) -> None:
        """sin keeps the signal as it is, but not the gradient."""

        class Sine(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x.sin()

        model = scaled(layers(10, Sine), 6.0)
        model[-1].weight.data /= 6
        finding = one(train(tmp_path / "run", model, optimizer=slow(model)), "BS303")
        assert finding.title.startswith("Gradients explode through 11 layers: a factor of ")
        assert finding.title.endswith(" from each layer to the previous one.")

    def test_the_right_scale_is_in_order_however_deep(self, tmp_path: Path) -> None:
        model = scaled(layers(40), 1.0)
        assert not train(tmp_path / "run", model, optimizer=slow(model), taps=EVERYTHING).findings

    def test_two_models_are_not_one_after_the_other(self, tmp_path: Path) -> None:
        """A loss that is weighted differently makes all gradients of a model smaller, through no depth."""
        first, second = scaled(layers(4), 1.0), scaled(layers(4), 1.0)
        optimizers = [slow(first), slow(second)]
        with bs.record({"first": first, "second": second}, optimizers, run=tmp_path / "run") as rec:
            for _ in range(20):
                for model, optimizer, weight in ((first, optimizers[0], 1e-8), (second, optimizers[1], 1.0)):
                    x, y = batch()
                    optimizer.zero_grad()
                    ((model(x) - y).square().mean() * weight).backward()
                    optimizer.step()
        assert not bs.open_run(rec.run).audit().findings
