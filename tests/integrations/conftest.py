"""Of the hooks that are found after a test, those that were there before it are not its own."""

import left_over
import pytest

from backsight.launch import voice


@pytest.fixture(autouse=True)
def hooks_of_others():
    left_over.others[:] = left_over.everywhere()


@pytest.fixture(autouse=True)
def nothing_said_yet():
    voice._failures.clear()  # what another test had it say is not said again
