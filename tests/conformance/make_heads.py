"""Makes small checkpoints whose scores come from other heads, and what PyTorch computes with them.

    make_heads.py OUTPUT_FOLDER

Typed-decision folders hold model.safetensors and temperatures.json; their backbone's config.json
lies in FOLDER_backbone. Reranker folders are language models with a reranker.json. Below oracle/
the paths (cases.json) and the expected results (model.safetensors), as make_checkpoints.py has
them, and no vectors:

    CASE.scores   [paths, 1] float32

Everything is seeded. Needs no network.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from make_checkpoints import (
    Checkpoint,
    Question,
    endpoint_vectors,
    make_model,
    paths_of,
    question,
    randomize,
)
from safetensors.torch import save_file
from torch import nn
from transformers import Qwen3ForCausalLM

SET_WIDTH = 256
EMPTY_SLOT_SCORE = -1e4
TEMPERATURES = {"boolean": 0.5, "choice": 1.25, "score": 2.0}

DECISIONS = [
    Checkpoint("decision_f32", Qwen3ForCausalLM, 96, 2, 4, 2, 32, tied=True),
    Checkpoint("decision_bf16", Qwen3ForCausalLM, 160, 1, 4, 1, 48, torch.bfloat16),
]
RERANKERS = [
    Checkpoint("reranker_tied_f32", Qwen3ForCausalLM, 96, 2, 4, 2, 32, tied=True),
    Checkpoint("reranker_bf16", Qwen3ForCausalLM, 160, 1, 4, 1, 48, torch.bfloat16),
]
YES_TOKEN, NO_TOKEN = 297, 11


class RootMeanSquareNorm(nn.Module):
    """x / sqrt(mean(x^2) + 1e-6) * weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6))


class SetEncoder(nn.Module):
    """PyTorch's own encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            SET_WIDTH, 4, 4 * SET_WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Scorer(nn.Module):
    """From a representation to a score."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = RootMeanSquareNorm(hidden)
        self.fc1 = nn.Linear(hidden, SET_WIDTH)
        self.fc2 = nn.Linear(SET_WIDTH, 1)


class DecisionHead(nn.Module):
    """The typed-decision head; its state has the checkpoint's names."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.proj_in = nn.Linear(hidden, SET_WIDTH)
        self.set_encoder = SetEncoder()
        self.proj_out = nn.Linear(SET_WIDTH, hidden)
        self.scorer = Scorer(hidden)

    def forward(self, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[questions, slots, hidden], true = a candidate -> [questions, slots]."""
        x = self.proj_in(vectors) * mask.unsqueeze(-1)
        x = self.set_encoder.encoder(x, src_key_padding_mask=~mask)
        x = self.scorer.norm(vectors + self.proj_out(x))
        scores = self.scorer.fc2(nn.functional.silu(self.scorer.fc1(x))).squeeze(-1)
        return scores.masked_fill(~mask, EMPTY_SLOT_SCORE)


def make_cases(rng: random.Random) -> dict[str, list[Question]]:
    """Sets of one and of many candidates, alone and beside others."""
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
    """All questions in one padded batch, as in training."""
    sizes = [len(item["candidates"]) for item in case]
    padded = torch.zeros(len(sizes), max(sizes), vectors.shape[1])
    mask = torch.zeros(len(sizes), max(sizes), dtype=torch.bool)
    begin = 0
    for row, size in enumerate(sizes):
        padded[row, :size] = vectors[begin : begin + size]
        mask[row, :size] = True
        begin += size
    return head(padded, mask)[mask].unsqueeze(1).contiguous()


def in_float32(model: Any) -> Any:
    """The same weights in float32 arithmetic; casting the model would round its rotary table."""
    fresh = type(model)(model.config)
    fresh.load_state_dict(model.state_dict())
    return fresh.eval()


def write_oracle(
    folder: Path, cases: dict[str, list[Question]], results: dict[str, torch.Tensor]
) -> None:
    """What every checkpoint of this folder is compared with."""
    oracle = folder / "oracle"
    oracle.mkdir()
    save_file(results, oracle / "model.safetensors")
    (oracle / "cases.json").write_text(json.dumps(cases), encoding="utf-8")


def make_decision(checkpoint: Checkpoint, output: Path, cases: dict[str, list[Question]]) -> None:
    """A folder of weights and temperatures, and one with the backbone's config."""
    model: Any = make_model(checkpoint)
    head = DecisionHead(checkpoint.hidden)
    randomize(head, seed=3)
    head.to(checkpoint.dtype)
    state = {f"path_encoder.backbone.{k}": v for k, v in model.model.state_dict().items()}
    state.update(head.state_dict())
    folder = output / checkpoint.name
    folder.mkdir()
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors")
    temperatures = {kind: {"temperature": t} for kind, t in TEMPERATURES.items()}
    (folder / "temperatures.json").write_text(json.dumps(temperatures), encoding="utf-8")
    model.config.architectures = [checkpoint.model.__name__]
    model.config.save_pretrained(output / f"{checkpoint.name}_backbone")
    model = in_float32(model)
    head.float().eval()
    results = {
        f"{name}.scores": decision_scores(head, endpoint_vectors(model.model, paths_of(case)), case)
        for name, case in cases.items()
    }
    write_oracle(folder, cases, results)


@torch.no_grad()
def make_reranker(checkpoint: Checkpoint, output: Path, cases: dict[str, list[Question]]) -> None:
    """A language model, and which of its words are yes and no."""
    model: Any = make_model(checkpoint)
    folder = output / checkpoint.name
    model.save_pretrained(folder)
    tokens = {"yes_token": YES_TOKEN, "no_token": NO_TOKEN}
    (folder / "reranker.json").write_text(json.dumps(tokens), encoding="utf-8")
    model = in_float32(model)
    results = {}
    for name, case in cases.items():
        logits = model.lm_head(endpoint_vectors(model.model, paths_of(case)))
        share = torch.softmax(logits[:, [YES_TOKEN, NO_TOKEN]], dim=-1)[:, :1]
        results[f"{name}.scores"] = share.contiguous()
    write_oracle(folder, cases, results)


def main() -> int:
    """Writes every checkpoint below the folder named on the command line."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    for index, checkpoint in enumerate(DECISIONS):
        make_decision(checkpoint, output, make_cases(random.Random(index)))
    for index, checkpoint in enumerate(RERANKERS):
        make_reranker(checkpoint, output, make_cases(random.Random(10 + index)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
