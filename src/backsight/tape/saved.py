"""What a node keeps for its backward, looked at without unpacking, copying or recomputing anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from backsight.tape._torch import CHECKED, RAW, can_read, forward_class
from backsight.tape.graph import Saved, ref_to

_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")


def saved_by(node: Any, *, finite: bool = False) -> tuple[Saved, ...]:
    """Return what a live `node` has saved. With `finite`, look at the values too, which reads all of their memory."""
    node_type = type(node)
    if forward_class(node_type) is not None:
        return tuple(_of_custom(node, finite))
    fields = _fields(node_type)
    return tuple(_of_builtin(node, fields, finite)) if fields else ()


@lru_cache(maxsize=None)
def _fields(node_type: type) -> tuple[str, ...]:
    """The names of the saved tensors of a C++ node; `dir` is slow and there are some 650 types."""
    return tuple(name.removeprefix(RAW) for name in dir(node_type) if name.startswith(RAW))


def _of_builtin(node: Any, fields: tuple[str, ...], finite: bool) -> Iterator[Saved]:
    for name in fields:
        try:
            raw = getattr(node, RAW + name)
        except RuntimeError:  # a list of saved tensors that a backward has released says so by raising
            yield Saved(name, "freed")
            continue
        many = isinstance(raw, (tuple, list))
        for k, one in enumerate(raw if many else (raw,)):
            if one is not None:
                saved = _read(one, f"{name}[{k}]" if many else name, finite)
                if saved is not None:
                    yield _checked(saved, node, CHECKED + name) if saved.version else saved


def _of_custom(node: Any, finite: bool) -> Iterator[Saved]:
    try:
        raw = node._raw_saved_tensors
    except RuntimeError:
        yield Saved("saved_tensors", "freed")
        raw = ()
    read = [_read(one, f"saved_tensors[{k}]", finite) for k, one in enumerate(raw or ())]
    hooked = any(s is not None and s.state != "alive" for s in read)
    for saved in read:
        if saved is not None:
            yield _checked(saved, node, "saved_tensors") if saved.version and not hooked else saved
    # Tensors that the user's forward put on ctx as plain attributes: kept alive too, but outside of autograd's sight.
    for name, value in object.__getattribute__(node, "__dict__").items():
        if isinstance(name, str) and issubclass(type(value), torch.Tensor):
            yield _describe(value, f"ctx.{name}", finite)


def _read(raw: Any, name: str, finite: bool) -> Saved | None:
    """Return what `raw` holds; None if nothing was saved there (an input that was None)."""
    if not can_read(raw):
        return Saved(name, "unread")
    if raw.unpack_hook is not None:
        return Saved(name, "hooked")
    if raw.data is not None:
        return _describe(raw.data, name, finite)
    try:
        raw.unpack()  # without hook and data: gives None where None was saved, raises where backward has released it
    except RuntimeError:
        return Saved(name, "freed")
    return None


def _describe(tensor: torch.Tensor, name: str, finite: bool) -> Saved:
    storage, storage_bytes, size = _memory(tensor)
    return Saved(
        name,
        "alive",
        shape=tuple(tensor.shape) if not tensor.is_nested else None,
        dtype=tensor.dtype,
        bytes=size,
        storage=storage,
        storage_bytes=storage_bytes,
        version=None if tensor.is_inference() else tensor._version,
        finite=_is_finite(tensor) if finite else None,
        requires_grad=tensor.requires_grad,
        is_leaf=tensor.requires_grad and tensor.is_leaf,
        ref=ref_to(tensor),
    )


def _memory(tensor: torch.Tensor) -> tuple[int | None, int, int]:
    """Return the storage's identity, its bytes, and the tensor's own bytes; a sparse tensor counts its parts."""
    try:
        storage = tensor.untyped_storage()
        return storage._cdata, storage.nbytes(), tensor.numel() * tensor.element_size()
    except (RuntimeError, NotImplementedError):  # sparse, opaque and functorch tensors have no storage
        parts = _parts(tensor)
        size = sum(p.numel() * p.element_size() for p in parts)
        return (id(tensor) if parts else None), size, size


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def _is_finite(tensor: torch.Tensor) -> bool | None:
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return None
    try:
        with torch.no_grad():
            return bool(torch.isfinite(tensor).all())
    except (RuntimeError, NotImplementedError):  # fake, quantized or opaque: there are no values to look at
        return None


def _checked(saved: Saved, node: Any, getter: str) -> Saved:
    """Compare versions through the checking getter. Only reached for tensors without hooks whose version is not 0."""
    try:
        getattr(node, getter)
    except RuntimeError as error:
        found = _VERSIONS.search(str(error))
        if found and int(found[1]) == saved.version:
            return Saved(**{**vars(saved), "state": "modified", "expected": int(found[2])})
    return saved
