"""A head start on quoting: attention heads of a random nano model, set by hand.

An exact quote needs an induction circuit: heads in the first layer that tell every token which
three came before it, and one in the second that finds the place where the same three stand, or most
of them, and copies what follows there. Fewer would not do: "in the" is in many a line. To start a
quote, the marker of a bullet needs heads that look at the words with which the lines of the page
start. Another head looks at fillers, which a quote may consist of. One more takes back what earlier
calls quoted: what an edit replaced still stands in the conversation, but no longer in the resume.
To start a replacement, a last head looks at the stem of the verb with which the quote ended:
"Assisted with planning" becomes "Planned". A small model discovers all this late: after 1.75 M
tokens of random sequences repeated, on the easiest vocabulary, it still guessed. Set by hand, the
circuits need no discovery. Training refines the second layer's and leaves the first layer's as they
are.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3ForCausalLM

_NEAR_PAIRS = slice(0, 8)
"""Rotary pairs that turn fast: they tell the previous token from its neighbours."""
_FAR_PAIRS = slice(16, 32)
"""Rotary pairs that turn slowly: they compare contents across a whole conversation."""
# Found by search on how well an untrained model quotes. What heads write must not drown what
# stands there, or the layers above have nothing to go by and training is slow.
_CONSTANT = 0.3
_FLAG = 0.5
_SHARPNESS = 1.4
_WRITE_CONTEXT = 0.06
_WRITE_QUOTE = 1.0
_WRITE_LINE = 2.0
_WRITE_SPENT = 2.0
_WRITE_VERB = 4.0
_WRITE_FLAGGED = 2.0
_REST_AT_MARKER = 4.0
_REST_ELSEWHERE = 0.2
_REST_SPENT = 0.4
_REST_VERB = 0.08
_SPENT_FILLER = 0.85
_SPENT_FLAG = 8.0
_REST_FILLER = 0.6
_REST_FLAGGED = 0.2
_RECENT, _RECENT_KEY = 10.0, 1.0
_RECENT_PAIR = 10  # turns by half over some 250 tokens
_USUAL_ENDING = 0.4
_USUAL = 0.5  # weight of a key that all tokens share, beside that of fillers
_SCALE = 16.0
_TO_ENDING = 4
"""Tokens from a replacement's marker back to the end of a quoted verb, -ing: JSON's punctuation."""
QUOTING = "model.layers.1.self_attn."
"""Names of the weights that find what to quote."""


@torch.no_grad()
def install(
    model: Qwen3ForCausalLM,
    newline: int,
    marker: int,
    opening: int,
    quote: int,
    replacement: int,
    ending: int,
    flagged: Sequence[int],
) -> None:
    """Set three heads of layer 0 and six of layer 1, in place.

    The residual stream gets a subspace for each of the three tokens before a token, and a
    direction for tokens that call for an edit. One direction is first a constant, so that a head
    can attend by position alone: without biases nothing else is the same at every token.

    Args:
        model: with six heads in each layer, each with its own keys.
        newline: the token that ends a line.
        marker: the token of a bullet.
        opening: the token before a quote in a call.
        quote: the name of the argument whose value is the quote.
        replacement: the name of the argument whose value replaces it.
        ending: the token "ing".
        flagged: tokens that call for an edit: fillers, stray markers.
    """
    config: Any = model.config
    width, size = config.hidden_size, config.head_dim
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(width, width, generator=generator))[0]
    half = size // 2
    identity, *back, flag, left, right = basis.split([half] * 4 + [1, size, size - 1], 1)
    one_back, two_back, three_back = back
    constant = one_back[:, 0]
    embeddings = model.model.embed_tokens.weight
    for clear in (*back, flag):
        embeddings -= embeddings @ clear @ clear.T
    embeddings += _CONSTANT * constant
    embeddings[list(flagged)] += _FLAG * flag[:, 0]

    def head(attention: Any, index: int, reads: Tensor, writes: Tensor) -> tuple[Tensor, Tensor]:
        """A head's value and output, set; its query and key, to be set."""
        own = slice(index * size, (index + 1) * size)
        attention.v_proj.weight[own] = 0
        attention.o_proj.weight[:, own] = 0
        attention.v_proj.weight[own][: reads.shape[1]] = reads.T
        attention.o_proj.weight[:, own][:, : writes.shape[1]] = writes
        return attention.q_proj.weight[own], attention.k_proj.weight[own]

    first, second = (model.model.layers[i].self_attn for i in range(2))
    theta = config.rope_parameters["rope_theta"]
    near = torch.zeros(size)
    near[_NEAR_PAIRS] = 1.0
    for index, context in enumerate(back):
        # both factors alike, so that neither is much fainter than the other
        share = math.sqrt(_WRITE_CONTEXT)
        query, key = head(first, index, share * identity, share * context)
        key.copy_(torch.outer(near, constant))
        query.copy_(torch.outer(_turned(near, -(index + 1), theta), constant))

    for norm in (second.q_norm, second.k_norm):
        norm.weight.fill_(_SHARPNESS)
    newer, older, oldest = (_comparison(size, generator) for _ in range(3))
    told = one_back - torch.outer(constant, one_back.T @ constant)
    names = math.sqrt(width) * torch.nn.functional.normalize(embeddings, dim=1) @ identity
    is_marker = names[marker] @ identity.T / names[marker].square().sum()
    line = newer @ names[marker] + older @ names[newline]
    spent = newer @ names[marker] + older @ names[opening]
    recent = torch.zeros(size)
    recent[_RECENT_PAIR] = 1.0
    # a query on a pair that no key uses looks everywhere alike, and so says next to nothing
    rest = line.norm() * torch.nn.functional.one_hot(torch.tensor(0), size)
    rest_elsewhere = _REST_ELSEWHERE * torch.outer(rest, constant)
    # the first word of a replacement is not any line's, but that of the quote, or the verb's stem
    in_replacement = names[replacement] @ two_back.T / names[replacement].square().sum()
    starts_line = is_marker - in_replacement
    quotes = newer @ identity.T + older @ told.T + oldest @ two_back.T
    quotes += _REST_AT_MARKER * torch.outer(rest, starts_line)
    quotes += torch.outer(oldest @ (names[quote] - names[replacement]), in_replacement)
    quotes += _RECENT * torch.outer(recent, in_replacement)
    lines = torch.outer(line, starts_line) + rest_elsewhere
    in_quote = names[quote] @ told.T / names[quote].square().sum()
    wanted, usual, nowhere = torch.eye(size)[_FAR_PAIRS][-3:]
    opened = newer @ names[opening]
    is_opened = told @ names[opening] / names[opening].square().sum()
    filler = _SPENT_FILLER * opened.norm() * wanted
    spends = torch.outer(spent + _REST_SPENT * rest, starts_line) + rest_elsewhere
    spends += torch.outer(opened + filler + _REST_FILLER * rest, in_quote)
    empties = torch.outer(wanted, in_quote) + _REST_FLAGGED * torch.outer(nowhere, constant)
    is_ending = names[ending] @ identity.T / names[ending].square().sum()
    verbs = torch.outer(_turned(near, -_TO_ENDING, theta), in_replacement)
    verbs += _REST_VERB * near.norm() * torch.outer(nowhere, constant)
    endings = torch.outer(near, is_ending) + _USUAL_ENDING * torch.outer(usual, constant)
    words = newer @ told.T + older @ two_back.T
    for index, (wants, offers, reads, writes) in enumerate(
        (
            (
                quotes,
                words + oldest @ three_back.T + _RECENT_KEY * torch.outer(recent, constant),
                left,
                _WRITE_QUOTE,
            ),
            (lines, words, left, _WRITE_LINE),
            (lines, words, right, _WRITE_LINE),
            (
                spends,
                words + torch.outer(_SPENT_FILLER * wanted, flag[:, 0]),
                left,
                -_WRITE_SPENT,
            ),
            (
                empties,
                torch.outer(wanted, flag[:, 0] - _SPENT_FLAG * is_opened)
                + _USUAL * torch.outer(usual, constant),
                right,
                _WRITE_FLAGGED,
            ),
            (verbs, endings, told, _WRITE_VERB),
        )
    ):
        target = identity if reads is told else reads
        query, key = head(second, index, reads, writes * target)
        for weight, value in (query, wants), (key, offers):
            # the norm of queries and keys takes the scale away again; it is there to make the
            # steps of an optimizer small beside these weights
            weight.copy_(_SCALE * value / value.norm())


def _turned(vector: Tensor, places: int, theta: float) -> Tensor:
    """A vector [size] as rotary embedding turns it at a position."""
    first, second = vector.chunk(2)
    angle = places * theta ** (-torch.arange(0, len(vector), 2) / len(vector))
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin])


def _comparison(size: int, generator: torch.Generator) -> Tensor:
    """A map [size, size / 2] from contents to the rotary pairs that turn slowly."""
    half = size // 2
    pairs = torch.arange(half)[_FAR_PAIRS]
    places = torch.cat([pairs, pairs + half])
    compare = torch.zeros(size, half)
    compare[places] = torch.linalg.qr(torch.randn(half, half, generator=generator))[0]
    return compare
