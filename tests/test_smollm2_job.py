"""The job that trains a real model, with a small one: it runs, and its adapter is the result."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from learners.training import models
from learners.training.models import load, load_tokenizer

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "smollm2_job.py"


@pytest.mark.slow
def test_the_adapter_is_what_both_trainings_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(tmp_path / "base")
    load("nano").save_pretrained(base)  # in float32, as smollm2: bfloat16 would round the changes
    load_tokenizer("nano").save_pretrained(base)
    settings = ["--tiny", f"--model={base}", "--threads=1", f"--runs={tmp_path}"]
    done = subprocess.run([sys.executable, str(SCRIPT), *settings], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mini, trained: reward, pay by the line" in done.stdout
    ids = torch.arange(3, 60)[None]
    run = tmp_path / "smollm2-editor-0.02m"
    start, trained = load(base), load(str(run / "model"))
    with torch.no_grad():
        before, after = start(ids).logits, trained(ids).logits
        adapted = PeftModel.from_pretrained(load(base), run / "adapter")
        error = (adapted(ids).logits - after).abs().mean() / (before - after).abs().mean()
        assert error < 0.02
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(models, "smollm2", lambda: Path(base))
        monkeypatch.setattr(models, "EDITOR", run / "adapter")
        for _ in range(2):  # merged, then read from the cache
            merged = load("smollm2-editor")(ids).logits
            torch.testing.assert_close(merged, adapted(ids).logits, atol=1e-3, rtol=0)
            monkeypatch.delattr(models, "save_file", raising=False)
