"""Trains the demo's reward model: a small Qwen3 over byte tokens that ranks answers.

The loss is the cross-entropy of the right answer under a softmax over a question's candidates. A
row contains a question's prefix once, followed by its candidates. A mask lets each candidate read
only the prefix and itself, and its position ids continue those of the prefix. So every score equals
that of the path alone, although the prefix is computed only once. `evaluate.py` scores each path by
itself.
"""

import argparse
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import torch
from tasks import SEED, TASKS, Question, answer_tokens, draw
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen3Config, Qwen3ForSequenceClassification

PAD: Final = 0  # a byte that does not occur in questions
# longest prefix and eight of its longest answers, rounded up to a multiple of 8
ROW_TOKENS: Final = 216
CANDIDATES: Final = 8
WARMUP_STEPS: Final = 300
# The speed is measured over these steps, to compute how many steps fit into the given time.
MEASURED_STEPS: Final = range(100, 200)


class Batch(NamedTuple):
    """Rows of one prefix and its candidates. Tensors are int16, to send less data between
    processes.

    tokens, positions and branches are [rows, ROW_TOKENS]. Branch 0 is the prefix, branch i + 1 is
    candidate i, and padding is -1. ends [rows, CANDIDATES] is the position of each candidate's last
    token; rights [rows] is the index of the right candidate.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    branches: torch.Tensor
    ends: torch.Tensor
    rights: torch.Tensor


def pack(questions: list[Question], rng: random.Random) -> Batch:
    """Returns one row per question, with its candidates in random order."""
    shape = (len(questions), ROW_TOKENS)
    tokens = torch.full(shape, PAD, dtype=torch.int16)
    positions = torch.zeros(shape, dtype=torch.int16)
    branches = torch.full(shape, -1, dtype=torch.int16)
    ends, rights = [], []
    for row, question in enumerate(questions):
        answers = [question.answer, *question.distractors]
        rng.shuffle(answers)
        row_tokens, row_ends = list(question.prefix), []
        depths, row_branches = list(range(len(row_tokens))), [0] * len(row_tokens)
        for branch, answer in enumerate(answers, start=1):
            added = answer_tokens(answer)
            depths += range(len(question.prefix), len(question.prefix) + len(added))
            row_tokens += added
            row_branches += [branch] * len(added)
            row_ends.append(len(row_tokens) - 1)
        length = len(row_tokens)
        if length > ROW_TOKENS:
            raise ValueError(f"a row of {length} tokens is longer than {ROW_TOKENS}")
        tokens[row, :length] = torch.tensor(row_tokens)
        positions[row, :length] = torch.tensor(depths)
        branches[row, :length] = torch.tensor(row_branches)
        ends.append(row_ends)
        rights.append(answers.index(question.answer))
    return Batch(
        tokens,
        positions,
        branches,
        torch.tensor(ends, dtype=torch.int16),
        torch.tensor(rights, dtype=torch.int16),
    )


def on_device(batch: Batch, device: torch.device) -> Batch:
    """Returns the batch as int64 on the device."""
    return Batch(*(tensor.to(device, non_blocking=True).long() for tensor in batch))


class TrainingBatches(Dataset[Batch]):
    """Batch i depends only on the seed and i, so the number of workers makes no difference."""

    def __init__(self, seed: int, rows: int, count: int) -> None:
        self.seed, self.rows, self.count = seed, rows, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Batch:
        rng = random.Random(f"{self.seed} train {index}")
        names = list(TASKS)
        questions = [
            draw(rng, names[row % len(names)], "train", CANDIDATES - 1) for row in range(self.rows)
        ]
        return pack(questions, rng)


def path_scores(model: Qwen3ForSequenceClassification, batch: Batch) -> torch.Tensor:
    """Returns the score of each candidate's path, [rows, CANDIDATES]."""
    slots = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    queries, keys = batch.branches[:, :, None], batch.branches[:, None, :]
    mask = ((keys == 0) | (keys == queries)) & (slots[None, :, None] >= slots)
    # Padding comes last and reads itself and the prefix, so no row of the mask is empty.
    vectors = model.model(
        input_ids=batch.tokens,
        position_ids=batch.positions,
        attention_mask={"full_attention": mask[:, None]},
        use_cache=False,
    ).last_hidden_state
    rows = torch.arange(batch.tokens.shape[0], device=batch.tokens.device)[:, None]
    return model.score(vectors[rows, batch.ends]).squeeze(-1).float()


