"""What `backsight doctor` prints: what is there, what could be, and what is broken."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module, metadata
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from backsight._tested import NEWEST, newer_than_tested, spelt
from backsight._version import __version__
from backsight.extras import PACKAGES, Package
from backsight.surface import FEATURES, missing
from backsight.tables.printing import show
from backsight.text import inert

if TYPE_CHECKING:
    from backsight.text.rich import Table

State = Literal["ok", "missing", "broken", "whole", "lost"]

_STYLES = {"ok": "green", "missing": "dim", "broken": "bold red", "whole": "green", "lost": "yellow"}

_KERNEL = "backsight.recording.statistics._kernel"


@dataclass(frozen=True)
class Part:
    """Something that backsight runs with.

    version: which, or what else there is to say of it.
    purpose: what it is for; fix: how to get it, or to mend it; why: how it is broken.
    """

    name: str
    state: State
    version: str
    purpose: str
    fix: str = ""
    why: str = ""


def doctor(*, as_json: bool = False, imports: bool = False) -> int:
    """Print what backsight finds around it. Return 1 if something that is installed is broken, else 0.

    imports: whether each optional package is imported to see that it can be, and not only looked for; it takes seconds.
    """
    gc.disable()  # importing PyTorch and every room is most of what this does, and makes next to no garbage
    packages = partial(_packages, imports)
    parts = [*_environment(), *_quietly(_kernels), *_quietly(packages), *_quietly(_features)]
    gc.enable()
    if as_json:
        print(json.dumps({"backsight": __version__, "parts": [asdict(part) for part in parts]}, indent=2))
    else:
        show(_table([part for part in parts if part.state not in ("whole", "lost")]))
        print(inert("\n".join((*_inside(parts), *_advice(parts, imports)))))  # a command is not to be broken into lines
    return int(any(part.state == "broken" for part in parts))


def _environment() -> Iterator[Part]:
    yield Part("backsight", "ok", __version__, str(files("backsight")))
    machine = f"{platform.system()} {platform.machine()}"
    yield Part("Python", "ok", platform.python_version(), f"{sys.executable} on {machine}")
    torch, why = _imported("torch")
    if torch is None:
        yield Part("torch", "broken", _version("torch"), "needed for everything", "pip install torch", why)
        return
    is_newer = newer_than_tested(torch.__version__)
    aside = f"; newer than any version backsight was tested with ({spelt(NEWEST)})" if is_newer else ""
    yield Part("torch", "ok", torch.__version__, f"needed for everything{aside}")
    for number in range(torch.cuda.device_count()):
        yield Part(
            f"cuda:{number}", "ok", torch.cuda.get_device_name(number), "a device; statistics are computed on it"
        )
    if not torch.cuda.is_available():
        yield Part(
            "device", "ok", (f"CPU, {torch.get_num_threads()} of {os.cpu_count()} threads"), "no CUDA device found"
        )


def _kernels() -> Iterator[Part]:
    purpose, slower = "fast statistics of recordings", "; without it (no C compiler?) they are several times slower"
    again = "pip install --force-reinstall --no-deps backsight"
    if find_spec(_KERNEL) is None:
        yield Part("C kernel", "missing", "", f"{purpose}{slower}", again)
        return
    kernel, why = _imported(_KERNEL)
    if kernel is None:
        yield Part("C kernel", "broken", "", f"{purpose}{slower}", again, why)
    else:
        yield Part("C kernel", "ok", "", purpose)


def _packages(imports: bool) -> Iterator[Part]:
    for package in PACKAGES:
        if _is_there(package):
            module, why = _imported(package.module) if imports else (package, "")
            state: State = "broken" if module is None else "ok"
            fix = f"pip install --force-reinstall {package.distribution}" if module is None else ""
            yield Part(package.module, state, _version(package.distribution), package.purpose, fix, why)
        else:
            yield Part(package.module, "missing", "", package.purpose, package.command)


def _features() -> Iterator[Part]:
    """Yield what of PyTorch's inside could be reached, by what needs it."""
    inside = files("backsight")
    for path in sorted(Path(str(inside)).rglob("_torch.py")):
        module = ".".join(("backsight", *path.relative_to(str(inside)).with_suffix("").parts))
        room, why = _imported(module)
        if room is None:
            yield Part(module, "broken", "", "a part of backsight", why=why)
    for feature, lost in FEATURES.items():
        lacked = [need for need in missing() if need.feature == feature]
        names = ", ".join(dict.fromkeys(need.path for need in lacked))
        why = f"no {names}" if lacked else ""
        yield Part(feature, "lost" if lacked else "whole", "", lost if lacked else "", why=why)


def _quietly(parts: Callable[[], Iterator[Part]]) -> list[Part]:
    """Return parts without what packages print or warn of while they are imported."""
    said = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        warnings.simplefilter("ignore")
        return list(parts())


def _is_there(package: Package) -> bool:
    try:
        return find_spec(package.module) is not None
    except (ImportError, ValueError):  # a module without a spec
        return True


def _imported(module: str) -> tuple[Any, str]:
    """Return a module, or None and why it cannot be imported."""
    try:
        return import_module(module), ""
    except BaseException as error:  # whatever a package does: one that calls sys.exit() is broken as well
        if isinstance(error, KeyboardInterrupt):
            raise
        return None, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _version(distribution: str) -> str:
    names = (distribution, distribution.removesuffix("-skinny"))
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "?"


def _table(parts: list[Part]) -> Table:
    from backsight.text.rich import Table, Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for heading in ("part", "state", "version", "about"):
        table.add_column(heading)
    for part in parts:
        table.add_row(part.name, Text(part.state, _STYLES[part.state]), Text(part.version), Text(part.purpose))
    return table


def _inside(parts: list[Part]) -> Iterator[str]:
    """Yield, in lines, whether this PyTorch has inside what backsight uses, and what one has to do without."""
    lost = [part for part in parts if part.state == "lost"]
    count, version = len(lost) + sum(part.state == "whole" for part in parts), _version("torch")
    need = f"{count} features of backsight need internals of PyTorch; {version}"
    if not lost:
        yield from ("", f"{need} has all of them.")
        return
    yield from ("", f"{need} lacks those of {len(lost)}. Without them,")
    for part in lost:
        yield f"  {part.purpose}"
        yield f"    ({part.name}: {part.why})"


def _advice(parts: list[Part], imports: bool) -> Iterator[str]:
    """Yield what to do, in lines."""
    for state, heading in (("broken", "installed, but import fails:"), ("missing", "not installed:")):
        concerned = [part for part in parts if part.state == state]
        if concerned:
            yield from ("", heading)
        for fix in dict.fromkeys(part.fix for part in concerned):
            of = [part for part in concerned if part.fix == fix]
            yield from (f"  {part.name}: {part.why}" for part in of if part.why)
            brought = ", ".join(part.name for part in of)
            says_so = state == "broken" or fix.split()[-1].lower() == brought.lower()  # `pip install cairosvg` does
            yield f"  {fix}" + ("" if says_so else f"   # {brought}")
    if not any(part.state == "broken" for part in parts):
        more = "" if imports else " Optional packages were not imported: `backsight doctor --imports` tries each."
        yield from ("", f"Nothing is broken.{more}")
