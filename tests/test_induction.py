"""The hand-set heads do what their docstring says, before any training."""

import torch
from torch import Tensor

from learners.nano.imitation import make_model, make_tokenizer

CALL = '"old": "- One", "new": "- Two"'
TOKENIZER = make_tokenizer(["- One\n- Two", CALL, " various and so on", " planning"])
NEWLINE, MARKER, *_ = TOKENIZER.encode("\n- A")
OLD, OPENING, REPLACEMENT, _ = TOKENIZER.encode('old": "new": "')
ENDING = TOKENIZER.encode(" planning")[-1]
FILLERS = TOKENIZER.encode(" various and so on")


def attention(tokens: list[int]) -> tuple[Tensor, Tensor]:
    """Of the first two layers, each [heads, q, k]."""
    torch.manual_seed(0)
    model = make_model(TOKENIZER)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        first, second, *_ = model(torch.tensor([tokens]), output_attentions=True).attentions
    return first[0], second[0]


def words(count: int) -> list[int]:
    """Different tokens, none of them of a bullet or a call, and no fillers."""
    generator = torch.Generator().manual_seed(1)
    drawn = [int(one) for one in torch.randperm(len(TOKENIZER), generator=generator)]
    known = (NEWLINE, MARKER, ENDING, OLD, REPLACEMENT, OPENING, *FILLERS)
    return [one for one in drawn if one not in known][:count]


def test_the_first_layer_attends_to_the_three_tokens_before() -> None:
    first, _ = attention(words(60))
    for index in range(3):
        assert first[index].diagonal(-index - 1)[2:].mean() > 0.6


def test_a_quote_continues_after_three_equal_tokens() -> None:
    one, two, three, other, another, *rest = words(60)
    page = [one, two, three, *rest[:10], other, two, three, *rest[10:20], another, three, *rest]
    _, second = attention([*page, other, two, three])
    assert second[0, -1, page.index(other) + 3] > 0.8
    _, second = attention([*page, other, three])
    assert second[0, -1, page.index(another) + 2] < 0.5, "one token says little"


def test_a_marker_looks_at_the_first_words_of_the_lines() -> None:
    rest = words(60)
    lines = [[NEWLINE, MARKER, *rest[10 * i : 10 * i + 10]] for i in range(5)]
    page = [token for line in lines for token in line]
    _, second = attention([*page, *rest[50:], MARKER])
    heads = [12 * i + 2 for i in range(5)]
    assert second[1, -1, heads].sum() > 0.8
    assert second[0, -1, heads].sum() < 0.5, "the quoting head rests"


def test_a_marker_looks_at_what_was_quoted_before() -> None:
    """The last head does; it takes that word back, where the others propose the lines' words."""
    rest = words(60)
    quotes = [OPENING, MARKER, *rest[:10], OPENING, MARKER, *rest[10:20]]
    tokens = [*rest[20:], *quotes, OPENING, MARKER]
    _, second = attention(tokens)
    assert second[3, -1, [len(tokens) - 24, len(tokens) - 12]].sum() > 0.3
    torch.manual_seed(0)
    attended = make_model(TOKENIZER).model.layers[1].self_attn
    own = slice(3 * 64, 4 * 64)
    value = attended.o_proj.weight[:, own] @ attended.v_proj.weight[own]
    assert value.trace().item() < -100


def test_a_replacement_starts_with_the_stem_of_the_quoted_verb() -> None:
    *rest, stem, between = words(60)
    tokens = [*rest, stem, ENDING, between, REPLACEMENT, OPENING, MARKER]
    _, second = attention(tokens)
    assert second[5, -1, len(rest) + 1] > 0.5
    _, second = attention([ENDING, *rest, stem, between, REPLACEMENT, OPENING, MARKER])
    assert second[5, -1].max() < 0.3, "the quote does not end with a verb"


def test_a_replacement_starts_as_its_quote() -> None:
    rest = words(60)
    earlier = [OLD, OPENING, MARKER, *rest[:10], REPLACEMENT, OPENING, MARKER, *rest[10:30]]
    quote = [OLD, OPENING, MARKER, *rest[30:33], REPLACEMENT, OPENING, MARKER]
    _, second = attention([*rest[33:], *earlier, *quote])
    assert second[0, -1, -6] > 0.5
    for head in (1, 2, 3):
        assert second[head, -1].max() < 0.3, head


def test_a_quote_looks_at_fillers() -> None:
    various, so_on = FILLERS
    rest = words(60)
    page = [*rest[:20], various, *rest[20:40], so_on, *rest[40:]]
    _, second = attention([*page, OLD, OPENING])
    assert second[4, -1, [20, 41]].min() > 0.3
    elsewhere = second[4, 50:-1, [20, 41]].sum(-1)
    assert elsewhere.mean() < 0.3, "the head mostly rests where no quote starts"


def test_a_filler_that_was_quoted_before_is_taken_back() -> None:
    various, so_on = FILLERS
    rest = words(60)
    page = [*rest[:20], various, *rest[20:40], so_on, *rest[40:50]]
    call = [OLD, OPENING, various, *rest[50:52], OLD, OPENING, MARKER, *rest[52:]]
    _, second = attention([*page, *call, OLD, OPENING])
    quoted = len(page) + 2
    assert second[3, -1, quoted] > 0.35
    assert second[3, -1, [20, 41]].sum() < 0.3, "those on the page stay wanted"
    assert second[4, -1, quoted] < 0.1 < second[4, -1, [20, 41]].min()
