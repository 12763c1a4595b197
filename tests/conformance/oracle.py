"""Computes the expected results of a checkpoint with transformers, and defines the test paths.

The folder oracle/ of a checkpoint contains the paths (cases.json) and the results
(model.safetensors), all float32. The results depend on the heads of the model:

    CASE.vectors  [paths, hidden], final-norm hidden state at each path's last token
    CASE.scores   [paths, labels], of a reward head, a yes/no reranker or a typed-decision head
    CASE.values   [tokens, 1], the reward head of one label at every token of every path
    CASE.tokens   [tokens, 6 + 2 * 5 + 3], for every token of every path except its first: log-prob
                  at temperature 1 and 0.7, entropy at both, smallest and largest logit, the ids of
                  the 5 most likely tokens, their log-probs; the token's rank, and the lowest and
                  highest rank it may have if nearly equal logits count as equal

CASE.vectors_half and so on are the results in the 16-bit dtype in which the checkpoint is stored.
The device is that of CANOPY_TEST_DEVICE, by default the CPU.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM

DEVICE = torch.device(os.environ.get("CANOPY_TEST_DEVICE", "cpu"))
VOCAB_SIZE = 311
ROWS_PER_BATCH = 32
TEMPERATURES = (1.0, 0.7)
NUM_TOP = 5
# Each of two compared logits may differ by half of this, relative to 1 + the logit.
RANK_TOLERANCE = 2e-4

# A question is a prefix and candidate suffixes, all token ids; a case is a list of questions.
Question = dict[str, Any]


def random_tokens(rng: random.Random, count: int) -> list[int]:
    """Returns random token ids of the vocabulary."""
    return [rng.randrange(VOCAB_SIZE) for _ in range(count)]


def question(rng: random.Random, prefix: int, suffixes: list[int]) -> Question:
    """Returns a question with a prefix and suffixes of the given lengths."""
    return {
        "prefix": random_tokens(rng, prefix),
        "candidates": [random_tokens(rng, size) for size in suffixes],
    }


def binary_leaves(rng: random.Random, levels: int, run: int) -> list[list[int]]:
    """Returns the paths of a full binary tree whose edges have random lengths up to `run`."""
    if levels == 0:
        return [[]]
    paths = []
    for _ in range(2):
        edge = random_tokens(rng, rng.randint(1, run))
        paths += [edge + rest for rest in binary_leaves(rng, levels - 1, run)]
    return paths


def make_cases(rng: random.Random) -> dict[str, list[Question]]:
    """Returns cases that exercise every route; their names say how."""
    shared = random_tokens(rng, 30)
    long_path = random_tokens(rng, 40)
    return {
        # Questions of different sizes make the flat layout smaller than the padded one.
        "wide": [question(rng, 61, [18] * 64), question(rng, 61, [7, 18])],
        # Questions of equal size make the padded layout the better choice.
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
            # This question has several roots, a path of one token, and duplicates that are not
            # adjacent.
            {
                "prefix": [],
                "candidates": [[7], [8, 9], [7, 9], [8, 9], [7], random_tokens(rng, 33)],
            },
        ],
        # Branches at many depths give many segment groups.
        "deep": [
            {"prefix": random_tokens(rng, 50), "candidates": binary_leaves(rng, 6, 9)},
            {"prefix": [], "candidates": binary_leaves(rng, 4, 5)},
        ],
        "many": [question(rng, 23, [11] * 16) for _ in range(5)],
    }


def randomize(model: torch.nn.Module, seed: int) -> None:
    """Sets weights so large that a wrong mask, position or head mapping changes the results."""
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


def paths_of(case: list[Question]) -> list[list[int]]:
    """Returns all paths of a case, in request order."""
    return [item["prefix"] + suffix for item in case for suffix in item["candidates"]]


def add_reward_head(folder: Path, labels: int, hidden: int, dtype: torch.dtype) -> None:
    """Adds a reward head to the language model in a saved folder."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    generator = torch.Generator().manual_seed(7)
    tensors["score.weight"] = torch.randn((labels, hidden), generator=generator).to(dtype)
    save_file(tensors, path, metadata={"format": "pt"})


def batches(paths: list[list[int]]) -> Iterator[tuple[list[list[int]], torch.Tensor]]:
    """Yields batches of right-padded paths, one per row. Causal attention ignores padding."""
    for begin in range(0, len(paths), ROWS_PER_BATCH):
        rows = paths[begin : begin + ROWS_PER_BATCH]
        length = max(len(row) for row in rows)
        yield rows, torch.tensor([row + [0] * (length - len(row)) for row in rows])


@torch.no_grad()
def token_vectors(model: Any, paths: list[list[int]]) -> list[torch.Tensor]:
    """Returns the hidden states [tokens, hidden] of each path."""
    vectors: list[torch.Tensor] = []
    for rows, ids in batches(paths):
        hidden = model(input_ids=ids.to(DEVICE), use_cache=False).last_hidden_state
        vectors += [hidden[i, : len(row)] for i, row in enumerate(rows)]
    return vectors


