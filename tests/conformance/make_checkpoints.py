"""Makes small Qwen3 checkpoints with random weights, and what transformers computes with them.

    make_checkpoints.py OUTPUT_FOLDER

A folder for each checkpoint: config.json and its weights as transformers saves them, and below
oracle/ the paths (cases.json) and the expected results (model.safetensors):

    CASE.vectors       [paths, hidden] float32, final-norm hidden state at each path's last token
    CASE.vectors_bf16  the same, computed by transformers in bfloat16 (bfloat16 checkpoints only)
    CASE.scores        [paths, labels] float32 (models with a reward head)
    CASE.values        [tokens, 1] float32, the head of one label at every token of every path
    CASE.tokens        [tokens, 6 + 2 * 5] float32 (language models), for every token of every path
                       but its first: log-prob at temperature 1 and 0.7, entropy at both, smallest
                       and largest logit, the ids of the 5 likeliest tokens, their log-probs
    CASE.tokens_bf16   the same, computed by transformers in bfloat16

Everything is seeded. Needs no network.
"""

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
    Qwen3Model,
)

VOCAB_SIZE = 311
ROWS_PER_BATCH = 32
TEMPERATURES = (1.0, 0.7)
NUM_TOP = 5

# A question is a prefix and candidate suffixes, all token ids; a case is a list of questions.
Question = dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """What to make; see the sizes below for why."""

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
    labels: int = 0  # a language model's are those of the reward head that it carries
    shard_size: str = "1GB"


# 1, 2 and 4 query heads a kv head; hidden sizes on both sides of 128 and query sizes other than the
# hidden size; every layout that published folders use.
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


def random_tokens(rng: random.Random, count: int) -> list[int]:
    """Token ids inside the vocabulary."""
    return [rng.randrange(VOCAB_SIZE) for _ in range(count)]


def question(rng: random.Random, prefix: int, suffixes: list[int]) -> Question:
    """A prefix and suffixes of the given lengths."""
    return {
        "prefix": random_tokens(rng, prefix),
        "candidates": [random_tokens(rng, size) for size in suffixes],
    }


def binary_leaves(rng: random.Random, levels: int, run: int) -> list[list[int]]:
    """Paths of a full binary tree whose edges are runs of random length up to `run`."""
    if levels == 0:
        return [[]]
    paths = []
    for _ in range(2):
        edge = random_tokens(rng, rng.randint(1, run))
        paths += [edge + rest for rest in binary_leaves(rng, levels - 1, run)]
    return paths


def make_cases(rng: random.Random) -> dict[str, list[Question]]:
    """Shapes that exercise every route: names say which."""
    shared = random_tokens(rng, 30)
    long_path = random_tokens(rng, 40)
    return {
        # Ragged questions: the flat layout is smaller than the padded one.
        "wide": [question(rng, 61, [18] * 64), question(rng, 61, [7, 18])],
        # Equal questions: the padded layout wins.
        "equal": [question(rng, 40, [9, 9, 9, 8]) for _ in range(8)],
        "odd": [question(rng, length - 1, [1, 1]) for length in (1, 2, 113, 129, 255)],
        "nested": [
            {
                "prefix": shared,
                "candidates": [
                    long_path,
                    long_path[:17],
                    long_path,
                    [],
                    [*long_path[:17], 5, 6],
                    *(random_tokens(rng, 12) for _ in range(24)),
                ],
            },
            # Several roots, a single-token path, duplicates that arrive apart.
            {
                "prefix": [],
                "candidates": [[7], [8, 9], [7, 9], [8, 9], [7], random_tokens(rng, 33)],
            },
        ],
        # Branches at many depths: many segment groups.
        "deep": [
            {"prefix": random_tokens(rng, 50), "candidates": binary_leaves(rng, 6, 9)},
            {"prefix": [], "candidates": binary_leaves(rng, 4, 5)},
        ],
        "many": [question(rng, 23, [11] * 16) for _ in range(5)],
    }


def randomize(model: torch.nn.Module, seed: int) -> None:
    """Weights so large that a wrong mask, position or head mapping shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.2 * noise)
            elif "embed" in name or "bias" in name:
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(1.5 * noise / parameter.shape[-1] ** 0.5)


def make_model(checkpoint: Checkpoint) -> Any:
    """A randomised model in the checkpoint's storage type."""
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


def paths_of(case: list[Question]) -> list[list[int]]:
    """All paths of a case, in request order."""
    return [item["prefix"] + suffix for item in case for suffix in item["candidates"]]