@dataclass(frozen=True)
class Size:
    """The sizes of the model that a trial run can reduce."""

    hidden: int
    layers: int
    feed_forward: int


def new_model(size: Size) -> Qwen3ForSequenceClassification:
    """Returns a model with random weights from torch's current seed."""
    config = Qwen3Config(
        vocab_size=256,
        hidden_size=size.hidden,
        head_dim=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=size.layers,
        intermediate_size=size.feed_forward,
        max_position_embeddings=1024,
        pad_token_id=PAD,
        use_cache=False,
    )
    config.num_labels = 1
    return Qwen3ForSequenceClassification(config)


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Rises linearly to the peak during the warm-up, then falls linearly to zero."""
    if step < WARMUP_STEPS:
        return peak * (step + 1) / WARMUP_STEPS
    return peak * max(0.0, (steps - step) / max(1, steps - WARMUP_STEPS))


def train(
    model: Qwen3ForSequenceClassification,
    args: argparse.Namespace,
    device: torch.device,
) -> int:
    """Trains the model in place and returns the number of steps."""
    started = time.monotonic()
    steps = args.steps or 10**6
    batches = TrainingBatches(args.seed, args.rows, steps)
    loader = DataLoader(
        batches,
        batch_size=None,
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
    )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.peak, betas=(0.9, 0.98), weight_decay=0.05
    )
    loss_sum = torch.zeros((), device=device)
    right_sum = torch.zeros((), device=device)
    measured_from = started
    for step, host_batch in enumerate(loader):
        if step >= steps:
            break
        if not args.steps and step in (MEASURED_STEPS.start, MEASURED_STEPS.stop):
            loss_sum.item()  # waits for the device
            now = time.monotonic()
            if step == MEASURED_STEPS.stop:
                step_seconds = (now - measured_from) / len(MEASURED_STEPS)
                steps = step + max(1, int((started + args.seconds - now) / step_seconds))
                print(f"{step_seconds * 1e3:.2f} ms a step: {steps} steps", flush=True)
            measured_from = now
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, args.peak)
        batch = on_device(host_batch, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = path_scores(model, batch)
        loss = torch.nn.functional.cross_entropy(scores, batch.rights)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss_sum += loss.detach()
        right_sum += (scores.argmax(1) == batch.rights).float().mean()
        if (step + 1) % args.report == 0:
            print(
                f"step {step + 1} seconds {time.monotonic() - started:.0f} "
                f"loss {loss_sum.item() / args.report:.4f} "
                f"right {right_sum.item() / args.report:.4f}",
                flush=True,
            )
            loss_sum.zero_()
            right_sum.zero_()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained model")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, help="default: as many as fit into --seconds")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rows", type=int, default=512, help="questions a step")
    parser.add_argument("--peak", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--workers", type=int, default=14, help="processes that draw questions")
    parser.add_argument("--report", type=int, default=200, help="steps between lines of output")
    parser.add_argument("--compile", action="store_true", help="compile the layers")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--feed-forward", type=int, default=384)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    size = Size(args.hidden, args.layers, args.feed_forward)
    with device:
        model = new_model(size)
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters} parameters on {device.type}", flush=True)
    if args.compile:
        for layer in model.model.layers:
            layer.compile(dynamic=False)
    steps = train(model, args, device)
    # Loading the weights into a fresh model removes what compiling has added.
    stored = new_model(size)
    stored.load_state_dict(model.state_dict())
    stored.bfloat16().save_pretrained(args.out)
    print(f"{steps} steps of {args.rows} questions, saved as bfloat16", flush=True)


if __name__ == "__main__":
    main()
