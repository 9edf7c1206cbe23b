"""What others have named or written, as text that cannot steer a terminal; knows no PyTorch."""

from backsight.text.characters import inert, printable

__all__ = ["inert", "printable"]
