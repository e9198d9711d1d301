"""Measure whether readers (language models) can tell generated resumes from those of strangers.

    python benchmarks/plausible.py --draw 1   # sheets of round 1, for readers
    python benchmarks/plausible.py            # count the labels of all rounds

The strangers are writers (language models) who knew the counts of real resumes, such as lengths of
lines, but neither the generator nor its texts (`readers/pages/test`). There are two questions, and
two readers, who know no rules, answer each of them:

- lines: "Could an applicant have written this line?", for 60 planted lines and 60 strangers' lines.
- pages: "Written by a person or by a program?", for 20 generated and 20 strangers' resumes.

`readers/brief-lines.txt` and `brief-pages.txt` hold the instructions. The first row of a labels
file names the readers; each other row is {"item": number, "labels": [one per reader]}.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from record import Figure, finish, parser

from resume_gym import Task
from resume_gym.synthesis.procedural import generate_tasks

FOLDER = Path(__file__).parent / "readers"
STRANGERS = FOLDER / "pages" / "test"
LINES, PAGES = 60, 20
OURS, THEIRS = "generated", "stranger"
BULLET = re.compile(r"[-*+•] +(\S.*)")


def planted(task: Task) -> Iterator[str]:
    """Yield the bullets that the generator spoilt or added, without their markers."""
    if task.weakness != "formatting_inconsistent":
        for fix in task.fixes:
            for line in fix.old.strip("\n").split("\n"):
                shown = [one for one in task.resume.split("\n") if line and line in one]
                if shown and (bullet := BULLET.fullmatch(shown[0])):
                    yield bullet[1]


def draw(number: int) -> None:
    """Write the sheets of a round; the generated tasks of each round are new."""
    rng = Random(9100 + number)
    tasks = list(generate_tasks(9100 + number, 60, "eval"))
    others = [path.read_text(encoding="utf-8") for path in sorted(STRANGERS.glob("*.md"))]
    bullets = [
        hit[1] for text in others for line in text.split("\n") if (hit := BULLET.match(line))
    ]
    lines = sorted({line for task in tasks for line in planted(task)})
    told = {OURS: rng.sample(lines, LINES), THEIRS: rng.sample(bullets, LINES)}
    write("lines", number, told, rng)
    pages = {
        OURS: [task.resume.strip() for task in tasks[:PAGES]],
        THEIRS: [text.partition("\n---\n")[2].strip() for text in others],
    }
    write("pages", number, pages, rng)


def write(kind: str, number: int, told: dict[str, list[str]], rng: Random) -> None:
    """Shuffle items of both sources, and write them as JSON and as a sheet for readers."""
    items = [(source, text) for source, texts in told.items() for text in texts]
    rng.shuffle(items)
    rows = [
        {"item": n, "source": source, "text": text} for n, (source, text) in enumerate(items, 1)
    ]
    path = FOLDER / f"{kind}-plausible-{number}.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    rule = "\n" if kind == "lines" else f"\n{'=' * 80}\n"
    sheet = rule.join(f"ITEM {row['item']}: {row['text']}" for row in rows)
    (FOLDER / f"sheet-{kind}-{number}.txt").write_text(sheet + "\n", encoding="utf-8")


def count(args: Any) -> int:
    """Count the labels of all rounds; only the newest has targets."""
    figures: list[Figure] = []
    readers: dict[str, Any] = {}
    for kind in ("lines", "pages"):
        paths = sorted(FOLDER.glob(f"labels-{kind}-plausible-*.jsonl"))
        for path in paths:
            number = path.stem.rsplit("-", 1)[1]
            who, *rows = read(path)
            items = {one["item"]: one for one in read(FOLDER / f"{kind}-plausible-{number}.jsonl")}
            readers[f"{kind} {number}"] = who
            last = path == paths[-1]
            said = [
                (items[row["item"]]["source"], label) for row in rows for label in row["labels"]
            ]
            if kind == "lines":
                share = {
                    source: sum(label == "yes" for one, label in said if one == source)
                    / sum(one == source for one, _ in said)
                    for source in (OURS, THEIRS)
                }
                behind = share[THEIRS] - share[OURS]
                figures += [
                    Figure(
                        f"lines {number}: ours could be real", share[OURS], 0.9 if last else None
                    ),
                    Figure(f"lines {number}: theirs could be real", share[THEIRS]),
                    Figure(f"lines {number}: ours behind", behind, None, 0.05 if last else None),
                ]
            else:
                right = sum((label == "program") == (source == OURS) for source, label in said)
                told = f"pages {number}: told apart"
                figures.append(Figure(told, right / len(said), None, 0.65 if last else None))
    return finish("plausible", args, figures, readers)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the objects in a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> int:
    """With --draw, draw a round; else count and record labels, and return 1 on a missed target."""
    options = parser(__doc__ or "")
    options.add_argument("--draw", metavar="ROUND", type=int, help="write the sheets of a round")
    args = options.parse_args()
    if args.draw is None:
        return count(args)
    draw(args.draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
