"""What is run: candidates and their baseline, and what there is to time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ladder_eval.distributed.shares import shares
from ladder_eval.errors import UsageError
from ladder_eval.harness.arm import Arm, arm_of
from ladder_eval.models.choice import ResidualChoice
from ladder_eval.models.hub_id import Place
from ladder_eval.models.models_file import UserModel, read_models_file
from ladder_eval.models.registry import MODELS, unknown_model
from ladder_eval.models.selection import SelectedModel, dense_baseline, peek, select
from ladder_eval.models.weight_sources import WeightSources
from ladder_eval.options import RunOptions
from ladder_eval.results.speed_records import RANDOM
from ladder_eval.speed.subject import Subject


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The models of a run.

    Attributes:
        candidates: In the order given, with or without weights.
        baseline: The dense model beside them, if any.
    """

    candidates: Sequence[SelectedModel]
    baseline: SelectedModel | None

    @property
    def models(self) -> list[SelectedModel]:
        """All of them, the baseline first."""
        return [*([self.baseline] if self.baseline else []), *self.candidates]

    @property
    def without_weights(self) -> list[str]:
        """Names of those of which no checkpoint is known."""
        return [model.name for model in self.models if model.folder is None]

    def arms(self, tp_size: int) -> list[Arm]:
        """What can be scored: nothing if no candidate can be.

        Raises:
            CheckpointError: if a tokenizer is missing or damaged.
        """
        if all(model.folder is None for model in self.candidates):
            return []
        return [
            arm_of(model, model.folder, tp_size)
            for model in self.models
            if model.folder is not None
        ]

    def subject(self) -> Subject | None:
        """What there is to time: the baseline, and candidates of its shape with other residuals."""
        if self.baseline is None:
            return None
        config = self.baseline.config
        others = {
            model.name: model.config
            for model in self.candidates
            if model.config != config and model.config.as_standard() == config
        }
        if not others:
            return None
        timed = [model for model in self.models if model.name in (self.baseline.name, *others)]
        source = next((model for model in timed if model.folder is not None), None)
        return Subject(
            name=timed[-1].name,
            arms={self.baseline.name: config} | others,
            baseline=self.baseline.name,
            whole=config,
            folder=source.folder if source else None,
            weights=source.weights if source else RANDOM,
        )


def select_models(options: RunOptions, tp_size: int, notify: Callable[[str], None]) -> Selection:
    """The candidates and their baseline; weights are fetched where they are known.

    Raises:
        LadderEvalError: if a model can't be had, read, divided or compared.
    """
    # Refuse before anything is fetched or read.
    if options.residual.residual == "no-comm":
        raise UsageError("no-comm is a bound on speed; its outputs mean nothing to be scored.")
    users = _user_models(options)
    for name in filter(None, (*options.model, options.baseline)):
        if config := peek(name, user_models=users):
            shares(config.shape, tp_size)
    sources = WeightSources(
        user_models=users,
        model_dir=options.model_dir,
        prefer_hub=options.prefer_hub,
        notify=notify,
    )
    selection = _select(options, sources)
    _require_sound(selection, tp_size)
    return selection


def _select(options: RunOptions, sources: WeightSources) -> Selection:
    models = [select(name, choice=options.residual, sources=sources) for name in options.model]
    wanted = options.baseline
    if wanted is None and not options.no_baseline:
        wanted = dense_baseline(models)
    if wanted is None:
        return Selection(candidates=models, baseline=None)
    baseline = select(wanted, choice=ResidualChoice(), sources=sources)
    candidates = [model for model in models if not _same(model, baseline)]
    if not candidates:
        raise UsageError(f"{baseline.name} can't be compared with itself; give another --model.")
    return Selection(candidates=candidates, baseline=baseline)


def _user_models(options: RunOptions) -> dict[str, UserModel]:
    """The user's checkpoints by name; those of the command line win over the file's."""
    users = read_models_file(options.models_file) if options.models_file else {}
    if options.checkpoint is not None:
        _give(users, options.model[0], options.checkpoint)
    if options.baseline_checkpoint is not None:
        name = options.baseline or _known_baseline(options.model[0], users)
        if name is None:
            raise UsageError("--baseline-checkpoint needs a --baseline whose checkpoint it is.")
        _give(users, name, options.baseline_checkpoint)
    return users


def _give(users: dict[str, UserModel], name: str, checkpoint: Place) -> None:
    if name not in MODELS and name not in users:
        raise unknown_model(name, users)  # a mistyped name would lose its residual
    known = users.get(name, UserModel(name=name, checkpoint=checkpoint))
    users[name] = replace(known, checkpoint=checkpoint)


def _known_baseline(name: str, users: Mapping[str, UserModel]) -> str | None:
    own = users[name].baseline if name in users else None
    return own or (MODELS[name].baseline if name in MODELS else None)


def _same(model: SelectedModel, other: SelectedModel) -> bool:
    if model.folder is None or other.folder is None:
        return model.name == other.name
    return (model.folder, model.config) == (other.folder, other.config)


def _require_sound(selection: Selection, tp_size: int) -> None:
    names = [model.name for model in selection.models]
    if len(set(names)) != len(names):
        raise UsageError(
            f"Two models have the name {max(names, key=names.count)}; rename one's folder."
        )
    for model in selection.models:
        if model.config.topology == "no-comm":
            raise UsageError(f"{model.name} is no-comm, a bound on speed, and can't be scored.")
        shares(model.config.shape, tp_size)
