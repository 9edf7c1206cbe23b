"""Where people are: notebooks, pytest, Lightning, the Trainer of transformers, and the places that runs are shown in.

Each is a file of its own that its host loads, or that is imported by its name:

    from backsight.integrations.lightning import Backsight
    from backsight.integrations.transformers import Backsight
    from backsight.integrations.mirror import Mirror
"""

from backsight.integrations.notebook import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
