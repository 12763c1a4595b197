"""Tests that verify_run.py reports counts that do not add up."""

import unittest
from typing import Any

from service import Metrics, total
from verify_run import check_clients, check_server

AT_REST = (
    'canopy_requests_in_flight{method="Score"}',
    'canopy_requests_in_flight{method="ScoreStream"}',
    'canopy_queued_requests{priority="normal"}',
    'canopy_queued_requests{priority="low"}',
    "canopy_queued_tokens",
)
ENDED = "canopy_ended_requests_total"
ANSWERED = f'{ENDED}{{outcome="answered"}}'
CANCELLED = f'{ENDED}{{outcome="cancelled"}}'
ACCEPTED = "canopy_accepted_requests_total"
FORWARDS = "canopy_forward_requests_count"
FORWARD_REQUESTS = "canopy_forward_requests_sum"


def page(accepted: float, answered: float, cancelled: float) -> Metrics:
    """Returns the metrics of an idle server, in which some requests shared a forward."""
    counts = {ACCEPTED: accepted, ANSWERED: answered, CANCELLED: cancelled}
    counts |= {FORWARDS: accepted, FORWARD_REQUESTS: accepted + answered // 80}
    return dict.fromkeys(AT_REST, 0.0) | counts


def figures(*answered: int) -> list[dict[str, Any]]:
    """Returns one report of canopy_load for each number."""
    return [{"totals": {"answered": each}} for each in answered]


BEFORE = page(accepted=5, answered=3, cancelled=2)
AFTER = page(accepted=105, answered=83, cancelled=22)

GOOD = {"wrong": 0, "answered_candidates": 500, "cancelled": 3, "killed": 0, "victims_killed": 1}


class ServerTest(unittest.TestCase):
    """Tests of check_server, which checks the server's own counts."""

    def test_what_adds_up_is_right(self) -> None:
        self.assertEqual(check_server(BEFORE, AFTER, figures(50, 30)), [])
        # Clients may have gone before they received some of the answers.
        self.assertEqual(check_server(BEFORE, AFTER, figures(50, 29)), [])

    def test_nothing_may_be_left(self) -> None:
        for gauge in AT_REST:
            self.assertEqual(
                check_server(BEFORE, AFTER | {gauge: 1}, figures(80)),
                [f"{gauge.split('{')[0]} is 1, not 0"],
            )

    def test_what_was_accepted_must_have_ended_once(self) -> None:
        for series, value in ((ACCEPTED, 106), (ACCEPTED, 104), (CANCELLED, 21), (ANSWERED, 84)):
            problems = check_server(BEFORE, AFTER | {series: value}, figures(50, 30))
            self.assertEqual(len(problems), 1, problems)
            self.assertIn("accepted", problems[0])

    def test_only_what_the_run_added_counts(self) -> None:
        self.assertEqual(check_server(page(7, 3, 2), page(107, 83, 22), figures(80)), [])
        self.assertNotEqual(check_server(page(7, 3, 2), AFTER, figures(80)), [])

    def test_clients_cannot_have_more_answers_than_were_given(self) -> None:
        self.assertEqual(
            check_server(BEFORE, AFTER, figures(50, 31)), ["clients got 81 answers of 80"]
        )

    def test_requests_must_have_shared_a_forward(self) -> None:
        self.assertEqual(
            check_server(BEFORE, AFTER | {FORWARD_REQUESTS: 105}, figures(80)),
            ["100 forwards had 100 requests: none were shared"],
        )

    def test_a_metric_that_is_gone_is_no_zero(self) -> None:
        for name in {gauge.split("{")[0] for gauge in AT_REST} | {ACCEPTED, ENDED, FORWARDS}:
            rest = {key: value for key, value in AFTER.items() if key.split("{")[0] != name}
            with self.assertRaises(KeyError):
                check_server(BEFORE, rest, figures(80))

    def test_totals_are_of_one_name(self) -> None:
        self.assertEqual(total(AFTER | {ENDED + "_more": 9}, ENDED), 105)


class ClientsTest(unittest.TestCase):
    """Tests of check_clients, which checks the reports of canopy_load."""

    def test_a_run_with_all_its_faults_is_right(self) -> None:
        self.assertEqual(check_clients(GOOD, 500), [])
        self.assertEqual(check_clients(GOOD | {"cancelled": 0, "killed": 1}, 500), [])

    def test_each_figure_counts(self) -> None:
        for bad in (
            {"wrong": 1},
            {"answered_candidates": 499},
            {"cancelled": 0},
            {"victims_killed": 0},
        ):
            self.assertEqual(len(check_clients(GOOD | bad, 500)), 1, bad)


if __name__ == "__main__":
    unittest.main()
