"""Exact clipping to a global norm although gradients are released: in factors, or by two backward passes."""

from backsight.gradient_release.clipping.clip import backward, clip
from backsight.gradient_release.clipping.clipping import Clipping, Method

__all__ = ["Clipping", "Method", "backward", "clip"]
