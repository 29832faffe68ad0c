import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import RecordError
from loadtest.analysis import write_verdict
from loadtest.verify import differences, verify

Make = Callable[..., Path]
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@pytest.fixture
def judged(run_folder: Make) -> Path:
    path = run_folder(noise=0.02)
    write_verdict(path)
    return path


def test_an_untouched_folder_has_no_difference(judged: Path) -> None:
    assert verify(judged) == []


def test_one_edited_latency_is_found_in_figures_and_checksum(judged: Path) -> None:
    frame = pd.read_parquet(judged / "requests.parquet")
    place = frame.index[frame["run"] == 5][7]
    frame.loc[place, "done_ns"] -= 1_000_000
    frame.to_parquet(judged / "requests.parquet", index=False)
    found = {difference.place for difference in verify(judged)}
    assert "evidence.requests.parquet" in found
    assert any(place.endswith("mean_latency_s") for place in found)


def test_an_edited_outcome_is_found(judged: Path) -> None:
    verdict = json.loads((judged / "verdict.json").read_text(encoding="utf-8"))
    verdict["outcome"] = "A_BETTER"
    (judged / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    (difference,) = verify(judged)
    assert str(difference) == "outcome: verdict.json has 'A_BETTER', the raw records give 'B_BETTER'"


def test_an_edited_plan_is_found_by_its_digest(judged: Path) -> None:
    text = (judged / "plan.yaml").read_text(encoding="utf-8")
    (judged / "plan.yaml").write_text(text.replace("alpha: 0.05", "alpha: 0.2"), encoding="utf-8")
    assert {"plan_digest", "evidence.plan.yaml"} <= {difference.place for difference in verify(judged)}


def test_a_figure_beyond_the_ninth_digit_is_found_and_one_within_it_is_not(judged: Path) -> None:
    verdict = json.loads((judged / "verdict.json").read_text(encoding="utf-8"))
    for factor, expected in ((1 + 1e-8, ["comparison.ratio"]), (1 + 1e-10, [])):
        edited = {**verdict, "comparison": {**verdict["comparison"], "ratio": verdict["comparison"]["ratio"] * factor}}
        (judged / "verdict.json").write_text(json.dumps(edited), encoding="utf-8")
        assert [difference.place for difference in verify(judged)] == expected


@pytest.mark.parametrize("text", ["", "{", "\xff"])
def test_a_damaged_verdict_is_a_record_error(judged: Path, text: str) -> None:
    (judged / "verdict.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(RecordError, match=r"verdict\.json"):
        verify(judged)


def test_a_missing_verdict_is_a_record_error(run_folder: Make) -> None:
    with pytest.raises(RecordError, match=r"verdict\.json"):
        verify(run_folder())


@given(values)
def test_a_value_does_not_differ_from_itself(value: object) -> None:
    assert list(differences(value, json.loads(json.dumps(value)))) == []


@given(st.dictionaries(st.sampled_from("abc"), st.integers()), st.dictionaries(st.sampled_from("abc"), st.integers()))
def test_every_key_that_differs_is_named_once(one: dict[str, int], other: dict[str, int]) -> None:
    expected = [key for key in "abc" if one.get(key) != other.get(key)]
    assert [difference.place for difference in differences(one, other)] == expected


def test_a_number_is_not_a_truth_value() -> None:
    assert [d.place for d in differences({"x": True}, {"x": 1})] == ["x"]