def add_reward_head(checkpoint: Checkpoint, folder: Path) -> None:
    """Puts a reward head beside the language-model head of a saved folder."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    generator = torch.Generator().manual_seed(7)
    tensors["score.weight"] = torch.randn(
        (checkpoint.labels, checkpoint.hidden), generator=generator
    ).to(checkpoint.dtype)
    save_file(tensors, path, metadata={"format": "pt"})


def batches(paths: list[list[int]]) -> Iterator[tuple[list[list[int]], torch.Tensor]]:
    """Some paths at a time, each alone in its row, right padded: causal, so padding is not read."""
    for begin in range(0, len(paths), ROWS_PER_BATCH):
        rows = paths[begin : begin + ROWS_PER_BATCH]
        length = max(len(row) for row in rows)
        yield rows, torch.tensor([row + [0] * (length - len(row)) for row in rows])


@torch.no_grad()
def token_vectors(model: Any, paths: list[list[int]]) -> list[torch.Tensor]:
    """The hidden states [tokens, hidden] of each path."""
    vectors: list[torch.Tensor] = []
    for rows, ids in batches(paths):
        hidden = model(input_ids=ids, use_cache=False).last_hidden_state
        vectors += [hidden[i, : len(row)] for i, row in enumerate(rows)]
    return vectors


def endpoint_vectors(model: Any, paths: list[list[int]]) -> torch.Tensor:
    """The hidden state of each path's last token."""
    return torch.stack([vectors[-1].float() for vectors in token_vectors(model, paths)])


@torch.no_grad()
def token_distributions(model: Any, paths: list[list[int]]) -> torch.Tensor:
    """What CASE.tokens holds."""
    entries = []
    for rows, ids in batches(paths):
        all_logits = model(input_ids=ids, use_cache=False).logits
        for row, row_logits in zip(rows, all_logits, strict=True):
            logits = row_logits[: len(row) - 1].float()
            targets = torch.tensor(row[1:], dtype=torch.long)[:, None]
            logprobs = [torch.log_softmax(logits / t, dim=-1) for t in TEMPERATURES]
            top, top_ids = logprobs[0].topk(NUM_TOP, dim=-1)
            columns = [p.gather(1, targets) for p in logprobs]
            columns += [-(p.exp() * p).sum(1, keepdim=True) for p in logprobs]
            columns += [logits.amin(1, keepdim=True), logits.amax(1, keepdim=True)]
            entries.append(torch.cat([*columns, top_ids.float(), top], dim=1))
    return torch.cat(entries).contiguous()


@torch.no_grad()
def reward_scores(model: Any, paths: list[list[int]]) -> torch.Tensor:
    """Each path in a batch of its own, so that nothing has to be known about padding."""
    return torch.cat(
        [model(input_ids=torch.tensor([path]), use_cache=False).logits for path in paths]
    )


def score_weight(folder: Path) -> torch.Tensor | None:
    """The reward head of a folder of one file."""
    path = folder / "model.safetensors"
    weight = load_file(path).get("score.weight") if path.exists() else None
    return None if weight is None else weight.float()


def write_oracle(checkpoint: Checkpoint, folder: Path, cases: dict[str, list[Question]]) -> None:
    """Runs transformers on the saved folder and stores what it gives."""
    results: dict[str, torch.Tensor] = {}
    is_language_model = checkpoint.model is Qwen3ForCausalLM
    head = score_weight(folder)
    for dtype, suffix in ((torch.float32, ""), (torch.bfloat16, "_bf16")):
        if dtype != torch.float32 and dtype != checkpoint.dtype:
            continue
        model = AutoModel.from_pretrained(folder, dtype=dtype).eval()
        for name, case in cases.items():
            results[f"{name}.vectors{suffix}"] = endpoint_vectors(model, paths_of(case))
        if is_language_model:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
            for name, case in cases.items():
                results[f"{name}.tokens{suffix}"] = token_distributions(model, paths_of(case))
    if head is not None and is_language_model:
        for name in cases:
            results[f"{name}.scores"] = results[f"{name}.vectors"] @ head.T
    elif checkpoint.labels:
        model = Qwen3ForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        for name, case in cases.items():
            results[f"{name}.scores"] = reward_scores(model, paths_of(case)).contiguous()
    if head is not None and checkpoint.labels == 1:
        model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        for name, case in cases.items():
            results[f"{name}.values"] = torch.cat(token_vectors(model, paths_of(case))) @ head.T
    oracle = folder / "oracle"
    oracle.mkdir()
    save_file(results, oracle / "model.safetensors")
    (oracle / "cases.json").write_text(json.dumps(cases), encoding="utf-8")


def main() -> int:
    """Writes every checkpoint below the folder named on the command line."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    for index, checkpoint in enumerate(CHECKPOINTS):
        folder = output / checkpoint.name
        make_model(checkpoint).save_pretrained(folder, max_shard_size=checkpoint.shard_size)
        if checkpoint.model is Qwen3ForCausalLM and checkpoint.labels:
            add_reward_head(checkpoint, folder)
        write_oracle(checkpoint, folder, make_cases(random.Random(index)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
