"""What an answer's key depends on, varied one at a time: an answer is never another request's."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lm_eval.api.instance import Instance

from ladder_eval.execution import Execution
from ladder_eval.harness import answers
from ladder_eval.harness.arm import Arm, arm_of
from ladder_eval.models.checkpoint import read_config
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.selection import SelectedModel

CPU = Execution(device=torch.device("cpu"), dtype="float32", tp_size=1)
CONTEXT, CONTINUATION = "Which lamp", " is it?"
DRAWN = {"do_sample": True, "temperature": 0.5}


def score(lm, context=CONTEXT, continuation=CONTINUATION):
    lm.loglikelihood([Instance("loglikelihood", {}, (context, continuation), 0)])
    return lm.tally.scored_requests


def write(lm, prompt=CONTEXT, **kwargs):
    settings = {"max_gen_toks": 8} | kwargs
    lm.generate_until([Instance("generate_until", {}, (prompt, settings), 0)])
    return lm.tally.scored_requests


@pytest.mark.parametrize("computed", [score, write])
def test_the_same_request_is_answered_once_however_it_is_batched(make_lm, computed):
    assert computed(make_lm()) == 1
    assert computed(make_lm()) == 0
    assert computed(make_lm(batch_size=1)) == 0


@pytest.mark.parametrize(
    "other", [(CONTEXT, " isn't it?"), ("A lamp", CONTINUATION), ("Which", " lamp is it?")]
)
def test_texts_and_where_they_are_divided_are_in_the_key(make_lm, other):
    assert score(make_lm()) == 1
    assert score(make_lm(), *other) == 1


@pytest.mark.parametrize(
    ("prompt", "kwargs"),
    [
        ("Which lamps", DRAWN),
        (CONTEXT, {}),
        (CONTEXT, DRAWN | {"temperature": 0.6}),
        (CONTEXT, DRAWN | {"top_p": 0.9}),
        (CONTEXT, DRAWN | {"top_k": 5}),
        (CONTEXT, DRAWN | {"max_gen_toks": 9}),
        (CONTEXT, DRAWN | {"until": ["."]}),
    ],
)
def test_everything_about_a_generation_is_in_the_key(make_lm, prompt, kwargs):
    assert write(make_lm(), **DRAWN) == 1
    assert write(make_lm(), prompt, **kwargs) == 1
    assert write(make_lm(), **DRAWN) == 0


@pytest.mark.parametrize(
    "settings", [{"seed": 1}, {"eos": (2,)}, {"think_end_token": "</think>"}, {"max_length": 12}]
)
def test_so_are_the_models_settings(make_lm, settings):
    assert write(make_lm(), **DRAWN) == 1
    assert write(make_lm(**settings), **DRAWN) == 1


def test_a_text_that_was_drawn_twice_is_two_requests(make_lm):
    lm = make_lm()
    asked = Instance("generate_until", {}, (CONTEXT, {"max_gen_toks": 8, **DRAWN}), 0)
    lm.generate_until([asked, asked])
    assert lm.tally.scored_requests == 2


@pytest.mark.parametrize("computed", [score, write])
def test_another_model_or_engine_answers_anew(make_lm, monkeypatch, computed):
    assert computed(make_lm()) == 1
    assert computed(make_lm(identity=("model", "bfloat16"))) == 1
    monkeypatch.setattr(answers, "ENGINE_VERSION", answers.ENGINE_VERSION + 1)
    assert computed(make_lm()) == 1


@pytest.fixture
def arm(tiny_checkpoint):
    model = SelectedModel(
        name="tiny",
        folder=tiny_checkpoint,
        config=read_config(tiny_checkpoint),
        weights="",
        adaptation="",
        baseline=None,
    )
    return arm_of(model, Path(tiny_checkpoint), 1)


def as_residual(arm: Arm, residual, tp_size=1):
    config = ResidualChoice(residual=residual).apply(arm.model.config, "tiny")
    return replace(arm, model=replace(arm.model, config=config), tp_size=tp_size)


def test_a_models_identity_is_all_that_its_answers_depend_on(arm, monkeypatch):
    config = arm.model.config
    others = [
        replace(arm, weights_sha256="0" * 64),
        replace(arm, tokenizer_sha256="0" * 64),
        replace(arm, model=replace(arm.model, config=replace(config, rms_norm_eps=1e-3))),
        *(as_residual(arm, residual) for residual in ("ladder", "parallel", "desync-2x")),
        replace(arm, model=replace(arm.model, config=config.with_ladder(2))),
    ]
    found = [each.identity(CPU) for each in (arm, *others)]
    found += [
        arm.identity(replace(CPU, dtype="bfloat16")),
        arm.identity(replace(CPU, device=torch.device("cuda"))),
    ]
    monkeypatch.setattr(torch, "__version__", "0.0.0")
    found.append(arm.identity(CPU))
    assert len(set(found)) == len(found) == 11


def test_ranks_are_part_of_it_only_where_the_function_depends_on_them(arm):
    two = replace(CPU, tp_size=2)
    assert replace(arm, tp_size=2).identity(two) == arm.identity(CPU)
    one, other = (as_residual(arm, "desync-2x", size) for size in (1, 2))
    assert one.identity(CPU) != other.identity(two)


def test_a_models_name_and_place_are_no_part_of_it(arm, tmp_path):
    renamed = replace(arm.model, name="other", folder=tmp_path, weights="from elsewhere")
    assert replace(arm, model=renamed, folder=tmp_path).identity(CPU) == arm.identity(CPU)
