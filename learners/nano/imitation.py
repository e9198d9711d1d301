"""Make the nano policy: tokenizer, hand-set heads, imitation of a hasty editor.

Run `python -m learners.nano.imitation --out learners/nano/policy` (three quarters of an hour on two
cores; `--start` continues from a policy). The result is a Qwen3 of five million parameters that
speaks the environment's protocol, with the habits of `hasty_editor.HASTY`, so that reinforcement
learning has the same faults to mend as in the published run.

Left out: validation loss curves and early stopping; what counts is how the policy behaves on
held-out tasks, and the script ends by measuring that.
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, islice
from pathlib import Path
from random import Random
from string import ascii_uppercase
from typing import Any

import torch
from rich.console import Console
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from learners.config import Config
from learners.engines.transformers import TransformersEngine
from learners.nano import copy_heads as induction
from learners.nano.hasty_editor import VERBS, act, estrange
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.tokens import ChatTokens
from learners.rollouts.workload import Workload
from learners.training.batching import Sample, pack
from learners.training.cpu import prepare_cpu
from learners.training.models import NANO, freeze, load, load_tokenizer
from learners.training.policy import Policy
from resume_gym import TOOLS, EditSession, Rules, Session, Task, load_tasks, tool_call
from resume_gym.agents.wording import FILLERS
from resume_gym.evaluation import Returns, table
from resume_gym.judges import make_judge
from resume_gym.synthesis.procedural import generate_task
from resume_gym.text.verbs import past_tense

RULES = Rules(max_turns=6, page_lines=20)
VOCABULARY = 4094  # and two added tokens
CIRCUIT_RATE = 0.1
"""The learning rate of the hand-set quoting heads, as a share of that of all other weights."""
_SHORT = 0.75  # of the demonstrations start with the review: reading the prompt costs as much again
_SLIPS = 0.15  # of the turns before a demonstration: policies have to go on after their mistakes
_GROUPS = 3  # states in a step
_DRAWS = 32  # turns from each state
_WEIGHT = 200  # so that a filler is one token, and the stem of each verb, which a head can copy
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
SHIFT = "\x0e"
"""Written before a capital, which then is a small letter; acronyms stay as they are."""
# A word takes the space before it, a stem stands without -ing or -ed, and a capital is a token
# before its word: "for planning" and "- Planned" share the token of the stem, so that a better
# verb can be copied like a quote. JSON's own punctuation sticks together, so that the frame of a
# call has few tokens. A filler is one token, found and quoted at a glance. A bullet's marker and
# its capital are one token: it says that a line starts.
PIECES = (
    rf",? (?:{'|'.join(sorted(FILLERS, key=len, reverse=True))})(?![\p{{L}}_])|"
    rf"""(?<![^\n"])[-*+](?:{SHIFT}| )|{SHIFT}"""
    r"""| ?[\p{L}_]{3,}?(?=(?:ing|ed)(?![\p{L}_]))| ?[\p{L}_]+|\p{N}+|\\n|\\|\n+"""
    rf"""|[{{"](?:[":,{{}} ]*[":{{}}])?| ?[^\s\p{{L}}\p{{N}}_\\"{{{SHIFT}]+|\s"""
)
CAPITALS = [
    (space + letter, SHIFT + space + letter.lower())
    for space in (" ", "")
    for letter in ascii_uppercase
]


def make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with the Hermes chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(f"(?<![A-Z0-9]){capital}(?![A-Z0-9])"), small)
            for capital, small in CAPITALS
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteLevel(),
            *(decoders.Replace(small, capital) for capital, small in CAPITALS),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL[:3]),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # part of the text that the environment reads, so not special
    tokenizer.add_tokens(list(SPECIAL[3:]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=(NANO / "chat_template.jinja").read_text(),
        model_max_length=4096,
    )


def learn_tokenizer(tasks: Iterable[Task], seed: int) -> PreTrainedTokenizerFast:
    """The tokenizer of demonstrations on tasks and of common verbs."""
    # a tokenizer of bytes renders the texts that the real one learns from
    bytes_only = make_tokenizer([])
    sessions = (Session(task, RULES) for task in tasks)
    groups = demonstrations(ChatTokens(bytes_only, TOOLS), sessions, 1, seed)
    corpus = (str(bytes_only.decode(one.prompt + one.response)) for (one,) in groups)
    verbs = [f" {verb}\n- {past_tense(verb).capitalize()}" for verb in VERBS.split()]
    fillers = [f" {filler}" for filler in FILLERS]
    return make_tokenizer(chain(corpus, (verbs + fillers) * _WEIGHT))


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A random nano Qwen3; head size 64 and one width for every engine."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        head_dim=64,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    # what the context heads write is faint, and what is added to it blinds the quoting heads
    config.frozen_layers = 1
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        # at the usual scales neither attention nor the tied head can be sharp
        model.model.embed_tokens.weight.mul_(3)
        for layer in model.model.layers:
            layer.self_attn.q_norm.weight.fill_(1.5)
            layer.self_attn.k_norm.weight.fill_(1.5)
            layer.mlp.down_proj.weight.mul_(0.1)
            layer.self_attn.o_proj.weight.mul_(0.1)
        # ten lines share the evidence of where a quote may start: what is on the page must
        # outweigh what pages are like
        model.model.norm.weight.fill_(2.5)
    newline, marker, *_ = tokenizer.encode("\n- A")
    quote, opening, replacement, _ = tokenizer.encode('old": "new": "')
    ending = tokenizer.encode(" planning")[-1]
    encoded = (tokenizer.encode(f" {filler}") for filler in FILLERS)
    fillers = [tokens[0] for tokens in encoded if len(tokens) == 1]
    markers = [tokenizer.encode(f"{marks}A")[0] for marks in ("* ", "+ ", "**")]
    induction.install(
        model, newline, marker, opening, quote, replacement, ending, [*fillers, *markers]
    )
    freeze(model)
    return model


def demonstrations(
    chat: ChatTokens,
    sessions: Iterable[EditSession[Any, Any]],
    each: int,
    seed: int,
    act: Callable[[Any, Random], str] = act,
) -> Iterator[list[Sample]]:
    """Samples of an editor's next turn, a group for a random turn of each episode.

    Many turns from one state cost little, because the page is read once for all of them: in an
    episode four of five tokens are the environment's. A turn that is drawn several times is one
    sample, whose advantage is the number of draws.

    Args:
        chat: turns texts into tokens.
        sessions: new sessions, which are played up to the turn.
        each: draws per state.
        seed: of the editor's draws.
        act: returns the text of the editor's next turn; the hasty editor's by default.
    """
    for group, session in enumerate(sessions):
        rng = Random(f"{seed}:{group}")
        prompt = chat.prompt(session.system_prompt, session.prompt)
        short = rng.random() < _SHORT
        for _ in range(rng.randrange(session.rules.max_turns)):
            text = act(session, rng)
            if rng.random() < _SLIPS:
                text = _spoil(text, rng)
            step = session.step(text)
            if step.done:
                break
            if short and text == tool_call("review"):
                prompt = []
            prompt += [*chat.write(text), *chat.reply(step.observation)]
        if not session.done:
            drawn = Counter(act(session, rng) for _ in range(each))
            yield [_sample(chat, prompt, text, group, n) for text, n in drawn.items()]


def _spoil(text: str, rng: Random) -> str:
    """A call with a slip of the kind that samplers make: it is cut off, or a word is another."""
    if rng.random() < 0.5:
        return text[: rng.randrange(len(text))]
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice(words)
    return " ".join(words)


def _sample(chat: ChatTokens, prompt: list[int], text: str, group: int, draws: int) -> Sample:
    said = chat.write(text)
    return Sample(group, prompt, said, [True] * len(said), [0.0] * len(said), float(draws))


def unfamiliar(tasks: Iterable[Task], seed: int) -> Iterator[Session]:
    """New sessions on the tasks with strange bullets, see `hasty_editor.estrange`."""
    for task in tasks:
        resume = estrange(task.resume, Random(f"{seed}:{task.task_id}"))
        yield Session(replace(task, resume=resume, fixes=()), RULES)


def train(policy: Policy, groups: Iterator[list[Sample]], steps: int, learning_rate: float) -> None:
    """Maximise the likelihood of what was drawn; the learning rate decays from the start."""
    circuit: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, weight in policy.model.named_parameters():
        if weight.requires_grad:
            (circuit if name.startswith(induction.QUOTING) else others).append(weight)
    # at the full rate noise wears the circuit away: the policy then guesses what lines start with
    rates: list[dict[str, Any]] = [
        {"params": others},
        {"params": circuit, "lr": CIRCUIT_RATE * learning_rate},
    ]
    optimizer = torch.optim.AdamW(rates, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / 20, 1 - n / steps)
    )
    began, seen, recent = time.monotonic(), 0, 0.0
    for step in range(1, steps + 1):
        chosen = islice(groups, _GROUPS)
        samples = [replace(one, group=n) for n, group in enumerate(chosen) for one in group]
        batches = pack(samples, 8192)
        total = float(sum(batch.advantages.sum() for batch in batches))
        value = 0.0
        for batch in batches:
            loss = -(batch.advantages * policy(batch)[0]).sum() / total
            loss.backward()
            value += float(loss.detach())
            seen += len(batch.tokens)
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        recent = value if step == 1 else 0.9 * recent + 0.1 * value
        if step % 25 == 0 or step == steps:
            speed = seen / (time.monotonic() - began)
            print(f"{step}/{steps}: loss {recent:.3f}, {seen / 1e6:.2f} M tokens, ", end="")
            print(f"{speed:.0f} tokens/s", flush=True)


