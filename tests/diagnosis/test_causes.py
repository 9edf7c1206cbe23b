"""Which finding is told first, and which is a consequence of another."""

from __future__ import annotations

from dataclasses import replace

from backsight.diagnosis.causes import in_order, one_for_each_cause
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Place


def found(code, since=1, source="train.py:3", severity="warning"):
    return Finding(code, severity, f"{code} at {source}.", (), "Mend it.", source=source, since=since)


def codes(findings):
    return [each.code for each in findings]


def test_the_graver_comes_first_then_what_began_first_then_what_lets_no_gradient_arrive():
    every = [found("BS122"), found("BS115"), found("BS103", since=9), found("BS101", since=12, severity="error")]
    assert codes(in_order(every)) == ["BS101", "BS115", "BS122", "BS103"]


def test_what_only_a_lost_term_would_train_is_told_with_the_term_where_both_end_at_one_line():
    assert codes(one_for_each_cause([found("BS121"), found("BS102")])) == ["BS121"]
    assert codes(one_for_each_cause([found("BS121"), found("BS102", source="train.py:9")])) == ["BS121", "BS102"]


def test_saturation_is_a_consequence_of_a_wrong_mode_that_is_not_younger():
    assert codes(one_for_each_cause([found("BS116", since=4), found("BS131", since=4)])) == ["BS116"]
    assert codes(one_for_each_cause([found("BS116", since=5), found("BS131", since=4)])) == ["BS116", "BS131"]


def test_a_constant_term_is_a_consequence_of_frozen_parameters_that_are_not_younger():
    assert codes(one_for_each_cause([found("BS115", since=3), found("BS121", since=9)])) == ["BS115"]
    assert codes(one_for_each_cause([found("BS115", since=9), found("BS121", since=3)])) == ["BS115", "BS121"]


def test_gradients_that_another_loss_leaves_are_not_told_again_as_never_zeroed():
    leaves = replace(found("BS123"), evidence=(shown(Place("train.py", 9, "loss.backward()"), "adds to them."),))
    assert codes(one_for_each_cause([leaves, found("BS103", source="train.py:9")])) == ["BS123"]
    assert codes(one_for_each_cause([leaves, found("BS103", source="train.py:7")])) == ["BS123", "BS103"]


def test_that_two_optimizers_hold_the_same_is_a_consequence_of_the_one_that_took_the_place_of_the_other():
    assert codes(one_for_each_cause([found("BS128"), found("BS106", severity="note")])) == ["BS128"]
    assert codes(one_for_each_cause([found("BS128"), found("BS106")])) == ["BS128", "BS106"]
