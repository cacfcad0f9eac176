import pytest
from llama_reference import make_llama

from ladder_eval.errors import LadderEvalError, UsageError
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import config_from_hf

DENSE = config_from_hf(make_llama(num_hidden_layers=4).config.to_dict())
HYBRID = DENSE.with_ladder(2)
LADDER = DENSE.with_ladder(4)


def applied(config, **options):
    return ResidualChoice(**options).apply(config, "some-model").ladder_layers


@pytest.mark.parametrize("config", [DENSE, HYBRID, LADDER])
def test_no_option_leaves_the_checkpoint_as_it_is(config):
    assert applied(config) == config.ladder_layers


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        ({"residual": "standard"}, ()),
        ({"residual": "standard", "ladder_layers": 0}, ()),
        ({"ladder_layers": 0}, ()),
        ({"residual": "ladder"}, (0, 1, 2, 3)),
        ({"ladder_layers": 3}, (1, 2, 3)),
        ({"ladder_layers": (3, 0)}, (0, 3)),
        ({"residual": "ladder", "ladder_layers": 1}, (3,)),
    ],
    ids=str,
)
def test_a_dense_checkpoint_takes_what_is_asked_for(options, layers):
    assert applied(DENSE, **options) == layers


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (HYBRID, {"ladder_layers": 2}),
        (HYBRID, {"ladder_layers": (3, 2)}),
        (HYBRID, {"residual": "ladder", "ladder_layers": 2}),
        (LADDER, {"residual": "ladder"}),
        (LADDER, {"ladder_layers": 4}),
    ],
)
def test_saying_what_the_checkpoint_says_is_fine(config, options):
    assert applied(config, **options) == config.ladder_layers


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (HYBRID, {"residual": "standard"}),
        (HYBRID, {"residual": "ladder"}),
        (HYBRID, {"ladder_layers": 0}),
        (HYBRID, {"ladder_layers": 3}),
        (HYBRID, {"ladder_layers": (0, 1)}),
        (LADDER, {"residual": "standard"}),
        (LADDER, {"residual": "ladder", "ladder_layers": 2}),
    ],
)
def test_contradicting_a_ladder_checkpoint_is_an_error(config, options):
    layers = str(list(config.ladder_layers)).replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(UsageError, match=f"some-model has ladder layers {layers}, .*drop the"):
        applied(config, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"residual": "desync"}, r"Unknown residual 'desync'; known are ladder \(with"),
        ({"residual": ""}, "Unknown residual ''"),
        ({"residual": "standard", "ladder_layers": 2}, "drop --ladder-layers"),
        ({"residual": "standard", "ladder_layers": (1,)}, "drop --ladder-layers"),
    ],
)
def test_options_that_make_no_sense(options, words):
    with pytest.raises(UsageError, match=words):
        ResidualChoice(**options)


@pytest.mark.parametrize("ladder_layers", [0, ()])
def test_a_ladder_without_ladder_layers_makes_no_sense(ladder_layers):
    with pytest.raises(UsageError):
        applied(DENSE, residual="ladder", ladder_layers=ladder_layers)


@pytest.mark.parametrize("ladder_layers", [5, (4,), (1, 1), -1])
def test_layers_that_do_not_exist(ladder_layers):
    with pytest.raises(LadderEvalError, match="ladder_layers="):
        applied(DENSE, ladder_layers=ladder_layers)
