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
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

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
QWEN3_MOE = Family(
    "Qwen3Moe", {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
)

# For 16-bit types: rounding tips a choice that is nearly a tie, in transformers as in Canopy, and
# whoever is tipped less often would look better by far. With all experts there is no choice.
ALL_EXPERTS = {"norm_topk_prob": True, "num_experts_per_tok": 6}


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
        "qwen2_causal_tied_yarn_bf16",
        QWEN2,
        CAUSAL,
        128,
        8,
        rope=YARN,
        settings={"tie_word_embeddings": True},
        published=True,
    ),
    Checkpoint("qwen2_reward_linear_f16", QWEN2, REWARD, rope=LINEAR, settings={"num_labels": 3}),
    Checkpoint("llama_base_f16", LLAMA, BASE, 64, 4, 4),
    Checkpoint("llama_causal_llama3_f32", LLAMA, CAUSAL, rope=LLAMA3, published=True),
    Checkpoint(
        "llama_reward_bias_llama3_bf16",
        LLAMA,
        REWARD,
        rope=LLAMA3,
        settings={"num_labels": 1, "attention_bias": True},
    ),
    Checkpoint("mistral_base_linear_f32", MISTRAL, BASE, rope=LINEAR, published=True),
    Checkpoint("mistral_causal_bf16", MISTRAL, CAUSAL, 96, 4, 1, settings={"head_dim": 48}),
    Checkpoint("mistral_reward_yarn_f16", MISTRAL, REWARD, rope=YARN, settings={"num_labels": 2}),
    Checkpoint("qwen3_base_yarn_full_bf16", QWEN3, BASE, rope=YARN_FULL, settings={"head_dim": 32}),
    Checkpoint("qwen3_causal_f16", QWEN3, CAUSAL, 64, 2, 1),  # With the family's heads of 128.
    Checkpoint("qwen3_moe_base_f32", QWEN3_MOE, BASE, settings={"norm_topk_prob": False}),
    Checkpoint(
        "qwen3_moe_reward_step_f32",
        QWEN3_MOE,
        REWARD,
        settings={"norm_topk_prob": True, "decoder_sparse_step": 2, "num_labels": 1},
        published=True,
    ),
    Checkpoint(
        "qwen3_moe_causal_some_dense_bf16",
        QWEN3_MOE,
        CAUSAL,
        settings={**ALL_EXPERTS, "mlp_only_layers": [0], "head_dim": 32},
    ),
    Checkpoint("mistral_sliding_base_f32", MISTRAL, BASE, settings={"sliding_window": 7}),
    Checkpoint(
        "mistral_sliding_reward_bf16",
        MISTRAL,
        REWARD,
        settings={"sliding_window": 33, "num_labels": 1},
    ),
    Checkpoint(
        "qwen2_sliding_causal_f16",
        QWEN2,
        CAUSAL,
        settings={"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    ),
    Checkpoint(
        "qwen3_sliding_base_f32",
        QWEN3,
        BASE,
        settings={
            "use_sliding_window": True,
            "sliding_window": 1,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    Checkpoint(
        "qwen3_moe_sliding_causal_f16",
        QWEN3_MOE,
        CAUSAL,
        settings={**ALL_EXPERTS, "use_sliding_window": True, "sliding_window": 50},
    ),
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
    """Spells the configuration as published folders do."""
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    if scaling["rope_type"] == "yarn":
        scaling["type"] = scaling.pop("rope_type")
    config["rope_scaling"] = scaling
    config["torch_dtype"] = config.pop("dtype")
    if "num_local_experts" in config:
        config["num_experts"] = config.pop("num_local_experts")
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
