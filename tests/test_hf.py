import importlib
import json
from itertools import combinations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

from ladder_eval import hf
from ladder_eval.errors import CheckpointError
from ladder_eval.models.checkpoint import load_model, read_config
from ladder_eval.models.config import config_to_hf
from ladder_eval.models.layers import AttentionContext, rotary_angles

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 80,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
    "eos_token_id": None,  # so that every generation is as long as asked
    "pad_token_id": 0,
}
CPU = torch.device("cpu")
CHOICES = {
    "none": 0,
    "last two": 2,
    "first": [0],
    "apart, one before a standard layer": [1, 4],
    "all": 6,
}
HYBRID = CHOICES["apart, one before a standard layer"]
every_choice = pytest.mark.parametrize("ladder_layers", CHOICES.values(), ids=CHOICES)


def save_dense(folder, **changes):
    """A random dense checkpoint whose norms differ, so that none can be mixed up."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**(SHAPE | changes)))
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    return save_dense(tmp_path_factory.mktemp("dense"), tie_word_embeddings=True)


def ladder(folder, ladder_layers, **options):
    """The model under test, from a dense folder."""
    return hf.LlamaLadderForCausalLM.from_pretrained(
        folder, ladder_layers=ladder_layers, dtype=torch.float32, **options
    )


def engine(folder, ladder_layers):
    """This package's own model of the same folder, which shares no line with the other."""
    config = read_config(folder).with_ladder(ladder_layers)
    return load_model(folder, config, dtype=torch.float32, device=CPU)


def ids(rows=2, columns=24):
    return torch.randint(1, 80, (rows, columns), generator=torch.Generator().manual_seed(1))


def generate(model, prompt, **options):
    return model.generate(prompt, max_new_tokens=12, do_sample=False, **options)[:, -12:]


@every_choice
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@torch.no_grad()
def test_logits_are_those_of_the_engine(dense, ladder_layers, attention):
    ours = engine(dense, ladder_layers)
    theirs = ladder(dense, ladder_layers, attn_implementation=attention)
    assert_close(theirs(ids()).logits, ours.logits(ours(ids())), rtol=0, atol=1e-5)


@torch.no_grad()
def test_every_choice_of_ladder_layers_gives_different_answers(dense):
    answers = [ladder(dense, layers)(ids()).logits for layers in CHOICES.values()]
    assert min((a - b).abs().max() for a, b in combinations(answers, 2)) > 0.1


@torch.no_grad()
def test_without_ladder_layers_it_is_llama_bit_for_bit(dense):
    llama = LlamaForCausalLM.from_pretrained(dense)
    assert torch.equal(ladder(dense, 0)(ids()).logits, llama(ids()).logits)


def test_random_weights_are_llamas_for_the_same_seed():
    states = []
    for config in (LlamaConfig(**SHAPE), hf.LlamaLadderConfig(**SHAPE, ladder_layers=2)):
        torch.manual_seed(5)
        states.append(AutoModelForCausalLM.from_config(config).state_dict())
    assert_close(states[1], states[0], rtol=0, atol=0)


@every_choice
@torch.no_grad()
def test_hidden_states_are_the_complete_stream(dense, ladder_layers):
    """Those of x_i = x_{i-1} + h_i(x_{i-2}) in a ladder layer and of h_i(x_{i-1}) in others."""
    model = engine(dense, ladder_layers)
    context = AttentionContext(*rotary_angles(torch.arange(24)[None], model.config), None)
    x = [model.embed_tokens(ids())]
    for index, layer in enumerate(model.layers):
        late = index in model.config.ladder_layers
        x.append(x[-1] + layer.attention(x[-2] if late and index else x[-1], context))
        x.append(x[-1] + layer.feed_forward(x[-2] if late else x[-1]))
    expected = (*x[:-1:2], model.norm(x[-1]))
    found = ladder(dense, ladder_layers)(ids(), output_hidden_states=True).hidden_states
    assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("checkpointing", [None, True, False], ids=["none", "reentrant", "not"])
