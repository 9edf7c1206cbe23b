"""The backward pass told step by step: a stepping debugger for autograd."""

from backsight.walkthrough.begin import walk
from backsight.walkthrough.check import Check
from backsight.walkthrough.errors import WalkError
from backsight.walkthrough.formulas import Formula
from backsight.walkthrough.gradient import Gradient
from backsight.walkthrough.jacobian import Jacobian
from backsight.walkthrough.modules import Row
from backsight.walkthrough.step import Step
from backsight.walkthrough.walk import Walk

__all__ = ["Check", "Formula", "Gradient", "Jacobian", "Row", "Step", "Walk", "WalkError", "walk"]
