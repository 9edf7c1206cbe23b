"""PyTorch's database of operators as a test set: none is accused, and faults put into their backwards are found.

`bench/verify.py` does the same with every operator and more samples of each, and times it.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from mutants import FAULTS, score, tallied
from samples import samples
from sharded import shards

import backsight as bs

SHARDS, TESTED = 8, 45
"""At least so many samples in each shard, so that the test cannot silently test nothing."""

MODULE_SHARDS = 4


@pytest.mark.parametrize("shard", shards(SHARDS))
def test_no_operator_of_pytorch_is_accused(shard: int) -> None:
    tested = 0
    for sample in samples(1, shard, SHARDS):
        call, inputs = sample.of_inputs()
        if sample.name == "as_strided":  # a copy of its input has less memory behind it
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                report = bs.verify(call, *inputs)
            except bs.NothingToVerify:
                continue
        assert not report.findings, f"{sample.name}: {report}"
        assert not [each for each in report.skipped if "its test raised" in each.why], f"{sample.name}: {report}"
        tested += bool(report.checked)
    assert tested >= TESTED


@pytest.mark.parametrize("every", [48, pytest.param(8, marks=pytest.mark.long)])
def test_faults_are_found_and_right_backwards_are_not_accused(every: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tallies = tallied(samples(1, 1, every))
    assert tallies["none"].caught == 0 and tallies["none"].equivalent > 320 // every
    assert score(tallies) >= 0.995, {name: tally.missed for name, tally in tallies.items()}
    assert all(tallies[name].caught > 160 // every for name in FAULTS if name != "none")


@pytest.mark.parametrize("shard", shards(MODULE_SHARDS))
def test_no_module_of_pytorch_is_accused_and_its_state_is_put_back(shard: int) -> None:
    from torch.testing._internal.common_modules import module_db

    tested = 0
    for info in module_db[shard::MODULE_SHARDS]:
        if "FractionalMaxPool" in info.name:  # its samples do not fit it
            continue
        torch.manual_seed(0)
        given = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
        for each in given[:3]:
            module = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs)
            before = {n: b.clone() for n, b in module.named_buffers() if not torch.nn.parameter.is_lazy(b)}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                report = bs.verify(module, *each.forward_input.args, **each.forward_input.kwargs)
            assert not report.findings, f"{info.name}: {report}"
            assert all(torch.equal(before[name], dict(module.named_buffers())[name]) for name in before), info.name
            tested += report.ok
    assert tested > 50
