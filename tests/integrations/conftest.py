"""Of the hooks that are found after a test, those that were there before it are not its own."""

import left_over
import pytest


@pytest.fixture(autouse=True)
def hooks_of_others():
    left_over.others[:] = left_over.everywhere()
