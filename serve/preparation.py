"""Prepare an experiment's models in a process of its own, so that the host process never loads torch.

Run as `python -m serve.preparation EXPERIMENT_JSON CACHE`: prints a line for each step, exits 2 with the reason when a
model cannot be prepared.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bakeoff.errors import BakeoffError, SourceError
from bakeoff.experiment import Experiment

REFUSED = 2


def check(experiment: Experiment) -> None:
    """Raise ExperimentError for the first arm whose model, engine and precision do not go together."""
    from models import registry

    for arm in experiment.arms:
        registry.check(experiment.models[arm.model], arm, experiment.pools[arm.pool].is_cpu)


def prepare(experiment: Experiment, cache: Path, say: Callable[[str], None]) -> None:
    """Export and calibrate what the arms need and `cache` lacks; raise SourceError with the reason when that fails."""
    command = [sys.executable, "-m", "serve.preparation", experiment.model_dump_json(), str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            say(line.rstrip())
        reason = process.stderr.read()
    if process.returncode != 0:
        raise SourceError(f"models could not be prepared: {reason.strip()[-2000:]}")


def main(experiment_json: str, cache: str) -> int:
    """Prepare every arm; return the exit status."""
    from models import registry

    experiment = Experiment.model_validate_json(experiment_json)
    try:
        for arm in experiment.arms:
            registry.prepare(experiment.models[arm.model], arm, Path(cache), _say)
    except BakeoffError as e:
        print(e, file=sys.stderr)  # noqa: T201 - the parent reads it
        return REFUSED
    return 0


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
