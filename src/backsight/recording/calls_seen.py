"""Which calls of modules a recording has seen, in what order, and which it has missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backsight.recording.page import Page

UNSEEN = (
    "These modules got gradients, but no call of them was seen: they run inside torch.compile, where hooks vanish, "
    "or in TorchScript, which has none, or another module uses their weights directly."
)

BUSY = (
    "Other threads were always inside module calls, when no hook can be added: inputs and outputs of these steps are "
    "incomplete."
)


class CallsSeen:
    """Tells of the first and the last order in which modules were called, and of calls that were not seen.

    event: takes what there is to tell. recorded: whether calls are recorded at all.
    """

    def __init__(self, event: Callable[..., None], *, recorded: bool):
        self._event = event
        self._last: Page | None = None
        self._orders: set[tuple[str, str]] = set()
        """What the orders of all steps so far hold."""
        self._said_unseen = not recorded
        self._rows_looked_at = 0
        self._missing: int | None = None
        """The step from which on hooks could not be installed, because other threads were in calls of modules."""

    def take(self, page: Page, *, whole: bool) -> None:
        """Look at a step that has ended; whole: whether it was recorded from its beginning, with all its calls."""
        if page.order:
            self._keep(page)
        changed = len(page.rows) != self._rows_looked_at  # a look at every page would cost
        if changed and whole and not self._said_unseen:
            self._rows_looked_at = len(page.rows)
            if unseen := _unseen_in(page, self._orders):
                self._said_unseen = True
                self._event("calls not seen", step=page.step, modules=unseen, why=UNSEEN)

    def settled(self, all_installed: bool, step: int) -> None:
        """Note whether every hook is where it belongs in this step; once it is, tell of the steps where one was not."""
        if not all_installed:
            self._missing = step if self._missing is None else self._missing
        elif self._missing is not None:
            missing, self._missing = self._missing, None
            self._event("calls missed", step=missing, before=max(missing + 1, step), why=BUSY)

    def end(self) -> None:
        """Tell of the last order."""
        if self._last is not None:
            self._event("order", step=self._last.step, modules=self._last.order)

    def _keep(self, page: Page) -> None:
        before, self._last = self._last, page
        if before is None:
            self._event("order", step=page.step, modules=page.order)
        if before is None or before.order != page.order:
            self._orders.update(page.order)


def _unseen_in(page: Page, order: Iterable[tuple[str, str]]) -> list[str]:
    """Return the modules that got gradients without a call of them in this order, which is that of all steps so far."""
    called = {module for _, module in order}
    trained = (slot.module for slot, *_ in page.rows if slot.kind == "grad" and slot.module is not None)
    return [module for module in dict.fromkeys(trained) if module not in called]
