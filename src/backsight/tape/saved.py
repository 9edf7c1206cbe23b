"""What a node keeps for its backward, looked at without unpacking, copying or recomputing anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from backsight.tape._torch import (
    CHECKED,
    RAW,
    can_read,
    forward_class,
    is_leaf,
    raw_of_custom,
    storage_key,
    unpacks_alone,
    version,
)
from backsight.tape.cuda_graphs import is_captured
from backsight.tape.tensors import Saved, ref_to

_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_BY_ITS_NODE = "this PyTorch unpacks a saved tensor by its node only"
_SHAPE = re.compile(r"\[[\w.]+ \[([\d, ]*)\]\]")


def saved_by(node: Any, *, finite: bool = False) -> tuple[Saved, ...]:
    """Return what a live `node` has saved. With `finite`, look at the values too, which reads all of their memory."""
    node_type = type(node)
    if forward_class(node_type) is not None:
        return tuple(_of_custom(node, finite))
    fields = _fields(node_type)
    return tuple(_of_builtin(node, fields, finite)) if fields else ()


def kept_by(node: Any) -> tuple[Saved, ...]:
    """Return what the live `node` of a custom Function keeps alive, whether or not that was modified since.

    No version is checked: for that autograd mends the history of a saved view that is out of date, by a new node.
    """
    raw = held_by_custom(node)
    if raw is None:
        return (Saved("saved_tensors", "freed"), *_on_ctx(node, finite=False))
    read = (_read(each, "saved_tensors", finite=False) for each in raw if each is not None)
    return (*(saved for saved in read if saved is not None), *_on_ctx(node, finite=False))


def was_freed(raw: Any, unpack: Callable[[], Any]) -> bool:
    """Whether a backward has released the saved tensor `raw`, which its node's getter unpacks by itself.

    A list of saved tensors that was released says so when it is asked for.
    """
    if raw is None or not can_read(raw) or raw.unpack_hook is not None or raw.data is not None:
        return False
    return bool(_complaint(unpack))  # where None was saved it gives None


_fields_by_type: dict[type, tuple[str, ...]] = {}


def _fields(node_type: type) -> tuple[str, ...]:
    """Return the names of a C++ node's saved tensors; looked up once a type, since `dir` is slow."""
    if node_type not in _fields_by_type:
        _fields_by_type[node_type] = tuple(n.removeprefix(RAW) for n in dir(node_type) if n.startswith(RAW))
    return _fields_by_type[node_type]


def _of_builtin(node: Any, fields: tuple[str, ...], finite: bool) -> Iterator[Saved]:
    for name in fields:
        try:
            raw = getattr(node, RAW + name)
        except RuntimeError:  # a list of saved tensors that a backward has released says so by raising
            yield Saved(name, "freed")
            continue
        many = isinstance(raw, (tuple, list))
        names = [f"{name}[{k}]" for k in range(len(raw))] if many else [name]
        yield from _together(node, CHECKED + name, names, raw if many else (raw,), finite)


def _of_custom(node: Any, finite: bool) -> Iterator[Saved]:
    raw = held_by_custom(node)
    if raw is None:
        yield Saved("saved_tensors", "freed")
    else:
        yield from _together(node, "saved_tensors", [f"saved_tensors[{k}]" for k in range(len(raw))], raw, finite)
    yield from _on_ctx(node, finite)


def held_by_custom(node: Any) -> Sequence[Any] | None:
    """Return the handles on what a custom Function saved; None where a backward has released it."""
    try:
        return raw_of_custom(node) or ()
    except RuntimeError:
        return None


def _on_ctx(node: Any, finite: bool) -> Iterator[Saved]:
    """Yield the tensors that a user's forward put on ctx as plain attributes: kept too, but out of autograd's sight."""
    for name, value in object.__getattribute__(node, "__dict__").items():
        if isinstance(name, str) and issubclass(type(value), torch.Tensor):
            yield _describe(value, f"ctx.{name}", finite)


def _together(node: Any, getter: str, names: Sequence[str], raws: Sequence[Any], finite: bool) -> Iterator[Saved]:
    """Read the saved tensors `raws`, which `getter` unpacks together."""

    def unpack_all() -> Any:
        return getattr(node, getter)

    if len(raws) == 1 and was_freed(raws[0], unpack_all):
        yield Saved(names[0], "freed")
        return
    read = [(raw, _read(raw, name, finite)) for raw, name in zip(raws, names, strict=True) if raw is not None]
    hooked = any(saved is not None and saved.state != "alive" for _, saved in read)
    for raw, saved in read:
        if saved is not None:
            yield _checked(saved, raw, unpack_all) if saved.version and not hooked else saved


