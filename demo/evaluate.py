"""Measures how often a model ranks the right answer of held-out questions first.

Loads the stored weights and computes in float32. Every path is scored by itself with the
classification model of transformers. Unlike the packed rows of training, paths share nothing.
"""

import argparse
import random
from collections import defaultdict
from pathlib import Path
from typing import Final

import torch
from tasks import SEED, TASKS, Question, answer_tokens, draw
from transformers import AutoModelForSequenceClassification, PreTrainedModel

CANDIDATE_COUNTS: Final = (4, 64)
PATHS_A_FORWARD: Final = 4096


def load(folder: Path) -> PreTrainedModel:
    """Returns the stored model in float32, on the GPU if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    return model.eval().to(device)


@torch.inference_mode()
def score_paths(model: PreTrainedModel, paths: list[list[int]]) -> list[float]:
    """Returns the score of each path, in order."""
    pad = model.config.pad_token_id
    scores = [0.0] * len(paths)
    # Paths of similar length share a forward, so that there is little padding.
    order = sorted(range(len(paths)), key=lambda index: len(paths[index]))
    for begin in range(0, len(order), PATHS_A_FORWARD):
        chosen = order[begin : begin + PATHS_A_FORWARD]
        longest = len(paths[chosen[-1]])
        rows = [paths[index] + [pad] * (longest - len(paths[index])) for index in chosen]
        tokens = torch.tensor(rows, device=model.device)
        logits = model(input_ids=tokens, attention_mask=(tokens != pad).long()).logits
        for index, score in zip(chosen, logits.squeeze(-1).tolist(), strict=True):
            scores[index] = score
    return scores


def right_wins(model: PreTrainedModel, questions: list[Question]) -> list[bool]:
    """Returns, for each question, True if the right answer has the highest score."""
    paths, sizes = [], []
    for question in questions:
        answers = (question.answer, *question.distractors)
        paths += [question.prefix + answer_tokens(answer) for answer in answers]
        sizes.append(len(answers))
    scores = score_paths(model, paths)
    wins, begin = [], 0
    for size in sizes:
        right, *others = scores[begin : begin + size]
        # A tie or a NaN score is not a win.
        wins.append(all(right > other for other in others))
        begin += size
    return wins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path(__file__).parent / "model")
    parser.add_argument("--questions", type=int, default=2400, help="per candidate count")
    parser.add_argument("--candidates", type=int, nargs="*", default=CANDIDATE_COUNTS)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()

    model = load(args.model)
    each = -(-args.questions // len(TASKS))
    shares: dict[str, list[str]] = defaultdict(list)
    for count in args.candidates:
        total = 0
        for task in TASKS:
            rng = random.Random(f"{args.seed} evaluate {task} {count}")
            wins = right_wins(model, [draw(rng, task, "held-out", count - 1) for _ in range(each)])
            total += sum(wins)
            shares[task].append(f"{sum(wins) / each:.2%}")
        shares["all"].append(f"{total / (each * len(TASKS)):.2%}")
    print(f"{each} held-out questions a task, {each * len(TASKS)} in all; right answer first:\n")
    print("| task | " + " | ".join(f"{count} candidates" for count in args.candidates) + " |")
    print("| --- |" + " ---: |" * len(args.candidates))
    for task, cells in shares.items():
        print(f"| {task} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
