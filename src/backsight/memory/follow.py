"""`Follow`: a ledger of the storages that operators return, for steps of fake tensors, where no allocator is at work.

Each operator is seen as it is called, and each storage that it returns is followed by a weak reference until it dies.
What an operator allocates and frees inside of itself is not seen, but told by `Inside`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from backsight.memory._torch import FAMILIAR, FakeTensor, current_node
from backsight.memory.allocator import ACCUMULATE
from backsight.memory.calls import ModuleCalls
from backsight.memory.explain import short_op
from backsight.memory.inside import Doubt, Inside
from backsight.memory.kinds import settled
from backsight.memory.ledger import Block, History, Kind, Ledger, Phase
from backsight.memory.lines import source_here
from backsight.memory.probe import Probe, as_tried
from backsight.memory.tensors import in_order, named_tensors, parts_of, storage_of, tensors_of
from backsight.tape import in_backward, next_sequence_number, no_torch_function, sequence_number, storage_key

_COPIES = ("aten.clone", "aten.new_empty_strided", "aten.add.", "aten.new_empty")
"""What AccumulateGrad calls for a gradient that it cannot take as it is."""


_ADD = torch.ops.aten.add.Tensor
_DEVICE = torch.ops.prim.device.default

_WRITES = {
    _ADD,
    torch.ops.aten.index_put.default,
    torch.ops.aten._index_put_impl.default,
    torch.ops.aten.index_add.default,
    torch.ops.aten.put.default,
    torch.ops.aten.scatter.src,
    torch.ops.aten.scatter_add.default,
    torch.ops.aten.masked_scatter.default,
}
"""What autograd calls in place of their versions that write into the first argument."""

_SCRATCH = -1
"""The key of what an operator allocates inside of itself; storages have addresses."""

_WORTH = 64
"""Bytes below which scratch is left out: the tensors that operators make of Python's numbers."""


