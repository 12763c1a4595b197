"""Makes small checkpoints of every model family, and the results of transformers for them.

    make_family_checkpoints.py OUTPUT_FOLDER

The folders have the structure of make_checkpoints.py; names.json lists them. Each family has a
checkpoint in every layout. It also has a language model with an additional reward head, which
supports all outputs, in both 16-bit types; their folders have a subfolder gradients/ with
transformers' gradients by parameter. The rotary scalings are distributed over the checkpoints.
Everything is seeded.
"""

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from oracle import (
    DEVICE,
    VOCAB_SIZE,
    Question,
    add_reward_head,
    classifier_scores,
    compute,
    make_cases,
    paths_of,
    randomize,
    write_names,
    write_oracle,
)
from safetensors.torch import save_file

POSITIONS = 512
GRADIENT_CASE = "nested"  # has duplicates, inner endpoints and several roots
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
# The original length is so short that wavelengths occur in all three ranges of the blend.
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
    """The prefix of transformers' class names, and the settings of every config of the family."""

    prefix: str
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The family's part of a checkpoint's name."""
        return self.prefix.lower()


LLAMA = Family("Llama")
MISTRAL = Family("Mistral", {"sliding_window": None})
QWEN2 = Family("Qwen2")
QWEN3 = Family("Qwen3")
QWEN3_MOE = Family(
    "Qwen3Moe",
    {
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
        "norm_topk_prob": True,
    },
)
FAMILIES = [LLAMA, MISTRAL, QWEN2, QWEN3, QWEN3_MOE]


@dataclass(frozen=True)
class Checkpoint:
    """The properties of a checkpoint. Its name ends with its storage type."""

    name: str
    family: Family
    layout: str
    hidden: int = 96
    query_heads: int = 4
    kv_heads: int = 2
    rope: dict[str, Any] = field(default_factory=lambda: DEFAULT)
    settings: dict[str, Any] = field(default_factory=dict)
    published: bool = False  # true = rewrites the config in the form of published folders
    reward_labels: int = 0  # labels of an additional reward head of a language model

    @property
    def dtype(self) -> torch.dtype:
        """Returns the storage type."""
        return DTYPES[self.name.rsplit("_", 1)[1]]


BASE = "Model"
CAUSAL = "ForCausalLM"
REWARD = "ForSequenceClassification"

# These checkpoints have every output, for every family in every 16-bit type. Their heads have 64
# elements, which our CUDA kernels support.
EVERYTHING = [
    Checkpoint(f"{family.name}_everything_{name}", family, CAUSAL, 128, 2, 1, reward_labels=1)
    for family in FAMILIES
    for name in ("bf16", "f16")
]
CHECKPOINTS = [
    *EVERYTHING,
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
    # uses the family's default head size of 128
    Checkpoint("qwen3_causal_f16", QWEN3, CAUSAL, 64, 2, 1),
    Checkpoint("qwen3_moe_base_f32", QWEN3_MOE, BASE, settings={"norm_topk_prob": False}),
    Checkpoint(
        "qwen3_moe_reward_step_f32",
        QWEN3_MOE,
        REWARD,
        settings={"decoder_sparse_step": 2, "num_labels": 1, "head_dim": 32},
        published=True,
    ),
    Checkpoint(
        "qwen3_moe_causal_some_dense_bf16",
        QWEN3_MOE,
        CAUSAL,
        settings={"num_experts_per_tok": 6, "mlp_only_layers": [0], "head_dim": 32},
    ),
    Checkpoint("mistral_sliding_base_f32", MISTRAL, BASE, settings={"sliding_window": 7}),
    Checkpoint(
        "mistral_sliding_everything_bf16",
        MISTRAL,
        CAUSAL,
        settings={"sliding_window": 33},
        reward_labels=1,
    ),
    Checkpoint(
        "qwen2_sliding_everything_f16",
        QWEN2,
        CAUSAL,
        settings={"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
        reward_labels=1,
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
        "qwen3_moe_sliding_everything_bf16",
        QWEN3_MOE,
        CAUSAL,
        settings={"use_sliding_window": True, "sliding_window": 50},
        reward_labels=1,
    ),
]


@torch.no_grad()
def settle_routers(model: Any, num_experts: int) -> None:
    """Makes the choice of experts depend only on the token, far from ties.

    Rounding can change a choice that is nearly a tie, in transformers and in Canopy, and the result
    with fewer changes would look much more exact. Therefore routing only uses the first dimensions,
    which keep the embedding's values through all layers, and each token has a clear first, second
    and third choice.
    """
    choices = slice(0, num_experts)
    base = getattr(model, "model", model)
    for token in range(VOCAB_SIZE):
        row = base.embed_tokens.weight[token]
        row[choices] = 0
        for place, strength in enumerate((3.0, 2.0, 1.0)):
            row[(token * 5 + place * (1 + token % 3)) % num_experts] += strength
    for layer in base.layers:
        layer.self_attn.o_proj.weight[choices] = 0
        layer.post_attention_layernorm.weight[choices] = 1
        if hasattr(layer.mlp, "gate"):
            layer.mlp.gate.weight.zero_()
            layer.mlp.gate.weight[choices, choices] = torch.eye(num_experts)
            layer.mlp.experts.down_proj[:, choices] = 0
        else:
            layer.mlp.down_proj.weight[choices] = 0


def make_model(checkpoint: Checkpoint) -> Any:
    """Returns a model with random weights in the checkpoint's storage type."""
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
    if checkpoint.family is QWEN3_MOE and checkpoint.dtype != torch.float32:
        settle_routers(model, config.num_experts)
    return model.to(checkpoint.dtype).eval()


