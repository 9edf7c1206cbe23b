"""What `backsight forecast` prints."""

from __future__ import annotations

import traceback
from typing import Any

from backsight.memory import CannotForecast, NotAStep, forecast
from backsight.tables.printing import complain, show
from backsight.tables.target import TargetNotFound, found


def forecast_step(target: str, **options: Any) -> int:
    """Print the forecast of the step that a function does or makes, `module:function` or `file.py:function`.

    `options` are those of `backsight.forecast`. Returns 1 if a device was given and the step does not fit into it, and
    2 if there is no such function, it is no step, or it raises.
    """
    try:
        foretold = forecast(found(target, "train:step"), **options)
    except (TargetNotFound, CannotForecast) as error:
        complain(error)
        return 2
    except NotAStep as error:
        complain(error.at_command)
        return 2
    except Exception:  # of the program; what Python itself exits with, 1, would say that the step does not fit
        traceback.print_exc()
        return 2
    show(foretold)
    return int(foretold.device_memory is not None and not foretold.fits())
