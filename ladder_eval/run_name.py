"""What a run is called: the same models, data, documents and computation, the same name."""

import hashlib
import json
import re
from collections.abc import Sequence

from ladder_eval.arms import Selection
from ladder_eval.asked import Asked
from ladder_eval.execution import Execution
from ladder_eval.harness.arm import Arm
from ladder_eval.resuming import RunName

__all__ = ["SPEED_ONLY", "name_of_scored", "name_of_timed"]

SPEED_ONLY = "speed"
"""What stands for a suite where nothing is scored."""


def name_of_timed(selection: Selection, timing: str) -> RunName:
    """The name of a run that times models and scores none.

    Args:
        selection: The models.
        timing: How they are timed.
    """
    shapes = [model.config.to_dict() for model in selection.models]
    return _name(SPEED_ONLY, selection, json.dumps(shapes), timing)


def name_of_scored(
    selection: Selection, arms: Sequence[Arm], asked: Asked, execution: Execution, seed: int
) -> RunName:
    """The name of a run that scores models.

    tp_size isn't part of an answer's key, but of the name: by default, one folder holds the answers
    of one.
    """
    documents = [
        (
            *(t.task.name, t.task.headline, t.task.filter, t.task.is_macro, t.task.version),
            *(t.task.num_fewshot, t.data_sha256, list(t.chosen.items())),
        )
        for t in asked.tasks
    ]
    identities = [arm.identity(execution) for arm in arms]
    form = [repr(asked.prompting), asked.think_end_token, asked.fewshot]
    form += [asked.execution] if asked.execution else []
    text = json.dumps([identities, documents, form, seed])
    return _name(asked.suite.name, selection, text, str(execution.tp_size))


def _name(suite: str, selection: Selection, asked: str, where: str) -> RunName:
    model = selection.candidates[-1].name
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{suite}-{model}")[:120]
    both = json.dumps([asked, where])
    return RunName(
        run_id=f"{name}-{hashlib.sha256(both.encode()).hexdigest()[:8]}",
        asked_sha256=hashlib.sha256(asked.encode()).hexdigest(),
    )
