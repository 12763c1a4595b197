"""Makes small checkpoints with other kinds of heads, and the results of PyTorch for them.

    make_heads.py OUTPUT_FOLDER

Typed-decision folders contain model.safetensors and temperatures.json; the config.json of their
backbone is in FOLDER_backbone. Reranker folders are language models with a reranker.json. There is
one folder of each kind for every model family. Everything is seeded. Needs no network.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from make_family_checkpoints import (
    CAUSAL,
    FAMILIES,
    QWEN3,
    Checkpoint,
    make_model,
    one_by_one,
)
from oracle import (
    DEVICE,
    Question,
    compute,
    endpoint_vectors,
    paths_of,
    question,
    randomize,
    write_names,
    write_oracle,
)
from safetensors.torch import save_file
from torch import nn

SET_WIDTH = 256
EMPTY_SLOT_SCORE = -1e4
TEMPERATURES = {"boolean": 0.5, "choice": 1.25, "score": 2.0}

TIED = {"tie_word_embeddings": True}
DECISIONS = [
    Checkpoint("decision_f32", QWEN3, CAUSAL, 96, 4, 2, settings={"head_dim": 32, **TIED}),
    *(Checkpoint(f"decision_{family.name}_bf16", family, CAUSAL, 128, 2, 1) for family in FAMILIES),
    Checkpoint("decision_f16", QWEN3, CAUSAL, 160, 4, 1, settings={"head_dim": 48}),
]
RERANKERS = [
    Checkpoint("reranker_tied_f32", QWEN3, CAUSAL, 96, 4, 2, settings={"head_dim": 32, **TIED}),
    *(Checkpoint(f"reranker_{family.name}_bf16", family, CAUSAL, 128, 2, 1) for family in FAMILIES),
    Checkpoint("reranker_f16", QWEN3, CAUSAL, 160, 4, 1, settings={"head_dim": 48}),
]
YES_TOKEN, NO_TOKEN = 297, 11


class RootMeanSquareNorm(nn.Module):
    """Computes x / sqrt(mean(x^2) + 1e-6) * weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6))


class SetEncoder(nn.Module):
    """The encoder layers of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            SET_WIDTH, 4, 4 * SET_WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Scorer(nn.Module):
    """Computes a score from a representation."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = RootMeanSquareNorm(hidden)
        self.fc1 = nn.Linear(hidden, SET_WIDTH)
        self.fc2 = nn.Linear(SET_WIDTH, 1)


class DecisionHead(nn.Module):
    """The typed-decision head. Its parameters have the names used in checkpoints."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.proj_in = nn.Linear(hidden, SET_WIDTH)
        self.set_encoder = SetEncoder()
        self.proj_out = nn.Linear(SET_WIDTH, hidden)
        self.scorer = Scorer(hidden)

    def forward(self, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[questions, slots, hidden], mask (true = a candidate) -> [questions, slots]."""
        x = self.proj_in(vectors) * mask.unsqueeze(-1)
        x = self.set_encoder.encoder(x, src_key_padding_mask=~mask)
        x = self.scorer.norm(vectors + self.proj_out(x))
        scores = self.scorer.fc2(nn.functional.silu(self.scorer.fc1(x))).squeeze(-1)
        return scores.masked_fill(~mask, EMPTY_SLOT_SCORE)


def make_cases(rng: random.Random) -> dict[str, list[Question]]:
    """Returns questions of one and of many candidates, alone and together with others."""
    return {
        "typed": [question(rng, 40, [16] * 4) for _ in range(5)],
        "mixed": [question(rng, 20, [5] * size) for size in (1, 2, 10, 3, 60, 1)],
        "long": [question(rng, 150, [30] * 24), question(rng, 3, [1, 2])],
        "most": [question(rng, 9, [3] * 255)],
    }


