"""Computes the fingerprint of a model folder by the recipe in docs/WEIGHTS.md, without Canopy.

fingerprint.py FOLDER
"""

import hashlib
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

from safetensors import deserialize

# A setting with its default value is left out.
DEFAULTS: dict[str, Any] = {
    "head": "none",
    "num_layers": 0,
    "num_query_heads": 0,
    "max_position_embeddings": 0,
    "rms_norm_eps": 0.0,
    "rope.type": "default",
    "rope.theta": 0.0,
    "rope.factor": 1.0,
    "rope.original_max_position_embeddings": 0,
    "rope.beta_fast": 32.0,
    "rope.beta_slow": 1.0,
    "rope.truncate": True,
    "rope.attention_factor": 1.0,
    "rope.low_freq_factor": 1.0,
    "rope.high_freq_factor": 4.0,
    "sliding_window": 0,
    "sliding_layers": "",
    "experts.experts_per_token": 0,
    "experts.normalize_weights": False,
    "temperature.boolean": 1.0,
    "temperature.choice": 1.0,
    "temperature.score": 1.0,
    "reranker.yes_token": None,
    "reranker.no_token": None,
}
DEFAULT_THETA = 10000.0
HEADS = {
    "Model": "none",
    "ForCausalLM": "language_model",
    "ForSequenceClassification": "classifier",
}


def rope_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of the rotary embedding."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    theta = float(config.get("rope_theta") or rope.get("rope_theta") or DEFAULT_THETA)
    settings: dict[str, Any] = {"type": kind, "theta": theta}
    keys = {"yarn": ["beta_fast", "beta_slow"], "llama3": ["low_freq_factor", "high_freq_factor"]}
    for key in [] if kind == "default" else ["factor", *keys.get(kind, [])]:
        if rope.get(key) is not None:
            settings[key] = float(rope[key])
    if kind in ("yarn", "llama3"):
        key = "original_max_position_embeddings"
        settings[key] = rope.get(key) or config.get(key) or config["max_position_embeddings"]
    if kind == "yarn":

        def magnitude(weight: float) -> float:
            return 1.0 if rope["factor"] <= 1 else 0.1 * weight * math.log(rope["factor"]) + 1.0

        one, all_dimensions = rope.get("mscale") or 0.0, rope.get("mscale_all_dim") or 0.0
        default = magnitude(1.0)
        if one > 0 and all_dimensions > 0:
            default = magnitude(one) / magnitude(all_dimensions)
        factor = rope.get("attention_factor") or default
        settings["attention_factor"] = struct.unpack("f", struct.pack("f", factor))[0]
        settings["truncate"] = rope.get("truncate") is not False
    return {f"rope.{key}": value for key, value in settings.items()}


def longest_path(config: dict[str, Any]) -> int:
    """Returns the maximum length of a path, which rotary scaling may extend."""
    rope = rope_settings(config)
    length = {
        "linear": config["max_position_embeddings"],
        "yarn": rope.get("rope.original_max_position_embeddings", 0),
    }
    stretched = math.floor(rope.get("rope.factor", 1.0) * length.get(rope["rope.type"], 0))
    return max(config["max_position_embeddings"], stretched)


def sliding_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of sliding windows. A window that hides no token is ignored."""
    switched = config["model_type"] == "mistral" or config.get("use_sliding_window")
    window = (config.get("sliding_window") or 0) if switched else 0
    layers = range(config["num_hidden_layers"])
    first = config.get("max_window_layers", 0) if config["model_type"] in ("qwen2", "qwen3") else 0
    types = config.get("layer_types")
    sliding = [n for n in layers if (types[n] == "sliding_attention" if types else n >= first)]
    if not sliding or not 0 < window < longest_path(config):
        return {}
    return {"sliding_window": window, "sliding_layers": ",".join(map(str, sliding))}


def all_settings(folder: Path, config: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Returns all settings by name, including defaults."""
    suffix = next(s for s in HEADS if config["architectures"][0].endswith(s))
    head = HEADS[suffix]
    if any(name.startswith("path_encoder.backbone.") for name in names):
        head = "decision"
    elif head == "language_model" and not config.get("tie_word_embeddings"):
        head = head if "lm_head.weight" in names else "none"
    settings = {
        "head": head,
        "num_layers": config["num_hidden_layers"],
        "num_query_heads": config["num_attention_heads"],
        "max_position_embeddings": config["max_position_embeddings"],
        "rms_norm_eps": float(config["rms_norm_eps"]),
        **rope_settings(config),
        **sliding_settings(config),
    }
    if config["model_type"] == "qwen3_moe":
        settings["experts.experts_per_token"] = config["num_experts_per_tok"]
        settings["experts.normalize_weights"] = config["norm_topk_prob"]
    for file, prefix in (("temperatures.json", "temperature"), ("reranker.json", "reranker")):
        if (folder / file).exists():
            for key, value in json.loads((folder / file).read_text()).items():
                is_temperature = isinstance(value, dict)
                settings[f"{prefix}.{key}"] = (
                    float(value["temperature"]) if is_temperature else value
                )
    return settings


def text(value: Any) -> str:
    """Returns a setting's value in its hashed form."""
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    return str(value).lower() if isinstance(value, bool) else str(value)


def u64(number: int) -> bytes:
    """Returns an integer in its hashed form."""
    return struct.pack("<Q", number)


def string(value: str) -> bytes:
    """Returns a string in its hashed form."""
    return u64(len(value.encode())) + value.encode()


def fingerprint(folder: Path, config_file: Path | None = None) -> str:
    """Returns the fingerprint that a server of this folder would show."""
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(dict(deserialize(file.read_bytes())))
    config = json.loads((config_file or folder / "config.json").read_text())
    settings = all_settings(folder, config, list(tensors))
    kept = {name: text(value) for name, value in settings.items() if value != DEFAULTS[name]}
    data = b"canopy fingerprint 2\n" + u64(len(kept))
    for name in sorted(kept):
        data += string(name) + string(kept[name])
    data += u64(len(tensors))
    for name in sorted(tensors, key=str.encode):
        tensor = tensors[name]
        data += string(name) + string(tensor["dtype"]) + u64(len(tensor["shape"]))
        data += b"".join(map(u64, tensor["shape"])) + hashlib.sha256(tensor["data"]).digest()
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    print(fingerprint(Path(sys.argv[1])))