def _read(raw: Any, name: str, finite: bool) -> Saved | None:
    """Return what `raw` holds; None if nothing was saved there (an input that was None)."""
    if not can_read(raw):
        return Saved(name, "unread")
    if raw.unpack_hook is not None:
        return Saved(name, "hooked")
    return _describe(raw.data, name, finite) if raw.data is not None else None


def _describe(tensor: torch.Tensor, name: str, finite: bool) -> Saved:
    storage, storage_bytes, size = memory(tensor)
    return Saved(
        name,
        "alive",
        shape=tuple(tensor.shape) if not tensor.is_nested else None,
        dtype=tensor.dtype,
        bytes=size,
        storage=storage,
        storage_bytes=storage_bytes,
        version=version(tensor),
        finite=_is_finite(tensor) if finite else None,
        requires_grad=tensor.requires_grad,
        is_leaf=is_leaf(tensor),
        ref=ref_to(tensor),
    )


def memory(tensor: torch.Tensor) -> tuple[int | None, int, int]:
    """Return the storage's identity, its bytes, and the tensor's own bytes; a sparse tensor counts its parts."""
    try:
        storage = tensor.untyped_storage()
        return storage_key(storage), storage.nbytes(), tensor.numel() * tensor.element_size()
    except (RuntimeError, NotImplementedError):  # sparse, opaque and functorch tensors have no storage
        parts = _parts(tensor)
        size = sum(p.numel() * p.element_size() for p in parts)
        return (storage_key(parts[-1].untyped_storage()) if parts else None), size, size


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def _is_finite(tensor: torch.Tensor) -> bool | None:
    if not (tensor.is_floating_point() or tensor.is_complex()) or not holds_values(tensor):
        return None
    try:
        with torch.no_grad():
            return bool(torch.isfinite(tensor).all())
    except (RuntimeError, NotImplementedError):  # quantized or opaque: there are no values to look at
        return None


def holds_values(tensor: torch.Tensor) -> bool:
    """Whether there is memory to be read where nobody asks the tensor's class: a read of none would end the process.

    There is none on the meta device, nor in a class that answers for itself: fake tensors, wrappers around others. It
    may have been taken from under the tensor, too, as FSDP2 does with weights between forward and backward. And while
    a CUDA graph is captured a device has no values yet: to ask for one would end the capture.

    Source: torch/distributed/fsdp/_fully_shard/_fsdp_param.py, `free_storage`.
    """
    if tensor.is_meta or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return False
    if not tensor.is_cpu and is_captured():
        return False
    try:
        return tensor.layout is not torch.strided or tensor.numel() == 0 or tensor.untyped_storage().nbytes() > 0
    except (RuntimeError, NotImplementedError):  # opaque tensors and those of functorch have none
        return False


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether the tensor has numbers that can be read without running a subclass's code."""
    plain = type(tensor) is torch.Tensor or type(tensor) is torch.nn.Parameter
    return plain and not (tensor.is_quantized or tensor.is_nested) and holds_values(tensor)


def _checked(saved: Saved, raw: Any, unpack_all: Callable[[], Any]) -> Saved:
    """Return `saved`, as modified where its version is not the saved one. Nothing unpacked here may have a hook."""
    said = _complaint(raw.unpack) if unpacks_alone else _BY_ITS_NODE
    if said and not _VERSIONS.search(said):
        # An output, which only its own node can unpack; the node complains of the first mismatch in all that it saved.
        said = _complaint(unpack_all)
    found = _VERSIONS.search(said)
    if found and int(found[1]) == saved.version and _is_about(said, saved):
        return replace(saved, state="modified", expected=int(found[2]))
    return saved


def _is_about(complaint: str, saved: Saved) -> bool:
    """Whether a complaint can be of this one of all that a node has saved, by the shape that it tells."""
    found = _SHAPE.search(complaint)
    return found is None or saved.shape in (None, tuple(int(size) for size in found[1].split(", ") if size))


def _complaint(unpack: Callable[[], Any]) -> str:
    try:
        unpack()
    except RuntimeError as error:
        return str(error)
    return ""
