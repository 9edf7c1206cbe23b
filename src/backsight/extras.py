"""What can be installed beside backsight: each package, the extra that brings it, and what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Package:
    """A package that some of backsight needs.

    module: what is imported; distribution: what is installed.
    extra: of backsight's extras, the one that brings it; None where it is installed by itself.
    purpose: what becomes possible with it.
    """

    module: str
    distribution: str
    extra: str | None
    purpose: str

    @property
    def command(self) -> str:
        """The command that installs it."""
        return f"pip install {self.distribution}" if self.extra is None else f'pip install "backsight[{self.extra}]"'


PACKAGES = (
    Package("starlette", "starlette", "view", "backsight view: runs in the browser"),
    Package("uvicorn", "uvicorn", "view", "backsight view: runs in the browser"),
    Package("pandas", "pandas", "runs", "run.frame(), p.to_pandas()"),
    Package("pyarrow", "pyarrow", "runs", 'run.export("x.parquet"), run.frame(as_="arrow")'),
    Package("polars", "polars", None, 'run.frame(as_="polars")'),
    Package("matplotlib", "matplotlib", "plot", "run.plot(), StepMemory.plot()"),
    Package("cairosvg", "cairosvg", None, 'graph.draw("x.png"); resvg_py does the same'),
    Package("networkx", "networkx", None, "graph.to_networkx()"),
    Package("IPython", "ipython", None, "%load_ext backsight in notebooks"),
    Package("pytest", "pytest", None, "explanations in test reports, no_leaked_graphs"),
    Package("lightning", "lightning", "lightning", "backsight.integrations.lightning"),
    Package("transformers", "transformers", "transformers", "backsight.integrations.transformers"),
    Package("accelerate", "accelerate", "transformers", "the Trainer of transformers; its wrappers are seen through"),
    Package("wandb", "wandb", "wandb", 'Mirror(run, "wandb")'),
    Package("mlflow", "mlflow-skinny", "mlflow", 'Mirror(run, "mlflow")'),
    Package("tensorboard", "tensorboard", None, "to look at what run.to_tensorboard() and Mirror write without it"),
)
"""Every optional package; an integration does not load without its own, all else says what is missing when it is."""


def needed(module: str) -> Any:
    """Return a package that is needed now.

    Raises:
        ImportError: if it is not installed, with the command that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise  # it is there, and something that it needs is not
        package = next(each for each in PACKAGES if each.module == top)
        raise ImportError(f"This needs {top}, which is not installed: {package.command}", name=top) from error
