"""PyTorch's messages, as each version words them: all that reads them understands every version."""

import builtins
import json
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import backsight as bs
from backsight.diagnosis.errors import ERRORS, known
from backsight.diagnosis.errors.modified import Said, said_by
from backsight.diagnosis.errors.unused_in_ddp import without_gradient
from backsight.diagnosis.evidence.elsewhere import elsewhere
from backsight.profiling.marks import Marks
from backsight.profiling.subjects import Subjects
from backsight.tape import Hushed, saved
from backsight.verification.conduct import of_error

HERE = Path(__file__).parent


def number(version):
    return tuple(int(part) for part in version.split(".")[:3])


FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in HERE.glob("[0-9]*.json")}
AWAITED = json.loads(
    (HERE / "awaited.json").read_text(encoding="utf-8")
)  # by version: programs not collected there yet
MESSAGES = {
    version: FILES[version]["messages"] | dict.fromkeys(AWAITED.get(version, ()))
    for version in sorted(FILES, key=number)
}
PINNED = (HERE.parent.parent / "constraints.txt").read_text(encoding="utf-8").partition("torch==")[2].split()[0]
CODES = {entry.code for entry in ERRORS}

every_version = pytest.mark.parametrize("version", MESSAGES)


def error(message):
    """Return an exception with this text, of a class of this name, without a traceback."""
    cls = getattr(builtins, message["type"], None) or type(message["type"], (RuntimeError,), {})
    made = cls(message["text"])
    if "cause" in message:
        made.__cause__ = RuntimeError(message["cause"])
    return made


def of(version, *codes):
    """Return the messages of a version that are meant for one of these explanations."""
    said = MESSAGES[version].items()
    return {name: message for name, message in said if message is not None and message["code"] in codes}


def told(version, table):
    """Yield what is expected of a message, and the message, for those of a table that the version gives."""
    for name, expected in table.items():
        if (message := MESSAGES[version][name]) is not None:
            yield name, expected, message


def claims(text):
    return {entry.code for entry in ERRORS if entry.pattern.search(text)}


@every_version
class TestExplanations:
    def test_are_found_for_what_they_are_meant_for_and_claim_nothing_of_another(self, version):
        meant = of(version, *CODES)
        assert {name: claims(message["text"]) for name, message in meant.items()} == {
            name: {message["code"]} | AND_ITS_READER.get(name, set()) for name, message in meant.items()
        }, READ_TWICE

    def test_claim_nothing_that_none_of_them_is_meant_for(self, version):
        others = of(version, None)
        assert len(others) > 40
        assert [name for name, message in others.items() if known(message["text"], error(message))] == []

    def test_have_messages_in_each_version_that_can_give_them(self, version):
        missing = CODES - {message["code"] for message in of(version, *CODES).values()}
        awaited = {MESSAGES[PINNED][name]["code"] for name in AWAITED.get(version, ())}
        new = {"BS218"} if number(version) < (2, 10) else set()  # the warning about streams is new there
        assert missing - awaited == new - awaited

    def test_cope_with_the_text_alone(self, version):
        for name, message in of(version, *CODES - {"BS213"}).items():  # of None's, the text alone does not tell
            if name == "a_sum_in_place_under_vmap":  # nor of a text that plain tensors have too
                continue
            finding = bs.explain(error(message))
            assert finding.code == message["code"], name
            assert "could not look closer" not in str(finding), name

    def test_read_what_was_changed_and_how_often(self, version):
        for name, expected, message in told(version, CHANGED):
            assert said_by(message["text"]) == expected, name
        assert [name for name, message in of(version, "BS202").items() if said_by(message["text"]) is None] == []

    def test_read_details(self, version):
        for name, expected, message in told(version, DETAILS):
            text = " ".join(str(bs.explain(error(message))).split())
            assert [each for each in expected if each not in text] == [], (name, text)

    def test_read_which_parameters_got_no_gradient(self, version):
        for name, expected, message in told(version, UNUSED):
            assert without_gradient(message["text"]) == expected, name

    def test_read_where_an_error_was_raised(self, version):
        for name, expected, message in told(version, ELSEWHERE):
            found = elsewhere(error(message))
            assert found is not None, name
            assert (found.where, found.place and found.place.file) == expected


AND_ITS_READER = {  # the codes whose patterns fit as well: their explanations tell the two apart by the exception
    "a_missing_gradient_as_a_number": {"BS222"},  # so does an optimizer whose closure returns None
    "none_to_take_the_gradient_of": {"BS213"},  # that of a gradient which is None
}
READ_TWICE = "narrow the pattern that fits too much, or let its when= tell the two apart and add it to AND_ITS_READER"


