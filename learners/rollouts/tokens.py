"""Append-only tokenisation of conversations, so that training sees exactly the sampled tokens.

A conversation is a growing list of token ids: the prompt, rendered once with the chat template;
the sampled tokens, unchanged; and between turns the tool replies, rendered separately. Earlier
turns are never rendered or tokenised again. If the template begins an assistant turn with an open
or empty thinking block, the tokens of the block come before the turn's sampled tokens.

User messages and tool replies never contain added tokens of the tokenizer, such as its end token: a
string that spells an added token is split, and its parts are encoded separately.
"""

import ctypes
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from os.path import commonprefix
from typing import Any, Self

from transformers import PreTrainedTokenizerBase

from learners.training import models

# mark parts of a rendered conversation by private-use characters, which no template contains
_SYSTEM, _QUESTION, _ANSWER, _REPLY = (
    f"\ue000{name}\ue000" for name in ("system", "question", "answer", "reply")
)
_USER = {"role": "user", "content": _QUESTION}
# a test reply; it shows whether a template escapes quotes, HTML or backslashes, or trims spaces
_ODD = ' "odd"\n<&>\\ '
_CUT = "\ufdd0\ufdd1\ufdd0"  # marks where `_encode` cuts a text; no document has these characters
_RENDER_S = 5.0
_EXCERPT = 80


class TemplateError(ValueError):
    """The chat template raises an error, or does not allow appending messages to a conversation."""


