"""BS211: which parameters DistributedDataParallel waits for, and where their result is lost."""

import os
import sys

import fresh
import pytest
from failures import written
from torch import nn

import backsight as bs
from backsight.diagnosis.evidence.idle import trainable


@pytest.fixture
def said(tmp_path):
    """Run a program in a process of its own, as DDP wants it, and return what is said of its error."""

    def run(source: str) -> dict[str, str]:
        (tmp_path / "train.py").write_text(written(source))
        (tmp_path / "run.py").write_text(
            "import runpy, backsight\n"
            "try:\n    runpy.run_path('train.py', run_name='__main__')\n"
            "except RuntimeError as error:\n    finding = backsight.explain(error)\n"
            "print(repr({name: getattr(finding, name) for name in ('code', 'title', 'source', 'fix', 'exact')}))\n"
            "print('\\n'.join(map(str, finding.evidence)))\n"
        )
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("TORCH_DISTRIBUTED_DEBUG", None)
        ended = fresh.run([sys.executable, "run.py"], cwd=tmp_path, env=environment, timeout=120)
        assert ended.returncode == 0, ended.stderr
        said = [line for line in ended.stdout.splitlines(keepends=True) if not line.startswith("[Gloo]")]
        first, _, rest = "".join(said).partition("\n")
        return {**eval(first), "evidence": rest}

    return run


def test_with_the_search_for_unused_parameters_on():
    finding = bs.explain(
        RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs "
            "participate in computing loss."
        )
    )
    assert finding.code == "BS211"
    assert "does not see a result that forward returns but nothing uses" in finding.fix
    assert not finding.exact


def test_a_weight_that_two_modules_share_is_counted_once():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert list(trainable(model)) == ["0.weight", "0.bias", "1.bias"]
