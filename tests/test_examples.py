"""What the examples' headers show is what they print."""

import ast
import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
import torch

from resume_gym import Rules

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_trainer_of_your_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One step on short episodes; all of it takes minutes."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = import_module("bring_your_own_trainer")
    example.rules, example.tasks = Rules(3, page_lines=20), example.tasks[:1]
    ids, sampled, reward = example.play(example.tasks[0])
    assert len(ids) == len(sampled)
    # the prompt, then by turns what the model and the tools said
    assert re.fullmatch("0+(1+0+){1,3}", "".join(str(int(one)) for one in sampled))
    assert -7 <= reward <= 8

    before = example.model.lm_head.weight.clone()
    example.main(steps=1, group_size=2)
    assert not torch.equal(example.model.lm_head.weight, before)
    form = re.compile(r"step \d: mean reward [+-]\d\.\d\d, \d+ tokens")
    assert form.fullmatch(capsys.readouterr().out.strip())
    source = (EXAMPLES / "bring_your_own_trainer.py").read_text(encoding="utf-8")
    assert len(form.findall(ast.get_docstring(ast.parse(source)) or "")) == 3


@pytest.mark.parametrize("name", ["check_your_judge", "release_notes", "verifiers_eval"])
def test_help_is_the_header_and_starts_nothing(name: str) -> None:
    path = EXAMPLES / f"{name}.py"
    told = subprocess.check_output([sys.executable, path, "--help"], text=True, timeout=60)
    header = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert header in told
    assert told.count(header.partition("\n")[0]) == 1


def test_a_judge_is_checked() -> None:
    path = EXAMPLES / "check_your_judge.py"
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    header = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert textwrap.indent(done.stdout, "    ").rstrip() in header
