"""Lines of JSON: any name comes back, any flipped bit is noticed, nothing of the user's is run."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import enum
import json
import math
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backsight.runs import lines

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda held: st.lists(held, max_size=4) | st.dictionaries(st.text(), held, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=4))
def test_an_object_comes_back(values: dict[str, object]) -> None:
    values.pop("crc", None)
    values["x"] = 1
    line = lines.sealed(values)
    assert lines.opened(line[:-1]) == values
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert json.loads(line)["x"] == 1


def test_every_flipped_bit_is_noticed() -> None:
    values = {"id": 3, "name": "a/../b\n<b>é\U0001f525", "crc": "no"}
    line = lines.sealed({"held": values})[:-1]
    for at in range(len(line) * 8):
        bad = bytearray(line)
        bad[at // 8] ^= 1 << at % 8
        with pytest.raises(lines.BadLine):
            lines.opened(bytes(bad))


def test_a_cut_last_line_waits_and_a_damaged_one_is_counted() -> None:
    whole = lines.sealed({"a": 1}) + b"{}\n" + lines.sealed({"a": 2})
    found = lines.read(whole + lines.sealed({"a": 3})[:-4], {})
    assert [held["a"] for held in found.objects] == [1, 2]
    assert (found.damaged, found.torn, found.size) == (1, True, len(whole))


def test_floats_that_json_does_not_know() -> None:
    line = lines.sealed({"loss": float("nan"), "most": [math.inf, -math.inf]})
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    held = lines.opened(line[:-1])
    assert math.isnan(held["loss"])
    assert held["most"] == [math.inf, -math.inf]


def test_numbers_of_numpy_paths_and_subclasses_become_plain() -> None:
    class Name(str):
        def __str__(self) -> str:
            raise AssertionError("nothing of the user's is run")

    held = lines.plain({"n": np.int64(3), "x": np.float32(0.5), "at": Path("a/b"), "name": Name("fc"), 7: (1, {2})})
    assert held == {"n": 3, "x": 0.5, "at": "a/b", "name": "fc", "7": [1, [2]]}


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Settings:
    sizes: tuple[int, ...] = (8, 8)
    name: str = dataclasses.field(init=False)


def test_of_what_holds_others_the_contents_are_kept() -> None:
    Pair = collections.namedtuple("Pair", "low high")
    held = lines.plain(
        {
            "shape": torch.Size([2, 3]),
            "pair": Pair(1, [2]),
            "options": argparse.Namespace(lr=0.1, betas=(0.9, 0.99)),
            "more": types.SimpleNamespace(x=1),
            "settings": Settings(),
            "colour": Colour.RED,
            "layer": torch.nn.ReLU,
            "day": datetime.date(2026, 1, 31),
        }
    )
    assert held == {
        "shape": [2, 3],
        "pair": {"low": 1, "high": [2]},
        "options": {"lr": 0.1, "betas": [0.9, 0.99]},
        "more": {"x": 1},
        "settings": {"sizes": [8, 8]},
        "colour": "Colour.RED",
        "layer": "<torch.nn.modules.activation.ReLU>",
        "day": "2026-01-31",
    }


def test_an_unknown_object_is_only_named() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("nothing of the user's is run")

        __str__ = __hash__ = __repr__

    assert lines.plain(Loud()).endswith("Loud>")


def test_a_list_that_holds_itself_ends() -> None:
    ring: list[object] = []
    ring.append(ring)
    json.dumps(lines.plain(ring))
