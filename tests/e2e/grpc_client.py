"""Ask a server over gRPC with an unmodified tritonclient and print what it answered as JSON.

A process of its own: tritonclient's message definitions cannot share one with the server's.
"""

import json
import sys

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException


def ask(address):
    client = triton.InferenceServerClient(address)
    answers = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "server": client.get_server_metadata(as_json=True)["name"],
        "sticky": sorted({arm(client.infer("echo", [tensor()], headers={"bakeoff-key": "user7"})) for _ in range(8)}),
        "faults": faults(client),
        "large": float(client.infer("echo-a", [tensor(300_000)]).as_numpy("OUTPUT0").sum()),
    }
    for name in ("echo", "echo-a"):
        metadata = client.get_model_metadata(name, as_json=True)
        answer = client.infer(name, [tensor()], request_id="r1")
        answers[name] = {
            "ready": client.is_model_ready(name),
            "inputs": [t["name"] for t in metadata["inputs"]],
            "output": answer.as_numpy("OUTPUT0").tolist(),
            "id": answer.get_response().id,
            "arm": arm(answer),
        }
    return answers


def tensor(n=3, name="INPUT0", datatype="FP32"):
    found = triton.InferInput(name, [1, n], datatype)
    found.set_data_from_numpy(np.ones((1, n), dtype=np.float32 if datatype == "FP32" else np.int64))
    return found


def arm(answer):
    return answer.get_response().parameters["arm"].string_param


def faults(client):
    calls = {
        "unknown model": lambda: client.infer("nope", [tensor()]),
        "unknown name": lambda: client.infer("echo", [tensor(name="X")]),
        "wrong datatype": lambda: client.infer("echo", [tensor(datatype="INT64")]),
        "unknown version": lambda: client.infer("echo", [tensor()], model_version="9"),
    }
    return {name: fault(call) for name, call in calls.items()}


def fault(call):
    try:
        call()
    except InferenceServerException as e:
        return [e.status(), e.message()]
    return None


sys.stdout.write(json.dumps(ask(sys.argv[1])))
