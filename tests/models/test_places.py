"""Where a checkpoint can be: what a text stands for, and what is taken from the Hub."""

import re

import pytest
from gguf_files import TOKENS, write_gguf
from llama_reference import edit_config, load, make_llama, product_logits, save_llama, some_ids
from local_index import COMMIT, Hub, Server, ask_hub_at
from torch.testing import assert_close

from ladder_eval.arms import select_models
from ladder_eval.errors import CheckpointError, FetchError, UsageError
from ladder_eval.models.checkpoint import tokenizer_sha256
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.hub_id import HubId, find_place, place_name
from ladder_eval.models.models_file import UserModel, read_models_file
from ladder_eval.models.selection import peek, select
from ladder_eval.models.weight_sources import WeightSources
from ladder_eval.options import RunOptions, run_options

NO_CHECKPOINT = (
    "The Hugging Face Hub gives no config.json with model*.safetensors for org/tiny, and GGUF or "
    "pickled weights aren't taken from it; name a repository with safetensors, or download a GGUF "
    "file and give its path."
)


@pytest.fixture
def told():
    return []


@pytest.fixture
def choose(told):
    def choose(model, *, users=None, **options):
        sources = WeightSources(user_models=users or {}, notify=told.append)
        return select(str(model), choice=ResidualChoice(**options), sources=sources)

    return choose


@pytest.fixture
def tiny(tmp_path):
    """A sharded checkpoint with all that a tokenizer can have."""
    folder = tmp_path / "tiny"
    make_llama(num_hidden_layers=4).save_pretrained(folder, max_shard_size="100KB")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).write_text("{}")
    (folder / "added_tokens.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


@pytest.fixture
def hub(tiny, tmp_path, monkeypatch):
    """A Hub that has the same checkpoint as org/tiny, and more that nobody needs."""
    files = {file.name: file.read_bytes() for file in tiny.iterdir()}
    more = ["README.md", "consolidated.safetensors", "original/model.safetensors", "tiny.gguf"]
    more += ["pytorch_model.bin", "onnx/model.onnx", "modeling_tiny.py"]
    monkeypatch.setattr(Hub, "files", files | dict.fromkeys(more, b"?"), raising=False)
    monkeypatch.setattr(Hub, "served", [], raising=False)
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    with Server(Hub) as server:
        ask_hub_at(server.url, tmp_path / "home", monkeypatch)
        yield server


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("org/tiny", HubId("org/tiny")),
            ("meta-llama/Llama-3.1_8B", HubId("meta-llama/Llama-3.1_8B")),
            ("org/tiny@v1", HubId("org/tiny", "v1")),
            ("org/tiny@refs/pr/1", HubId("org/tiny", "refs/pr/1")),
        ],
    )
    def test_a_hub_id(self, text, place):
        assert find_place(text) == place
        assert str(place) == text

    @pytest.mark.parametrize(
        "text",
        ["tiny", "a/b/c", "./org/tiny", "../tiny", "/org/tiny", "org/", "org/tiny@", "org /tiny"],
    )
    def test_no_hub_id(self, text):
        assert find_place(text) is None

    def test_a_path_that_exists_wins(self, tmp_path, monkeypatch):
        (tmp_path / "org" / "tiny@v1").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        assert find_place("org/tiny@v1").is_dir()
        assert find_place("org/tiny") == HubId("org/tiny")
        assert find_place("tiny@v1", tmp_path / "org") == tmp_path / "org" / "tiny@v1"

    def test_the_name_in_reports(self, tmp_path):
        assert place_name(HubId("org/Tiny-1.5", "refs/pr/1")) == "Tiny-1.5"
        assert place_name(tmp_path / "Tiny-1.5") == "Tiny-1.5"
        assert place_name(tmp_path / "tiny.gguf") == "tiny"


