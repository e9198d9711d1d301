"""Append-only tokenisation of chats, so that training sees exactly the sampled tokens.

A conversation is a growing list of token ids: the prompt, rendered once with the chat template;
the sampled tokens, unchanged; and between them the tool replies, rendered separately. The history
is never rendered or tokenised again.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import jinja2
from transformers import PreTrainedTokenizerBase

_USER = {"role": "user", "content": "question"}
# quotes, HTML, a backslash and outer spaces reveal a template that escapes or trims replies
_ODD = ' "odd"\n<&>\\ '
# marks the reply with private-use characters, which no template contains
_REPLY = "\ue000reply\ue000"


class TemplateError(ValueError):
    """The chat template fails or cannot be rendered incrementally."""


class ChatTokens:
    """Encoder and decoder of chats for one tokenizer and one set of tools.

    Args:
        tokenizer: its chat template must support system, user, assistant and tool messages.
        tools: tool schemas in OpenAI format, which the template renders into the prompt.

    Raises:
        TemplateError: appending a tool reply would change the preceding text.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, tools: Sequence[Mapping[str, Any]]
    ) -> None:
        self._tokenizer = tokenizer
        self._tools: list[Any] = [dict(tool) for tool in tools]
        self.end = int(tokenizer.eos_token_id)
        self._before, self._after = self._frame()
        # most templates insert replies verbatim; others, such as Llama's, write a JSON string, and
        # need one rendering per reply
        self._as_it_is = False
        self._as_it_is = self._frame_reply(_ODD) == self._before + _ODD + self._after
        # encoding takes half of an episode's time, and rollouts of a group share many replies
        self._reply = lru_cache(maxsize=256)(self._make_reply)

    def _frame(self) -> tuple[str, str]:
        """Return the template's text before and after a tool reply that follows an assistant turn.

        Some templates insert an empty thinking block into a final assistant turn; conversations
        that end there are never rendered, so the check leaves them out.
        """
        turn = self._turn(_REPLY)
        question, once, twice = (self._render([_USER, *turn * n]) for n in range(3))
        spoken = question + "answer" + self._tokenizer.eos_token
        if not once.startswith(spoken) or once.count(_REPLY) != 1:
            raise TemplateError(f"expected {spoken!r}, then the tool's reply; got {once!r}")
        if twice != once + once[len(question) :]:
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
        """Render a tool reply, from the end of one assistant turn to the start of the next."""
        if self._as_it_is:
            return self._before + text + self._after
        whole = self._render([_USER, *self._turn(text)])
        if not whole.startswith(self._spoken):
            raise TemplateError(f"expected {self._spoken!r} first, got {whole!r}")
        return whole[len(self._spoken) :]

    def prompt(self, system: str, user: str) -> list[int]:
        """Return the token ids of the prompt, up to the start of the assistant's first turn."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return self._encode(self._render(messages))

    def reply(self, text: str) -> Sequence[int]:
        """Return the token ids between two assistant turns, for a tool reply."""
        return self._reply(text)

    def _make_reply(self, text: str) -> tuple[int, ...]:
        return tuple(self._encode(self._frame_reply(text)))

    def write(self, text: str) -> list[int]:
        """Encode an assistant turn that was not sampled, with its end token."""
        return [*self._encode(text), self.end]

    def read(self, ids: Sequence[int]) -> str:
        """Decode a sampled turn, without its end token."""
        turn = ids[:-1] if ids and ids[-1] == self.end else ids
        return str(self._tokenizer.decode(list(turn), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        # with special tokens, a tokenizer could add BOS to every piece
        return list(self._tokenizer.encode(text, add_special_tokens=False))
