import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bakeoff.errors import DeviceError, RecordError
from monitoring.exporter import serve_metrics
from monitoring.pools import Pools
from monitoring.replay import replay_source
from monitoring.scrape import Row, TelemetryRecorder, fetch, is_recorded, parse, read_telemetry, write_telemetry
from monitoring.telemetry import measurement_sentence, not_measured, series, simulated_gpus

Wait = Callable[[Callable[[], bool]], None]
PAGE = """# HELP a_total A counter.
# TYPE a_total counter
a_total{arm="x \\"y\\"",model="m"} 3.0
# TYPE h histogram
h_bucket{le="1.0"} 1.0
h_bucket{le="+Inf"} 2.0
h_sum 2.5
h_count 2.0
"""


def test_a_page_is_parsed_into_flat_samples() -> None:
    assert parse(PAGE) == [
        ("a_total", {"arm": 'x "y"', "model": "m"}, 3.0),
        ("h_bucket", {"le": "1.0"}, 1.0),
        ("h_bucket", {"le": "+Inf"}, 2.0),
        ("h_sum", {}, 2.5),
        ("h_count", {}, 2.0),
    ]


@pytest.mark.parametrize("page", ["<html>no metrics</html>", 'a{b="c} 1', "a b c"])
def test_something_else_is_refused(page: str) -> None:
    with pytest.raises(DeviceError, match="Prometheus text format"):
        parse(page)


@pytest.mark.parametrize("url", ["ftp://host/metrics", "metrics", "file:///etc/hostname"])
def test_only_http_is_scraped(url: str) -> None:
    with pytest.raises(DeviceError, match="give a URL"):
        fetch(url)


def test_buckets_and_others_series_are_not_recorded() -> None:
    assert is_recorded("bakeoff_gpu_up")
    assert not is_recorded("bakeoff_inference_batch_size_bucket")
    assert not is_recorded("nv_gpu_utilization")


@pytest.fixture
def address() -> Iterator[tuple[str, Callable[[], None]]]:
    exporter = serve_metrics(0, "127.0.0.1", None, partial(replay_source, "h200", Pools()))
    stopped: list[bool] = []

    def stop() -> None:
        if not stopped:
            stopped.append(True)
            exporter.stop()

    yield f"http://127.0.0.1:{exporter.port}/metrics", stop
    stop()


def test_a_recorder_keeps_rows_by_scrape(address: tuple[str, Callable[[], None]], eventually: Wait) -> None:
    recorder = TelemetryRecorder(address[0], 0.05)
    eventually(lambda: len({row.t_unix_ns for row in recorder._rows}) >= 3)
    rows = recorder.stop()
    power = [row for row in rows if row.metric == "bakeoff_gpu_power_draw_watts"]
    times = [row.t_unix_ns for row in rows]
    assert times == sorted(times)
    assert {json.loads(row.labels)["window"] for row in power} == {"instant", "average_1s"}
    assert all(70 < row.value < 90 for row in power)
    assert recorder.failed_scrapes == 0


def test_a_failed_scrape_is_a_gap_and_no_zero(address: tuple[str, Callable[[], None]], eventually: Wait) -> None:
    recorder = TelemetryRecorder(address[0], 0.05)
    eventually(lambda: len(recorder._rows) > 0)
    address[1]()
    eventually(lambda: recorder.failed_scrapes >= 2)
    rows = recorder.stop()
    assert all(row.value > 0 for row in rows if row.metric == "bakeoff_gpu_power_draw_watts")


def test_a_recorder_of_a_dead_address_gives_no_rows() -> None:
    recorder = TelemetryRecorder("http://127.0.0.1:9/metrics", 10)
    assert recorder.stop() == []
    assert recorder.failed_scrapes >= 1


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.builds(
            Row,
            st.integers(0, 2**62),
            st.sampled_from(["bakeoff_a", "bakeoff_b_total"]),
            st.dictionaries(st.text(min_size=1), st.text()).map(json.dumps),
            st.floats(allow_nan=False),
        )
    )
)
def test_rows_survive_the_file(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("run") / "telemetry.parquet"
    write_telemetry(path, rows)
    frame = read_telemetry(path)
    assert [Row(*values) for values in frame.itertuples(index=False)] == rows
    assert list(path.parent.iterdir()) == [path]
    assert [str(kind) for kind in frame.dtypes] == ["int64", "string", "string", "float64"]


def test_an_absent_or_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "damaged.parquet").write_bytes(b"no parquet")
    for name in ("absent.parquet", "damaged.parquet"):
        with pytest.raises(RecordError, match=name):
            read_telemetry(tmp_path / name)


def test_a_file_of_another_kind_is_refused_by_its_columns(tmp_path: Path) -> None:
    pd.DataFrame({"metric": ["a"]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(RecordError, match="t_unix_ns, labels, value"):
        read_telemetry(tmp_path / "other.parquet")


def frame(*rows: tuple[int, str, dict[str, str], float]) -> pd.DataFrame:
    return pd.DataFrame(
        [Row(t, metric, json.dumps(labels), value) for t, metric, labels, value in rows], columns=list(Row._fields)
    )


REQUESTS_ONLY = frame((1, "bakeoff_inference_requests_total", {"outcome": "ok"}, 1.0))


def test_series_are_picked_by_labels_in_order_of_time() -> None:
    telemetry = frame(
        (2_000_000_000, "bakeoff_gpu_energy_joules_total", {"source": "counter"}, 20.0),
        (1_000_000_000, "bakeoff_gpu_energy_joules_total", {"source": "counter"}, 10.0),
        (1_000_000_000, "bakeoff_gpu_energy_joules_total", {"source": "integrated"}, 1.0),
    )
    assert series(telemetry, "gpu_energy_joules_total", source="counter") == {'{"source": "counter"}': [(1.0, 10.0), (2.0, 20.0)]}


def test_without_a_gpu_power_and_temperature_count_as_not_measured() -> None:
    assert {"power", "temperature", "energy", "throttling"} <= set(not_measured(REQUESTS_ONLY))
    assert measurement_sentence(REQUESTS_ONLY).startswith("Not measured: power, energy, temperature, throttling")


def test_a_recorded_card_measures_everything_and_is_known_as_simulated(address: tuple[str, Callable[[], None]]) -> None:
    samples = fetch(address[0])
    telemetry = frame(*((1, s.metric, dict(s.labels), s.value) for s in samples))
    assert not_measured(telemetry) == ()
    assert measurement_sentence(telemetry) == ""
    assert simulated_gpus(telemetry) == ("GPU-00000000-0000-0000-0000-000000000001",)


def test_what_one_card_lacks_is_named() -> None:
    telemetry = frame((1, "bakeoff_gpu_power_draw_watts", {}, 1.0), (1, "bakeoff_gpu_utilization_ratio", {}, 1.0))
    assert measurement_sentence(telemetry) == "Not measured: energy, temperature, throttling (the GPU does not report them)."
