"""Draws the demo's sample questions and stores the winner of each.

Writes questions.jsonl (one question per line, in the format of the command-line client) and
winners.json (the winners according to transformers with the stored model in float32).
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any, Final

from evaluate import load, score_paths
from tasks import SEED, TASKS, answer_tokens, draw

COUNTS: Final = (64, 32, 32, 24, *[16] * 4, *[12] * 4, *[8] * 4, *[4] * 4)
WINNERS_NOTE: Final = "transformers, stored bfloat16 weights, float32 arithmetic"


def sample(seed: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Returns the questions in the client's format, and the right answers by id."""
    rng = random.Random(f"{seed} questions")
    counts = list(COUNTS)
    rng.shuffle(counts)
    names = list(TASKS)
    questions, rights = [], {}
    for number, count in enumerate(counts):
        task = names[number % len(names)]
        question = draw(rng, task, "held-out", count - 1)
        answers = [question.answer, *question.distractors]
        rng.shuffle(answers)
        name = f"{task}-{number // len(names) + 1}"
        rights[name] = question.answer
        questions.append(
            {
                "id": name,
                "kind": "plain",
                "prompt": question.prompt,
                "prefix": question.prefix,
                "candidates": [
                    {"id": answer, "text": answer, "tokens": answer_tokens(answer)}
                    for answer in answers
                ],
            }
        )
    return questions, rights


def winner(question: dict[str, Any], scores: list[float], right: str) -> dict[str, Any]:
    """Returns the entry of winners.json for one question."""
    best = max(range(len(scores)), key=scores.__getitem__)
    second = max(score for index, score in enumerate(scores) if index != best)
    return {
        "id": question["id"],
        "index": best,
        "winner": question["candidates"][best]["id"],
        "right": right,
        "score": round(scores[best], 3),
        "margin": round(scores[best] - second, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    here = Path(__file__).parent
    parser.add_argument("--model", type=Path, default=here / "model")
    parser.add_argument("--out", type=Path, default=here, help="folder for the two files")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()

    model = load(args.model)
    questions, rights = sample(args.seed)
    winners = []
    for question in questions:
        paths = [question["prefix"] + one["tokens"] for one in question["candidates"]]
        winners.append(winner(question, score_paths(model, paths), rights[question["id"]]))
    won = sum(entry["winner"] == entry["right"] for entry in winners)
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    (args.out / "questions.jsonl").write_text(lines)
    stored = {
        "computed_with": WINNERS_NOTE,
        "seed": args.seed,
        "right_winners": won,
        "questions": winners,
    }
    (args.out / "winners.json").write_text(json.dumps(stored, indent=2) + "\n")
    lengths = [
        len(question["prefix"]) + len(one["tokens"])
        for question in questions
        for one in question["candidates"]
    ]
    print(
        f"{won} of {len(questions)} winners are right; smallest margin "
        f"{min(entry['margin'] for entry in winners):.3f}; {len(lengths)} paths of at most "
        f"{max(lengths)} tokens: {len(lengths) * max(lengths)} path tokens"
    )


if __name__ == "__main__":
    main()
