"""naming: which Python variable holds a tensor.

One breadth-first pass from the variables of frames and modules, asking the garbage collector who holds whom; names
are spelt only for what was found. `search` is the way in.

Offered to other rooms: `elsewhere`, `frames`, `plain`, `referents`, `roots`, `suspended`.
"""

from ._torch import requires_grad
from .name import Name
from .search import Search, search
from .standstill import standstill

__all__ = ["Name", "Search", "requires_grad", "search", "standstill"]
