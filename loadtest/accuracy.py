"""Measure arms' accuracy through the serving path and hold it against the experiment's gate."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import LoadError
from bakeoff.experiment import AccuracyGate, Arm, Experiment
from bakeoff.precision import Precision
from loadtest.accuracy_checks import meets
from loadtest.accuracy_record import AccuracyRecord, ArmAccuracy
from models import accuracy as scores

Images = NDArray[np.uint8]
Probabilities = NDArray[np.floating[Any]]
Infer = Callable[[str, Images], Probabilities]
"""Ask an arm, by its name on the wire, for the class probabilities (n, classes) of images (n, height, width, 3)."""

FEW = 1_000
"""Labelled inputs below which the note warns that differences of a percent cannot be told from chance."""
PREFERRED_OUTPUT = "probabilities"


class LabelledImages(Protocol):
    """Be images with their classes: `images` (n, height, width, 3) bytes, `labels` (n,), `groups` (n,) of dependent images."""

    @property
    def name(self) -> str:
        """Return the set's name."""

    @property
    def note(self) -> str:
        """Return what limits the set."""

    @property
    def images(self) -> Images:
        """Return the images."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Return each image's class."""

    @property
    def groups(self) -> NDArray[np.int64]:
        """Return the picture each image was cut from."""


def reference_of(experiment: Experiment, a: str, b: str) -> Arm | None:
    """Return the FP32 arm the gate is relative to: one of the two, else the first other one of their model, else None."""
    pair = [experiment.arm(a), experiment.arm(b)]
    candidates = [*pair, *experiment.arms_of(pair[0].model)]
    return next((arm for arm in candidates if arm.precision is Precision.FP32), None)


def run_gate(experiment: Experiment, a: str, b: str, infer: Infer, data: LabelledImages) -> AccuracyRecord | None:
    """Let both arms and their reference answer the labelled images and judge both arms; None when the model has no gate.

    Without an FP32 arm of the model neither arm passes, and the record says that the gate was not run.
    """
    gate = experiment.models[experiment.arm(a).model].accuracy
    if gate is None:
        return None
    reference = reference_of(experiment, a, b)
    asked = dict.fromkeys([a, b, *([] if reference is None else [reference.id])])
    answers = {arm: _checked(arm, infer(arm, data.images), len(data.labels)) for arm in asked}
    expected = None if reference is None else (reference.id, answers[reference.id])
    return AccuracyRecord(arms={arm: judge(gate, data, answers[arm], expected) for arm in (a, b)})


def judge(
    gate: AccuracyGate, data: LabelledImages, answers: Probabilities, reference: tuple[str, Probabilities] | None
) -> ArmAccuracy:
    """Return one arm's accuracy record; `reference` is the FP32 arm and its answers, None when there is none."""
    top1 = scores.top1(answers, data.labels)
    found = _unjudged(gate, data, top1)
    if reference is None:
        return found.model_copy(
            update={"note": "Not run: the model has no FP32 arm to be the reference; add one to the experiment."}
        )
    name, expected = reference
    right, reference_right = scores.correct(answers, data.labels), scores.correct(expected, data.labels)
    known = found.model_copy(
        update={"reference_arm": name, "reference_top1": scores.top1(expected, data.labels), **_likeness(answers, expected)}
    )
    if not reference_right.any():
        return known.model_copy(
            update={"note": f"Not run: the reference {name} answered nothing right; check weights and labels."}
        )
    ratio = scores.ratio(right, reference_right)
    lower = scores.ratio_lower95(right, reference_right, data.groups)
    return known.model_copy(
        update={"ratio": ratio, "ratio_lower95": lower, "passed": meets(gate, ratio, lower), "note": _note(gate, data)}
    )


