"""Tries what fixes say: the program runs with each change, no file is touched, and the change that works is shown."""

from backsight.fixing.fix import fix

__all__ = ["fix"]
