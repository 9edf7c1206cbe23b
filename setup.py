"""The one part of backsight that is not Python; all else is in pyproject.toml.

`optional`: where there is no compiler, backsight installs without it, and measures with PyTorch's own operations.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

STATISTICS = "src/backsight/recording/statistics"
HEADERS = ("_blocks", "_imprint", "_job", "_levels", "_prints", "_row", "_sheet", "_strided", "_tensors", "_threads")
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")  # free-threaded Python has no stable ABI yet
FLAGS = {"msvc": ["/O2", "/std:c11"]}
UNIX_FLAGS = ["-O3", "-std=c11", "-fopenmp-simd", "-pthread"]


class Build(build_ext):
    """Gives each compiler the flags that it knows."""

    def build_extensions(self) -> None:
        unix = self.compiler.compiler_type != "msvc"
        for extension in self.extensions:
            extension.extra_compile_args = UNIX_FLAGS if unix else FLAGS["msvc"]
            extension.extra_link_args = ["-pthread"] if unix else []
        super().build_extensions()


class Pages(build_py):
    """Takes the pages of the codes along, for `backsight explain BS201`."""

    def run(self) -> None:
        super().run()
        for page, place in self._pages():
            self.mkpath(str(Path(place).parent))
            self.copy_file(page, place)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(place for _, place in self._pages())]

    def _pages(self) -> list[tuple[str, str]]:
        """Each page, and where it goes; nowhere of an editable install, which finds them where they are."""
        folder = Path(self.build_lib, "backsight", "codes")
        pages = [] if self.editable_mode else sorted(Path("docs/codes").glob("BS*.md"))
        return [(str(page), str(folder / page.name)) for page in pages]


kernel = Extension(
    "backsight.recording.statistics._kernel",
    sources=[f"{STATISTICS}/_kernel.c"],
    depends=[f"{STATISTICS}/{header}.h" for header in HEADERS],
    define_macros=[("Py_LIMITED_API", "0x030A0000")] if STABLE_ABI else [],
    py_limited_api=STABLE_ABI,
    optional=True,
)

setup(
    ext_modules=[kernel],
    cmdclass={"build_ext": Build, "build_py": Pages},
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE_ABI else {},
)
