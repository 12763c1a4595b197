"""Makes small Qwen3 checkpoints with random weights, and the results of transformers for them.

    make_checkpoints.py OUTPUT_FOLDER

Each checkpoint has a folder with config.json and its weights as saved by transformers, in every
layout that published folders use, and with the results of oracle.py. names.json lists the folders.
Everything is seeded. Needs no network.
"""

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from oracle import (
    VOCAB_SIZE,
    add_reward_head,
    classifier_scores,
    compute,
    make_cases,
    randomize,
    write_names,
    write_oracle,
)
from transformers import (
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
    Qwen3Model,
)


@dataclass(frozen=True)
class Checkpoint:
    """The properties of a checkpoint. The comment on CHECKPOINTS explains the sizes."""

    name: str
    model: type
    hidden: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.float32
    tied: bool = False
    bias: bool = False
    labels: int = 0  # labels of a classifier, or of the reward head that a language model carries
    shard_size: str = "1GB"


OVERFLOW_TOKEN = VOCAB_SIZE - 1

# The checkpoints cover 1, 2 and 4 query heads per kv head, hidden sizes below and above 128, query
# sizes that differ from the hidden size, and every layout that published folders use.
CHECKPOINTS = [
    Checkpoint("base_f32", Qwen3Model, 96, 1, 4, 4, 16),
    Checkpoint("causal_sharded_f32", Qwen3ForCausalLM, 160, 2, 4, 2, 48, shard_size="300KB"),
    Checkpoint("reward_f32", Qwen3ForSequenceClassification, 256, 3, 8, 2, 32, labels=1),
    Checkpoint("causal_tied_bf16", Qwen3ForCausalLM, 256, 4, 4, 1, 64, torch.bfloat16, tied=True),
    Checkpoint(
        "reward_bias_bf16",
        Qwen3ForSequenceClassification,
        96,
        2,
        4,
        2,
        32,
        torch.bfloat16,
        bias=True,
        labels=3,
    ),
    Checkpoint("causal_reward_f32", Qwen3ForCausalLM, 96, 2, 4, 2, 32, labels=1),
    Checkpoint("base_bf16", Qwen3Model, 160, 2, 2, 2, 128, torch.bfloat16),
]


def make_model(checkpoint: Checkpoint) -> Any:
    """Returns a model with random weights in the checkpoint's storage type."""
    settings: dict[str, Any] = {}
    if checkpoint.model is Qwen3ForSequenceClassification:
        settings["num_labels"] = checkpoint.labels
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=checkpoint.hidden,
        intermediate_size=2 * checkpoint.hidden + 40,
        num_hidden_layers=checkpoint.layers,
        num_attention_heads=checkpoint.query_heads,
        num_key_value_heads=checkpoint.kv_heads,
        head_dim=checkpoint.head_dim,
        max_position_embeddings=512,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"},
        tie_word_embeddings=checkpoint.tied,
        attention_bias=checkpoint.bias,
        **settings,
    )
    model: Any = checkpoint.model(config)
    randomize(model, seed=len(checkpoint.name) * 1000 + checkpoint.hidden)
    return model.to(checkpoint.dtype).eval()


@torch.no_grad()
def make_overflow(output: Path) -> None:
    """Makes a model in which one token overflows float16 inside a layer.

    Before the first MLP, only this token has a nonzero value in the first dimension of the residual
    stream. The MLP multiplies the token's large gate by a large up value.
    """
    checkpoint = Checkpoint("overflow_f16", Qwen3ForCausalLM, 96, 2, 4, 2, 32, torch.float16)
    model = make_model(checkpoint)
    model.model.embed_tokens.weight[:, 0] = 0
    model.model.embed_tokens.weight[OVERFLOW_TOKEN, 0] = 40
    first = model.model.layers[0]
    first.self_attn.o_proj.weight[0] = 0
    first.mlp.gate_proj.weight[:, 0] = 200
    first.mlp.up_proj.weight[:, 0] = 200
    folder = output / checkpoint.name
    model.save_pretrained(folder)
    add_reward_head(folder, 1, checkpoint.hidden, checkpoint.dtype)


def main() -> int:
    """Writes every checkpoint into the folder named on the command line."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    for index, checkpoint in enumerate(CHECKPOINTS):
        folder = output / checkpoint.name
        make_model(checkpoint).save_pretrained(folder, max_shard_size=checkpoint.shard_size)
        if checkpoint.model is Qwen3ForCausalLM and checkpoint.labels:
            add_reward_head(folder, checkpoint.labels, checkpoint.hidden, checkpoint.dtype)
        cases = make_cases(random.Random(index))
        exact = compute(folder, torch.float32, cases)
        if checkpoint.model is Qwen3ForSequenceClassification:
            exact |= classifier_scores(folder, checkpoint.model, cases)
        is_half = checkpoint.dtype != torch.float32
        half = compute(folder, checkpoint.dtype, cases) if is_half else {}
        write_oracle(folder, cases, exact, half)
    write_names(output, [checkpoint.name for checkpoint in CHECKPOINTS])
    make_overflow(output)  # requests_test.cc compares this model with itself
    return 0


if __name__ == "__main__":
    sys.exit(main())
