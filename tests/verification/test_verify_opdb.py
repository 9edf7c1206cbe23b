"""PyTorch's database of operators as a test set: none is accused, and faults put into their backwards are found.

`bench/verify.py` does the same with every operator and more samples of each, and times it.
"""

from __future__ import annotations

import warnings

import pytest
from mutants import FAULTS, score, tallied
from samples import samples

import backsight as bs

SHARDS = 4
TESTED = (110, 110, 110, 110)
"""At least so many samples in each shard, so that the test cannot silently test nothing."""


@pytest.mark.parametrize("shard", range(SHARDS))
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
    assert tested >= TESTED[shard]


def test_faults_are_found_and_right_backwards_are_not_accused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tallies = tallied(samples(1, 1, 8))
    assert tallies["none"].caught == 0 and tallies["none"].equivalent > 40
    assert score(tallies) >= 0.995, {name: tally.missed for name, tally in tallies.items()}
    assert all(tallies[name].caught > 20 for name in FAULTS if name != "none")
