import pytest

from ladder_eval.errors import UsageError
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.models_file import UserModel, read_models_file


@pytest.fixture
def read(tmp_path):
    (tmp_path / "weights").mkdir()

    def read(text):
        (tmp_path / "models.yaml").write_text(text)
        return read_models_file(tmp_path / "models.yaml")

    return read


def test_weights_for_a_preset_and_a_model_of_the_users_own(read, tmp_path):
    absolute = tmp_path / "weights"
    found = read(
        "ladder_3b: {checkpoint: weights}\n"
        f"my_hybrid: {{checkpoint: {absolute}, residual: ladder, ladder_layers: 16,\n"
        "            baseline: standard_8b}\n"
    )
    assert found == {
        "ladder_3b": UserModel(
            name="ladder_3b", checkpoint=absolute, baseline=None, choice=ResidualChoice()
        ),
        "my_hybrid": UserModel(
            name="my_hybrid",
            checkpoint=absolute,
            baseline="standard_8b",
            choice=ResidualChoice(residual="ladder", ladder_layers=16),
        ),
    }


def test_a_relative_checkpoint_is_relative_to_the_file(read, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    assert read("mine: {checkpoint: weights}")["mine"].checkpoint == tmp_path / "weights"


def test_a_tilde_is_the_home_folder(read, tmp_path, monkeypatch):
    (tmp_path / "home" / "llama").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = read("mine: {checkpoint: ~/llama}")
    assert found["mine"].checkpoint == tmp_path / "home" / "llama"


def test_layers_can_be_listed_and_nulls_say_nothing(read):
    found = read("mine: {checkpoint: weights, residual: null, ladder_layers: [1, 3]}")
    assert found["mine"].choice == ResidualChoice(ladder_layers=(1, 3))


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_an_empty_file_has_no_models(read, text):
    assert read(text) == {}


# Ten thousand million items in a few hundred bytes.
LAUGHS = ", ".join(
    f"&l{i} [{', '.join([f'*l{i - 1}'] * 10 if i else 'xxxxxxxxxx')}]" for i in range(10)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "can't be read: while parsing"),
        ("[" * 5000, "can't be read: "),
        ("a: !!python/object:os.system {}", "can't be read: could not determine a constructor"),
        ("- mine", "is no table of models"),
        ("0", "is no table of models"),
        ("8: {checkpoint: weights}", "has the name 8; put it in quotes"),
        ("yes: {checkpoint: weights}", "has the name True; put it in quotes"),
        ("mine: weights", "mine in .* is no table with a checkpoint"),
        ("mine:", "mine in .* is no table with a checkpoint"),
        ("mine: {chekpoint: a, 3: b}", "unknown keys chekpoint, 3; known are checkpoint, residual"),
        ("mine: {baseline: standard_8b}", "mine in .* has no checkpoint; give"),
        ("mine: {checkpoint: }", "mine in .* has no checkpoint; give"),
        (f"mine: {{checkpoint: [{LAUGHS}]}}", r"has the checkpoint \[\['x', 'x',"),
        (f"mine: {{checkpoint: weights, ladder_layers: [{LAUGHS}]}}", "has ladder_layers"),
        ("mine: {checkpoint: 3}", "has the checkpoint 3; give a folder, a GGUF file or a Hub id"),
        ("mine: {checkpoint: ''}", "has the checkpoint ''; give a folder, a GGUF file or a Hub id"),
        ("mine: {checkpoint: nowhere}", "has the checkpoint .*nowhere, which doesn't exist"),
        ('mine: {checkpoint: "a\\0b"}', "has the checkpoint .*a.b, which doesn't|unusable"),
        ("mine: {checkpoint: ~no-such-user/x}", "unusable checkpoint path"),
        ("mine: {checkpoint: weights, baseline: 8}", "has the baseline 8; give"),
        ("mine: {checkpoint: weights, baseline: mine}", "is its own baseline"),
        ("mine: {checkpoint: weights, residual: 3}", "has the residual 3; give a word"),
        ("mine: {checkpoint: weights, residual: desync}", "mine in .*: Unknown residual 'desync'"),
        (
            "mine: {checkpoint: weights, residual: parallel, ladder_layers: 2}",
            "mine in .*: --residual parallel has no ladder layers",
        ),
        ("mine: {checkpoint: weights, ladder_layers: true}", "has ladder_layers True; give"),
        ("mine: {checkpoint: weights, ladder_layers: '3'}", "has ladder_layers '3'; give"),
        ("mine: {checkpoint: weights, ladder_layers: [1, a]}", r"has ladder_layers \[1, 'a'\]; "),
        ("ladder_3b: {checkpoint: weights, residual: ladder}", "has its residual by its name"),
        ("smollm2_135m: {checkpoint: weights, ladder_layers: 2}", "has its residual by its name"),
    ],
)
def test_wrong_content_is_one_sentence(read, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        read(text)
    assert "models.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_too_long_for_the_file_system(read):
    with pytest.raises(UsageError, match=r"mine in .*unusable|mine in .*doesn't exist"):
        read(f"mine: {{checkpoint: {'x' * 5000}}}")


def test_a_file_that_can_not_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere\.yaml can't be read"):
        read_models_file(tmp_path / "nowhere.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"m\xe9: {checkpoint: .}")
    with pytest.raises(UsageError, match=r"latin\.yaml can't be read"):
        read_models_file(tmp_path / "latin.yaml")