@torch.no_grad()
def decision_scores(
    head: DecisionHead, vectors: torch.Tensor, case: list[Question]
) -> torch.Tensor:
    """Scores all questions in one padded batch, as in training. Runs on the CPU, because PyTorch's
    encoder on a GPU differs from float32 by more than the tests allow."""
    vectors = vectors.cpu()
    sizes = [len(item["candidates"]) for item in case]
    padded = torch.zeros(len(sizes), max(sizes), vectors.shape[1])
    mask = torch.zeros(len(sizes), max(sizes), dtype=torch.bool)
    begin = 0
    for row, size in enumerate(sizes):
        padded[row, :size] = vectors[begin : begin + size]
        mask[row, :size] = True
        begin += size
    return head(padded, mask)[mask].unsqueeze(1).contiguous()


def in_type(model: Any, dtype: torch.dtype) -> Any:
    """Returns the same weights in `dtype`. A cast of the model would round its rotary table."""
    fresh = type(model)._from_config(model.config, dtype=dtype)
    fresh.load_state_dict(model.state_dict())
    return fresh.eval().to(DEVICE)


def decision_results(
    model: Any, head: DecisionHead, cases: dict[str, list[Question]]
) -> dict[str, Any]:
    """Returns vectors of the backbone in its dtype, and scores of the head in float32."""
    results = {}
    for name, case in cases.items():
        vectors = endpoint_vectors(model.model, paths_of(case))
        results[f"{name}.vectors"] = vectors
        results[f"{name}.scores"] = decision_scores(head, vectors, case)
    return results


def make_decision(checkpoint: Checkpoint, output: Path, cases: dict[str, list[Question]]) -> None:
    """Makes a folder with weights and temperatures, and a folder with the backbone's config."""
    model: Any = make_model(checkpoint)
    head = DecisionHead(checkpoint.hidden)
    randomize(head, seed=3)
    head.to(checkpoint.dtype)
    backbone = one_by_one(model.model.state_dict())
    state = {f"path_encoder.backbone.{name}": tensor for name, tensor in backbone.items()}
    state.update(head.state_dict())
    folder = output / checkpoint.name
    folder.mkdir()
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors")
    temperatures = {kind: {"temperature": t} for kind, t in TEMPERATURES.items()}
    (folder / "temperatures.json").write_text(json.dumps(temperatures), encoding="utf-8")
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(output / f"{checkpoint.name}_backbone")
    head.float().eval()
    exact = decision_results(in_type(model, torch.float32), head, cases)
    half = {}
    if checkpoint.dtype != torch.float32:
        half = decision_results(in_type(model, checkpoint.dtype), head, cases)
    write_oracle(folder, cases, exact, half)


@torch.no_grad()
def reranker_results(
    folder: Path, model: Any, dtype: torch.dtype, cases: dict[str, list[Question]]
) -> dict[str, Any]:
    """Returns all results of a language model, and p(yes) as its score."""
    results = compute(folder, dtype, cases)
    for name in cases:
        logits = model.lm_head(results[f"{name}.vectors"])
        share = torch.softmax(logits[:, [YES_TOKEN, NO_TOKEN]].float(), dim=-1)[:, :1]
        results[f"{name}.scores"] = share
    return results


def make_reranker(checkpoint: Checkpoint, output: Path, cases: dict[str, list[Question]]) -> None:
    """Makes a language model and a reranker.json with the tokens for yes and no."""
    model: Any = make_model(checkpoint)
    folder = output / checkpoint.name
    model.save_pretrained(folder)
    tokens = {"yes_token": YES_TOKEN, "no_token": NO_TOKEN}
    (folder / "reranker.json").write_text(json.dumps(tokens), encoding="utf-8")
    exact = reranker_results(folder, in_type(model, torch.float32), torch.float32, cases)
    half = {}
    if checkpoint.dtype != torch.float32:
        half = reranker_results(folder, in_type(model, checkpoint.dtype), checkpoint.dtype, cases)
    write_oracle(folder, cases, exact, half)


def main() -> int:
    """Writes every checkpoint into the folder named on the command line."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    for index, checkpoint in enumerate(DECISIONS):
        make_decision(checkpoint, output, make_cases(random.Random(index)))
    for index, checkpoint in enumerate(RERANKERS):
        make_reranker(checkpoint, output, make_cases(random.Random(10 + index)))
    write_names(output, [checkpoint.name for checkpoint in DECISIONS + RERANKERS])
    return 0


if __name__ == "__main__":
    sys.exit(main())
