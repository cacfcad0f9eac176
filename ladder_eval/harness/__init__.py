"""lm-evaluation-harness: its tasks, our data, and the model that answers their requests.

Importing this package registers that model with lm-eval, as `ladder`.
"""

import lm_eval.models  # noqa: F401 - before ours: lm-eval fills an empty registry only
from lm_eval.api.registry import model_registry

if "ladder" not in model_registry:
    # By its place, since the class needs torch.
    model_registry.register("ladder", target="ladder_eval.harness.registered:RegisteredLadder")
