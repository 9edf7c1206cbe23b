"""`python -m backsight`."""

import sys

from backsight.cli import main

sys.exit(main())
