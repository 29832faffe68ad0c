"""Provision a local stand-in that answers with Grafana's statuses and bodies."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from bakeoff.errors import BakeoffError, DeviceError
from monitoring.grafana import ADVICE, Grafana, GrafanaError

TOKEN = "right"
DASHBOARD = {"uid": "ab", "title": "A/B", "panels": []}


class StandIn(ThreadingHTTPServer):
    """Keep data sources and dashboards by uid, and count writes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.sources: dict[str, Any] = {}
        self.dashboards: dict[str, Any] = {}
        self.writes: list[str] = []
        self.forced: tuple[int, bytes] | None = None


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        kind, _, uid = self.path.removeprefix("/api/").rpartition("/")
        found = {"datasources/uid": self.server.sources, "dashboards/uid": self.server.dashboards}.get(kind, {}).get(uid)
        self._answer(404, {"message": "not found"}) if found is None else self._answer(200, found)

    def do_POST(self) -> None:
        body = self._body()
        if self.path == "/api/datasources":
            if any(s["name"] == body["name"] for s in self.server.sources.values()):
                self._answer(409, {"message": "data source with the same name already exists"})
                return
            self._store(self.server.sources, body["uid"], {"id": 1, **body})
        else:
            dashboard = body["dashboard"]
            self._store(self.server.dashboards, dashboard["uid"], {"dashboard": {"id": 7, "version": 1, **dashboard}, "meta": {}})

    def do_PUT(self) -> None:
        body = self._body()
        self._store(self.server.sources, body["uid"], {"id": 1, **body})

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _store(self, kept: dict[str, Any], uid: str, value: Any) -> None:
        if self.server.forced is None and self.headers["Authorization"] == f"Bearer {TOKEN}":
            kept[uid] = value
            self.server.writes.append(f"{self.command} {self.path}")
        self._answer(200, {"message": "saved"})

    def _answer(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, raw = 401, b'{"message": "Invalid API key"}'
        elif self.server.forced is not None:
            status, raw = self.server.forced
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def server() -> Iterator[StandIn]:
    with StandIn() as stand_in:
        thread = threading.Thread(target=stand_in.serve_forever, daemon=True)
        thread.start()
        yield stand_in
        stand_in.shutdown()
        thread.join()


@pytest.fixture
def grafana(server: StandIn) -> Iterator[Grafana]:
    gateway = Grafana(f"http://127.0.0.1:{server.server_address[1]}", TOKEN)
    yield gateway
    gateway._api.s.close()


def test_a_data_source_is_created_once_and_left_alone(server: StandIn, grafana: Grafana) -> None:
    for _ in range(2):
        grafana.ensure_prometheus("prom", "Prometheus", "http://prometheus:9090")
    assert server.writes == ["POST /api/datasources"]
    assert server.sources["prom"]["url"] == "http://prometheus:9090"


def test_a_data_source_that_differs_is_changed_by_uid(server: StandIn, grafana: Grafana) -> None:
    grafana.ensure_prometheus("prom", "Prometheus", "http://old:9090")
    grafana.ensure_prometheus("prom", "Prometheus", "http://new:9090")
    assert server.writes[1:] == ["PUT /api/datasources/uid/prom"]
    assert server.sources["prom"]["url"] == "http://new:9090"


def test_a_name_taken_by_another_uid_is_explained(grafana: Grafana) -> None:
    grafana.ensure_prometheus("one", "Prometheus", "http://p:9090")
    with pytest.raises(GrafanaError, match=r"status 409.*rename or delete it"):
        grafana.ensure_prometheus("two", "Prometheus", "http://p:9090")


def test_a_dashboard_is_put_once_and_again_only_when_it_changed(server: StandIn, grafana: Grafana) -> None:
    for dashboard in (DASHBOARD, {**DASHBOARD, "id": 3, "version": 9}, {**DASHBOARD, "title": "new"}):
        grafana.put_dashboard(dashboard)
    assert server.writes == ["POST /api/dashboards/db"] * 2
    assert server.dashboards["ab"]["dashboard"]["title"] == "new"


def test_a_dashboard_without_a_uid_is_refused(grafana: Grafana) -> None:
    with pytest.raises(BakeoffError, match="no uid"):
        grafana.put_dashboard({"title": "A/B"})


def test_a_wrong_token_is_explained(server: StandIn) -> None:
    gateway = Grafana(f"http://127.0.0.1:{server.server_address[1]}", "wrong")
    with pytest.raises(GrafanaError, match=r"status 401.*service account token"):
        gateway.put_dashboard(DASHBOARD)
    gateway._api.s.close()


@pytest.mark.parametrize("status", [400, 403, 409, 412, 422, 500, 503])
def test_every_refusal_carries_its_status_and_what_to_do(server: StandIn, grafana: Grafana, status: int) -> None:
    server.forced = (status, b'{"message": "Cannot save provisioned dashboard"}')
    with pytest.raises(GrafanaError, match=f"status {status}.*Cannot save provisioned dashboard") as caught:
        grafana.put_dashboard(DASHBOARD)
    assert caught.value.status == status
    if status in ADVICE:
        assert ADVICE[status][1:] in str(caught.value)


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>a proxy</html>"), (200, b"[1]"), (200, b""), (404, b"3")])
def test_an_answer_that_is_not_grafanas_is_said_to_be_none(server: StandIn, grafana: Grafana, status: int, body: bytes) -> None:
    server.forced = (status, body)
    with pytest.raises(GrafanaError, match="Check that Grafana runs"):
        grafana.put_dashboard(DASHBOARD)


def test_a_server_that_does_not_answer_is_named() -> None:
    gateway = Grafana("http://127.0.0.1:9", TOKEN)
    with pytest.raises(GrafanaError, match="no answer"):
        gateway.put_dashboard(DASHBOARD)
    gateway._api.s.close()


@pytest.mark.parametrize("url", ["grafana:3000", "ftp://grafana", ""])
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(DeviceError, match="http://HOST:PORT"):
        Grafana(url, TOKEN)


def test_a_path_prefix_is_kept() -> None:
    gateway = Grafana("https://host:8443/grafana/", TOKEN)
    assert gateway._api.url == "https://host:8443/grafana/api"
    gateway._api.s.close()