def publish(folder: Path) -> None:
    """Rewrites the configuration in the form of published folders."""
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


def one_by_one(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns tensors with the names of published checkpoints, in which experts are stored one by
    one."""
    named: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        experts, _, kind = name.rpartition(".experts.")
        for index in range(tensor.shape[0] if experts else 0):
            expert = f"{experts}.experts.{index}."
            if kind == "down_proj":
                named[expert + "down_proj.weight"] = tensor[index]
            else:
                gate, up = tensor[index].chunk(2)
                named[expert + "gate_proj.weight"] = gate
                named[expert + "up_proj.weight"] = up
        if not experts:
            named[name] = tensor
    return {name: tensor.cpu().contiguous() for name, tensor in named.items()}


def write_gradients(folder: Path, case: list[Question]) -> None:
    """Runs each path alone, and writes the gradients of a weighted sum of their vectors."""
    model: Any = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32)
    model = model.eval().to(DEVICE)
    for index, path in enumerate(paths_of(case)):
        ids = torch.tensor([path], device=DEVICE)
        vector = model(input_ids=ids, use_cache=False).last_hidden_state[0, -1]
        factors = ((torch.arange(len(vector), dtype=torch.float64) + 7.3 * index) * 2.1).sin()
        (vector * factors.float().to(DEVICE)).sum().backward()
    gradients = folder / "gradients"
    gradients.mkdir()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    save_file(one_by_one(found), gradients / "model.safetensors")


def main() -> int:
    """Writes every checkpoint into the folder named on the command line."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    cases = make_cases(random.Random(0))
    for checkpoint in CHECKPOINTS:
        folder = output / checkpoint.name
        make_model(checkpoint).save_pretrained(folder)
        if checkpoint.published:
            publish(folder)
        if checkpoint.reward_labels:
            add_reward_head(folder, checkpoint.reward_labels, checkpoint.hidden, checkpoint.dtype)
        exact = compute(folder, torch.float32, cases)
        if checkpoint.layout == REWARD:
            auto = transformers.AutoModelForSequenceClassification
            exact |= classifier_scores(folder, auto, cases)
        is_half = checkpoint.dtype != torch.float32
        half = compute(folder, checkpoint.dtype, cases) if is_half else {}
        write_oracle(folder, cases, exact, half)
        if checkpoint.reward_labels and checkpoint.dtype == torch.bfloat16:
            write_gradients(folder, cases[GRADIENT_CASE])
    write_names(output, [checkpoint.name for checkpoint in CHECKPOINTS])
    return 0


if __name__ == "__main__":
    sys.exit(main())
