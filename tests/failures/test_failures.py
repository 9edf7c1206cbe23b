"""The acceptance test of the explanations: scripts that fail as their authors' did, and what is said of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from accept import accepted, accepted_form, difference, others_of, text_of
from columns import COLUMNS
from running import Told, told
from scripts import ROOT, Script, examples, scripts

from backsight.findings.evidence import evidence_of

EXAMPLES = [script.path for script in examples()]
NAMES = [script.name for script in scripts()]
"""The scripts, which are only at hand while one is tried: a search for names would follow all of them each time."""

MISSED = frozenset(
    {
        "grad_none/gradient_in_a_variable",
        "grad_none/no_backward_yet",
        "inference/filled_by_a_method",
        "modified/activation_of_a_sequential",
        "modified/averaged_between_the_passes",
        "modified/changed_before_and_after",
        "modified/clipped_elsewhere",
        "modified/comprehension_normalise",
        "modified/corner_of_the_field",
        "modified/critique_kept_by_trainer",
        "modified/dict_entry_plus_equals",
        "modified/dropout_behind_each_activation",
        "modified/dropout_from_config",
        "modified/inplace_factory",
        "modified/inplace_relu_config",
        "modified/lambda_dropout",
        "modified/other_sigmoid",
        "modified/path_in_a_list",
        "modified/reload_between",
        "modified/rows_of_a_game",
        "modified/scaling_pre_hook",
        "modified/swa_update",
        "modified/target_network",
        "modified/two_peers",
        "modified/two_players",
        "no_grad/enabled_within_a_block",
        "no_grad/int_cast_index",
        "no_grad/mode_of_a_tester_ma",
        "no_grad/optional_context",
        "no_grad/order_in_a_partial",
        "no_grad/order_of_a_trainer",
        "no_grad/overlap_of_masks",
        "no_grad/picture_from_its_gradient",
        "no_grad/second_derivative_of_a_linear_energy",
        "scalar/hooks_that_take_the_gradients_of_samples",
        "no_grad/second_of_max",
        "no_grad/sign_comparison",
        "no_grad/wrapped_metric",
        "refused/labels_as_counts",
        "refused/returns_of_an_agent",
        "scalar/error_of_each_channel",
        "scalar/lambda_loss",
        "scalar/second_of_two",
        "second_backward/advantage_in_methods",
        "second_backward/average_beside_a_hook",
        "second_backward/average_out_of_sight",
        "second_backward/cached_parametrization",
        "second_backward/caches_of_two_streams",
        "second_backward/clamped_between",
        "second_backward/distribution_of_a_memo",
        "second_backward/first_order_of_a_flag",
        "second_backward/generator_of_batches",
        "second_backward/gradient_on_the_way",
        "second_backward/heads_that_take_turns",
        "second_backward/levels_of_a_tank_ma",
        "second_backward/logging_then_backward",
        "second_backward/norms_shown_before_the_step",
        "second_backward/notebook_cells",
        "second_backward/nudged_between",
        "second_backward/nudged_by_data",
        "second_backward/partial_anchor",
        "second_backward/priorities_with_a_graph",
        "second_backward/projection_pruned",
        "second_backward/regularized_in_the_second",
        "second_backward/rollout_in_an_object",
        "second_backward/scores_of_a_worker_thread",
        "second_backward/shelves_of_a_store_ma",
        "second_backward/states_of_a_world_model",
        "second_backward/tuple_of_states",
        "second_backward/two_slopes_of_one_pass",
    }
)
"""The scripts whose cause is not found after the fact, without a watch. This list only ever gets shorter."""


NEED_COLUMNS = frozenset(
    {
        "empty_optimizer/made_by_a_function",
        "leaf_in_place/clamp_in_function",
        "modified/dropout_from_config",
        "modified/gate_of_a_trainer",
        "modified/inplace_factory",
        "modified/inplace_relu_config",
        "modified/lambda_dropout",
        "modified/marks_and_notes",
        "modified/scaling_pre_hook",
        "no_grad/int_cast_index",
        "no_grad/second_of_max",
        "no_grad/sign_comparison",
        "no_grad/wrapped_metric",
    }
)
"""The scripts whose cause is named by an expression in its line, which Python 3.10 does not tell."""


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Script:
    return Script(ROOT / f"{request.param}.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the tests their scripts. No decorator does: its list would stay in this module, in sight of each search for
    names."""
    if "script" in metafunc.fixturenames:
        metafunc.parametrize("script", NAMES, indirect=True)