def endpoint_vectors(model: Any, paths: list[list[int]]) -> torch.Tensor:
    """Returns the hidden state of each path's last token."""
    return torch.stack([vectors[-1].float() for vectors in token_vectors(model, paths)])


def rank_columns(logits: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
    """Returns the rank of each row's target (1 = largest, lower id first) and its bounds."""
    own = logits.gather(1, targets)
    margin = RANK_TOLERANCE * (1 + own.abs())
    order = logits.argsort(dim=1, descending=True, stable=True)
    rank = (order == targets).int().argmax(dim=1, keepdim=True) + 1
    lowest = (logits > own + margin).sum(1, keepdim=True) + 1
    highest = (logits >= own - margin).sum(1, keepdim=True)
    return [rank.float(), lowest.float(), highest.float()]


@torch.no_grad()
def token_distributions(model: Any, paths: list[list[int]]) -> torch.Tensor:
    """Returns the rows of CASE.tokens."""
    entries = []
    for rows, ids in batches(paths):
        all_logits = model(input_ids=ids.to(DEVICE), use_cache=False).logits
        for row, row_logits in zip(rows, all_logits, strict=True):
            logits = row_logits[: len(row) - 1].float()
            targets = torch.tensor(row[1:], dtype=torch.long, device=DEVICE)[:, None]
            logprobs = [torch.log_softmax(logits / t, dim=-1) for t in TEMPERATURES]
            top, top_ids = logprobs[0].topk(NUM_TOP, dim=-1)
            columns = [p.gather(1, targets) for p in logprobs]
            columns += [-(p.exp() * p).sum(1, keepdim=True) for p in logprobs]
            columns += [logits.amin(1, keepdim=True), logits.amax(1, keepdim=True)]
            columns += [top_ids.float(), top, *rank_columns(logits, targets)]
            entries.append(torch.cat(columns, dim=1))
    return torch.cat(entries)


def stored_reward_head(folder: Path) -> torch.Tensor | None:
    """Returns the reward head of a folder with a single weight file, or None."""
    path = folder / "model.safetensors"
    return load_file(path).get("score.weight") if path.exists() else None


@torch.no_grad()
def compute(folder: Path, dtype: torch.dtype, cases: dict[str, list[Question]]) -> dict[str, Any]:
    """Returns the results of a saved folder in one dtype, by case and kind."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    base: Any = AutoModel.from_pretrained(folder, dtype=dtype).eval().to(DEVICE)
    causal: Any = None
    if config["architectures"][0].endswith("ForCausalLM"):
        causal = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to(DEVICE)
    head = stored_reward_head(folder)
    results: dict[str, Any] = {}
    for name, case in cases.items():
        hidden = token_vectors(base, paths_of(case))
        endpoints = torch.stack([vectors[-1] for vectors in hidden])
        results[f"{name}.vectors"] = endpoints
        if head is not None:
            weight = head.to(DEVICE, dtype)
            results[f"{name}.scores"] = endpoints @ weight.T
            if weight.shape[0] == 1:
                results[f"{name}.values"] = torch.cat(hidden) @ weight.T
        if causal is not None:
            results[f"{name}.tokens"] = token_distributions(causal, paths_of(case))
    return results


@torch.no_grad()
def classifier_scores(
    folder: Path, model_class: Any, cases: dict[str, list[Question]]
) -> dict[str, Any]:
    """Returns CASE.scores of transformers' own classifier. Each path is in its own batch, so that
    padding has no effect."""
    model = model_class.from_pretrained(folder, dtype=torch.float32).eval().to(DEVICE)
    results = {}
    for name, case in cases.items():
        rows = [torch.tensor([path], device=DEVICE) for path in paths_of(case)]
        results[f"{name}.scores"] = torch.cat(
            [model(input_ids=row, use_cache=False).logits for row in rows]
        )
    return results


def write_oracle(
    folder: Path,
    cases: dict[str, list[Question]],
    exact: dict[str, Any],
    half: dict[str, Any],
) -> None:
    """Stores float32 results, and those of a 16-bit dtype if there are any."""
    results = {key: value.float().cpu().contiguous() for key, value in exact.items()}
    results |= {f"{key}_half": value.float().cpu().contiguous() for key, value in half.items()}
    oracle = folder / "oracle"
    oracle.mkdir()
    save_file(results, oracle / "model.safetensors")
    (oracle / "cases.json").write_text(json.dumps(cases), encoding="utf-8")


def write_names(output: Path, names: list[str]) -> None:
    """Lists the folders in `output` that are checkpoints to compare."""
    (output / "names.json").write_text(json.dumps(names), encoding="utf-8")
