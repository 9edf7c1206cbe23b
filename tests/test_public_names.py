"""What `import backsight` offers: every name that it lists is there, explained, and loaded when first used."""

import subprocess
import sys

import pytest

import backsight as bs


@pytest.mark.parametrize("name", bs.__all__)
def test_every_listed_name_is_there_and_explained(name: str) -> None:
    assert getattr(bs, name).__doc__


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'backsight' has no attribute 'grpah'"):
        bs.grpah


def test_torch_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, backsight, backsight.cli, backsight.launch.training; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
