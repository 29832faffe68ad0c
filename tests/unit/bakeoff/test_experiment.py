"""The experiment file: what is accepted, and that every mistake is named."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from bakeoff.errors import ExperimentError
from bakeoff.experiment import Experiment, load, parse

EXAMPLES = Path(__file__).parents[3] / "examples"


def experiment(**changes):
    base = {
        "name": "x",
        "pools": {"t4": {"accelerator": "T4"}, "a100": {"accelerator": "A100-SXM4-40GB"}, "cpu": {"accelerator": "cpu"}},
        "models": {"resnet50": {"family": "resnet50"}},
        "arms": [
            {"model": "resnet50", "precision": "fp16", "pool": "t4"},
            {"model": "resnet50", "precision": "bf16", "pool": "a100"},
        ],
    }
    return {**base, **changes}


def arm(**changes):
    return {"model": "resnet50", "precision": "fp32", "pool": "t4", **changes}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_loads_and_fits_the_json_schema(path):
    assert isinstance(load(path), Experiment)
    document = yaml.safe_load(path.read_text())
    dates_as_text = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    assert dates_as_text["name"] == document["name"]
    jsonschema.validate(load(path).model_dump(mode="json", exclude_none=True), Experiment.model_json_schema())


def test_there_are_examples():
    names = {p.name for p in EXAMPLES.glob("*.yaml")}
    assert {"cpu.yaml", "t4-l4-a100.yaml", "echo.yaml"} <= names


def test_the_gpu_example_holds_all_five_models_on_three_pools():
    found = load(EXAMPLES / "t4-l4-a100.yaml")
    assert set(found.models) == {"resnet50", "bert-base", "yolov5s", "llama-2-7b-chat", "stable-diffusion-v1-5"}
    assert {(a.model, a.pool) for a in found.arms} == {(m, p) for m in found.models for p in found.pools}


def test_an_arm_is_named_by_model_precision_and_pool_unless_it_has_a_name():
    found = parse(experiment(arms=[arm(), arm(name="baseline")]), "x")
    assert [a.id for a in found.arms] == ["resnet50-fp32-t4", "baseline"]


def test_without_a_split_arms_share_equally_and_with_one_by_weight():
    assert parse(experiment(), "x").weights_of("resnet50") == {"resnet50-fp16-t4": 0.5, "resnet50-bf16-a100": 0.5}
    split = [{"model": "resnet50", "weights": {"resnet50-fp16-t4": 3, "resnet50-bf16-a100": 1}}]
    assert parse(experiment(splits=split), "x").weights_of("resnet50") == {"resnet50-fp16-t4": 0.75, "resnet50-bf16-a100": 0.25}


def test_an_arm_left_out_of_a_split_gets_nothing():
    split = [{"model": "resnet50", "weights": {"resnet50-fp16-t4": 3}}]
    assert parse(experiment(splits=split), "x").weights_of("resnet50")["resnet50-bf16-a100"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": [arm(pool="l4")]}, "unknown pool 'l4'; pools: t4, a100, cpu"),
        ({"arms": [arm(model="bert")]}, "unknown model 'bert'"),
        ({"arms": [arm(), arm()]}, "duplicate arm 'resnet50-fp32-t4'"),
        ({"arms": [arm(precision="bf16")]}, "T4 .* cannot run bf16: it needs 8.0"),
        ({"arms": [arm(precision="tf32")]}, "cannot run tf32"),
        ({"arms": [arm(precision="fp8")]}, "cannot run fp8: it needs 8.9"),
        ({"arms": [arm(precision="fp8", pool="a100")]}, "A100-SXM4-40GB .* cannot run fp8"),
        ({"arms": [arm(precision="fp16", pool="cpu")]}, "CPU pool cannot run fp16"),
        ({"arms": [arm(pool="cpu", num_gpus=1)]}, "num_gpus on CPU pool"),
        ({"arms": [arm(precision="fp64")]}, "precision"),
        ({"arms": [arm(name="resnet50")]}, "has the name of a model"),
        ({"arms": []}, "arms"),
        ({"pools": {"t4": {"accelerator": "T5"}}, "arms": [arm()]}, "unknown accelerator 'T5'. Known: cpu, T4, L4"),
        ({"models": {"resnet50": {"family": "resnet50"}, "idle": {"family": "echo"}}}, "model 'idle' has no arm"),
        ({"splits": [{"model": "resnet50", "weights": {"other": 1}}]}, "'other' is not one of its arms"),
        ({"splits": [{"model": "nope", "weights": {}}]}, "split of unknown model 'nope'"),
        ({"splits": [{"model": "resnet50", "weights": {"resnet50-fp16-t4": 0}}]}, "weights sum to 0"),
        ({"splits": [{"model": "resnet50", "weights": {"resnet50-fp16-t4": -1}}]}, "greater than or equal to 0"),
        ({"slos": [{"model": "resnet50"}]}, "has no target: give latency_s, ttft_s or itl_s"),
        ({"slos": [{"model": "nope", "latency_s": 1}]}, "SLO of unknown model 'nope'"),
        ({"slos": [{"model": "resnet50", "latency_s": 1}] * 2}, "more than one SLO"),
        ({"splts": []}, "splts: Extra inputs are not permitted"),
        ({"arms": [arm(batching={"max_batch": 3})]}, "max_batch: Extra inputs"),
        ({"arms": [arm(engine={"kind": "tensorflow"})]}, "'tensorflow'"),
    ],
)
def test_a_mistake_is_named_with_its_place(changes, message):
    with pytest.raises(ExperimentError, match=message):
        parse(experiment(**changes), "x.yaml")


def test_several_mistakes_are_told_at_once():
    with pytest.raises(ExperimentError, match="unknown pool 'a'.*unknown pool 'b'"):
        parse(experiment(arms=[arm(pool="a"), arm(pool="b")]), "x.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "is not YAML"), ("- 1", "expected a mapping"), ("", "expected a mapping"), ("\x00", "is not YAML")],
)
def test_a_file_that_is_no_experiment_is_refused_with_its_name(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=f"bad.yaml.*{message}"):
        load(path)


def test_a_missing_file_is_refused_with_its_name(tmp_path):
    with pytest.raises(ExperimentError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml")


def test_hub_weights_need_a_pinned_revision():
    source = {"kind": "hub", "id": "a/b", "revision": "main"}
    with pytest.raises(ExperimentError, match="revision"):
        parse(experiment(models={"resnet50": {"family": "resnet50", "source": source}}), "x")


def test_an_experiment_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        parse(experiment(), "x").name = "y"


def test_an_unknown_arm_is_told_with_the_arms_there_are():
    with pytest.raises(ExperimentError, match="no arm 'z'.*resnet50-fp16-t4, resnet50-bf16-a100"):
        parse(experiment(), "x").arm("z")