def _unjudged(gate: AccuracyGate, data: LabelledImages, top1: float) -> ArmAccuracy:
    return ArmAccuracy(
        dataset=data.name,
        n=len(data.labels),
        top1=top1,
        reference_arm=None,
        reference_top1=None,
        ratio=None,
        ratio_lower95=None,
        agreement=None,
        cosine=None,
        passed=False,
        bound=gate.bound,
        required=gate.ratio,
        note="",
    )


def _likeness(answers: Probabilities, expected: Probabilities) -> dict[str, float]:
    return {"agreement": scores.agreement(answers, expected), "cosine": scores.mean_cosine(answers, expected)}


def _note(gate: AccuracyGate, data: LabelledImages) -> str:
    parts = [f"{data.name}: {data.note}." if data.note else ""]
    n, pictures = len(data.labels), len(np.unique(data.groups))
    if gate.bound == "point":
        parts.append("The gate holds the point estimate against its ratio, not the lower 95 % bound.")
    if n < FEW:
        parts.append(f"{n} views of {pictures} pictures are too few for a bound that could tell a percent from chance.")
    return " ".join(part for part in parts if part)


def _checked(arm: str, answers: Probabilities, n: int) -> Probabilities:
    if answers.ndim != 2 or len(answers) != n:
        raise LoadError(f"{arm} answered {n} images with shape {list(answers.shape)}: expected [{n}, classes]")
    return answers


def serving_path(base_url: str, experiment: Experiment, timeout_s: float = 60) -> Infer:
    """Return a function that asks the served arms over HTTP, in requests no larger than an arm's batch.

    It raises LoadError when the server cannot be reached, refuses, or serves a model of another kind.
    """
    limits = {arm.id: arm.batching.max_batch_size for arm in experiment.arms}

    def infer(arm: str, images: Images) -> Probabilities:
        return ask_http(base_url, arm, images, limits[arm], timeout_s)

    return infer


def ask_http(base_url: str, arm: str, images: Images, batch: int, timeout_s: float) -> Probabilities:
    """Send images to one arm, `batch` at a time, and return its answers joined."""
    from tritonclient import http
    from tritonclient.utils import InferenceServerException

    address = urlsplit(base_url)
    try:
        with http.InferenceServerClient(
            address.netloc, ssl=address.scheme == "https", connection_timeout=timeout_s, network_timeout=timeout_s
        ) as client:
            source, target = _tensors(arm, client.get_model_metadata(arm))
            chunks = (images[k : k + batch] for k in range(0, len(images), batch))
            return np.concatenate([_ask(http, client, arm, source, target, chunk) for chunk in chunks])
    except (InferenceServerException, OSError) as e:
        raise LoadError(f"the accuracy gate cannot ask {arm!r} at {base_url}: {e}. Is it served there?") from e


def _ask(http: Any, client: Any, arm: str, source: str, target: str, chunk: Images) -> Probabilities:
    tensor = http.InferInput(source, list(chunk.shape), "UINT8")
    tensor.set_data_from_numpy(np.ascontiguousarray(chunk), binary_data=True)
    answer = client.infer(arm, [tensor], outputs=[http.InferRequestedOutput(target, binary_data=True)])
    return np.asarray(answer.as_numpy(target))


def _tensors(arm: str, metadata: Any) -> tuple[str, str]:
    """Return the names of the image input and of the output that holds probabilities."""
    inputs: list[dict[str, Any]] = metadata.get("inputs", [])
    if len(inputs) != 1 or inputs[0]["datatype"] != "UINT8":
        raise LoadError(f"{arm} takes {_described(inputs)}: the gate of labelled images needs one UINT8 image input")
    outputs = [str(output["name"]) for output in metadata.get("outputs", [])]
    if not outputs:
        raise LoadError(f"{arm} declares no output: the gate needs class probabilities")
    return str(inputs[0]["name"]), PREFERRED_OUTPUT if PREFERRED_OUTPUT in outputs else outputs[0]


def _described(tensors: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{t['name']} ({t['datatype']})" for t in tensors) or "no input"
