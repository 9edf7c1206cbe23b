"""Modules that were trained without a call of them having been seen."""

from __future__ import annotations

from collections.abc import Iterable

from backsight.recording.page import Page

UNSEEN = (
    "These modules got gradients, but no call of them was seen: they run inside torch.compile, where hooks vanish, "
    "or in TorchScript, which has none, or another module uses their weights directly."
)


def unseen_in(page: Page, order: Iterable[tuple[str, str]]) -> list[str]:
    """Return the modules that got gradients without a call of them in this order, which is that of all steps so far."""
    called = {module for _, module in order}
    trained = (slot.module for slot, *_ in page.rows if slot.kind == "grad" and slot.module is not None)
    return [module for module in dict.fromkeys(trained) if module not in called]
