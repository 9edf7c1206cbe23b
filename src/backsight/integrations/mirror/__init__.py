"""What is recorded, shown elsewhere too while it is recorded: TensorBoard, Weights & Biases, MLflow.

    run directory -> Digest (few numbers, by module) -> sinks

A mirror reads the run directory, as every reader does, in a thread of its own: training knows nothing of it.
"""

from backsight.integrations.mirror.mirror import Mirror, Sinks
from backsight.integrations.mirror.mlflow import MLflow
from backsight.integrations.mirror.sink import SINKS, Chart, Sink, sink
from backsight.integrations.mirror.tensorboard import TensorBoard
from backsight.integrations.mirror.wandb import WandB

__all__ = ["SINKS", "Chart", "MLflow", "Mirror", "Sink", "Sinks", "TensorBoard", "WandB", "sink"]
