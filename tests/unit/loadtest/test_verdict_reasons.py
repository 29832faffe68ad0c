"""Each reason code is provoked by one change of an otherwise valid comparison."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bakeoff.metrics import Outcome as Ended
from loadtest.analysis import analyse
from loadtest.load_checks import GROSS_REQUESTS
from loadtest.plan import Depth
from loadtest.reasons import EXPLANATIONS, Reason
from loadtest.records import Request
from loadtest.verdict import NoPurchase, Outcome, Verdict

Make = Callable[..., Path]
Counted = Callable[[Callable[[Request], Request]], Any]
GATE = {"dataset": "some-set", "ratio": 0.99, "bound": "point"}


def reasons(verdict: Verdict) -> set[Reason]:
    return {finding.reason for finding in verdict.reasons}


def require_invalid(verdict: Verdict, reason: Reason) -> None:
    assert reason in reasons(verdict)
    assert verdict.outcome is Outcome.INVALID
    assert not verdict.purchase
    assert "better:" not in verdict.sentence


def lost(request: Request, outcome: Ended) -> Request:
    return replace(request, outcome=outcome, served_by=None, batch_size=None, queue_ns=None, execution_ns=None)


def test_an_undisturbed_comparison_has_no_reason_against_it(run_folder: Make) -> None:
    for gpu in (False, True):
        verdict = analyse(run_folder(gpu=gpu))
        assert verdict.reasons == ()
        assert verdict.outcome is Outcome.B_BETTER


def test_every_reason_is_explained_in_a_sentence() -> None:
    assert set(EXPLANATIONS) == set(Reason)
    assert all(text.endswith(".") and text[0].isupper() for text in EXPLANATIONS.values())


def test_more_than_one_error_in_a_thousand_is_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: lost(r, Ended.ERROR) if r.seq == 5 and r.block < 2 else r)
    require_invalid(analyse(run_folder(edit=edit)), Reason.ERRORS)


def test_one_error_in_a_thousand_is_allowed(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: lost(r, Ended.REJECTED) if (r.run, r.seq) == (2, 5) else r)
    verdict = analyse(run_folder(edit=edit))
    assert verdict.arms["net-a"].failed == 1
    assert verdict.arms["net-a"].requests > 1000
    assert verdict.reasons == ()


def test_rare_errors_that_reach_one_runs_percentile_are_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: lost(r, Ended.ERROR) if r.run == 2 and r.seq % 8 == 0 else r)
    verdict = analyse(run_folder(edit=edit, plan={"limits": {"error_share": 0.5}}))
    require_invalid(verdict, Reason.ERRORS)


def test_timeouts_are_found_and_worsen_the_percentile(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: lost(r, Ended.TIMEOUT) if r.arm == "net-b" and r.seq % 5 == 0 else r)
    verdict = analyse(run_folder(edit=edit))
    require_invalid(verdict, Reason.CLIENT_TIMEOUT_CENSORED)
    assert verdict.arms["net-b"].latency_s["latency_p90"] is None


def test_late_sending_is_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, sent_ns=r.due_ns + 25_000_000))
    require_invalid(analyse(run_folder(edit=edit)), Reason.SEND_LAG)


def test_one_late_request_in_a_short_run_is_not_late_sending(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, sent_ns=r.due_ns + 300_000_000) if (r.run, r.seq) in ((3, 100), (8, 0)) else r)
    assert analyse(run_folder(edit=edit)).reasons == ()


def test_one_late_run_among_long_runs_is_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, sent_ns=r.due_ns + 25_000_000) if r.run == 3 and r.seq % 50 == 0 else r)
    require_invalid(analyse(run_folder(edit=edit, rate_per_s=160, blocks=2)), Reason.SEND_LAG)


def test_smoke_depth_allows_a_wider_send_lag_and_says_so(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, sent_ns=r.due_ns + 5_000_000))
    smoke = analyse(run_folder(edit=edit))
    assert smoke.reasons == ()
    assert any("send lag of 20.0 ms, where a purchase verdict allows 4.00 ms" in note for note in smoke.notes)
    require_invalid(analyse(run_folder(edit=edit, depth=Depth.STANDARD)), Reason.SEND_LAG)


def test_requests_that_were_never_sent_are_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(lost(r, Ended.TIMEOUT), sent_ns=None) if r.run == 5 and r.seq % 20 == 0 else r)
    require_invalid(analyse(run_folder(edit=edit)), Reason.RATE_NOT_ACHIEVED)


def test_a_schedule_that_was_stretched_is_found(run_folder: Make) -> None:
    def stretch(requests: list[Request]) -> list[Request]:
        first: dict[int, int] = {}
        for r in requests:
            first.setdefault(r.run, r.due_ns)
        return [replace(r, sent_ns=r.due_ns + int(0.05 * (r.due_ns - first[r.run]))) for r in requests]

    require_invalid(analyse(run_folder(edit=stretch)), Reason.RATE_NOT_ACHIEVED)


def test_rows_cut_off_the_end_of_a_run_are_found(run_folder: Make) -> None:
    edit = lambda requests: [r for r in requests if r.run != 7 or r.seq < 90]  # noqa: E731
    require_invalid(analyse(run_folder(edit=edit)), Reason.RATE_NOT_ACHIEVED)


def test_a_growing_backlog_is_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, done_ns=(r.done_ns or 0) + r.seq * 20_000_000))
    verdict = analyse(run_folder(edit=edit))
    require_invalid(verdict, Reason.BACKLOG_GROWING)
    assert max(run.backlog_growth or 0 for run in verdict.runs) > GROSS_REQUESTS


def test_a_backlog_that_grows_by_a_twentieth_in_every_run_is_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, done_ns=(r.done_ns or 0) + r.seq * 2_500_000))
    verdict = analyse(run_folder(edit=edit))
    require_invalid(verdict, Reason.BACKLOG_GROWING)
    assert max(run.backlog_growth or 0 for run in verdict.runs) < GROSS_REQUESTS


def test_a_run_without_records_is_found(run_folder: Make) -> None:
    edit = lambda requests: [r for r in requests if r.run != 9]  # noqa: E731
    require_invalid(analyse(run_folder(edit=edit)), Reason.TOO_FEW_SAMPLES)


def test_a_comparison_without_any_counted_request_is_invalid(run_folder: Make) -> None:
    verdict = analyse(run_folder(edit=lambda requests: [r for r in requests if r.block < 0]))
    require_invalid(verdict, Reason.TOO_FEW_SAMPLES)
    assert verdict.comparison is None


def test_runs_with_too_few_requests_for_the_metric_are_found(run_folder: Make) -> None:
    require_invalid(analyse(run_folder(plan={"primary_metric": "latency_p99"})), Reason.TOO_FEW_SAMPLES)


@pytest.mark.parametrize("name", ["net-a", None])
def test_answers_of_another_arm_or_of_no_named_arm_are_found(run_folder: Make, counted: Counted, name: str | None) -> None:
    edit = counted(lambda r: replace(r, served_by=name) if (r.run, r.seq) == (3, 4) else r)
    require_invalid(analyse(run_folder(edit=edit)), Reason.WRONG_ARM)


def silence(frame: pd.DataFrame, metric: str = "") -> pd.DataFrame:
    """Drop five seconds within the third run, of one kind of series."""
    start = frame["t_unix_ns"].min() + int(11e9)
    gone = frame["t_unix_ns"].between(start, start + int(5e9)) & frame["metric"].str.contains(metric)
    return frame[~gone]


def test_four_seconds_without_telemetry_are_found(run_folder: Make) -> None:
    require_invalid(analyse(run_folder(telemetry=silence)), Reason.TELEMETRY_GAP)


def test_no_telemetry_at_all_is_found(run_folder: Make) -> None:
    require_invalid(analyse(run_folder(telemetry=lambda frame: frame[:0])), Reason.TELEMETRY_GAP)


def test_a_silent_gpu_is_found_although_other_series_go_on(run_folder: Make) -> None:
    require_invalid(analyse(run_folder(gpu=True, telemetry=lambda f: silence(f, "gpu_"))), Reason.TELEMETRY_GAP)


def test_a_gpu_arm_without_gpu_telemetry_is_invalid(run_folder: Make) -> None:
    verdict = analyse(run_folder(gpu=True, telemetry=lambda f: f[~f["metric"].str.contains("gpu_")]))
    require_invalid(verdict, Reason.TELEMETRY_GAP)


def test_gpu_answers_that_name_no_gpu_are_found(run_folder: Make, counted: Counted) -> None:
    edit = counted(lambda r: replace(r, gpu_uuid=None))
    require_invalid(analyse(run_folder(gpu=True, edit=edit)), Reason.TELEMETRY_GAP)


def test_a_failed_gate_is_found(run_folder: Make) -> None:
    verdict = analyse(run_folder(gate=GATE, accuracy={"net-a": 1.0, "net-b": 0.98}))
    require_invalid(verdict, Reason.ACCURACY_GATE)
    assert [f.arm for f in verdict.reasons] == ["net-b"]


def test_a_gate_that_was_not_run_is_found_for_both_arms(run_folder: Make) -> None:
    verdict = analyse(run_folder(gate=GATE))
    require_invalid(verdict, Reason.ACCURACY_GATE)
    assert [f.arm for f in verdict.reasons] == ["net-a", "net-b"]


def test_a_gate_that_was_passed_is_no_reason(run_folder: Make) -> None:
    assert analyse(run_folder(gate=GATE, accuracy={"net-a": 1.0, "net-b": 0.995})).reasons == ()


def test_a_record_that_claims_to_pass_below_the_ratio_is_found(run_folder: Make) -> None:
    path = run_folder(gate=GATE, accuracy={"net-a": 1.0, "net-b": 0.98})
    record = json.loads((path / "accuracy.json").read_text(encoding="utf-8"))
    record["arms"]["net-b"]["passed"] = True
    (path / "accuracy.json").write_text(json.dumps(record), encoding="utf-8")
    require_invalid(analyse(path), Reason.ACCURACY_GATE)


def test_a_gate_run_against_another_ratio_is_found(run_folder: Make) -> None:
    verdict = analyse(run_folder(gate=GATE, accuracy={"net-a": 1.0, "net-b": 1.0}, plan={"accuracy": {**GATE, "ratio": 0.999}}))
    require_invalid(verdict, Reason.ACCURACY_GATE)


def test_a_simulated_arm_never_gives_a_verdict_outside_a_demonstration(run_folder: Make) -> None:
    require_invalid(analyse(run_folder(simulated=True, depth=Depth.STANDARD)), Reason.SIMULATED_DEVICE)


def test_a_simulated_demonstration_is_marked_and_never_a_purchase_verdict(run_folder: Make) -> None:
    verdict = analyse(run_folder(simulated=True, demonstration=True, depth=Depth.STANDARD))
    assert verdict.outcome is Outcome.B_BETTER
    assert verdict.simulated == ("net-a", "net-b")
    assert not verdict.purchase
    assert verdict.not_purchase_because == (NoPurchase.DEMONSTRATION, NoPurchase.SIMULATED)


def test_a_replayed_gpu_is_a_simulated_device(run_folder: Make) -> None:
    def replayed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(labels=frame["labels"].str.replace("Some card", "Some card (SIMULATED)"))

    verdict = analyse(run_folder(gpu=True, depth=Depth.STANDARD, telemetry=replayed))
    require_invalid(verdict, Reason.SIMULATED_DEVICE)


THROTTLES = [
    ("hw_slowdown", Reason.THROTTLE_HW_SLOWDOWN),
    ("hw_thermal_slowdown", Reason.THROTTLE_HW_THERMAL),
    ("sw_thermal_slowdown", Reason.THROTTLE_SW_THERMAL),
    ("hw_power_brake_slowdown", Reason.POWER_BRAKE),
]


def add_samples(frame: pd.DataFrame, metric: str, labels: dict[str, str], values: list[float]) -> pd.DataFrame:
    """Add a series of T4's card, sampled from the fourth second of the first counted run on."""
    times = frame["t_unix_ns"].min() + int(11e9) + pd.Series(range(len(values))) * 1_000_000_000
    text = json.dumps({"gpu_uuid": "GPU-aaaaaaaa-0000", "gpu_index": "0", "pool": "pool-a", **labels})
    return pd.concat([frame, pd.DataFrame({"t_unix_ns": times, "metric": metric, "labels": text, "value": values})])


