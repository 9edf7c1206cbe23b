"""A weight that one program shares and the other has twice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import backsight as bs


class Words(nn.Module):
    def __init__(self, tied: bool):
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(12, 8), nn.Linear(8, 12)
        if tied:
            self.decoder.weight = self.encoder.weight
        else:
            self.decoder.weight.data.copy_(self.encoder.weight.data)

    def forward(self, words: Tensor) -> Tensor:
        return self.decoder(torch.tanh(self.encoder(words)))


def trained(path: Path, tied: bool, clip: bool = True) -> Path:
    torch.manual_seed(0)
    model = Words(tied)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    words = torch.randint(12, (16,), generator=torch.Generator().manual_seed(1))
    with bs.trace(path, steps=(0, 1)):
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(words), words.roll(1)).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
    return path


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("name", ["A", "B"])
def test_a_lost_tie_is_named_and_not_what_comes_of_it(tmp_path, name, clip):
    ours, theirs = trained(tmp_path / "a", name == "B", clip), trained(tmp_path / "b", name == "A", clip)
    difference = bs.diff(ours, theirs)
    assert [each.code for each in difference.findings] == ["BS507"], difference.text()
    other = "A" if name == "B" else "B"
    assert difference.origin.reasons == (
        f"{other} shares one weight, model.encoder.weight; {name} has 2 that start equal, model.encoder.weight "
        "and model.decoder.weight, each with a gradient of its own",
    )
    assert ": model.decoder.weight = model.encoder.weight." in difference.first.fix
    assert "return self.decoder(" in difference.origin.origin.places[0].text


def test_weights_that_both_programs_have_twice_are_no_lost_tie(tmp_path):
    assert bs.diff(trained(tmp_path / "a", False), trained(tmp_path / "b", False)).same
