"""Where people are: notebooks (`%load_ext backsight`) and pytest, each in a file of its own that the host loads."""

from backsight.integrations.notebook import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
