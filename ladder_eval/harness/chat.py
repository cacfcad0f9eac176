"""In which form a model is asked: as plain text, or in its tokenizer's chat template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerBase

from ladder_eval.errors import UsageError
from ladder_eval.harness.suites import Suite
from ladder_eval.models.config_values import printable


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompting:
    """In which form questions are asked: lm-eval's options of the same names.

    Attributes:
        apply_chat_template: Ask in the form of the tokenizer's chat template.
        fewshot_as_multiturn: With it, give solved examples as earlier turns.
        system_instruction: A text that stands before every prompt.
    """

    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    system_instruction: str | None = None

    def __str__(self) -> str:
        form = "in the chat template" if self.apply_chat_template else "as plain text"
        turns = ", examples as turns" if self.fewshot_as_multiturn else ""
        system = f", after {self.system_instruction!r}" if self.system_instruction else ""
        return form + turns + system


PLAIN = Prompting()


def prompting_of(
    suite: Suite,
    *,
    apply_chat_template: bool | None,
    fewshot_as_multiturn: bool | None,
    system_instruction: str | None,
) -> Prompting:
    """The form of a suite's questions, where None leaves the choice to the suite.

    Raises:
        UsageError: if examples are asked for as turns, but no chat template.
    """
    template, turns = apply_chat_template, fewshot_as_multiturn
    template = suite.apply_chat_template if template is None else template
    if turns and not template:
        raise UsageError("--fewshot-as-multiturn needs --apply-chat-template; add it.")
    return Prompting(
        apply_chat_template=template,
        fewshot_as_multiturn=template and suite.fewshot_as_multiturn if turns is None else turns,
        system_instruction=system_instruction,
    )


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