class ChatTokens:
    """Encoder and decoder of chats for one tokenizer and one set of tools.

    Args:
        tokenizer: tokenizer with a chat template that supports user and assistant messages. If the
            template does not support tool messages, tool replies are user messages; if it does
            not support system messages, the first user message begins with the system prompt.
        tools: tool schemas in OpenAI format, which the template renders into the prompt.
        ends: ids of the model's end tokens, besides the end tokens of tokenizer and template.

    Attributes:
        end: id of the token that ends an assistant turn in the template.
        ends: ids of all tokens that end a sampled turn.
        reply: function that returns the token ids between two assistant turns, given a tool reply.

    Raises:
        TemplateError: the template fails, or appending a reply changes the preceding text.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        tools: Sequence[Mapping[str, object]],
        ends: Iterable[int] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._tools: list[Any] = [dict(tool) for tool in tools]
        self._added = tokenizer.added_tokens_decoder
        self._any_added = _starts(token.content for token in self._added.values())
        self._special = _starts(token.content for token in self._added.values() if token.special)
        self.ends = frozenset({*ends, tokenizer.eos_token_id} - {None})
        self._role = "tool"
        try:
            self._before, self._after = self._frame()
        except TemplateError as problem:
            self._role = "user"
            try:
                self._before, self._after = self._frame()
            except TemplateError:
                raise problem from None
        self._has_system = self._supports_system()
        # most templates insert replies verbatim; others, such as Llama's, write replies as JSON
        # strings, so each reply is rendered
        self._as_it_is = False
        self._as_it_is = self._frame_reply(_ODD) == self._before + _ODD + self._after
        # cached: encoding takes half of an episode's time, and rollouts of a group share replies
        self.reply = lru_cache(maxsize=256)(self._make_reply)

    @classmethod
    def of(cls, model: str, tools: Sequence[Mapping[str, object]]) -> Self:
        """Create the encoder of a model, given its name or folder.

        Raises:
            ConfigError: the model's files cannot be read.
            FileNotFoundError: the model does not exist.
            TemplateError: the chat template is not supported.
        """
        return cls(models.load_tokenizer(model), tools, models.end_tokens(model))

    def _frame(self) -> tuple[str, str]:
        """Return the texts that the template puts before and after a tool reply.

        Some templates add or remove the thinking block of an earlier turn when a turn is appended.
        The checks for changed text therefore ignore the text that opens earlier turns.
        """
        question = self._render([_USER])
        base = commonprefix([question, self._render([_USER], opened=False)])  # noqa: RUF071
        opening = question.removeprefix(base)
        if not opening or _QUESTION not in base:
            raise TemplateError("the chat template opens no assistant turn after a user message")
        once, twice = (self._render([_USER, *self._turn(_REPLY) * n]) for n in (1, 2))
        head, *rest = once.split(_ANSWER)
        if len(rest) != 1:
            raise TemplateError(f"the chat template changes the assistant's text: {_brief(once)}")
        (between,) = rest
        self.end, length = self._end_of(between, opening)
        self._end_text, between = between[:length], between[length:]
        before, *after = between.split(_REPLY)
        told = "the chat template"
        if len(after) != 1 or not after[0].endswith(opening):
            raise TemplateError(f"{told} does not append tool replies and turns: {_brief(between)}")
        first, *later = twice.split(_ANSWER)
        kept = self._end_text + between.removesuffix(opening)
        if not head.startswith(base) or not first.startswith(base):
            raise TemplateError(f"{told} changes messages when more are added: {_brief(twice)}")
        if len(later) != 2 or not later[0].startswith(kept) or later[1] != rest[0]:
            raise TemplateError(f"{told} renders the second turn unlike the first: {_brief(twice)}")
        self.ends |= {self.end}
        return before, after[0]

    def _end_of(self, text: str, opening: str) -> tuple[int, int]:
        """Return the end token with which a text begins: its id, and its length in characters."""
        lengths = {
            number: len(token.content)
            for number, token in self._added.items()
            if text.startswith(token.content)
            # any special token ends the turn, except tokens with which the template opens messages
            and (number in self.ends or (token.special and token.content not in opening))
        }
        if not lengths:
            told = "the chat template puts no end token after the assistant's text"
            raise TemplateError(f"{told}: {_brief(text)}")
        return max(lengths.items(), key=lambda one: one[1])

    def _supports_system(self) -> bool:
        try:
            return _SYSTEM in self._render([{"role": "system", "content": _SYSTEM}, _USER])
        except TemplateError:
            return False

    def _turn(self, reply: str) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": _ANSWER}, {"role": self._role, "content": reply}]

    def _render(self, messages: list[dict[str, str]], opened: bool = True) -> str:
        try:
            with _time_limit(_RENDER_S):
                return self._tokenizer.apply_chat_template(  # type: ignore[return-value]
                    messages,
                    tools=self._tools or None,
                    tokenize=False,
                    add_generation_prompt=opened,
                )
        except TimeoutError:
            told = f"rendering the chat template takes longer than {_RENDER_S:.0f} s"
            raise TemplateError(told) from None
        except Exception as error:  # a template can call methods that raise any exception
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise TemplateError(f"the chat template fails: {said}") from None

    def _frame_reply(self, text: str) -> str:
        """Render a tool reply, from the end of one assistant turn to the start of the next."""
        if self._as_it_is:
            return self._before + text + self._after
        _, _, rest = self._render([_USER, *self._turn(text)]).partition(_ANSWER)
        if not rest.startswith(self._end_text + self._before) or not rest.endswith(self._after):
            raise TemplateError(f"the chat template changes text around a reply: {_brief(rest)}")
        return rest[len(self._end_text) :]

    def prompt(self, system: str, user: str) -> list[int]:
        """Return the token ids of the prompt, up to the start of the assistant's first turn.

        The system prompt is the environment's own text and may contain added tokens.
        """
        user = self._cut(user, self._any_added)
        if self._has_system:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        else:
            content = f"{system}\n\n{user}" if system else user
            messages = [{"role": "user", "content": content}]
        return self._encode(self._render(messages))

    def _make_reply(self, text: str) -> tuple[int, ...]:
        return tuple(self._encode(self._frame_reply(self._cut(text, self._any_added))))

    def write(self, text: str) -> list[int]:
        """Encode an assistant turn that was not sampled, and append the end token.

        The text may contain added tokens that are not special, such as <think> and <tool_call>.
        """
        return [*self._encode(self._cut(text, self._special)), self.end]

    def read(self, ids: Sequence[int]) -> str:
        """Decode a sampled turn, without its end token."""
        turn = ids[:-1] if ids and ids[-1] in self.ends else ids
        return str(self._tokenizer.decode(list(turn), skip_special_tokens=False))

    def _cut(self, text: str, starts: re.Pattern[str]) -> str:
        """Insert `_CUT`, at which `_encode` splits, into each string that spells an added token."""
        normalizer = getattr(
            getattr(self._tokenizer, "backend_tokenizer", None), "normalizer", None
        )
        if normalizer is not None:
            # normalizers can produce added tokens, for example from full-width characters
            normal = normalizer.normalize_str(text)
            if len(starts.findall(normal)) > len(starts.findall(text)):
                text = normal
        return starts.sub(rf"\g<0>{_CUT}", text)

    def _encode(self, text: str) -> list[int]:
        # no special tokens, since a tokenizer could add BOS to every piece
        pieces = text.split(_CUT)
        encoded = (self._tokenizer.encode(piece, add_special_tokens=False) for piece in pieces)
        return [token for piece in encoded for token in piece]


def _starts(strings: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches the first character of each occurrence of one of `strings`.

    Blank and one-character strings are ignored.
    """
    cuttable = [re.escape(string) for string in strings if len(string) > 1 and string.strip()]
    return re.compile(rf"(?=(?:{'|'.join(cuttable) or '(?!)'})).", re.DOTALL)


def _brief(text: str) -> str:
    """Return an excerpt of a text for a one-line error message."""
    return f"{text[:_EXCERPT]!r}" + "..." * (len(text) > _EXCERPT)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise a TimeoutError if the block takes longer than `seconds`, even in a loop without I/O."""
    thread, interrupt = threading.get_ident(), ctypes.pythonapi.PyThreadState_SetAsyncExc
    interrupt.argtypes = [ctypes.c_ulong, ctypes.py_object]
    timer = threading.Timer(seconds, interrupt, (thread, TimeoutError))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # if the timer has just fired, its error is raised here, not after the block
