"""Run the code of the README and of docs/, and parse their `resume-gym` commands."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from shutil import copy
from typing import Any, NamedTuple

import pytest

from resume_gym.cli import main, make_parser

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
OPERATORS = {">", "|", "&&", ";"}


class Block(NamedTuple):
    """A fenced block and, if it is directly followed by a `text` block, the expected output."""

    where: str
    language: str
    text: str
    output: str | None


def blocks(*languages: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.M | re.S)
        for fence in fences.finditer(text):
            line = text.count("\n", 0, fence.start()) + 1
            block = Block(f"{page.relative_to(ROOT)}:{line}", *fence.groups())
            if block.language in languages:
                yield block


def commands() -> Iterator[Any]:
    for block in blocks("bash", "console"):
        lines = block.text.replace("\\\n", " ").removeprefix("$ ").replace("\n$ ", "\n").split("\n")
        for line in lines:
            words = shlex.split(line, comments=True)
            stop = next((n for n, word in enumerate(words) if word in OPERATORS), len(words))
            if words[:1] == ["resume-gym"]:
                yield pytest.param(words[1:stop], id=f"{block.where} {shlex.join(words[1:3])}")


@pytest.mark.parametrize("block", list(blocks("python")), ids=lambda block: block.where)
def test_python_blocks_run(
    block: Block,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, block.where, "exec"), {"__name__": "__main__"})
    if block.output is not None:
        assert capsys.readouterr().out == block.output


@pytest.mark.parametrize("words", list(commands()))
def test_commands_are_accepted_by_the_parser(words: list[str]) -> None:
    make_parser(words).parse_args(words)


def test_a_figure_that_was_measured_once_links_to_what_that_means() -> None:
    for page in PAGES:
        if page.parent.name != "decisions":
            text = page.read_text(encoding="utf-8")
            assert not re.search(r"\bonce\)", text), page


def test_the_rewards_of_scripted_agents_are_those_of_the_result_file() -> None:
    file = ROOT / "benchmarks" / "results" / "agents-2-core-epyc-bf16.json"
    found = json.loads(file.read_text(encoding="utf-8"))["figures"]
    means = {one["name"].removesuffix(": mean reward"): f"{one['value']:.2f}" for one in found}
    agents = ("noop", "floor", "safe harbour", "one repair", "careful", "oracle")
    page = (ROOT / "docs" / "beyond.md").read_text(encoding="utf-8")
    table = page.partition("| variant |")[2].partition("\n\n")[0]
    for name in ("ResumeEdit-v0", "pay by the line", "evidence", "feedback", "ladder", "omission"):
        row = next(row for row in table.split("\n") if name in row)
        assert (
            row.split(" | ", 1)[1] == " | ".join(means[f"{name}, {one}"] for one in agents) + " |"
        )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    floors = [means[f"{name}, floor"] for name in ("ResumeEdit-v0", "ResumeEditMini-v0")]
    assert "earns {} (Mini: {})".format(*floors) in readme


def test_the_evaluation_prints_the_rows_that_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^resume-gym (eval .* --markdown)$", page, re.MULTILINE)
    assert main(command.split()) == 0
    printed = capsys.readouterr().out.split("\n")
    section = page.partition("\n## Output\n")[2].partition("\nRead every mean")[0]
    rows = [line for line in section.split("\n") if line.startswith("|")]
    assert len(rows) == 13
    assert [row for row in rows if row not in printed] == []


def test_the_revision_prints_what_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = next(block for block in blocks("bash") if "examples/cv.md" in block.text)
    (tmp_path / "examples").mkdir()
    for name in ("cv.md", "job.md"):
        copy(ROOT / "examples" / name, tmp_path / "examples" / name)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(shown.text)[1:]) == 0
    printed = capsys.readouterr().out
    assert "\n".join(map(str.rstrip, printed.split("\n"))) == shown.output
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    for path in printed.split()[-2:]:
        assert any(fnmatch(Path(path).name, pattern) for pattern in ignored)


@pytest.mark.slow
def test_the_commands_of_the_tour_print_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names = f'python() {{ {sys.executable} "$@"; }}; resume-gym() {{ python -m resume_gym "$@"; }}'
    for block in blocks("console"):
        if block.where.startswith("docs/tour.md"):
            head, _, rest = f"\n{block.text}".rpartition("\n$ ")
            command, *shown = rest.splitlines()
            script = "\n".join([names, head.replace("\n$ ", "\n"), command])
            done = subprocess.run(
                ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            printed = iter([line.rstrip() for line in done.stdout.splitlines()])
            missing = [line for line in shown if line != "..." and line not in printed]
            assert not missing, f"{block.where}: {done.stdout}"


def test_the_quickstart_is_an_example() -> None:
    quickstart = next(blocks("python")).text
    assert quickstart in (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")


def test_links_within_the_repository_have_targets() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page}: {link}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8192
