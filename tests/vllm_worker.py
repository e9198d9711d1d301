"""Weight updates of vLLM within this process; `python vllm_worker.py OUT FOLDER...`.

Writes, for each folder's model and each version of its weights, tokens and log-probabilities.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from test_vllm import PROMPT, STOP, TEMPERATURE, UPDATES, changed

from learners.engines.vllm_plugin import OWNED, SHARED_MEMORY
from learners.training import models


def main(out: Path, folders: Sequence[str]) -> None:
    """Sample with four versions of each model."""
    os.environ |= {OWNED: "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCH_COMPILE_DISABLE": "1"}
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR"}
    out.write_text(json.dumps({folder: sampled(folder, out) for folder in folders}))


def sampled(folder: str, out: Path) -> list[dict[str, Any]]:
    """Tokens and log-probabilities of each version of the weights."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder,
        dtype="float32",
        enforce_eager=True,
        block_size=32,
        kv_cache_memory_bytes=2**28,
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
        weight_transfer_config={"backend": SHARED_MEMORY},
    )
    sampling = SamplingParams(
        temperature=TEMPERATURE, max_tokens=24, stop_token_ids=[STOP], seed=3, logprobs=0
    )
    model, found = models.load(folder), []
    for version in range(UPDATES + 1):
        if version:
            changed(model, version)
            file = out.with_suffix(f".{version}.safetensors")
            save_file({name: one.detach() for name, one in model.named_parameters()}, file)
            llm.start_weight_update()
            llm.update_weights({"update_info": {"paths": [str(file)]}})
            llm.finish_weight_update(str(version))
            llm.reset_prefix_cache()
        (answer,) = llm.generate({"prompt_token_ids": PROMPT}, sampling, use_tqdm=False)
        (said,) = answer.outputs
        ids = list(said.token_ids)
        logprobs = [one[token].logprob for one, token in zip(said.logprobs, ids, strict=True)]
        found.append({"ids": ids, "logprobs": logprobs})
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2:])