class Follow(TorchDispatchMode):  # type: ignore[no-untyped-call]  # PyTorch's modes are untyped
    """Follow all storages from birth to death while it is entered.

    ```python
    with FakeTensorMode(), Follow() as follow:
        model, optimizer = build()
        follow.hold(model, optimizer, batch)
        step()
    follow.history().peak       # bytes
    ```

    Storages that were there before, and are met as arguments or by `hold`, count from the start. `inside` tells what
    operators allocate besides their results; without it that is nothing.
    """

    def __init__(self, inside: Inside | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.ledger = Ledger()
        self.calls = ModuleCalls(met=self._met)
        self.doubts: list[Doubt] = []
        self._inside = inside
        self._heir: tuple[int, int] | None = None
        self._references: dict[int, weakref.ref[Any]] = {}
        self._nodes: dict[int, str] = {}
        self._sources: dict[int, str] = {}
        self._made: dict[int, list[Block]] = {}
        self._newest = next_sequence_number() - 1
        self._optimizing = 0
        self._hooks = ExitStack()
        self._watched: dict[int, tuple[weakref.ref[Any], dict[int, Any]]] = {}

    def __enter__(self) -> Follow:
        self._hooks.enter_context(self.calls)
        for handle in (
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ):
            self._hooks.callback(handle.remove)
        super().__enter__()  # type: ignore[no-untyped-call]  # as above
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]  # as above
        self._hooks.close()
        self.calls.forget()
        self._watched.clear()

    def hold(self, *held: Any) -> None:
        """Count what models, optimizers and nested tensors hold, as parameters, optimizer state and inputs."""
        for each in held:
            if isinstance(each, torch.nn.Module):
                if not self.calls.knows(each):
                    self.calls.meet(each)
            elif isinstance(each, torch.optim.Optimizer):
                self._claim_state(each)
            else:
                for tensor in tensors_of(each):
                    self.claim(tensor, "inputs")

    def claim(self, tensor: torch.Tensor, kind: Kind, name: str = "", module: str | None = None) -> None:
        """Say what the storage of a tensor is for; one not met before was there at the start."""
        with no_torch_function():
            blocks = [self._meet(part, None) for part in parts_of(tensor)]
        for block in filter(None, blocks):
            block.kind, block.name = kind, name or block.name
            block.module = block.module if module is None else module

    def history(self) -> History:
        """Return what was seen so far."""
        for number, blocks in self._made.items():
            for block in blocks:
                block.node = f"{self._nodes[number]} #{number}" if number in self._nodes else ""
        return settled(self.ledger.history(classes=self.calls.classes))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(each not in FAMILIAR for each in types):
            return NotImplemented  # a subclass first turns the operator into those on its parts, which come here again
        if func is _DEVICE and type(args[0]) is FakeTensor:  # which C++ asks for more often than it calls all operators
            return args[0].device
        if func.namespace == "prim":  # makes no tensor
            return func(*args, **(kwargs or {}))
        with no_torch_function():  # what we and the fake mode ask of a tensor is no call of the program's
            return self._followed(func, args, kwargs or {})

    def _followed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator, and take what it returns into the ledger."""
        self.ledger.enter(self._phase())
        self._heir = None
        for tensor in in_order(args):
            self._meet(tensor, None)
        newest, first = next_sequence_number() - 1, len(self.ledger.blocks)
        result = args[0].detach() if _takes(func, args) else func(*args, **kwargs)
        probe = None if self._inside is None else self._inside.of(func, args, kwargs, result)
        if probe is not None and probe.results:
            result = as_tried(result, iter(probe.results))
        for tensor in in_order((result,)):
            for part in parts_of(tensor):
                self._meet(part, func)
        if probe is not None:
            self._took(func, probe)
        if func in _WRITES and in_backward():
            self._written(func, args, result)
        if newest != self._newest:  # the operator made a node, before it came here
            self._newest = newest
            self._sources[newest] = source_here()
            self._made[newest] = [block for block in self.ledger.blocks[first:] if not block.node]
        return result

    def _took(self, func: Any, probe: Probe) -> None:
        """Write down what an operator took and gave back."""
        if probe.scratch >= _WORTH:
            block = self.ledger.born(_SCRATCH, probe.scratch, "cpu")
            self._place(block, func)
            block.kind, block.name = "temporaries", f"scratch of {short_op(block.op)}"
            self.ledger.died(_SCRATCH)
        if probe.bound:
            self.doubts.append((self.ledger.position, probe.bound, func.name()))

    def _written(self, func: Any, args: Any, result: Any) -> None:
        """See whether PyTorch would write this into the memory of the first argument, which then dies at once.

        Where a mode is entered, as here, autograd leaves out what it else does in place: `InputBuffer::accumulate` adds
        to the first of two gradients for one tensor, if it is no view and nothing else holds it, and a backward that
        scatters does so into the zeros that it made (`areAnyTensorSubclassLike` in `FunctionsManual.cpp`).
        """
        node = current_node()
        if node is None or torch.is_grad_enabled() or self._optimizing:
            return
        first, heir = storage_of(args[0]), storage_of(result)
        if first is None or heir is None or first.nbytes() != heir.nbytes() or args[0]._is_view():
            return
        block = self.ledger.living(storage_key(first))
        here = block is not None and block.node == f"{node.name().rpartition('::')[2]} #{sequence_number(node)}"
        edges = [edge for edge in node.next_functions if edge[0] is not None]
        twice = len(set(edges)) < len(edges)  # as of x * x
        if here if func is not _ADD else not here or twice:
            self._heir = storage_key(first), storage_key(heir)

    def _phase(self) -> Phase:
        if self._optimizing:
            return "optimizer"
        if not in_backward():
            return "forward"
        return "recomputation" if self.calls.depth else "backward"

    def _meet(self, tensor: torch.Tensor, func: Any) -> Block | None:
        """Take a storage into the ledger: as born by `func`, or as there from the start if that is None."""
        storage = storage_of(tensor)
        if storage is None:
            return None
        key, size = storage_key(storage), storage.nbytes()
        block = self.ledger.living(key)
        if block is not None:
            if size != self.ledger.size(key):
                self.ledger.resized(key, size)
            return block
        if not size:
            return None
        device = str(tensor.device)
        block = self.ledger.existing(key, size, device) if func is None else self.ledger.born(key, size, device)
        block.shape, block.dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        if func is not None:
            self._place(block, func)
        self._references[key] = weakref.ref(storage, lambda _: self._died(key))
        return block

    def _place(self, block: Block, func: Any) -> None:
        block.op, block.module, block.source = func.name(), self.calls.path, source_here()
        node = current_node() if in_backward() else None
        if node is None:
            return
        name, number = node.name().rpartition("::")[2], sequence_number(node)
        block.node = name
        if name == ACCUMULATE:
            if str(func).startswith(_COPIES) and not self._optimizing:
                block.kind = "gradients"
            return
        self._nodes[number] = name
        block.node = f"{name} #{number}"
        block.source = self._sources.get(number, block.source)
        block.module = block.module or self.calls.of_sequence(number)

    def _died(self, key: int) -> None:
        self._references.pop(key, None)
        if self._heir is not None and self._heir[0] == key:
            self.ledger.taken_over(*self._heir)
            self._heir = None
        else:
            self.ledger.died(key)

    def _met(self, model: torch.nn.Module, prefix: str) -> None:
        for name, tensor in named_tensors(model, prefix):
            self.claim(tensor, "parameters", name, name.rpartition(".")[0])
            self._watch(tensor, name, model)

    def _watch(self, parameter: torch.Tensor, name: str, owner: Any) -> None:
        """See each gradient of a parameter before it is accumulated, as long as a model or an optimizer has it.

        The node that accumulates is made anew, without the hook, unless it is kept, and keeps the parameter alive.
        """
        known = any(id(parameter) in nodes for _, nodes in self._watched.values())
        if known or not (parameter.is_leaf and parameter.requires_grad):
            return
        key = id(owner)
        if key not in self._watched:
            self._watched[key] = weakref.ref(owner, lambda _: self._watched.pop(key, None)), {}
        node = get_gradient_edge(parameter).node
        handle = node.register_prehook(lambda gradients: self._gradients(gradients, f"{name}.grad"))
        self._hooks.callback(handle.remove)
        self._watched[key][1][id(parameter)] = node

    def _gradients(self, gradients: Iterable[Any], name: str) -> None:
        for gradient in gradients:
            if isinstance(gradient, torch.Tensor):
                self.claim(gradient, "gradients", name, name.removesuffix(".grad").rpartition(".")[0])

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._optimizing += 1

    def _step_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._optimizing = max(0, self._optimizing - 1)
        self._claim_state(optimizer)

    def _claim_state(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                block = self._meet(parameter, None)
                if block is not None and block.kind != "parameters":
                    block.kind = "parameters"
                    self._watch(parameter, block.name or "parameter", optimizer)
                for key, value in optimizer.state.get(parameter, {}).items():
                    for tensor in tensors_of(value):
                        name = f"{key} of {block.name}" if block and block.name else key
                        self.claim(tensor, "optimizer state", name, block.module if block else None)


def _takes(func: Any, args: Any) -> bool:
    """Whether this is a sparse gradient that PyTorch takes as it is, and copies only where a mode is entered."""
    if func is not torch.ops.aten.clone.default or args[0].layout != torch.sparse_coo:
        return False
    node = current_node()
    return node is not None and bool(node.name().endswith(ACCUMULATE))
