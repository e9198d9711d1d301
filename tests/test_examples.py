"""What the examples' headers show is what they print."""

import ast
import json
import math
import re
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest
import torch

from resume_gym import Rules
from resume_gym.support.user_errors import install

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_folders_to_install_are_there_and_hints_name_the_checkout() -> None:
    root = EXAMPLES.parent
    assert install("data") == f"pip install -e '{root}[data]'"
    pages = [*EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.md"), *(root / "docs").rglob("*.md")]
    folders = {
        folder
        for page in pages
        for line in re.findall(r"pip install .*", page.read_text(encoding="utf-8"))
        for folder in re.findall(r"-e (?!\.)([\w/]+)", line)
    }
    assert folders
    for folder in folders:
        assert (root / folder / "pyproject.toml").is_file(), folder


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
    example.main(steps=1, group_size=4)  # equal rewards would teach nothing
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


def test_runs_that_need_a_person_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monitor = import_module("monitor_runs")
    now = datetime.now()
    running = {"state": "running", "now": "training", "next": "saving", "step": 3, "steps": 9}
    ended = {"state": "ended", "why": "told", "step": 9, "steps": 9}
    beats: dict[str, tuple[dict[str, object], str]] = {
        "alarm": ({}, "Command: a\n- {} Step 3: warning, entropy"),
        "budget": ({**ended, "end": "budget"}, ""),
        "collapsed": ({**ended, "end": "steps"}, "Step 8: warning, entropy"),
        "endless": ({"every_s": math.nan}, ""),
        "goal": ({**ended, "end": "goal"}, ""),
        "healed": ({}, "Step 3: warning, entropy\n- {} Command: a"),
        "interrupted": ({}, "Interrupted: no step is saved yet"),
        "late": ({"at": f"{now - timedelta(seconds=99)}"}, ""),
        "silent": ({"at": f"{now - timedelta(minutes=95)}"}, ""),
        "stopped": ({"state": "stopped", "why": "\x1b[31mjudge"}, ""),
        "unmeasured": ({"at": f"{now - timedelta(minutes=95)}", "every_s": 0}, ""),
        "wrong": ({"at": "yesterday"}, ""),
    }
    for name, (changes, journal) in beats.items():
        (tmp_path / name).mkdir()
        beat = {**running, "at": f"{now}", "every_s": 30, **changes}
        (tmp_path / name / "heartbeat.json").write_text(json.dumps(beat))
        time = f"{now:%Y-%m-%d %H:%M:%S}"
        (tmp_path / name / "journal.md").write_text(f"- {time} {journal}\n".replace("{}", time))
    monkeypatch.setattr(sys, "argv", ["monitor_runs.py", str(tmp_path)])
    assert monitor.main() == 3
    head, *rows = (re.split("  +", line) for line in capsys.readouterr().out.splitlines())
    assert head == ["run", "step", "state", "person", "why"]
    assert [(name, state, person, why) for name, _, state, person, why in rows] == [
        ("alarm", "running", "yes", "Step 3: warning, entropy"),
        ("budget", "ended", "yes", "told"),
        ("collapsed", "ended", "yes", "told; Step 8: warning, entropy"),
        ("endless", "unreadable", "yes", "heartbeat.json: every_s: expected a number, got nan"),
        ("goal", "ended", "no", "told"),
        ("healed", "running", "no", "training, then saving"),
        ("interrupted", "interrupted", "yes", "Interrupted: no step is saved yet"),
        ("late", "running", "no", "training, then saving"),
        ("silent", "silent", "yes", "no heartbeat for 95 minutes; training"),
        ("stopped", "stopped", "yes", "␛[31mjudge"),
        ("unmeasured", "running", "no", "training, then saving"),
        ("wrong", "unreadable", "yes", "Invalid isoformat string: 'yesterday'"),
    ]
    monkeypatch.setattr(sys, "argv", ["monitor_runs.py", str(tmp_path / "none")])
    assert monitor.main() == 2


def test_a_judge_is_checked() -> None:
    path = EXAMPLES / "check_your_judge.py"
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    header = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert textwrap.indent(done.stdout, "    ").rstrip() in header


def test_what_an_example_prints_replaces_the_last_block_of_its_docstring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    updated = import_module("update_outputs").updated
    source = (
        '"""Do it.\n\n    python do.py\n\nIt prints\n\n    a 1\n    b 2\n\nat most.\n"""\n\nx = 1\n'
    )
    assert updated(source, "noise\na 3\nb 4\n") == source.replace("a 1", "a 3").replace(
        "b 2", "b 4"
    )
