"""A tokenizer's chat template, as lm-eval uses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerBase

from ladder_eval.errors import UsageError
from ladder_eval.models.config_values import printable


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """The form in which a model expects a conversation.

    Attributes:
        tokenizer: The tokenizer that has it.
        arguments: More arguments of the template.
    """

    tokenizer: PreTrainedTokenizerBase
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The template itself.

        Raises:
            UsageError: if there is none.
        """
        try:
            return str(self.tokenizer.get_chat_template())
        except ValueError:
            raise UsageError(
                f"The tokenizer in {self.tokenizer.name_or_path} has no chat template; leave "
                "--apply-chat-template out, or give the folder a chat_template.jinja."
            ) from None

    def render(
        self, chat_history: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The prompt that a conversation is.

        Raises:
            UsageError: if the template can't render it, such as without a system role.
        """
        try:
            prompt: str = self.tokenizer.apply_chat_template(
                chat_history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
                **self.arguments,
            )
        except Exception as error:  # a template can compute anything, and fail as anything
            raise UsageError(
                f"The chat template of {self.tokenizer.name_or_path} can't render a conversation "
                f"of {', '.join(message['role'] for message in chat_history)}: "
                f"{printable(str(error))}."
            ) from None
        return prompt