CHANGED = {  # shape, version now, version when it was saved, and which operation made it
    "a_saved_result_changed": Said((3,), 1, 0, "Exp"),
    "a_saved_result_changed_under_no_grad": Said((3,), 1, 0, "Exp"),
    "a_saved_result_changed_in_anomaly_mode": Said((3,), 1, 0, "Exp"),
    "a_saved_leaf_changed": Said((2, 3), 1, 0, ""),
    "a_saved_scalar_changed": Said((), 1, 0, "Exp"),
    "a_saved_constant_changed_three_times": Said((3,), 3, 1, ""),
    "saved_indices_changed": Said((2,), 1, 0, ""),
    "a_saved_result_of_complex_numbers_changed": Said((2,), 1, 0, "Exp"),
    "a_saved_weight_changed_by_an_optimizer": Said((4, 2), 2, 1, "AsStrided"),
    "a_saved_result_changed_through_a_view": Said((3, 3), 1, 0, "Exp"),
    "a_saved_activation_changed_by_a_module": Said((3,), 1, 0, "Sigmoid"),
    "the_result_of_a_custom_function_changed_after_it_was_saved": Said((3,), 1, 0, "Double"),
    "a_saved_nested_tensor_changed": Said(None, 1, 0, "Relu"),
    "a_saved_result_of_a_script_changed": Said((3,), 1, 0, "DifferentiableGraph"),
}

UNUSED = {  # numbers of parameters
    "unused_parameters": {2, 3},
    "unused_parameters_with_info": {2, 3},
    "unused_parameters_with_a_search_for_them": {2, 3},
    "unused_parameters_of_a_static_graph": {2, 3},
}

ELSEWHERE = {
    "backward_of_a_constant_in_a_worker_of_a_loader": ("in DataLoader worker process 0", "errors_of_processes.py"),
    "backward_of_a_constant_in_a_spawned_process": ("in process 0", "errors_of_processes.py"),
    "backward_twice_in_a_replica": ("in replica 0 on device 0", "errors_of_processes.py"),
    "a_leaf_changed_in_a_compiled_function": ("in what torch.compile traced", "errors_of_tensors.py"),
}

DETAILS = {  # what an explanation says that has the text alone
    "too_few_gradients": ["Scale's backward returns 1 gradient; its forward received 2 arguments."],
    "too_many_gradients": ["Scale's backward returns 3 gradients; its forward received 2 arguments."],
    "a_gradient_of_another_shape": ["Scale's backward", "input 0", "got [4] but expected shape compatible with [3]"],
    "a_gradient_of_two_dimensions": ["Scale's backward", "input 1", "got [2, 5] but expected"],
    "a_gradient_on_another_device": ["Scale's backward", "input 0", "expected device cpu but got meta"],
    "a_leaf_of_another_shape_since": ["input 1 of mm got another shape", "MmBackward0, input 1: got [4, 4]"],
    "one_of_several_views_changed": ["A view made by split was modified in place"],
    "one_of_several_unbound_views_changed": ["A view made by unbind was modified in place"],
    "a_view_returned_by_a_custom_function_changed": ["A view made by view was modified in place"],
    "a_view_of_a_view_made_under_no_grad_changed": ["A view made by slice was modified in place"],
    "a_view_made_under_no_grad_changed": ["A view was modified in place"],
    "fewer_tensors_saved_when_recomputed": ["The first run saved 4 tensors for backward, the second 3."],
    "fewer_tensors_saved_when_recomputed_to_the_end": ["The first run saved 4 tensors for backward, the second 3."],
    "other_operations_when_recomputed_with_debug": ["The first run saved 4 tensors for backward, the second 3."],
    "more_tensors_saved_when_recomputed": ["The second run saved more tensors for backward than the first."],
    "another_shape_when_recomputed": [
        "Saved tensor 0 was float32 of shape 2×3 on cpu in the first run and float32 of shape 4 on cpu in the second."
    ],
    "another_dtype_when_recomputed": [
        "Saved tensor 0 was float32 of shape 2 on cpu in the first run and float64 of shape 2 on cpu in the second."
    ],
    "a_scalar_when_recomputed": ["float32 of shape 2 on cpu in the first run and float32 of shape scalar on cpu"],
    "unused_parameters": ["Pass find_unused_parameters=True"],
    "unused_parameters_with_a_search_for_them": ["does not see a result that forward returns but nothing uses"],
    "unused_parameters_of_a_static_graph": ["static_graph=True promises"],
    "backward_of_several_values": ["must start from one number"],
    "backward_of_a_complex_number": ["must start from one real number"],
    "an_inference_tensor_saved_for_backward": ["autograd cannot save it for backward"],
    "an_inference_tensor_changed_outside": ["it can be modified in place only in that mode"],
    "an_inference_tensor_asked_for_its_gradient": ["it can never require grad"],
    "cdist_differentiated_twice": ["cdist can be differentiated only once", "Write the distances"],
    "pdist_differentiated_twice": ["pdist can be differentiated only once", "Write the distances"],
    "ctc_differentiated_twice": ["ctc_loss can be differentiated only once"],
    "embedding_bag_differentiated_twice": ["embedding_bag can be differentiated only once"],
    "attention_differentiated_twice": ["scaled_dot_product_attention can be differentiated only once", "MATH"],
    "a_sample_of_a_volume_differentiated_twice": ["grid_sampler_3d can be differentiated only once"],
    "a_recurrent_network_of_cudnn_differentiated_twice": ["rnn can be differentiated only once", "cudnn.flags"],
    "a_function_marked_once_differentiable_differentiated_twice": ["is marked @once_differentiable"],
    "a_product_over_zeros_scattered_to_one_place_differentiated_twice": ["scatter_reduce can be differentiated"],
    "a_compiled_function_differentiated_twice": ["A compiled function can be differentiated only once"],
}


