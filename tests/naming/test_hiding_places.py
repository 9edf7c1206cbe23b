"""A tensor is found wherever it hides, and called what the program would call it there."""

from __future__ import annotations

from collections.abc import Callable

import places_in_code
import places_in_data
import places_in_objects
import places_in_torch
import pytest
from hiding import PLACES, Built

from backsight.naming import search

_ = places_in_code, places_in_data, places_in_objects, places_in_torch  # their functions have registered themselves


@pytest.mark.parametrize(("build", "expected"), PLACES)
def test_a_tensor_is_found_where_it_hides(build: Callable[[], Built], expected: str) -> None:
    holder, hidden = build()
    names = search([hidden()]).names[0]
    assert [name.text for name in names[:1]] == [expected]
    assert holder is not None


def test_every_target_is_found_in_one_pass() -> None:
    built = [param.values[0]() for param in PLACES]
    found = search([hidden() for _, hidden in built])  # no variable holds this list, or it would name them all
    assert len(found.names) >= 34
    assert [PLACES[at].id for at, names in enumerate(found.names) if not names] == []
    assert not any(name.path.startswith("hidden") for names in found.names for name in names)
