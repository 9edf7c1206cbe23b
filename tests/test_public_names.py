"""What `import backsight` offers: every name that it lists is there, explained, and loaded when first used."""

import difflib
import subprocess
import sys

import public_surface
import pytest

import backsight as bs


@pytest.mark.parametrize("name", bs.__all__)
def test_every_listed_name_is_there_and_explained(name: str) -> None:
    assert getattr(bs, name).__doc__


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'backsight' has no attribute 'grpah'"):
        bs.grpah


def test_nothing_that_users_call_changes_unnoticed() -> None:
    """Written anew by `python tests/public_surface.py`; what goes or changes follows docs/versions.md."""
    written = public_surface.FILE.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(written, public_surface.surface().splitlines(), "written", "found", "", "", 1))
    assert not changes, "\n".join(changes)


_LIGHT = "backsight, backsight.cli, backsight.launch.training"


def test_neither_torch_nor_numpy_is_imported_before_it_is_needed() -> None:
    program = f"import sys, {_LIGHT}; print({{'torch', 'numpy', 'rich'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
