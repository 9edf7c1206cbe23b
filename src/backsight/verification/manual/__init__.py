"""Gradients that somebody derived by hand, held against autograd's: which are wrong, and how."""

from backsight.verification.manual.compare import manual_backward

__all__ = ["manual_backward"]
