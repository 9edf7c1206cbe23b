"""The pass: breadth first from the roots, remembering who holds whom.

Every object met is kept until the search is over, so no id is reused meanwhile, and everything is dropped at its end.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence

from . import _torch, plain
from .barren import Barren
from .referents import Referents, Where, of_module, of_tensor, registries
from .roots import Root

HOLDERS = 16  # how many holders of one object are remembered; a module is always remembered
PATIENCE = 50_000  # objects still visited for the module of a parameter, once all else is found
LARGE = 4_096  # from this many children or objects of a level on, data that leads nowhere is told apart in one go
FOLLOWED_PER_VISIT = 16  # the budget counts objects; this many references may be followed for each

MACHINERY = ("__loader__", "__spec__")
"""What a module holds of its import, which has no variables in it. That of pytest leads to all tests, and back."""


class Walk:
    """What one search has seen: objects in the order met, and the first holder of each (-1 for a root)."""

    def __init__(
        self,
        targets: Sequence[object],
        collect: Iterable[type],
        deep: bool,
        budget: int,
        *,
        where: Where | None = None,
        gradients: bool = True,
    ) -> None:
        self.referents = Referents(collect, where, deep)
        self.objects: list[object] = []
        self.holder: list[int] = []
        self.roots: dict[int, Root] = {}
        self.index: dict[int, int] = {}
        self.holders: dict[int, list[int]] = {}  # by id, of targets, tensors and modules: every holder
        self.modules: set[int] = set()  # indices of nn.Modules
        self.complete = True
        self.whole = True  # nothing was left out as data that leads nowhere
        self.missing = {id(target) for target in targets}
        self._wanted = frozenset(self.missing)
        members = (_torch.Parameter, _torch.Module)
        self._members = {id(target) for target in targets if plain.inherits(type(target), members)}
        self._budget = budget
        self._followed = 0
        self._patience = budget
        self._gradients = gradients
        self._barren = Barren(self.referents, targets)
        self._passed: list[object] = []
        self._registries: set[int] = set()  # indices of the dicts of nn.Modules

    def explore(self, roots: Iterable[Root], to_the_end: bool) -> None:
        """Visit what `roots` lead to; unless `to_the_end`, stop at the end of the level on which all was found."""
        level = [self._plant(root) for root in roots if id(root.namespace) not in self.index]
        while level and self.complete and (to_the_end or not self.satisfied()):
            level = self._visit(level)

    def leave_the_program(self) -> None:
        """What follows is a library's: a module that the program holds is not waited for in another any more."""
        self._members = {key for key in self._members if self.index.get(key) not in self.modules}

    def satisfied(self) -> bool:
        """All targets are found, and each parameter and module by its module, or that was waited for long enough."""
        if self.missing:
            return False
        if all(any(at in self.modules for at in self.holders[key]) for key in self._members):
            return True
        self._patience = min(self._patience, len(self.objects) + PATIENCE)
        return len(self.objects) > self._patience

    def collected(self, collect: tuple[type, ...], where: Where | None) -> list[int]:
        """Return the indices of the objects of some types that others hold, those alone for which `where` is true."""
        kinds = {id(kind): kind for kind in map(type, self.objects)}
        wanted = {key for key, kind in kinds.items() if plain.inherits(kind, collect)}
        apart = self._registries | self.roots.keys()
        of = (at for at, each in enumerate(self.objects) if id(type(each)) in wanted and at not in apart)
        return [at for at in of if where is None or where(self.objects[at])]

    def _plant(self, root: Root) -> int:
        if root.scope.kind == "global":
            self._pass_over([dict.get(root.namespace, name) for name in MACHINERY])
        at = len(self.objects)
        self.objects.append(root.namespace)
        self.holder.append(-1)
        self.index[id(root.namespace)] = at
        self.roots[at] = root
        return at

    def _pass_over(self, objects: list[object]) -> None:
        self._passed += objects
        for each in objects:
            self.index.setdefault(id(each), -1)

    def _visit(self, level: list[int]) -> list[int]:
        """Visit the objects of one level; submodules join the level of their module."""
        following: list[int] = []
        objects, index, holders = self.objects, self.index, self.holders
        by_type, learn, wanted = self.referents.by_type, self.referents.learn, self._wanted
        shared, local = self.referents.shared, self.referents.local
        level = self._promising(level)
        for at in level:
            parent = objects[at]
            kind = type(parent)
            children = self._children(at)
            in_module = at in self.modules
            for child in children:
                key = id(child)
                if key in index:
                    if key in holders:
                        self._remember(key, at)
                    continue
                of = id(type(child))
                expand = by_type[of] if of in by_type else learn(type(child))
                if expand is None or (child is kind and key not in local):
                    continue
                index[key] = new = len(objects)
                if new > self._budget:
                    self.complete = False
                    return []
                objects.append(child)
                self.holder.append(at)
                if of in shared or key in wanted:
                    holders[key] = [at]
                    self.missing.discard(key)
                (level if in_module and expand is of_module else following).append(new)
        return following

    def _children(self, at: int) -> list[object]:
        """What the object at this index leads to; nothing for a container of plain values."""
        parent = self.objects[at]
        kind = type(parent)
        by_type = self.referents.by_type
        expand = by_type[id(kind)] if id(kind) in by_type else self.referents.learn(kind)
        if expand is of_tensor and not self._gradients:
            expand = gc.get_referents
        children: list[object] = [] if expand is None else expand(parent)
        self._followed += len(children)
        if self._is_over():
            return []
        if expand is of_module:
            self._enter_module(at)
        if len(children) <= LARGE or self._only_values(children):
            return children if len(children) <= LARGE else []
        leading = self._barren.without_all_of(parent, children)
        self.whole &= len(leading) == len(children)
        return [] if self._is_over() else leading

    def _only_values(self, children: list[object]) -> bool:
        """True for ten million floats, found out at the speed of C."""
        by_type = self.referents.by_type
        return all(kind in by_type and by_type[kind] is None for kind in set(map(id, map(type, children))))

    def _promising(self, level: list[int]) -> list[int]:
        """The level without what leads nowhere, where that is worth to find out."""
        if len(level) <= LARGE:
            return level
        objects = self._barren.without([self.objects[at] for at in level])
        self.whole &= len(objects) == len(level)
        return [] if self._is_over() else [self.index[id(each)] for each in objects]

    def _is_over(self) -> bool:
        """Whether more references were followed than the budget allows."""
        if self._followed + self._barren.followed > self._budget * FOLLOWED_PER_VISIT:
            self.complete = False
        return not self.complete

    def _enter_module(self, at: int) -> None:
        """Register a module, and keep its registries from being visited as mere dicts."""
        self.modules.add(at)
        for registry in registries(self.objects[at]).values():
            if id(registry) not in self.index:
                self.index[id(registry)] = len(self.objects)
                self._registries.add(len(self.objects))
                self.objects.append(registry)
                self.holder.append(at)

    def _remember(self, key: int, at: int) -> None:
        known = self.holders[key]
        if known[-1] != at and (len(known) < HOLDERS or at in self.modules):
            known.append(at)
