"""The one part of backsight that is not Python; all else is in pyproject.toml.

`optional`: where there is no compiler, backsight installs without it, and measures with PyTorch's own operations.
"""

from __future__ import annotations

import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

STATISTICS = "src/backsight/recording/statistics"
HEADERS = ("_blocks", "_job", "_levels", "_row", "_sheet", "_tensors", "_threads")
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
    cmdclass={"build_ext": Build},
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE_ABI else {},
)