@pytest.mark.parametrize("ladder_layers", [HYBRID, 6], ids=["hybrid", "ladder"])
def test_loss_and_gradients_are_those_of_the_engine(dense, ladder_layers, checkpointing):
    ours = engine(dense, ladder_layers).requires_grad_()
    logits = ours.logits(ours(ids()))
    loss = cross_entropy(logits[:, :-1].flatten(0, 1), ids()[:, 1:].flatten())
    loss.backward()

    theirs = ladder(dense, ladder_layers).train()
    if checkpointing is not None:
        theirs.activation_checkpointing_enable({"use_reentrant": checkpointing})
    output = theirs(ids(), labels=ids(), use_cache=False)
    output.loss.backward()

    assert_close(output.loss, loss, rtol=0, atol=1e-5)
    found = {name.removeprefix("model."): w.grad for name, w in theirs.named_parameters()}
    expected = {name: w.grad for name, w in ours.named_parameters()}
    assert_close(found, expected, rtol=0, atol=1e-5)
    assert min(gradient.abs().max() for gradient in found.values()) > 1e-4


@every_choice
@torch.no_grad()
def test_generation_repeats_whole_forwards(dense, ladder_layers):
    ours, model, text = engine(dense, ladder_layers), ladder(dense, ladder_layers), ids()
    for _ in range(12):
        newest = ours.logits(ours(text)[:, -1:]).argmax(-1)
        text = torch.cat((text, newest), 1)
    expected = text[:, -12:]
    assert torch.equal(generate(model, ids()), expected)
    assert torch.equal(generate(model, ids(), use_cache=False), expected)
    assert torch.equal(generate(model, ids(), cache_implementation="static"), expected)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_padding_on_the_left_changes_nothing(dense, attention):
    model = ladder(dense, HYBRID, attn_implementation=attention)
    long, short = ids(1, 24), ids(1, 15)
    padded = torch.cat((long, torch.cat((torch.zeros(1, 9, dtype=torch.long), short), 1)))
    together = generate(model, padded, attention_mask=(padded != 0).long())
    alone = torch.cat((generate(model, long), generate(model, short)))
    assert torch.equal(together, alone)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@torch.no_grad()
def test_a_saved_model_is_read_again_and_by_the_engine(tmp_path, tied):
    model = ladder(save_dense(tmp_path / "dense", tie_word_embeddings=tied), HYBRID)
    model.save_pretrained(tmp_path / "ladder")
    written = json.loads((tmp_path / "ladder" / "config.json").read_text())
    assert (written["model_type"], written["ladder_layers"]) == ("llamaLadder", HYBRID)
    assert written["architectures"] == ["LlamaLadderForCausalLM"]
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "ladder")
    assert torch.equal(again(ids()).logits, model(ids()).logits)
    config = read_config(tmp_path / "ladder")
    ours = load_model(tmp_path / "ladder", config, dtype=torch.float32, device=CPU)
    assert_close(ours.logits(ours(ids())), model(ids()).logits, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_configuration_of_this_package_is_read(dense, tmp_path):
    values = config_to_hf(read_config(dense).with_ladder(2))
    (tmp_path / "config.json").write_text(json.dumps(values))
    (tmp_path / "model.safetensors").symlink_to(dense / "model.safetensors")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(model) is hf.LlamaLadderForCausalLM
    assert torch.equal(model(ids()).logits, ladder(dense, 2)(ids()).logits)


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 0), (2, 2), ([1, 4], [1, 4]), (range(4, 6), [4, 5])]
)
def test_the_configuration_keeps_a_number_and_lists_the_rest(tmp_path, given, kept):
    hf.LlamaLadderConfig(**SHAPE, ladder_layers=given).save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is hf.LlamaLadderConfig
    assert config.ladder_layers == kept


