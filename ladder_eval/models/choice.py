"""The residual that the user asked for, held against the one that the checkpoint has."""

from dataclasses import dataclass, replace

from ladder_eval.errors import UsageError
from ladder_eval.models.config import TOPOLOGIES, ModelConfig
from ladder_eval.models.config_values import shown


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualChoice:
    """The options `--residual` and `--ladder-layers`.

    Attributes:
        residual: `ladder`, one of TOPOLOGIES, or None where the user didn't say.
        ladder_layers: n for the last n layers, or the layers; None where the user didn't say.
    """

    residual: str | None = None
    ladder_layers: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.residual not in (None, "ladder", *TOPOLOGIES):
            raise UsageError(
                f"Unknown residual {shown(self.residual)}; known are ladder (with --ladder-layers "
                f"for a hybrid) and {', '.join(TOPOLOGIES)}."
            )
        if self.residual in TOPOLOGIES and self.ladder_layers:
            raise UsageError(
                f"--residual {self.residual} has no ladder layers; drop --ladder-layers."
            )
        if self.residual == "ladder" and self.ladder_layers in (0, ()):
            raise UsageError("--residual ladder needs ladder layers; drop --ladder-layers for all.")

    def apply(self, config: ModelConfig, name: str) -> ModelConfig:
        """The configuration to run: the checkpoint's own ladder layers, or those chosen here.

        Raises:
            UsageError: if the checkpoint has ladder layers and the options say otherwise.
        """
        chosen = self._chosen(config)
        if chosen is None or chosen == config:
            return config
        if config.ladder_layers:
            raise UsageError(
                f"{name} has ladder layers {list(config.ladder_layers)}, which contradicts "
                f"--residual/--ladder-layers; drop the option, since a model can only be scored "
                "with the residual it was made for."
            )
        return chosen

    def _chosen(self, config: ModelConfig) -> ModelConfig | None:
        if self.residual in TOPOLOGIES:
            return replace(config, ladder_layers=(), topology=self.residual)
        if self.ladder_layers is not None:
            return config.with_ladder(self.ladder_layers)
        return config.with_ladder(config.num_hidden_layers) if self.residual == "ladder" else None


def with_residual(dense: ModelConfig, name: str) -> ModelConfig:
    """A dense model with a residual by name: one of TOPOLOGIES, ladder, or ladder-N.

    Args:
        dense: A model without ladder layers.
        name: `ladder-N` means that the last N layers are ladder layers.

    Raises:
        UsageError: if there is no such residual.
        CheckpointError: if the model has fewer layers.
    """
    kind, _, depth = name.partition("-")
    if kind == "ladder" and depth.isdecimal() and int(depth) > 0:
        return dense.with_ladder(int(depth))
    if name != "ladder" and name not in TOPOLOGIES:
        raise UsageError(
            f"Unknown residual {shown(name)}; known are ladder, ladder-N for the last N layers, "
            f"and {', '.join(TOPOLOGIES)}."
        )
    return ResidualChoice(residual=name).apply(dense, name)