class TestWhereverACheckpointIsGiven:
    def test_flags(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        given = {"model": ["ladder_3b"], "checkpoint": "org/tiny", "baseline_checkpoint": "o/t@v1"}
        options = run_options(given, None)
        assert options.checkpoint == HubId("org/tiny")
        assert options.baseline_checkpoint == HubId("o/t", "v1")
        (tmp_path / "org" / "tiny").mkdir(parents=True)
        assert run_options(given, None).checkpoint.is_dir()
        with pytest.raises(UsageError, match="nowhere doesn't exist; correct --checkpoint"):
            run_options({"checkpoint": "nowhere"}, None)

    def test_the_models_file(self, tmp_path):
        (tmp_path / "org" / "here").mkdir(parents=True)
        (tmp_path / "models.yaml").write_text(
            "mine: {checkpoint: org/tiny@v1, baseline: org/dense}\nown: {checkpoint: org/here}"
        )
        found = read_models_file(tmp_path / "models.yaml")
        assert (found["mine"].checkpoint, found["mine"].baseline) == (
            HubId("org/tiny", "v1"),
            "org/dense",
        )
        assert found["own"].checkpoint == tmp_path / "org" / "here"


class TestHub:
    def test_only_what_is_needed_is_fetched(self, choose, hub, tiny, told):
        found = choose("org/tiny")
        wanted = {file.name for file in tiny.iterdir()}
        assert set(Hub.served) == wanted
        assert {"model-00001-of-00006.safetensors", "chat_template.jinja"} < wanted
        assert told == ["taking org/tiny from the Hugging Face Hub or its cache"]
        assert found.name == "tiny"
        assert found.weights == f"org/tiny at {COMMIT} from the Hugging Face Hub"
        assert (found.adaptation, found.baseline) == ("as trained", None)
        ours = product_logits(load(found.folder), some_ids())
        theirs = make_llama(num_hidden_layers=4)(some_ids()).logits.detach()
        assert_close(ours, theirs, rtol=0, atol=1e-5)

    def test_peeking_fetches_the_configuration_alone(self, hub):
        assert peek("org/tiny").num_hidden_layers == 4
        users = {"mine": UserModel(name="mine", checkpoint=HubId("org/tiny"))}
        assert peek("mine", user_models=users).num_hidden_layers == 4
        assert Hub.served == ["config.json"]

    def test_a_tp_size_that_it_does_not_allow_is_refused_before_its_weights(self, hub, told):
        options = RunOptions(model=("org/tiny",), no_baseline=True)
        with pytest.raises(UsageError, match="heads"):
            select_models(options, tp_size=5, notify=told.append)
        assert Hub.served == ["config.json"]

    def test_a_revision(self, choose, hub):
        found = choose("org/tiny@v1")
        assert (found.name, found.folder.name) == ("tiny", COMMIT)
        assert found.weights == f"org/tiny at {COMMIT} from the Hugging Face Hub"

    def test_a_converted_one_is_compared_with_the_same_commit(self, choose, hub):
        found = choose("org/tiny", ladder_layers=2)
        assert (found.name, found.baseline) == ("tiny-ladder-last2", f"org/tiny@{COMMIT}")
        assert choose(found.baseline).folder == found.folder

    def test_under_a_name_of_the_users(self, choose, hub):
        checkpoint = HubId("org/tiny")
        choice = ResidualChoice(residual="parallel")
        users = {"mine": UserModel(name="mine", checkpoint=checkpoint, choice=choice)}
        found = choose("mine", users=users)
        assert (found.name, found.config.residual) == ("mine", "parallel")
        assert found.weights == f"org/tiny at {COMMIT} from the Hugging Face Hub"

    @pytest.mark.parametrize("call", [lambda choose, model: choose(model), lambda _, m: peek(m)])
    @pytest.mark.parametrize(
        ("model", "reason"),
        [
            ("org/absent", "and the Hugging Face Hub shows no model org/absent; correct the name"),
            ("org/gated", "and the model org/gated is gated; accept its terms on the Hugging Face"),
            ("org/tiny@v9", "and the model org/tiny has no revision v9; name another one."),
            ("org/a..b", "and 'org/a..b' can't be the name of a model"),
        ],
    )
    def test_what_it_refuses(self, choose, hub, call, model, reason):
        expected = f"{model} is neither a folder nor a file here, {reason}"
        with pytest.raises(FetchError, match="^" + re.escape(expected)):
            call(choose, model)

    def test_one_that_can_not_be_reached(self, choose, hub, tmp_path, monkeypatch):
        with Server(Hub) as other:
            ask_hub_at(other.url, tmp_path / "other", monkeypatch)
        with pytest.raises(FetchError, match="and the model org/tiny can't be fetched from the"):
            choose("org/tiny")

    @pytest.mark.parametrize(
        "files",
        [
            ["tiny.gguf"],
            ["tiny.gguf", "config.json"],
            ["pytorch_model.bin", "config.json", "tokenizer.json"],
            ["consolidated.safetensors", "config.json"],
            ["model.safetensors"],
        ],
    )
    def test_other_formats_are_not_taken(self, choose, hub, monkeypatch, files):
        monkeypatch.setattr(Hub, "files", {name: Hub.files.get(name, b"?") for name in files})
        with pytest.raises(CheckpointError) as caught:
            choose("org/tiny")
        assert str(caught.value) == NO_CHECKPOINT
        assert "tiny.gguf" not in Hub.served

    def test_what_is_no_llama_is_refused_before_its_weights(self, hub, tmp_path, monkeypatch):
        monkeypatch.setattr(Hub, "files", Hub.files | {"config.json": b'{"model_type": "gpt2"}'})
        with pytest.raises(CheckpointError, match="model_type 'gpt2' is not supported"):
            peek("org/tiny")
        assert Hub.served == ["config.json"]


class TestTokenizerHash:
    @pytest.mark.parametrize("name", ["chat_template.jinja", "added_tokens.json"])
    def test_it_covers_every_file(self, tiny, name):
        before = tokenizer_sha256(tiny)
        (tiny / name).write_text("another")
        assert tokenizer_sha256(tiny) != before


def test_a_folder_beside_a_hub_id_of_its_name(choose, hub, tmp_path, monkeypatch):
    save_llama(tmp_path / "org" / "tiny", num_hidden_layers=3)
    edit_config(tmp_path / "org" / "tiny", ladder_layers=1)
    monkeypatch.chdir(tmp_path)
    assert choose("org/tiny").config.ladder_layers == (2,)
    assert Hub.served == []


def test_a_gguf_file_in_a_folder_is_no_hub_id(choose, hub, tmp_path, monkeypatch):
    (tmp_path / "org").mkdir()
    write_gguf(tmp_path / "org" / "small.gguf", make_llama(vocab_size=len(TOKENS)))
    monkeypatch.chdir(tmp_path)
    assert choose("org/small.gguf").name == "small"
    assert Hub.served == []
