"""Why released steps of an optimizer are taken to be exact."""

from __future__ import annotations

from dataclasses import dataclass

from backsight.gradient_release.partial_step import Layout


@dataclass(frozen=True)
class Evidence:
    """What is known of an optimizer.

    Attributes:
        optimizer: its class.
        known: whether it is one of `torch.optim`, each of which the tests of backsight compare bit for bit.
        layout: what its groups hold during a partial step, for those that were probed.
        steps: how many steps the probe compared.
        parameters: how many small parameters the probe stepped.
        buckets: bytes of the buckets with which the probe stepped them.
        made_with: the arguments with which the probe made the optimizer anew.
        proof: how far it was shown that parameters do not hang on one another.
        insisted: why it was refused, where `trust=True` insisted on it all the same.
    """

    optimizer: str
    known: bool
    layout: Layout = "narrow"
    steps: int = 0
    parameters: int = 0
    buckets: tuple[float, ...] = ()
    made_with: tuple[str, ...] = ()
    proof: str = ""
    insisted: str = ""

    def __str__(self) -> str:
        if self.known:
            return f"{self.optimizer} is one of torch.optim, compared bit for bit in the tests of backsight"
        if self.insisted:
            return f"{self.optimizer} was accepted because of trust=True. Without it: {self.insisted}"
        made = ", ".join(self.made_with) or "no argument but the parameters"
        return (
            f"{self.optimizer} was probed: {self.steps} steps of {self.parameters} small parameters, made with {made}, "
            "equal bit for bit to the steps of the ordinary loop in weights, state and groups"
            + (f"; {self.proof}" if self.proof else "")
        )
