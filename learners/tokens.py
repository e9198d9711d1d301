"""Append-only chat tokens: what was sampled is what is trained, history is never rendered again.

A conversation is a list of token ids that only grows: the prompt, rendered once; the sampled
tokens, as they came; and what the chat template puts between them, rendered on its own.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jinja2
from transformers import PreTrainedTokenizerBase

_USER = {"role": "user", "content": "question"}
_ODD = ' "odd"\n<&>\\ '
_REPLY = "\ue000reply\ue000"


class TemplateError(ValueError):
    """A chat template that cannot be rendered piece by piece."""


class ChatTokens:
    """The tokens of a chat, for one tokenizer and one set of tools.

    Args:
        tokenizer: its chat template renders system, user, assistant and tool messages.
        tools: schemas in OpenAI's format; the template puts them into the prompt.

    Raises:
        TemplateError: appending a tool's reply would change what stands before it.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, tools: Sequence[Mapping[str, Any]]
    ) -> None:
        self._tokenizer = tokenizer
        self._tools: list[Any] = [dict(tool) for tool in tools]
        self.end = int(tokenizer.eos_token_id)
        self._before, self._after = self._frame()
        # most templates write a reply as it is, some as a JSON string: those render each
        self._as_it_is = False
        self._as_it_is = self._frame_reply(_ODD) == self._before + _ODD + self._after
        # half of an episode's time goes into encoding; members of a group hear the same page
        self._reply = lru_cache(maxsize=256)(self._make_reply)

    def _frame(self) -> tuple[str, str]:
        """What the template writes around a tool's reply, from the assistant's end on.

        An assistant's last turn does not matter, since it is never rendered: some templates put
        an empty block of thoughts into it, and only there.
        """
        turn = self._turn(_REPLY)
        asked, once, twice = (self._render([_USER, *turn * n]) for n in range(3))
        spoken = asked + "answer" + self._tokenizer.eos_token
        if not once.startswith(spoken) or once.count(_REPLY) != 1:
            raise TemplateError(f"expected {spoken!r}, then the tool's reply; got {once!r}")
        if twice != once + once[len(asked) :]:
            raise TemplateError(f"expected {once!r}, then another turn like it; got {twice!r}")
        self._spoken = spoken
        before, _, after = once[len(spoken) :].partition(_REPLY)
        return before, after

    def _turn(self, reply: str) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": "answer"}, {"role": "tool", "content": reply}]

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            return self._tokenizer.apply_chat_template(  # type: ignore[return-value]
                messages, tools=self._tools or None, tokenize=False, add_generation_prompt=True
            )
        except jinja2.TemplateError as error:
            raise TemplateError(f"the chat template fails: {error}") from None

    def _frame_reply(self, text: str) -> str:
        """What the template writes from the assistant's end to its next turn."""
        if self._as_it_is:
            return self._before + text + self._after
        whole = self._render([_USER, *self._turn(text)])
        if not whole.startswith(self._spoken):
            raise TemplateError(f"expected {self._spoken!r} first, got {whole!r}")
        return whole[len(self._spoken) :]

    def prompt(self, system: str, user: str) -> list[int]:
        """The ids up to where the assistant begins to write."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return self._encode(self._render(messages))

    def reply(self, text: str) -> Sequence[int]:
        """The ids between the assistant's end token and its next turn: a tool's reply."""
        return self._reply(text)

    def _make_reply(self, text: str) -> tuple[int, ...]:
        return tuple(self._encode(self._frame_reply(text)))

    def write(self, text: str) -> list[int]:
        """The ids of an assistant's turn written by somebody else, its end included."""
        return [*self._encode(text), self.end]

    def read(self, ids: Sequence[int]) -> str:
        """The text of a sampled turn, without its end token."""
        kept = ids[:-1] if ids and ids[-1] == self.end else ids
        return str(self._tokenizer.decode(list(kept), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))
