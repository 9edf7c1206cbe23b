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
    Package("starlette", "starlette", "view", "recordings in a browser: backsight view"),
    Package("uvicorn", "uvicorn", "view", "recordings in a browser: backsight view"),
    Package("pandas", "pandas", "runs", "recordings and profiles as pandas tables: run.frame()"),
    Package("pyarrow", "pyarrow", "runs", "recordings as .parquet files and Arrow tables"),
    Package("polars", "polars", None, 'recordings as polars tables: run.frame(as_="polars")'),
    Package("matplotlib", "matplotlib", "plot", "plots of recordings and of memory: run.plot()"),
    Package("cairosvg", "cairosvg", None, 'pictures: graph.draw("x.png"); resvg and rsvg-convert will do, too'),
    Package("networkx", "networkx", None, "graphs for networkx: graph.to_networkx()"),
    Package("IPython", "ipython", None, "explanations in notebooks: %load_ext backsight"),
    Package("pytest", "pytest", None, "explanations in test reports"),
    Package("lightning", "lightning", "lightning", "a callback for Lightning's Trainer"),
    Package("transformers", "transformers", "transformers", "a callback for the Trainer of transformers"),
    Package("accelerate", "accelerate", "transformers", "trainings with Accelerate, as prepare() wraps them"),
    Package("wandb", "wandb", "wandb", "recordings sent to Weights & Biases as well"),
    Package("mlflow", "mlflow-skinny", "mlflow", "recordings sent to MLflow as well"),
    Package("tensorboard", "tensorboard", None, "recordings written for TensorBoard, in its own viewer"),
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
