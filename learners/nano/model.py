"""The nano model: a plain Qwen3 with 4.5 million parameters, and a byte-level BPE tokenizer."""

from collections.abc import Iterable, Iterator
from string import ascii_lowercase

import torch
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from learners.training.models import NANO
from resume_gym import tool_call
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.episode.feedback import FeedbackSession

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
VOCABULARY = 4096
CAPITAL = "\ufffd"
"""Mark of a capital letter. After this character, streaming decoders wait for the next token."""
_SUFFIX = Regex("(?<=[a-z]{2})(?:ing|ed)(?![A-Za-z])")


def make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on texts, and give it the Hermes chat template.

    A small model learns to copy tokens, but not how words are spelt. So a capitalised word has the
    token `CAPITAL` and then the tokens of the lower-case word, and the endings -ing and -ed are
    tokens: to replace "responsible for moving" by "Moved", a model copies the token " mov". A text
    that has `CAPITAL` itself before a lower-case letter is decoded with a capital instead. Each
    fixed text of a tool call is one token; otherwise, they would be 3/4 of an edit's tokens.
    """
    # ordinary tokens, since decoders skip special tokens by default
    added = [*TAGS, *dict.fromkeys(_fixed_texts())]
    tokenizer = Tokenizer(models.BPE())
    pairs = [(letter.upper(), letter) for letter in ascii_lowercase]
    tokenizer.normalizer = normalizers.Sequence(
        [
            # the mark stands before the space, since BPE encodes a word with the space before it
            *(
                normalizers.Replace(Regex(f" {big}(?=[a-z])"), f"{CAPITAL} {small}")
                for big, small in pairs
            ),
            *(
                normalizers.Replace(Regex(f"(?<![A-Za-z]){big}(?=[a-z])"), f"{CAPITAL}{small}")
                for big, small in pairs
            ),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(CAPITAL, "isolated"),
            pre_tokenizers.Split(_SUFFIX, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteLevel(),
            *(decoders.Replace(f"{CAPITAL} {small}", f" {big}") for big, small in pairs),
            *(decoders.Replace(f"{CAPITAL}{small}", big) for big, small in pairs),
            # an unfinished text has to end with the mark, so that streams wait
            decoders.Replace(Regex(rf"{CAPITAL} \z"), f" {CAPITAL}"),
        ]
    )
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY - len(added),
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=(NANO / "chat_template.jinja").read_text(),
        model_max_length=4096,
    )


def _fixed_texts() -> Iterator[str]:
    """Yield the texts before, between and after the arguments of each tool's call."""
    for kind in (EvidenceSession, FeedbackSession):
        for tool in (schema["function"] for schema in kind.toolbox.schemas):
            texts = [
                name
                for name, one in tool["parameters"]["properties"].items()
                if one["type"] == "string"
            ]
            gaps = dict.fromkeys(texts, "|")
            yield from tool_call(tool["name"], **gaps).split("|")


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return a randomly initialised nano model; all sampling engines support its head size, 64."""
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=64,
            max_position_embeddings=4096,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=2,
            pad_token_id=0,
        )
    )
    # start each layer as the identity: outputs of random layers would exceed the embeddings
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return model