@pytest.mark.parametrize(("label", "reason"), THROTTLES)
def test_a_throttled_gpu_is_found(run_folder: Make, label: str, reason: Reason) -> None:
    def throttle(frame: pd.DataFrame) -> pd.DataFrame:
        return add_samples(frame, "bakeoff_gpu_throttle_active", {"reason": label}, [0.0, 1.0, 0.0])

    verdict = analyse(run_folder(gpu=True, telemetry=throttle))
    require_invalid(verdict, reason)
    assert {f.arm for f in verdict.reasons} == {"net-a"}


@pytest.mark.parametrize(("label", "reason"), THROTTLES)
def test_throttling_between_two_samples_is_found_by_its_counter(run_folder: Make, label: str, reason: Reason) -> None:
    def throttle(frame: pd.DataFrame) -> pd.DataFrame:
        labels = {"reason": label, "source": "sampled"}
        return add_samples(frame, "bakeoff_gpu_throttle_seconds_total", labels, [2.0, 2.0, 2.4, 2.4])

    require_invalid(analyse(run_folder(gpu=True, telemetry=throttle)), reason)


def test_the_software_power_cap_belongs_to_a_card_under_load(run_folder: Make) -> None:
    verdict = analyse(run_folder(gpu=True))  # constructed with an active software power cap
    assert verdict.reasons == ()


def test_energy_sources_more_than_a_twentieth_apart_are_found(run_folder: Make) -> None:
    def double_power(frame: pd.DataFrame) -> pd.DataFrame:
        power = frame["metric"] == "bakeoff_gpu_power_draw_watts"
        return frame.assign(value=frame["value"].where(~power, 106.0))

    require_invalid(analyse(run_folder(gpu=True, telemetry=double_power)), Reason.ENERGY_DISAGREES)


def test_energy_sources_within_a_twentieth_are_accepted(run_folder: Make) -> None:
    def raise_power(frame: pd.DataFrame) -> pd.DataFrame:
        power = frame["metric"] == "bakeoff_gpu_power_draw_watts"
        return frame.assign(value=frame["value"].where(~power, 104.0))

    assert analyse(run_folder(gpu=True, telemetry=raise_power)).reasons == ()
