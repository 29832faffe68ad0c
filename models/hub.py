"""Fetch one pinned revision of a model from the Hugging Face hub."""

import os
from pathlib import Path

from bakeoff.errors import SourceError
from bakeoff.hosting import HubSource

PATTERNS = ("*.json", "*.safetensors")


def snapshot(source: HubSource, cache: Path) -> Path:
    """Return the folder of a revision, fetched into `cache` unless it is there; only configuration and safetensors are taken.

    Raises SourceError when the hub refuses or cannot be reached and the revision was never fetched.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            source.id,
            revision=source.revision,
            cache_dir=cache / "hub",
            allow_patterns=list(PATTERNS),
            token=_token(source),
        )
    except Exception as e:
        if not _is_of_the_hub(e):
            raise
        raise SourceError(
            f"cannot fetch {source.id} at {source.revision} from the hub: {e}. Check id, revision, access token and network, "
            f"or download it elsewhere and give its folder as a source of kind path."
        ) from e
    return Path(folder)


def _is_of_the_hub(error: Exception) -> bool:
    """Say whether the hub, its network or its answers failed; its HTTP client has two names across versions."""
    return isinstance(error, OSError | ValueError) or type(error).__module__.partition(".")[0] in {"httpx", "httpx2"}


def _token(source: HubSource) -> str | None:
    if source.token_env is None:
        return None
    token = os.environ.get(source.token_env)
    if not token:
        raise SourceError(f"{source.id} needs an access token, but environment variable {source.token_env} is not set")
    return token
