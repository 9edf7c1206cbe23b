"""examples/find_leaves.ipynb: every leaf is found and named, and each cell shows what the prose claims."""

import pytest

NOTEBOOK = "find_leaves.ipynb"

SVG = "<svg"

SHOWS = {
    "setup": [],
    "training": ["loss from 10.06 to 0.47", "delta is still -1.4\nits gradient went from -6.0 to -53."],
    "leaves": ["model.weight  (1, 10)  parameter  optimizer", "delta            (1,)   variable     nobody", "<table"],
    "drawn": [SVG, ">delta<", "in no optimizer"],
    "audit": ["BS101", "delta requires grad, but no optimizer updates it", "fix:"],
    "fixed": ["delta is -1.2", "findings: 0"],
    "places": [
        "1 ×  settings.temperature\n1 ×  towers[2]\n1 ×  state['encoder']['prior']\n1 ×  offset\n1 ×  gain\n"
        "2 ×  tied.0.weight\n2 ×  tied.0.bias\n"
    ],
    "any-tensor": ["patients\ntied.0.bias.grad\nadam.state[tied.0.weight]['exp_avg']\n"],
    "overwritten": ["delta is a leaf: False   and its shape is (442, 1)"],
    # The statement stands in the cell before.
    "overwritten-leaves": ["delta (overwritten)     (1,)  overwritten  optimizer"],
    "overwritten-path": [
        "delta (overwritten)\noperand of `delta = delta / predicted`, In[9]:7",
        "AddBackward0 #1 <- DivBackward0 #2 <- delta (overwritten)",
    ],
    "overwritten-drawn": [SVG, "its variable was overwritten", "on the path"],
    "overwritten-audit": ["BS107", "In[9]:7", "optimizer still updates it"],
    "second-step": [
        "PyTorch says: Trying to backward through the graph a second time",
        "BS201",
        "delta, a tensor of shape 442×1, carries the graph of one iteration into the next",
    ],
    "overwritten-fixed": ["leaves: ['model.weight', 'model.bias', 'delta']"],
    "large": ["74 leaves, and forgotten: ['positions.weight']"],
    "large-paths": ["262,144 ways to letters.weight", "1 ways to encoder.layers.5.norm2.bias"],
    "torchid": ["Linear_weight", "approximated.2separated.__main__.delta     3 nodes from the loss"],
    "torchid-large": ["73 leaves, 73 different", "['__main__.start'] at the end of 5,000 nodes"],
}


@pytest.mark.slow
def test_every_cell_shows_what_the_prose_claims(lacking):
    assert lacking(SHOWS) == {}
