"""Whatever is shown, as text: what others have named cannot steer a terminal, sizes and lists are alike; no PyTorch.

Offered to other rooms: `console`, `meant`, `page`, `palette`, `rich`.
"""

from backsight.text.characters import inert, printable
from backsight.text.stdout import PIPED, for_stdout
from backsight.text.wording import amount, as_code, counted, lines_at, listed, numbered, size

__all__ = [
    "PIPED",
    "amount",
    "as_code",
    "counted",
    "for_stdout",
    "inert",
    "lines_at",
    "listed",
    "numbered",
    "printable",
    "size",
]
