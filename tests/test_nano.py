"""The bundled policy is what the design says, and speaks the environment's protocol."""

from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_tokenizer
from tokenizers.decoders import DecodeStream

from learners.nano.model import CAPITAL
from learners.rollouts.tokens import ChatTokens
from learners.training.models import NANO, load, load_tokenizer
from resume_gym import TOOLS, Session, load_tasks, tool_call


def test_it_is_small_and_has_dimensions_that_engines_accept() -> None:
    model = load("nano")
    assert model.config.model_type == "qwen3"
    assert model.config.head_dim == 64
    assert sum(one.numel() for one in model.parameters()) <= 8_000_000
    assert sum(path.stat().st_size for path in NANO.iterdir()) <= 16_000_000


def test_texts_without_control_strings_have_the_tokens_of_the_whole_conversation() -> None:
    tokenizer = load_tokenizer("nano")
    chat = ChatTokens.of("nano", TOOLS)
    for task in load_tasks("mini", "eval")[:5]:
        session = Session(task)
        whole = tokenizer.apply_chat_template(
            session.messages, tools=list(TOOLS), tokenize=False, add_generation_prompt=True
        )
        prompt = chat.prompt(session.system_prompt, session.prompt)
        assert prompt == tokenizer.encode(whole, add_special_tokens=False)
        text = session.step(tool_call("review")).observation
        between = f"\n<|im_start|>user\n<tool_response>\n{text}\n</tool_response><|im_end|>\n"
        between += "<|im_start|>assistant\n"
        assert list(chat.reply(text)) == tokenizer.encode(between, add_special_tokens=False)


def test_a_quote_has_the_tokens_of_the_document() -> None:
    tokenizer = load_tokenizer("nano")
    chat = ChatTokens(tokenizer, TOOLS)
    bullet = "- Participated in redesigning the search filters"
    # with the space before it, as the demonstrations quote
    quote = tokenizer.encode(" Participated in redesigning")
    call = chat.write(tool_call("str_replace", old=" Participated in redesigning", new=""))

    def holds(ids: list[int]) -> bool:
        return any(ids[i : i + len(quote)] == quote for i in range(len(ids)))

    assert holds(tokenizer.encode(f"\n{bullet}"))
    assert holds(call)


def test_a_word_has_the_same_tokens_with_a_capital_and_another_ending() -> None:
    tokenizer = tiny_tokenizer()
    moved, moving, capital = (tokenizer.encode(text) for text in (" moved", " moving", " Moved"))
    assert capital == [*tokenizer.encode(CAPITAL), *moved]
    assert moved[:-1] == moving[:-1]
    for text in ("SQL", " LinkedIn", "need"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_fixed_texts_of_a_call_are_single_tokens() -> None:
    tokenizer = tiny_tokenizer()
    for call, count in (
        (tool_call("str_replace", old="a", new="b"), 5),
        (tool_call("str_replace", old="a", new=""), 4),
        (tool_call("search", query="a"), 3),
        (tool_call("submit"), 1),
    ):
        ids = tokenizer.encode(call)
        assert len(ids) == count
        assert tokenizer.decode(ids) == call
    # a document that has these texts is not encoded as a call
    chat = ChatTokens(tokenizer, TOOLS)
    page = chat.prompt("", 'the text ", "new": " stays')
    assert tokenizer.encode('", "new": "')[0] not in page
    other = '<tool_call>\n{"name": "fetch", "arguments": {}}\n</tool_call>'
    assert tokenizer.decode(tokenizer.encode(other)) == other


@given(st.text(st.sampled_from("aZ eding-LMs.\n3\u00e9\u8bed"), max_size=40), st.booleans())
def test_texts_are_decoded_whole_and_as_a_stream(text: str, in_call: bool) -> None:
    tokenizer = tiny_tokenizer()
    text = tool_call("search", query=text) if in_call else text
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    stream = DecodeStream()
    parts = [stream.step(tokenizer.backend_tokenizer, one) for one in ids]
    assert "".join(one for one in parts if one) == text
