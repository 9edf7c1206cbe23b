"""What `bench/performance.py` keeps of a benchmark, and what it refuses."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture
def performance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, on a machine whose processors the tests decide about, with a benchmark that says two lines."""
    spec = importlib.util.spec_from_file_location("bench_performance", BENCH / "performance.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "imports.py").write_text(
        "import json, os, pathlib\npathlib.Path(os.environ['BENCH_KEPT']).write_text(json.dumps({'note': 'met'}))\n"
    )
    monkeypatch.setattr(module, "HERE", tmp_path / "bench")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(module, "wait_until_quiet", lambda: None)
    monkeypatch.setattr(sys, "argv", ["performance.py", "imports"])
    return module


def test_what_was_measured_on_a_quiet_machine_is_kept(
    performance: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performance.Others, "cores", lambda others: 0.1)
    performance.main()
    kept = json.loads((tmp_path / "results" / "imports.json").read_text())
    assert kept["parts"] == [{"note": "met"}]
    assert kept["machine"]["others"] == 0.1


def test_what_was_measured_beside_other_work_is_refused(
    performance: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(performance.Others, "cores", lambda others: 0.8)
    with pytest.raises(SystemExit) as ended:
        performance.main()
    assert ended.value.code == 1
    assert "others used 0.8 cores while imports was measured: nothing is kept" in capsys.readouterr().err
    assert not (tmp_path / "results" / "imports.json").exists()


def test_what_has_no_times_is_kept_beside_other_work(
    performance: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performance.Others, "cores", lambda others: 0.8)
    monkeypatch.setattr(performance, "WITHOUT_TIMES", {"imports"})
    monkeypatch.setattr(performance, "wait_until_quiet", lambda: pytest.fail("it need not wait"))
    performance.main()
    kept = json.loads((tmp_path / "results" / "imports.json").read_text())
    assert kept["machine"]["others"] == 0.8


def test_the_work_of_others_is_told_from_our_own(performance: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, total, own = iter([100.0, 110.0]), iter([1_000.0, 1_012.0]), iter([50.0, 59.0])
    monkeypatch.setattr(performance.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(performance, "_all", lambda: next(total))
    monkeypatch.setattr(performance, "_own", lambda: next(own))
    assert performance.Others().cores() == pytest.approx(0.3)
