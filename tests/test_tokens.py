import importlib.util
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase

from learners.rollouts.tokens import ChatTokens, TemplateError
from resume_gym import TOOLS, tool_call

SPECIAL = "<|im_start|>user\n<tool_call>{}</tool_call> <|endoftext|>"
texts = st.text(st.characters(codec="utf-8"), max_size=30)


def chat_of(template: str) -> ChatTokens:
    tokenizer = deepcopy(tiny_tokenizer())
    tokenizer.chat_template = template
    return ChatTokens(tokenizer, TOOLS)


@settings(deadline=None)
@given(texts, texts, st.lists(st.tuples(texts, texts), max_size=3))
def test_the_tokens_are_the_conversation_as_the_template_renders_it(
    system: str, user: str, turns: list[tuple[str, str]]
) -> None:
    tokenizer = tiny_tokenizer()
    chat = ChatTokens(tokenizer, TOOLS)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    ids = chat.prompt(system, user)
    for said, heard in [*turns, (tool_call("review"), "a , b . don't\n\nturns left: 9/10")]:
        messages += [{"role": "assistant", "content": said}, {"role": "tool", "content": heard}]
        ids += [*chat.write(said), *chat.reply(heard)]
    rendered = tokenizer.apply_chat_template(
        messages, tools=list(TOOLS), tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(ids) == rendered


def test_sampled_tokens_stay_as_they_came() -> None:
    """The same text in other tokens than the tokenizer's: they are read, never made again."""
    tokenizer = tiny_tokenizer()
    chat = ChatTokens(tokenizer, TOOLS)
    text = tool_call("submit")
    letters = [token for letter in text for token in tokenizer.encode(letter)]
    assert letters != tokenizer.encode(text)
    assert chat.read([*letters, chat.end]) == text


def test_a_tokenizer_that_begins_every_text_with_a_token_does_not_here() -> None:
    tokenizer = deepcopy(tiny_tokenizer())
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", tokenizer.pad_token_id)]
    )
    assert tokenizer.encode("one")[0] == tokenizer.pad_token_id
    ours, plain = ChatTokens(tokenizer, TOOLS), ChatTokens(tiny_tokenizer(), TOOLS)
    assert ours.prompt("a", "b") == plain.prompt("a", "b")
    assert ours.write("one") == plain.write("one")
    assert ours.reply("two") == plain.reply("two")


@settings(deadline=None)
@given(texts)
def test_encoding_and_decoding_are_inverse(text: str) -> None:
    chat = ChatTokens(tiny_tokenizer(), TOOLS)
    for said in (text, SPECIAL + text, text + SPECIAL):
        ids = chat.write(said)
        assert ids[-1] == chat.end
        assert chat.read(ids) == said
        assert chat.read(ids[:-1]) == said  # a turn that was cut off has no end token
    assert chat.read([]) == ""


def test_only_the_last_end_token_is_not_read() -> None:
    chat = ChatTokens(tiny_tokenizer(), TOOLS)
    said = chat.write("one")
    assert chat.read([*said, *said]) == "one<|im_end|>one"


TURN = "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
END = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
THINKS = "{% if message.role == 'assistant' and loop.last %}<think></think>{% endif %}"


def test_a_template_may_dress_the_last_turn() -> None:
    """Published templates put an empty block of thoughts into an answer that stands last."""
    dressed = TURN.replace("{{ message.content }}", THINKS + "{{ message.content }}")
    chat = chat_of(f"{{% for message in messages %}}{dressed}{{% endfor %}}{END}")
    reply = "\n<|im_start|>tool\n12<|im_end|>\n<|im_start|>assistant\n"
    assert tiny_tokenizer().decode(list(chat.reply("12"))) == reply


@pytest.mark.parametrize(
    "template",
    [
        # forgets old turns
        f"{{% for message in messages[-3:] %}}{TURN}{{% endfor %}}{END}",
        # hides what was said before the last turn
        "{% for message in messages %}{% if message.role != 'assistant' or loop.revindex < 3 %}"
        f"{TURN}{{% endif %}}{{% endfor %}}{END}",
        # rewrites what was said
        f"{{% for message in messages %}}{TURN.replace('content', 'content | upper')}"
        f"{{% endfor %}}{END}",
        # counts the messages at the top
        f"{{{{ messages | length }}}}{{% for message in messages %}}{TURN}{{% endfor %}}{END}",
        # has no tools
        f"{{% for message in messages if message.role != 'tool' %}}{TURN}{{% endfor %}}{END}",
        # says a reply twice
        f"{{% for message in messages %}}{TURN}{TURN}{{% endfor %}}{END}",
        # ends a turn with another token
        f"{{% for message in messages %}}{TURN.replace('<|im_end|>', '')}{{% endfor %}}{END}",
    ],
)
def test_a_template_that_changes_history_is_refused(template: str) -> None:
    with pytest.raises(TemplateError, match=r"expected '.*got '"):
        chat_of(template)


PUBLISHED = Path(importlib.util.find_spec("trl").origin).parent / "chat_templates"  # type: ignore[union-attr,arg-type]


def published(name: str, end: str) -> PreTrainedTokenizerBase:
    tokenizer = deepcopy(tiny_tokenizer())
    tokenizer.add_special_tokens({"eos_token": end, "bos_token": "<s>"})
    tokenizer.chat_template = (PUBLISHED / f"{name}.jinja").read_text()
    return tokenizer


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("qwen2_5", "<|im_end|>"),
        ("qwen3", "<|im_end|>"),
        ("qwen3_instruct_2507", "<|im_end|>"),
        ("qwen3_5_nothink", "<|im_end|>"),
        ("llama3_1", "<|eot_id|>"),
        ("llama3_2", "<|eot_id|>"),
    ],
)
def test_published_templates_are_appended_to(name: str, end: str) -> None:
    """Qwen3 drops earlier thoughts when it is rendered again; here what was said stays."""
    tokenizer = published(name, end)
    chat = ChatTokens(tokenizer, TOOLS)
    reply = 'error (not_found): "old"\n<b> & \\ 语言'
    ids = [*chat.prompt("Edit.", "question"), *chat.write("answer"), *chat.reply(reply)]
    messages = [
        {"role": "system", "content": "Edit."},
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "answer"},
        {"role": "tool", "content": reply},
    ]
    whole = tokenizer.apply_chat_template(
        messages, tools=TOOLS, tokenize=False, add_generation_prompt=True
    )
    assert tokenizer.decode(ids) == whole
    thought = chat.write("<think>\nhm\n</think>\n\nanswer")
    assert chat.read(thought) == "<think>\nhm\n</think>\n\nanswer"


@pytest.mark.parametrize(
    ("name", "end", "reason"),
    [
        ("qwen3_5_think", "<|im_end|>", "then the tool's reply"),
        ("phi3", "<|end|>", "then the tool's reply"),
        ("deepseekv3", "<｜end▁of▁sentence｜>", "then the tool's reply"),
        ("gemma3", "<end_of_turn>", "the chat template fails: Conversation roles must alternate"),
    ],
)
def test_published_templates_that_cannot_be_appended_to_are_refused(
    name: str, end: str, reason: str
) -> None:
    with pytest.raises(TemplateError, match=reason):
        ChatTokens(published(name, end), TOOLS)
