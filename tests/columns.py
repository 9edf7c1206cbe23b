"""What needs to know where in a line an instruction stands, which Python tells from 3.11 on."""

import sys

import pytest

COLUMNS = sys.version_info >= (3, 11)
needs_columns = pytest.mark.skipif(
    not COLUMNS, reason="Python 3.10 knows the line of an instruction, and not where in it"
)
