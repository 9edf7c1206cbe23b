"""examples/release_study.ipynb: what is claimed of gradient release is what the cells show."""

import re

import pytest

pytestmark = pytest.mark.long

NOTEBOOK = "release_study.ipynb"

PLOT = "image/png"

SHOWS = {
    "setup": [],
    "model": ["in the backward pass, at AddmmBackward0 in layer `0.0`", "gradients 6.16 MB"],
    "plot": [PLOT],
    "by-layer": [],
    "hooks": [],
    "in-vain": [
        "hooks          16 of 16 tensors have moved, 0 gradients are left over",
        "hooks in vain  1 of 16 tensors have moved, 15 gradients are left over",
    ],
    "release": ["<Release of AdamW: steps 16 parameters inside backward"],
    "same": [
        "layer by layer  True    True",
        "hooks           True    True",
        "hooks in vain   False   False",
        "bs.release      True    True",
    ],
    "curves": [PLOT],
    "refused": ["NotReleasable: NormalizedSGD does not step each parameter by itself"],
    "memory": ["all gradients:   6.16 MiB"],
    "memory-plot": [PLOT],
    "nothing": ["in the backward pass"],
    "time": ["ordinary", "layer by layer", "hooks", "bs.release"],
    "clipping": ["ordinary  norms from", "two-pass", "weights differ by 0e+00 at most"],
    "accumulation": ["weights equal: True", "is used in another forward before optimizer.step()"],
    "checkpoint": ["ordinary, then released: True\nand ordinary again:      True"],
}


def numbers(text, pattern):
    return [float(found) for found in re.findall(pattern, text)]


def test_every_cell_shows_what_the_prose_claims(outputs, lacking):
    assert lacking(SHOWS) == {}

    ordinary, by_layer, released = numbers(outputs["memory"], r"([\d.]+) MiB above")
    assert by_layer < ordinary / 2 and released < ordinary / 3
    assert ordinary - released > 0.7 * 6.16  # it saves the gradients
    assert numbers(outputs["memory"], r"([\d.]+) MiB with")[0] < 1.5

    ordinary, released = numbers(outputs["nothing"], r"([\d.]+) MiB above")
    assert abs(released / ordinary - 1) < 0.02  # with activations at the peak it saves nothing

    factored, two_pass = numbers(outputs["clipping"], r"differ by (\S+)")
    assert 0 < factored < 1e-6 and two_pass == 0
    norms = numbers(outputs["clipping"], r"(0\.\d{4})")
    assert min(norms[:2]) > 0.1  # all are clipped, so there was something to compare
    assert norms[1] == norms[2] == norms[3]
