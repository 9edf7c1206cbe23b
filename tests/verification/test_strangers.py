"""Functions of strangers: each wrong one is found, no right one is accused, and what is said of each is as accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from of_strangers import TOLD, files, name_of, told


@pytest.mark.parametrize("file", files(), ids=name_of)
def test_what_is_said_is_as_accepted(file: Path) -> None:
    codes = told(file)
    assert (codes == ["ok"]) is file.name.startswith("r")
    assert codes == json.loads(TOLD.read_text(encoding="utf-8"))[name_of(file)]


def test_nothing_that_was_explained_is_lost() -> None:
    accepted = json.loads(TOLD.read_text(encoding="utf-8"))
    wrong = [codes for name, codes in accepted.items() if name.partition("/")[2].startswith("w")]
    assert len(wrong) == 75 and sum(codes != ["BS400"] for codes in wrong) >= 66
