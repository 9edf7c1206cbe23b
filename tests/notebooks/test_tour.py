"""The tour in examples/autograd_tour.ipynb: every cell runs, and shows what the prose claims."""

import re

import pytest

NOTEBOOK = "autograd_tour.ipynb"

SVG, PAGE, PLOT = "<svg", "<iframe srcdoc=", "image/png"

# What a cell shows.
SHOWS = {
    "setup": [],
    "formula": [SVG, "4 operations, 2 leaves, 12 B saved for backward"],
    "facts": ["#1  SinBackward0   reads x2", "#3  MulBackward0   reads x1, x2", "AccumulateGrad is where x1 waits"],
    "ran": ["once:       2 operations", "five times: 10 operations", "◉─┘  0  Add"],
    "next-functions": ["MulBackward0\nAddBackward0\nPowBackward0\nAccumulateGrad"],
    "chain-rule": [
        "MulBackward0 #0 <- AddBackward0 #1 <- PowBackward0 #2 <- x",
        "Mul: 1 arrives, times 3, 3 leaves\nAdd: 3 arrives, times 1, 3 leaves\nPow: 3 arrives, times 4, 12 leaves",
        "x.grad is 12",
    ],
    "saved-tensors": ["Sin  keeps self   = 0.7500", "Log  keeps self   = 0.3750", "Mul  keeps other  = 0.6816"],
    "saved-results": [
        "Add      keeps nothing",
        "Sin      keeps self",
        "Exp      keeps result",
        "Relu     keeps result",
    ],
    "walk-page": [PAGE],
    "walk-table": [
        "→ x2",
        "0.1912 (Σ of 2)",
        "dw/dx1  walked 1.3633   by hand 1.3633",
        "dw/dx2  walked 0.1912   by hand 0.1912",
    ],
    "many-paths": ["1,125,899,906,842,624 paths through 51 nodes", "51 steps, gradient 1,125,899,906,842,624"],
    "jacobian-shapes": [PLOT, "identity", "diagonal", "permutation", "a @ b         9×12 sparse"],
    "jacobian-check": ["checked against forward-mode AD: agrees "],
    "mse-walk": [
        "Mean  J is 1×8 dense",
        "Pow   J is 8×8 diagonal",
        "Sub   J is 8×8 identity",
        "is weight.grad: True",
        "48 numbers",
    ],
    "mse-permuted": [
        "(4, 2, 3, 2)",
        "permuted:   True",
        "contracted: True",
        "48 numbers, 24 of them not zero, 12 different",
    ],
    "mse-page": [PAGE],
    "non-leaf": ["x.grad      tensor([8., 8., 8.])\nhidden.grad None", "not a leaf Tensor is being accessed"],
    "retain-grad": [
        "arrives at hidden:       tensor([4., 4., 4.])",
        "kept by retain_grad():   tensor([4., 4., 4.])",
    ],
    "without": [
        "x * w                    reaches ['x', 'w']",
        "x.detach() * w           reaches ['w']",
        "x.detach() * w + x       reaches ['w', 'x']",
        "x.requires_grad = False  reaches ['w']",
        "with torch.no_grad():    reaches nothing",
        "@torch.no_grad()         reaches nothing",
        "@torch.no_grad           reaches nothing",
        "and the numbers agree: True",
    ],
    "frozen": [SVG, ">net.0</text>", ">net.2</text>", "in an optimizer"],
    "freed": ["Trying to backward through the graph a second time", "BS201", "(loss + penalty).backward()"],
    "freed-drawn": [SVG, "2 operations freed by a backward"],
    "freed-asleep": ["not a word"],
    "freed-fixed": ["7.6443,  43.7878, 289.0381"],
    "versions": ["saved: 0", "now:               1", "saved its result at version 0, now 1: modified"],
    "audit": ["BS104", "backward will raise", "has been modified by an inplace operation"],
    "in-place-harmless": ["tensor(["],
    "hooks": ["passing y:   tensor([12., 16.])\narriving at x: tensor([12., 12.])\nnow in x.grad: tensor([12., 12.])"],
    "hooks-walk": ["without the hooks: tensor([24., 32.])", "hooks do not run in a walk; there are some on x"],
    "micro-batches": ["four quarters equal the whole: True"],
    "train": ["never zeroed is momentum 1.0, bit for bit: True"],
    "curves": [PLOT],
    "stale": ["BS103", "2 gradients have not been zeroed"],
    "custom": [
        "Softplus gives x the gradient tensor([0.2689, 0.5000, 0.7311])",
        "Slipped  gives x the gradient tensor([0.2689, 0.5000, 0.7311])",
    ],
    "custom-scaled": [
        "Softplus twice in, twice out: True; nothing in, nothing out: True",
        "Slipped  twice in, twice out: False; nothing in, nothing out: False",
    ],
    "custom-jacobians": ["Softplus\n3×3 diagonal", "Slipped\n3×3 dense"],
    "gradcheck": ["Softplus passes gradcheck: True", "Slipped  passes gradcheck: False"],
    "straight-through": ["tensor([0., 0., 0.])", "tensor([0., 2., 2.])"],
    "checkpoint": ["ordinary", "checkpointed"],
    "recomputed": [
        "ordinary      runs of the first block: 1",
        "checkpointed  runs of the first block: 2",
        "same gradients: True",
    ],
    "looked": ["bs.graph:    0", "_saved_self: 1"],
    "higher-order": ["derivative 0: 8,", "derivative 1: 12,", "derivative 2: 12,", "derivative 3: 6,"],
    "higher-order-drawn": [SVG, ">gradient<"],
    "hessian": ["walked:         tensor([-8., 12.])", "Hessian times v: tensor([-8., 12.])"],
    "nan": ["loss 2.0 and no NaN in sight", "x.grad tensor([0.2500,    nan])"],
    "nan-walk": ["SqrtBackward0 #2 produced a gradient that is not finite", "in        2  [1, 0]"],
    "nan-fixed": ["stopped: never", "tensor([0.2500, 0.0000])"],
    "transformer": [SVG, "blocks.0…5 × 6", "self_attn"],
    "transformer-walk": ["NativeLayerNorm is the first in blocks.3", "347 of 347 steps, 75 of 75 leaves reached"],
    "transformer-page": [PAGE],
    "transformer-bits": ["75 of 75 gradients are bit for bit the same"],
}


def numbers(text, pattern):
    return [float(found) for found in re.findall(pattern, text)]


@pytest.mark.slow
def test_every_cell_runs_and_shows_what_the_prose_claims(outputs, lacking):
    assert lacking(SHOWS) == {}

    zeroed, never = (numbers(line, r"\d+\.\d+") for line in outputs["train"].splitlines()[:2])
    assert zeroed[1] < zeroed[0] / 5 and zeroed[2] < 2 * zeroed[0]
    assert never[0] == zeroed[0] and never[1] > never[0] / 2 and never[2] > 2 * never[0]

    alive = numbers(outputs["checkpoint"], r"alive for backward: +([\d.]+)")
    peaks = numbers(outputs["checkpoint"], r"peak of the step: +([\d.]+)")
    assert alive[1] < alive[0] / 20 and peaks[1] < peaks[0] / 2

    handed_on = numbers(outputs["transformer-walk"], r"self_attn +\d+ +[\d.]+ +[\d.]+ +([\d.]+)")
    assert len(handed_on) == 6 and all(0.1 < ratio < 0.3 for ratio in handed_on)
