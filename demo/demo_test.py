"""Checks answers against the text of the prompts, and packed rows against single paths."""

import random
import re
import unittest

import torch
from evaluate import score_paths
from tasks import HEADER, TASKS, Question, answer_tokens, draw, split_of
from train import CANDIDATES, Size, new_model, on_device, pack, path_scores


def right_answer(question: Question) -> str:
    """Returns the answer, computed from the prompt's text alone."""
    text = question.prompt.removeprefix(HEADER).removeprefix("Q: ").removesuffix("\nA: ")
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    subject = text.split()[-1]
    answers = {
        "add": lambda: str(numbers[0] + numbers[1]),
        "sub": lambda: str(numbers[0] - numbers[1]),
        "mul": lambda: str(numbers[0] * numbers[1]),
        "compare": lambda: str(max(numbers) if "largest" in text else min(numbers)),
        "copy": lambda: subject,
        "reverse": lambda: "".join(reversed(subject)),
        "spell": lambda: "-".join(subject),
        "fix": lambda: re.sub(r"\d", "", subject),
    }
    return answers[question.task]()


class TasksTest(unittest.TestCase):
    def test_answer_is_right_and_candidates_differ(self) -> None:
        rng = random.Random(1)
        for task in TASKS:
            for count in (4, 64):
                for _ in range(50):
                    question = draw(rng, task, "held-out", count - 1)
                    self.assertEqual(question.answer, right_answer(question), question.prompt)
                    self.assertEqual(len({question.answer, *question.distractors}), count)
                    self.assertTrue(60 <= len(question.prefix) <= 150, question.prompt)

    def test_splits_share_no_prompt(self) -> None:
        rng = random.Random(2)
        for task in TASKS:
            held_out = {draw(rng, task, "held-out", 1).prompt for _ in range(500)}
            train = {draw(rng, task, "train", 1).prompt for _ in range(5000)}
            self.assertFalse(held_out & train, task)

    def test_reordered_operands_stay_in_one_split(self) -> None:
        rng = random.Random(3)
        for task in ("add", "mul"):
            for _ in range(200):
                draft = TASKS[task](rng)
                low, high = sorted(int(digits) for digits in re.findall(r"\d+", draft.text))
                self.assertEqual(split_of(draft.key), split_of(f"{task} {low} {high}"))

    def test_one_in_ten_is_held_out(self) -> None:
        held_out = sum(split_of(f"add {a} {b}") == "held-out" for a in range(99) for b in range(99))
        self.assertAlmostEqual(held_out / 99**2, 0.1, delta=0.01)


class PackTest(unittest.TestCase):
    def test_packed_scores_equal_those_of_single_paths(self) -> None:
        torch.manual_seed(4)
        model = new_model(Size(hidden=32, layers=3, feed_forward=48)).eval()
        rng = random.Random(5)
        questions = [draw(rng, task, "train", CANDIDATES - 1) for task in TASKS]
        batch = on_device(pack(questions, random.Random(6)), torch.device("cpu"))
        with torch.inference_mode():
            packed = path_scores(model, batch)
        same_order = random.Random(6)
        for row, question in enumerate(questions):
            answers = [question.answer, *question.distractors]
            same_order.shuffle(answers)
            self.assertEqual(answers[int(batch.rights[row])], question.answer)
            alone = score_paths(
                model, [question.prefix + answer_tokens(answer) for answer in answers]
            )
            torch.testing.assert_close(packed[row], torch.tensor(alone), rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