def measure(policy: Policy, chat: ChatTokens, tasks: list[Task], each: int) -> Returns:
    """How the policy behaves, with the offline judge."""
    config = Config(temperature=policy.temperature, eval_rollouts=each)
    work = Workload(RULES, (), tasks, make_judge("rubric"), chat)
    orchestrator = Orchestrator(config, work, TransformersEngine(policy), None, print)
    return asyncio.run(orchestrator.evaluate(0)).summary


def main() -> None:
    """Make the policy and print how it behaves on held-out tasks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=Path, help="folder of a nano policy to go on from")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="at the start")
    parser.add_argument("--steps", type=int, default=2400, help="optimizer steps of imitation")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    prepare_cpu()

    tasks = (generate_task(args.seed, index, "train", "mini") for index in count())
    if args.start:
        tokenizer, model = load_tokenizer(str(args.start)), load(str(args.start))
    else:
        tokenizer = learn_tokenizer(islice(tasks, 600), args.seed)
        model = make_model(tokenizer)
    chat = ChatTokens(tokenizer, TOOLS)
    policy = Policy(model, temperature=1.0, precision="bfloat16")
    print(f"{sum(p.numel() for p in policy.parameters()):,} parameters, {len(tokenizer)} tokens")

    groups = demonstrations(chat, unfamiliar(tasks, args.seed), each=_DRAWS, seed=args.seed)
    train(policy, groups, args.steps, args.learning_rate)
    policy.model.config._attn_implementation = "sdpa"
    policy.bfloat16().model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)

    model = load(str(args.out))
    policy = Policy(model, Config().temperature, "float32")
    chat = ChatTokens(load_tokenizer(str(args.out)), TOOLS)
    held_out = list(load_tasks("mini", "eval"))
    Console().print(table({"nano": measure(policy, chat, held_out, 4)}))


if __name__ == "__main__":
    main()
