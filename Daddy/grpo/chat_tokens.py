"""Pure. Keeps the tokens of episodes of several turns, in which a model talks to an environment.

A model's tokens stay as they were sampled: a reply is never tokenised again. The chat template of
its tokenizer only renders the texts around them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

PLAIN_TEMPLATE: Final = (
    "{% for message in messages %}{{ message.content }}"
    "{{ '\\n>>>\\n' if message.role == 'user' else eos_token }}{% endfor %}"
)
"""Template of a tokenizer that has none: a message, a line of ``>>>``, and the reply to its end."""
_REPLY = "0a1b2c3d"


class SampledTokens(NamedTuple):
    """A reply: its tokens, their log probabilities, and False where the length limit cut it."""

    ids: Sequence[int]
    logprobs: Sequence[float]
    ended: bool


Sampler = Callable[[Sequence[Sequence[int]]], Sequence[SampledTokens]]
"""Takes the tokens of prompts; gives a reply to each, sampled as one batch."""


@dataclass
class TokenEpisode:
    """The tokens of an episode: a prompt, then sampled (`env_mask` 1) and observed (0) ones.

    The loss counts the sampled ones alone. Observed ones have a log probability of 0.
    """

    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    env_mask: list[int] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        """All tokens, which are the prompt of the next reply."""
        return self.prompt_ids + self.completion_ids

    def add_sampled(self, sampled: SampledTokens) -> None:
        """Append a reply."""
        self.completion_ids += sampled.ids
        self.logprobs += sampled.logprobs
        self.env_mask += [1] * len(sampled.ids)

    def add_observed(self, ids: Sequence[int]) -> None:
        """Append tokens that the model did not choose."""
        self.completion_ids += ids
        self.logprobs += [0.0] * len(ids)
        self.env_mask += [0] * len(ids)


class ChatTokens:
    """Turns the messages of a chat into tokens, with the tokenizer's own chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        tokenizer.chat_template = tokenizer.chat_template or PLAIN_TEMPLATE

    def begin(self, message: str) -> list[int]:
        """Return the tokens of a chat's first message, up to its reply."""
        return self._encode(self._render([_said("user", self._plain(message))]))

    def follow(self, message: str) -> list[int]:
        """Return the tokens between the end of a reply and the next reply."""
        chat = [_said("user", "."), _said("assistant", _REPLY), _said("user", self._plain(message))]
        after = self._render(chat).partition(_REPLY)[2]
        return self._encode(after.removeprefix(self._tokenizer.eos_token))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def _plain(self, message: str) -> str:
        """Return a message without special tokens, by which a screen could forge turns."""
        for token in self._tokenizer.all_special_tokens:
            message = message.replace(token, f"{token[0]} {token[1:]}")
        return message

    def _render(self, chat: list[dict[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=True
        )
        return text

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False).input_ids
        return ids


def _said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
