"""Makes small checkpoints of every model family, and what transformers computes with them.

    make_family_checkpoints.py OUTPUT_FOLDER

The folders are those of make_checkpoints.py; names.json lists them. Each family comes in every
layout, the rotary scalings and storage types are spread over them. Everything is seeded.
"""

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from make_checkpoints import (
    VOCAB_SIZE,
    Question,
    endpoint_vectors,
    make_cases,
    paths_of,
    randomize,
    reward_scores,
)
from safetensors.torch import save_file

POSITIONS = 512
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
}
YARN_FULL = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 16.0,
    "beta_slow": 2.0,
    "mscale": 0.707,
    "mscale_all_dim": 0.5,
    "truncate": False,
}
# A length so short that waves on all three sides of the blend occur.
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}


@dataclass(frozen=True)
class Family:
    """Names of transformers' classes, and what every configuration of the family adds."""

    prefix: str
    settings: dict[str, Any] = field(default_factory=dict)


LLAMA = Family("Llama")
MISTRAL = Family("Mistral", {"sliding_window": None})
QWEN2 = Family("Qwen2")
QWEN3 = Family("Qwen3")


@dataclass(frozen=True)
class Checkpoint:
    """What to make. The name ends in the storage type."""

    name: str
    family: Family
    layout: str
    hidden: int = 96
    query_heads: int = 4
    kv_heads: int = 2
    rope: dict[str, Any] = field(default_factory=lambda: DEFAULT)
    settings: dict[str, Any] = field(default_factory=dict)
    published: bool = False  # Rewrites the config as published folders have it.

    @property
    def dtype(self) -> torch.dtype:
        """The storage type."""
        return DTYPES[self.name.rsplit("_", 1)[1]]


BASE = "Model"
CAUSAL = "ForCausalLM"
REWARD = "ForSequenceClassification"

CHECKPOINTS = [
    Checkpoint("qwen2_base_f32", QWEN2, BASE),
    Checkpoint(
        "qwen2_causal_yarn_bf16",
        QWEN2,
        CAUSAL,
        128,
        8,
        rope=YARN,
        settings={"tie_word_embeddings": True},
        published=True,
    ),
    Checkpoint("qwen2_reward_linear_f32", QWEN2, REWARD, rope=LINEAR, settings={"num_labels": 3}),
    Checkpoint("llama_base_bf16", LLAMA, BASE, 64, 4, 4),
    Checkpoint("llama_causal_published_llama3_f32", LLAMA, CAUSAL, rope=LLAMA3, published=True),
    Checkpoint(
        "llama_reward_llama3_bf16",
        LLAMA,
        REWARD,
        rope=LLAMA3,
        settings={"num_labels": 1, "attention_bias": True},
    ),
    Checkpoint("mistral_base_linear_f32", MISTRAL, BASE, rope=LINEAR, published=True),
    Checkpoint("mistral_causal_bf16", MISTRAL, CAUSAL, 96, 4, 1, settings={"head_dim": 48}),
    Checkpoint("mistral_reward_yarn_f32", MISTRAL, REWARD, rope=YARN, settings={"num_labels": 2}),
    Checkpoint("qwen3_base_yarn_full_bf16", QWEN3, BASE, rope=YARN_FULL),
]


def make_model(checkpoint: Checkpoint) -> Any:
    """A randomised model in the checkpoint's storage type."""
    prefix = checkpoint.family.prefix
    config = getattr(transformers, prefix + "Config")(
        vocab_size=VOCAB_SIZE,
        hidden_size=checkpoint.hidden,
        intermediate_size=2 * checkpoint.hidden + 40,
        num_hidden_layers=2,
        num_attention_heads=checkpoint.query_heads,
        num_key_value_heads=checkpoint.kv_heads,
        max_position_embeddings=POSITIONS,
        rope_parameters=dict(checkpoint.rope),
        **{**checkpoint.family.settings, **checkpoint.settings},
    )
    model = getattr(transformers, prefix + checkpoint.layout)(config)
    randomize(model, seed=sum(checkpoint.name.encode()))
    return model.to(checkpoint.dtype).eval()


def publish(folder: Path) -> None:
    """Spells the rotary embedding as published folders do."""
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    if scaling["rope_type"] == "yarn":
        scaling["type"] = scaling.pop("rope_type")
    config["rope_scaling"] = scaling
    config["torch_dtype"] = config.pop("dtype")
    file.write_text(json.dumps(config), encoding="utf-8")


def write_oracle(checkpoint: Checkpoint, folder: Path, cases: dict[str, list[Question]]) -> None:
    """Runs transformers on the saved folder and stores what it gives."""
    results: dict[str, torch.Tensor] = {}
    kinds = {torch.float32: "vectors", checkpoint.dtype: "vectors"}
    if checkpoint.dtype != torch.float32:
        kinds[checkpoint.dtype] = "vectors_" + checkpoint.name.rsplit("_", 1)[1]
    for dtype, kind in kinds.items():
        model = transformers.AutoModel.from_pretrained(folder, dtype=dtype).eval()
        for name, case in cases.items():
            results[f"{name}.{kind}"] = endpoint_vectors(model, paths_of(case))
    if checkpoint.layout == REWARD:
        auto = transformers.AutoModelForSequenceClassification
        model = auto.from_pretrained(folder, dtype=torch.float32).eval()
        for name, case in cases.items():
            results[f"{name}.scores"] = reward_scores(model, paths_of(case)).contiguous()
    oracle = folder / "oracle"
    oracle.mkdir()
    save_file(results, oracle / "model.safetensors")
    (oracle / "cases.json").write_text(json.dumps(cases), encoding="utf-8")


def main() -> int:
    """Writes every checkpoint below the folder named on the command line."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    cases = make_cases(random.Random(0))
    for checkpoint in CHECKPOINTS:
        folder = output / checkpoint.name
        make_model(checkpoint).save_pretrained(folder)
        if checkpoint.published:
            publish(folder)
        write_oracle(checkpoint, folder, cases)
    names = json.dumps([checkpoint.name for checkpoint in CHECKPOINTS])
    (output / "names.json").write_text(names, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