@pytest.mark.parametrize("entry", ERRORS, ids=lambda entry: f"{entry.code}: {entry.pattern.pattern}")
def test_each_pattern_fits_a_message_that_it_is_meant_for(entry):
    said = [message for version in MESSAGES for message in of(version, entry.code).values()]
    assert any(entry.pattern.search(message["text"]) for message in said)


@every_version
def test_a_graph_reads_the_versions_of_a_saved_tensor_from_the_complaint(version):
    for name, message in of(version, "BS202").items():
        told = said_by(message["text"])
        raw = SimpleNamespace(unpack=lambda text=message["text"]: (_ for _ in ()).throw(RuntimeError(text)))
        found = saved._checked(saved.Saved("self", "alive", version=told.version), raw, raw.unpack)
        assert (found.state, found.expected) == ("modified", told.expected), name


@every_version
def test_verify_reads_what_a_backward_raises(version):
    operation = SimpleNamespace(backward="Scale.backward", paths=lambda: [(0,), (1,)], argument="xy".__getitem__)
    found = {name: of_error(operation, error(message)) for name, message in of(version, *CODES).items()}
    assert {found[name][0] for name in of(version, "BS202")} == {"BS412"}
    titles = {
        "too_few_gradients": "Scale.backward returns 1 gradients for 2 arguments.",
        "too_many_gradients": "Scale.backward returns 3 gradients for 2 arguments.",
        "a_gradient_of_another_shape": "Scale.backward lacks a sum in the gradient of `x`.",
        "a_gradient_of_two_dimensions": "Scale.backward returns a gradient of the wrong shape for `y`.",
    }
    assert {name: found[name][1].title for name in titles} == titles


@contextmanager
def of_marks():
    marks = Marks(Subjects((), ()))
    marks.install()
    yield
    marks.remove()


@contextmanager
def of_a_watch():
    hushed = Hushed()
    yield
    hushed.remove()


@pytest.mark.parametrize("hush", [of_a_watch, of_marks])
@every_version
def test_nobody_is_warned_of_our_hooks_under_compile(version, hush):
    if (message := MESSAGES[version]["a_compiled_module_under_global_hooks"]) is None:
        assert number(version) < (2, 8)  # such a module ran without a warning
        return
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with hush():
            warnings.warn(message["text"], UserWarning, stacklevel=1)
        assert given == []
        warnings.warn(message["text"], UserWarning, stacklevel=1)
        assert len(given) == 1


@pytest.fixture(scope="module")
def today():
    """The messages of the PyTorch that runs this, from a process of its own, as some programs leave things behind."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment.pop("TORCH_DISTRIBUTED_DEBUG", None)
    ended = subprocess.run(
        [sys.executable, str(HERE / "collect.py"), "--print"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout[ended.stdout.index("{") :])  # below what Gloo prints there, of some versions


def test_the_file_of_this_version_is_up_to_date(today):
    kept = FILES.get(today["torch"])
    if kept is None:
        pytest.skip(f"no messages of PyTorch {today['torch']} are kept: python tests/messages/collect.py")
    said = {name: each for name, each in today["messages"].items() if name not in AWAITED.get(today["torch"], ())}
    assert set(kept["messages"]) == set(said), "python tests/messages/collect.py"
    if kept["python"] == today["python"]:  # others word what is said of None, and draw tracebacks, in their own way
        assert kept["messages"] == said, "python tests/messages/collect.py"


def test_the_messages_of_this_version_are_understood(today):
    said = {name: message for name, message in today["messages"].items() if message is not None}
    meant = {name: message for name, message in said.items() if message["code"] is not None}
    assert {name: claims(message["text"]) for name, message in meant.items()} == {
        name: {message["code"]} | AND_ITS_READER.get(name, set()) for name, message in meant.items()
    }, READ_TWICE
    others = {name: message for name, message in said.items() if message["code"] is None}
    assert [name for name, message in others.items() if known(message["text"], error(message))] == []


def test_every_version_has_every_program_or_awaits_it():
    names = {version: set(said) for version, said in MESSAGES.items()}
    assert names == dict.fromkeys(MESSAGES, names[PINNED]), "python tests/messages/collect.py"


def test_only_what_is_not_collected_is_awaited_and_all_is_collected_of_the_pinned_version():
    collected = {version: sorted(FILES[version]["messages"].keys() & set(names)) for version, names in AWAITED.items()}
    assert collected == {version: [] for version in FILES.keys() - {PINNED} if version in AWAITED}, "collect.py"
