import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.errors import RecordError
from loadtest.analysis import analyse, write_verdict
from loadtest.plan import FIRST_AA_BLOCK, Depth
from loadtest.verdict import NoPurchase, Outcome, Verdict

Make = Callable[..., Path]


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [(0.8, Outcome.B_BETTER), (1.25, Outcome.A_BETTER), (1.0, Outcome.EQUIVALENT), (1.03, Outcome.EQUIVALENT)],
)
def test_a_constructed_ratio_comes_back_with_its_outcome(run_folder: Make, ratio: float, outcome: Outcome) -> None:
    verdict = analyse(run_folder(ratio=ratio, noise=0.005))
    assert verdict.outcome is outcome
    assert verdict.comparison is not None
    assert verdict.comparison.low <= ratio <= verdict.comparison.high
    assert verdict.comparison.ratio == pytest.approx(ratio, rel=0.01)


def test_drift_over_the_comparison_does_not_move_the_ratio(run_folder: Make) -> None:
    comparison = analyse(run_folder(ratio=0.9, drift=0.2)).comparison
    assert comparison is not None
    assert comparison.ratio == pytest.approx(0.9, rel=1e-6)


def test_a_wide_spread_leaves_the_question_open_and_says_how_many_blocks_would_do(run_folder: Make) -> None:
    verdict = analyse(run_folder(ratio=0.9, noise=0.12))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.comparison is not None
    needed = verdict.comparison.blocks_needed
    assert needed is not None
    assert needed > 6
    assert f"about {needed - 6} more block" in verdict.sentence
    assert NoPurchase.UNDECIDED in verdict.not_purchase_because


def test_two_identical_arms_name_no_winner(run_folder: Make) -> None:
    for seed in range(8):
        verdict = analyse(run_folder(ratio=1.0, noise=0.04, seed=seed))
        assert verdict.outcome in {Outcome.EQUIVALENT, Outcome.INCONCLUSIVE}
        assert "better:" not in verdict.sentence


def test_the_ratio_of_the_arms_figures_is_the_ratio_of_the_verdict(run_folder: Make) -> None:
    verdict = analyse(run_folder(ratio=0.85, noise=0.05))
    a, b = (verdict.arms[arm].latency_s["latency_p90"] for arm in ("net-a", "net-b"))
    assert a is not None
    assert b is not None
    assert verdict.comparison is not None
    assert b / a == pytest.approx(verdict.comparison.ratio)


def test_smoke_depth_prints_its_outcome_but_is_no_purchase_verdict(run_folder: Make) -> None:
    verdict = analyse(run_folder())
    assert verdict.outcome is Outcome.B_BETTER
    assert not verdict.purchase
    assert verdict.not_purchase_because == (NoPurchase.SMOKE_DEPTH, NoPurchase.DEMONSTRATION)


def test_a_clean_decided_standard_comparison_is_a_purchase_verdict(run_folder: Make) -> None:
    verdict = analyse(run_folder(depth=Depth.STANDARD, noise=0.01))
    assert verdict.outcome is Outcome.B_BETTER
    assert verdict.purchase
    assert verdict.comparison is not None
    assert verdict.comparison.aa_floor is not None


def test_a_win_smaller_than_the_a_a_noise_is_no_win(run_folder: Make) -> None:
    def disturb(requests):  # the middle runs of the A/A blocks are a third slower than the outer ones
        slow = {r.run for r in requests if r.block <= FIRST_AA_BLOCK} - set()
        middle = {sorted(slow)[k] for k in (1, 2, 5, 6)}
        return [
            replace(
                r, first_ns=int(r.due_ns + 4 / 3 * (r.done_ns - r.due_ns)), done_ns=int(r.due_ns + 4 / 3 * (r.done_ns - r.due_ns))
            )
            if r.run in middle
            else r
            for r in requests
        ]

    verdict = analyse(run_folder(depth=Depth.STANDARD, noise=0.005, ratio=0.8, edit=disturb))
    assert verdict.comparison is not None
    assert verdict.comparison.aa_floor == pytest.approx(4 / 3, rel=0.02)
    assert math.exp(0) > verdict.comparison.high
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_warm_up_runs_are_not_counted(run_folder: Make) -> None:
    slow = lambda rs: [replace(r, done_ns=r.done_ns + 10**10) if r.block == -1 else r for r in rs]  # noqa: E731
    assert analyse(run_folder(edit=slow)).arms == analyse(run_folder()).arms


def test_without_a_gpu_the_verdict_says_that_power_and_thermals_were_not_measured(run_folder: Make) -> None:
    verdict = analyse(run_folder())
    assert any("Power and thermals were not measured" in note for note in verdict.notes)
    assert verdict.hardware["net-a"].energy_j is None


def test_gpu_energy_is_power_times_the_time_of_the_runs(run_folder: Make) -> None:
    figures = analyse(run_folder(gpu=True)).hardware["net-b"]
    assert figures.mean_power_w == pytest.approx(100)
    assert figures.energy_j == pytest.approx(100 * figures.window_s)
    assert any("cards measured" in note for note in analyse(run_folder(gpu=True)).notes)


def test_the_verdict_survives_its_file(run_folder: Make) -> None:
    path = run_folder(gpu=True)
    written = write_verdict(path)
    assert Verdict.model_validate_json((path / "verdict.json").read_text(encoding="utf-8")) == written


@pytest.mark.parametrize("name", ["plan.yaml", "runs.json", "requests.parquet", "telemetry.parquet", "environment.json"])
def test_a_missing_or_damaged_file_is_a_record_error_that_names_it(run_folder: Make, name: str) -> None:
    path = run_folder()
    (path / name).write_bytes(b"\x00\x01 not what it was")
    with pytest.raises(RecordError, match=name.replace(".", r"\.")):
        analyse(path)
    (path / name).unlink()
    with pytest.raises(RecordError, match=name.replace(".", r"\.")):
        analyse(path)


def test_a_folder_that_is_not_there_is_a_record_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no run folder"):
        analyse(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda rs: [r for r in rs if (r.run, r.seq) != (4, 3)], "rows are missing or doubled"),
        (lambda rs: [replace(r, run=99) if r.run == 4 else r for r in rs], "run 99, which the plan does not have"),
        (lambda rs: [replace(r, arm="net-b") if r.run == 2 else r for r in rs], "are not of arm 'net-a'"),
    ],
)
def test_rows_that_the_plan_does_not_have_are_a_record_error(run_folder: Make, edit: object, fault: str) -> None:
    with pytest.raises(RecordError, match=fault):
        analyse(run_folder(edit=edit))


def test_a_run_on_another_seed_than_planned_is_a_record_error(run_folder: Make) -> None:
    path = run_folder()
    text = (path / "runs.json").read_text(encoding="utf-8")
    (path / "runs.json").write_text(text.replace('"seed": 9', '"seed": 1234', 1), encoding="utf-8")
    with pytest.raises(RecordError, match="1234"):
        analyse(path)
