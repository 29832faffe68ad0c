from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bakeoff.errors import ExperimentError, RecordError
from bakeoff.experiment import Experiment, parse
from loadtest.folder import read_plan, write_plan
from loadtest.plan import FIRST_AA_BLOCK, WARMUP_BLOCK, Depth, Limits
from loadtest.planning import make_plan, primary_metric

Make = Callable[..., Experiment]


def plan_of(experiment: Experiment, depth: Depth = Depth.SMOKE):
    return make_plan(experiment, "net", "net-a", "net-b", depth)


def test_every_block_runs_a_b_b_a(experiment: Make) -> None:
    runs = [spec for spec in plan_of(experiment(blocks=3)).runs if spec.block >= 0]
    assert [spec.arm for spec in runs] == ["net-a", "net-b", "net-b", "net-a"] * 3
    assert [(spec.block, spec.position) for spec in runs] == [(k, p) for k in range(3) for p in range(4)]


def test_a_warm_up_run_of_each_arm_comes_first_and_is_not_counted(experiment: Make) -> None:
    plan = plan_of(experiment())
    assert [(s.arm, s.block) for s in plan.runs[:2]] == [("net-a", WARMUP_BLOCK), ("net-b", WARMUP_BLOCK)]
    assert all(s.block != WARMUP_BLOCK for s in plan.runs[2:])


def test_runs_are_numbered_in_order(experiment: Make) -> None:
    for depth in Depth:
        runs = plan_of(experiment(), depth).runs
        assert [spec.run for spec in runs] == list(range(len(runs)))


def test_the_four_runs_of_block_k_share_the_seed_seed_plus_k_and_nothing_else_has_it(experiment: Make) -> None:
    runs = plan_of(experiment(), Depth.STANDARD).runs
    seeds = Counter(spec.seed for spec in runs)
    for spec in runs:
        if spec.block >= 0:
            assert spec.seed == 7 + spec.block
            assert seeds[spec.seed] == 4


def test_smoke_depth_runs_the_workloads_blocks_shortly_and_is_a_demonstration(experiment: Make) -> None:
    plan = plan_of(experiment(blocks=2, run_s=600))
    assert len({s.block for s in plan.runs if s.block >= 0}) == 2
    assert {s.run_s for s in plan.runs if s.block >= 0} == {10}
    assert plan.demonstration
    assert plan.limits.send_lag_s > Limits().send_lag_s


def test_standard_depth_runs_at_least_six_blocks_in_full_with_a_a_blocks_before_them(experiment: Make) -> None:
    plan = plan_of(experiment(blocks=2, run_s=600), Depth.STANDARD)
    assert len({s.block for s in plan.runs if s.block >= 0}) == 6
    assert {s.run_s for s in plan.runs if s.block >= 0} == {600}
    assert not plan.demonstration
    assert plan.limits == Limits()
    noise = [s for s in plan.runs if s.block <= FIRST_AA_BLOCK]
    assert {s.arm for s in noise} == {"net-a"}
    assert Counter(s.block for s in noise) == {FIRST_AA_BLOCK: 4, FIRST_AA_BLOCK - 1: 4}
    assert max(s.run for s in noise) < min(s.run for s in plan.runs if s.block >= 0)


def test_an_experiment_that_is_a_demonstration_stays_one_at_any_depth(experiment: Make) -> None:
    assert plan_of(experiment(demonstration=True), Depth.STANDARD).demonstration


@pytest.mark.parametrize(
    ("rate", "run_s", "metric"),
    [(600, 1, "latency_p99"), (459, 1, "latency_p90"), (80, 1, "latency_p90"), (44, 1, "latency_p50"), (20, 1, "latency_p50")],
)
def test_the_metric_is_the_highest_percentile_that_nearly_every_run_can_claim(rate: float, run_s: float, metric: str) -> None:
    assert primary_metric(rate, run_s) == metric


def test_too_little_load_for_a_median_is_refused() -> None:
    with pytest.raises(ExperimentError, match="Raise rate_per_s or run_s"):
        primary_metric(1, 5)


def test_the_same_arm_twice_is_refused(experiment: Make) -> None:
    with pytest.raises(ExperimentError, match="under two names"):
        make_plan(experiment(), "net", "net-a", "net-a", Depth.SMOKE)


def test_an_unknown_model_or_arm_is_refused(experiment: Make) -> None:
    with pytest.raises(ExperimentError, match="unknown model 'other'"):
        make_plan(experiment(), "other", "net-a", "net-b", Depth.SMOKE)
    with pytest.raises(ExperimentError, match="no arm 'net-c'"):
        make_plan(experiment(), "net", "net-a", "net-c", Depth.SMOKE)


def two_models(workload: dict[str, float] | None) -> Experiment:
    models = {name: {"family": "echo", **({"workload": workload} if workload else {})} for name in ("one", "two")}
    arms = [{"model": m, "name": f"{m}-{x}", "precision": "fp32", "pool": "p"} for m in models for x in "xy"]
    return parse({"name": "e", "pools": {"p": {"accelerator": "cpu"}}, "models": models, "arms": arms}, "test")


def test_arms_of_different_models_are_refused() -> None:
    with pytest.raises(ExperimentError, match="serves model 'two', not 'one'"):
        make_plan(two_models({"rate_per_s": 100}), "one", "one-x", "two-x", Depth.SMOKE)


def test_a_model_without_a_workload_is_refused() -> None:
    with pytest.raises(ExperimentError, match="has no workload"):
        make_plan(two_models(None), "one", "one-x", "one-y", Depth.SMOKE)


@pytest.mark.parametrize("depth", list(Depth))
def test_a_plan_keeps_its_digest_through_the_file(experiment: Make, tmp_path: Path, depth: Depth) -> None:
    plan = plan_of(experiment(gpu=True), depth)
    write_plan(tmp_path, plan)
    assert read_plan(tmp_path) == plan
    assert read_plan(tmp_path).digest == plan.digest


def test_a_damaged_plan_is_a_record_error(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("experiment: [", encoding="utf-8")
    with pytest.raises(RecordError, match="damaged"):
        read_plan(tmp_path)
