import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bakeoff.errors import RequestError, SourceError
from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import OnnxRuntimeEngine, PathSource, TorchEngine
from models import registry
from models.servable import Servable, Tensors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        num_labels=3,
    )
    path = tmp_path_factory.mktemp("bert")
    BertForSequenceClassification(config).save_pretrained(path)
    return path


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "bert"))


def build(folder: Path, cache: Path, engine: TorchEngine | OnnxRuntimeEngine, precision: str = "fp32") -> Servable:
    arm = Arm(model="bert", precision=precision, pool="cpu", engine=engine)
    return registry.build(ModelSpec(family="bert-base", source=PathSource(path=folder)), arm, "cpu", cache)


def sentences(n: int, length: int, seed: int = 0) -> Tensors:
    rng = np.random.default_rng(seed)
    mask = (np.arange(length)[None, :] < rng.integers(1, length + 1, n)[:, None]).astype(np.int64)
    return {
        "input_ids": rng.integers(0, 50, (n, length)),
        "token_type_ids": rng.integers(0, 2, (n, length)),
        "attention_mask": mask,
    }


def reference(folder: Path, batch: Tensors) -> np.ndarray:
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits: np.ndarray = model(**{name: torch.from_numpy(array) for name, array in batch.items()}).logits.numpy()
    return logits


def test_the_torch_engine_answers_as_transformers_own_loading_does(folder: Path, tmp_path: Path) -> None:
    batch = sentences(3, 12)
    answer = build(folder, tmp_path, TorchEngine()).run(batch)["logits"]
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, reference(folder, batch), atol=1e-5)


def test_the_onnx_engine_answers_alike_for_every_batch_and_length(folder: Path, tmp_path: Path) -> None:
    servable = build(folder, tmp_path, OnnxRuntimeEngine())
    servable.warm_up([1, 3])
    for n, length in ((1, 1), (1, 40), (5, 7), (8, 16)):
        batch = sentences(n, length, seed=n)
        np.testing.assert_allclose(servable.run(batch)["logits"], reference(folder, batch), atol=1e-5)
    assert [spec.shape for spec in servable.signature.outputs] == [(3,)]


def test_bf16_weights_give_fp32_logits_close_to_fp32(folder: Path, tmp_path: Path) -> None:
    batch = sentences(4, 9)
    answer = build(folder, tmp_path, TorchEngine(), "bf16").run(batch)["logits"]
    assert answer.dtype == np.float32
    assert not np.array_equal(answer, reference(folder, batch))
    np.testing.assert_allclose(answer, reference(folder, batch), atol=0.03)


@pytest.mark.parametrize("engine", [TorchEngine(), OnnxRuntimeEngine()])
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("input_ids", 50, "0 to 49"),
        ("input_ids", -1, "0 to 49"),
        ("token_type_ids", 2, "0 to 1"),
        ("attention_mask", 2, "0 to 1"),
    ],
)
def test_an_id_out_of_its_vocabulary_is_the_requests_fault(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    engine: TorchEngine | OnnxRuntimeEngine,
    name: str,
    value: int,
    reason: str,
) -> None:
    batch = sentences(2, 5)
    batch[name][1, 3] = value
    cache = tmp_path_factory.getbasetemp() / "bert-shared-cache"
    with pytest.raises(RequestError, match=reason):
        build(folder, cache, engine).run(batch)


def test_a_sentence_longer_than_the_positions_is_the_requests_fault(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="at most 40"):
        build(folder, tmp_path, TorchEngine()).run(sentences(1, 41))


def test_weights_without_a_classifier_are_refused_rather_than_filled_in(copied: Path, tmp_path: Path) -> None:
    state = load_file(copied / "model.safetensors")
    save_file({name: t for name, t in state.items() if not name.startswith("classifier")}, copied / "model.safetensors")
    with pytest.raises(SourceError, match=r"2 missing \(first 'classifier.bias'\)"):
        build(copied, tmp_path, TorchEngine())


def test_layer_norms_under_their_old_names_are_read(copied: Path, folder: Path, tmp_path: Path) -> None:
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = load_file(copied / "model.safetensors")
    for new, name in old.items():
        state = {key.replace(new, name): tensor for key, tensor in state.items()}
    state["bert.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(state, copied / "model.safetensors")
    batch = sentences(2, 6)
    np.testing.assert_allclose(build(copied, tmp_path, TorchEngine()).run(batch)["logits"], reference(folder, batch), atol=1e-5)


def test_a_folder_without_configuration_is_refused(copied: Path, tmp_path: Path) -> None:
    (copied / "config.json").unlink()
    with pytest.raises(SourceError, match=r"config\.json"):
        build(copied, tmp_path, TorchEngine())


def test_a_folder_of_another_model_is_refused(copied: Path, tmp_path: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    with pytest.raises(SourceError, match="'roberta', not bert"):
        build(copied, tmp_path, TorchEngine())


def test_the_random_network_is_the_real_architecture() -> None:
    from models import text
    from models.source import Drawn

    network = text.load(Drawn(0))
    assert sum(p.numel() for p in network.body.parameters()) == pytest.approx(109.5e6, rel=0.001)
    assert network.facts["weights"] == "random"
