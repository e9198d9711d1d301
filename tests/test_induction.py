"""The hand-set heads do what their docstring says, before any training."""

import torch
from torch import Tensor

from learners.imitation import make_model, make_tokenizer

TOKENIZER = make_tokenizer(["- One\n- Two", '"new": "- One", "new": "- Two"'])
NEWLINE, MARKER, *_ = TOKENIZER.encode("\n- A")
REPLACEMENT, OPENING = TOKENIZER.encode('new": "')


def attention(tokens: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Of the first three layers, each [heads, q, k]."""
    torch.manual_seed(0)
    model = make_model(TOKENIZER)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        first, second, third, _ = model(torch.tensor([tokens]), output_attentions=True).attentions
    return first[0], second[0], third[0]


def words(count: int) -> list[int]:
    """Different tokens, none of them of a bullet."""
    generator = torch.Generator().manual_seed(1)
    drawn = [int(one) for one in torch.randperm(len(TOKENIZER), generator=generator)]
    return [one for one in drawn if one not in (NEWLINE, MARKER, REPLACEMENT, OPENING)][:count]


def test_the_first_layer_attends_to_the_three_tokens_before() -> None:
    first, *_ = attention(words(60))
    for index in range(3):
        assert first[index].diagonal(-index - 1)[2:].mean() > 0.6


def test_a_quote_goes_on_where_the_same_three_tokens_stand_before() -> None:
    one, two, three, other, another, *rest = words(60)
    page = [one, two, three, *rest[:10], other, two, three, *rest[10:20], another, three, *rest]
    _, second, _ = attention([*page, other, two, three])
    assert second[0, -1, page.index(other) + 3] > 0.8
    _, second, _ = attention([*page, other, three])
    assert second[0, -1, page.index(another) + 2] < 0.5, "one token says little"


def test_a_marker_looks_at_the_first_words_of_the_lines() -> None:
    rest = words(60)
    lines = [[NEWLINE, MARKER, *rest[10 * i : 10 * i + 10]] for i in range(5)]
    page = [token for line in lines for token in line]
    _, second, _ = attention([*page, *rest[50:], MARKER])
    heads = [12 * i + 2 for i in range(5)]
    assert second[1:3, -1, heads].sum(-1).min() > 0.8
    assert second[0, -1, heads].sum() < 0.5, "the quoting head rests"


def test_a_marker_looks_at_what_was_quoted_before() -> None:
    """The last head does; it takes that word back, where the others propose the lines' words."""
    rest = words(60)
    quotes = [OPENING, MARKER, *rest[:10], OPENING, MARKER, *rest[10:20]]
    tokens = [*rest[20:], *quotes, OPENING, MARKER]
    _, second, _ = attention(tokens)
    assert second[3, -1, [len(tokens) - 24, len(tokens) - 12]].sum() > 0.3
    torch.manual_seed(0)
    attended = make_model(TOKENIZER).model.layers[1].self_attn
    value = attended.o_proj.weight[:, 3 * 64 :] @ attended.v_proj.weight[3 * 64 :]
    assert value.trace().item() < -100


def test_a_replacement_starts_with_the_stem_of_the_quoted_verb() -> None:
    *rest, stem, ending, between = words(60)
    tokens = [*rest, stem, ending, between, REPLACEMENT, OPENING, MARKER]
    *_, third = attention(tokens)
    assert third[0, -1, len(rest)] > 0.5
    elsewhere = third[0].diagonal(-5)[:-1]
    assert elsewhere.mean() < 0.3, "the head mostly rests where no replacement starts"