PINNED = torch.__version__.startswith("2.13.") and COLUMNS
"""Whether texts were accepted with this PyTorch; others make other nodes, and an older Python has no columns."""


def told_of(script: Script, watched: bool) -> Told:
    """What is said of a script, which is as it was accepted, and claims to know nothing that was only read."""
    found = told(script, watched)
    if not found.failed and found.finding is None and "mended" in script.head:
        pytest.skip(script.head["mended"])
    if found.finding is not None and found.finding.exact:
        assert "read" not in {evidence_of(each).certainty for each in found.finding.evidence}
    if PINNED:
        assert_accepted(accepted(script, watched), text_of(found), script.name)
    return found


def skip_without_columns(script: Script, found: Told) -> None:
    if not COLUMNS and script.name in NEED_COLUMNS:
        assert found.finding is not None and found.finding.code == script.head["code"]
        pytest.skip("Python 3.10 knows the line of an instruction, and not where in it")


@pytest.mark.one_in(4)
def test_under_an_exact_watch_the_cause_is_found(script: Script) -> None:
    found = told_of(script, watched=True)
    skip_without_columns(script, found)
    assert found.missing == [], str(found.finding)
    assert found.finding is not None
    assert found.finding.exact is ("unsure" not in script.head), str(found.finding)


@pytest.mark.one_in(4, first=2)
def test_after_the_fact_it_is_found_too_unless_it_is_known_to_be_missed(script: Script) -> None:
    found = told_of(script, watched=False)
    if found.missing:
        skip_without_columns(script, found)
    if script.name in MISSED:
        assert found.missing, "this one is found now: take it off the list"
        assert found.finding is not None
        assert found.finding.code == script.head["code"]
        assert not found.finding.exact or points_at_the_failure(found), "it claims to know what it does not"
    else:
        assert found.missing == [], str(found.finding)


def assert_accepted(before: str, now: str, name: str) -> None:
    changed = difference(before, now, name)
    assert not changed, f"{changed}\n\nIf this is better, `make accept` and read the differences."


@pytest.mark.skipif(not PINNED, reason="texts are accepted with PyTorch 2.13, on Python 3.11 and later")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_said_of_an_example_is_what_was_accepted(path: Path) -> None:
    script = Script(path)
    for watched in (False, True):
        assert_accepted(accepted(script, watched), text_of(told(script, watched)), script.name)


@pytest.mark.parametrize("name", [script.name for script in scripts() if script.forms])
def test_what_is_said_of_each_form_of_a_cause_is_what_was_accepted(name: str) -> None:
    script = Script(ROOT / f"{name}.py")
    after = text_of(told_of(script, watched=False))
    for form in script.forms:
        found = told(script, watched=False, form=form)
        assert found.finding is not None and found.finding.code == script.head["code"], form
        if PINNED:
            assert_accepted(accepted_form(script, form), others_of(text_of(found), after), f"{name}, {form}")


def points_at_the_failure(found: Told) -> bool:
    """Whether nothing is claimed but where the program failed, which is exact of course."""
    return found.finding is not None and found.finding.source == found.failed_at


def test_there_are_enough_of_them_and_several_of_each_class() -> None:
    kinds = Counter(name.partition("/")[0] for name in NAMES)
    assert len(NAMES) >= 780
    assert len(kinds) >= 15
    assert min(kinds.values()) >= 3


def test_the_share_that_is_found_after_the_fact_only_grows() -> None:
    assert {*NAMES} >= MISSED
    assert 1 - len(MISSED) / len(NAMES) >= 0.91


def test_the_head_of_each_script_is_true_of_its_text() -> None:
    for script in scripts():
        assert script.head.keys() >= {"code", "variable", "fix"} and script.source, script.name
        assert "backsight" not in script.path.read_text(encoding="utf-8"), script.name
