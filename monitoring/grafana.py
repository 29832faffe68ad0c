"""Provision Grafana: one data source and dashboards, each known by its uid, so that doing it twice changes nothing.

The library grafana-api is from 2020 and knows no calls by uid, so its transport is used with paths of its own. Dashboards that
a ConfigMap provisions by file must not be sent here too: Grafana refuses them, and says so.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from bakeoff.errors import BakeoffError, DeviceError

TIMEOUT_S = 10.0
ADVICE: Mapping[int, str] = {
    401: "the token is wrong or expired: create a service account token",
    403: "the token may not do this: give its service account the role Admin",
    404: "there is no such path: check the URL and Grafana's version (9 or newer)",
    409: "another one has this name under a different uid: rename or delete it",
    412: "it was changed meanwhile, or is provisioned from a file: change the file instead",
    422: "Grafana does not accept this content",
}


class GrafanaError(DeviceError):
    """Say what Grafana refused, with its status (None when no answer came) and what to do."""

    def __init__(self, what: str, status: int | None, message: str) -> None:
        advice = ADVICE.get(status, "") if status is not None else "check that Grafana runs and the URL is right"
        code = "no answer" if status is None else f"status {status}"
        super().__init__(
            f"Grafana: {what} failed ({code}): {message}." + (f" {advice[0].upper()}{advice[1:]}." if advice else "")
        )
        self.status = status


class Grafana:
    """Be the one gateway to a Grafana server."""

    def __init__(self, url: str, token: str) -> None:
        from grafana_api.grafana_face import GrafanaFace

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise DeviceError(f"cannot use the Grafana URL {url!r}: write http://HOST:PORT")
        prefix = parts.path.strip("/")
        self._api = GrafanaFace(
            auth=token,
            host=parts.hostname,
            port=parts.port,
            protocol=parts.scheme,
            url_path_prefix=f"{prefix}/" if prefix else "",
            timeout=TIMEOUT_S,
        ).api

    def ensure_prometheus(self, uid: str, name: str, prometheus_url: str) -> None:
        """Create the Prometheus data source of this uid, or bring it to these values."""
        wanted = {"uid": uid, "name": name, "type": "prometheus", "access": "proxy", "url": prometheus_url}
        path = f"/datasources/uid/{uid}"
        found = self._found(path)
        if found is None:
            self._call("POST", "/datasources", wanted)
        elif any(found.get(key) != value for key, value in wanted.items()):
            self._call("PUT", path, wanted)

    def put_dashboard(self, dashboard: Mapping[str, Any], message: str = "bakeoff") -> None:
        """Create or replace a dashboard by its uid; one that is equal already is left alone."""
        wanted = {key: value for key, value in dashboard.items() if key not in ("id", "version")}
        if not wanted.get("uid"):
            raise BakeoffError("this dashboard has no uid: give it one, or a second run would make a second dashboard")
        found = self._found(f"/dashboards/uid/{wanted['uid']}")
        current = {} if found is None else found.get("dashboard", {})
        if wanted != {key: value for key, value in current.items() if key not in ("id", "version")}:
            self._call("POST", "/dashboards/db", {"dashboard": wanted, "overwrite": True, "message": message})

    def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return self._call("GET", path)
        except GrafanaError as e:
            if e.status == 404:
                return None
            raise

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        from grafana_api.grafana_api import GrafanaException
        from requests.exceptions import JSONDecodeError, RequestException

        what = f"{method} {path}"
        try:
            answer = getattr(self._api, method)(path, json=body)
        except GrafanaException as e:
            raise GrafanaError(what, e.status_code, str(e.message)) from e
        except (JSONDecodeError, ValueError, TypeError) as e:
            # The library raises these on bodies that are no JSON, or JSON but no object.
            raise GrafanaError(what, None, f"the answer is not Grafana's: {e}") from e
        except RequestException as e:
            raise GrafanaError(what, None, str(e)) from e
        if not isinstance(answer, dict):
            raise GrafanaError(what, None, f"expected an object, found {type(answer).__name__}")
        return answer
