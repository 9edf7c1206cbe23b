"""examples/debug_gan.ipynb: each fault is found by what the notebook says finds it, and the GAN trains in the end."""

import re

import pytest

pytestmark = pytest.mark.long

NOTEBOOK = "debug_gan.ipynb"

SVG, PLOT = "<svg", "image/png"

SHOWS = {
    "setup": [],
    "networks": [],
    "losses": [],
    "first": [
        "PyTorch says: Trying to backward through the graph a second time.",
        "error BS201  d_loss.backward() freed the part of the graph behind fake, which g_loss.backward() needs",
        "fix: Compute d_loss from fake.detach()",
    ],
    "first-drawn": [SVG, ">freed<", "6 operations", "generator.layers", "discriminator.layers"],
    "second": [
        "PyTorch says: one of the variables needed for gradient computation has been modified by an inplace operation.",
        "error BS202  d_optimizer.step() changed discriminator.layers.4.weight between the forward pass of g_loss and",
    ],
    "third": [
        "no error",
        "warning BS102  g_optimizer holds parameters that are detached from this loss.",
        "Their path to the loss ends at `generator(noise, label).detach()`",
    ],
    "third-leaves": ["discriminator.layers.0.weight     stepped by d_optimizer"],
    "fourth": ["note BS106  generator.layers.0.weight and 5 more stand in 2 optimizers."],
    "fourth-moved": ["d_optimizer moves the generator: True\nand with weights of its own:     False"],
    "fifth": ["warning BS103  6 gradients have not been zeroed since g_optimizer.step()."],
    "fifth-leaves": ["{'g_optimizer': 6, 'd_optimizer': 6}"],
    "right": [],
    "sixth": ["warning BS305  discriminator.layers.1 (Tanh) has been saturated"],
    "sixth-walk": ["images from 0 to 255:", "images from -1 to 1:"],
    "trained": ["backsight: nothing found in 75 steps"],
    "trained-losses": [PLOT],
    "drawn": [PLOT],
    "read": ["of the digits made are read as what they were to be"],
}


def percentages(text):
    return [float(found) for found in re.findall(r"([\d.]+)%", text)]


def test_every_cell_shows_what_the_prose_claims(outputs, lacking):
    assert lacking(SHOWS) == {}
    assert "generator" not in outputs["third-leaves"]
    of_pixels, scaled = percentages(outputs["sixth-walk"])
    assert of_pixels < 20 and scaled > 50


def test_the_digits_of_the_gan_that_is_left_can_be_read(outputs):
    (right,) = percentages(outputs["read"])
    assert right > 70
