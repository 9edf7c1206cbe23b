"""Silent faults of strangers: what is told of each training stays told, and nothing is of those that are in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from of_strangers_silent import TOLD, files, told

ACCEPTED = json.loads(TOLD.read_text(encoding="utf-8"))


@pytest.mark.long
@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_what_is_told_is_as_accepted(file: Path) -> None:
    assert told(file) == ACCEPTED[file.stem]


def test_of_those_that_are_in_order_nothing_is_told() -> None:
    assert {name: codes for name, codes in ACCEPTED.items() if name.startswith("h") and codes} == {}


def test_no_fewer_faults_are_told() -> None:
    assert sum(bool(codes) for name, codes in ACCEPTED.items() if name.startswith("s")) >= 70