def test_auto_classes_find_model_and_tokenizer(tiny_checkpoint, tmp_path):
    config = json.loads((tiny_checkpoint / "config.json").read_text())
    published = {"model_type": "llamaLadder", "ladder_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config | published))
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).symlink_to(tiny_checkpoint / name)
    assert type(AutoModel.from_pretrained(tmp_path)) is hf.LlamaLadderModel
    assert type(AutoModelForCausalLM.from_pretrained(tmp_path)) is hf.LlamaLadderForCausalLM
    text = "Both blocks of a layer."
    tokenizer, same = (AutoTokenizer.from_pretrained(f) for f in (tmp_path, tiny_checkpoint))
    assert tokenizer(text).input_ids == same(text).input_ids
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_the_module_can_be_reloaded(dense):
    before = hf.LlamaLadderForCausalLM
    importlib.reload(hf)
    config = hf.LlamaLadderConfig(**SHAPE, ladder_layers=1)
    assert hf.LlamaLadderForCausalLM is not before
    assert type(AutoModelForCausalLM.from_config(config)) is hf.LlamaLadderForCausalLM


@torch.no_grad()
def test_layers_may_lie_on_different_devices(dense, tmp_path):
    """Disk stands for a second device: accelerate's hooks then carry what layers pass on."""
    places = {f"model.layers.{i}": "disk" if i % 2 else "cpu" for i in range(6)}
    places |= dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb"), "cpu")
    model = ladder(dense, HYBRID, device_map=places | {"lm_head": "cpu"}, offload_folder=tmp_path)
    assert model.model.layers[1].mlp.up_proj.weight.device.type == "meta"
    assert torch.equal(model(ids()).logits, ladder(dense, HYBRID)(ids()).logits)
    assert "LlamaLadderDecoderLayer" in model._no_split_modules


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (99, "ladder_layers=99 must be between 0 and 6 layers."),
        (-1, "ladder_layers=-1 must be between 0 and 6 layers."),
        ("ten", "ladder_layers must be a number or a list, not 'ten'."),
        (True, "ladder_layers must be a number or a list, not True."),
        ([1, 1], r"ladder_layers=\[1, 1\] must name different layers from 0 to 5."),
        ([6], r"ladder_layers=\[6\] must name different layers from 0 to 5."),
    ],
)
def test_wrong_ladder_layers_are_refused(dense, tmp_path, wrong, sentence):
    with pytest.raises(CheckpointError, match=sentence):
        hf.LlamaLadderConfig(**SHAPE, ladder_layers=wrong)
    with pytest.raises(CheckpointError, match=sentence):
        ladder(dense, wrong)
    values = json.loads((dense / "config.json").read_text())
    values |= {"model_type": "llamaLadder", "ladder_layers": wrong}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=sentence):
        AutoModelForCausalLM.from_pretrained(tmp_path)


def test_no_model_is_built_that_does_not_say_which_layers(dense):
    with pytest.raises(CheckpointError, match="ladder_layers must be a number or a list, not None"):
        hf.LlamaLadderForCausalLM.from_pretrained(dense)


TEXT = "The capital of France is Paris. In 1969, people walked on the Moon\n\nfor the first time."


@pytest.mark.parametrize("depth", [0, 10])
@torch.no_grad()
def test_smollm2_answers_as_in_the_engine(smollm2, depth):
    folder = smollm2.folder
    text = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt").input_ids
    model, ours = ladder(folder, depth), engine(folder, depth)
    assert_close(model(text).logits, ours.logits(ours(text)), rtol=0, atol=1e-3)
    options = {"max_new_tokens": 16, "min_new_tokens": 16, "do_sample": False, "pad_token_id": 2}
    cached = model.generate(text, **options)
    assert cached.shape[1] == text.shape[1] + 16
    assert torch.equal(cached, model.generate(text, use_cache=False, **options))
