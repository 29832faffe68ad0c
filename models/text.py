"""Build the BERT sentence classifier from its real architecture.

Imported only where torch runs.
"""

import re
from typing import Any

from torch import Tensor, nn

from bakeoff.errors import SourceError
from models.drawing import drawn
from models.imagefolder import read_json
from models.network import Network
from models.servable import Signature, TensorSpec
from models.source import Drawn, Located, Stored
from models.weights import State, adopt, read

_OLD_NAMES = ((re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"), (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"))
_DERIVED = "position_ids"


class SentenceClassifier(nn.Module):
    """Turn token ids (n, length) into logits (n, labels) in FP32."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the logit of each label."""
        answer = self.body(input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask)
        logits: Tensor = answer.logits
        return logits.float()


def load(located: Located) -> Network:
    """Build the network with the located weights; raise SourceError when they do not fit."""
    from transformers import BertForSequenceClassification

    config = _config(located)
    if isinstance(located, Drawn):
        body = drawn(lambda: BertForSequenceClassification(config), located.seed)
    else:
        body = BertForSequenceClassification(config)
        adopt(body, _modern(read(located)), located.path)
    module = SentenceClassifier(body.eval()).eval()
    return Network(module, body, signature(config), dict(located.facts), channels_last=False)


def signature(config: Any) -> Signature:
    """Return the wire tensors that a BERT configuration admits."""
    longest = config.max_position_embeddings
    return Signature(
        inputs=(
            TensorSpec("input_ids", "INT64", (-1,), (0, config.vocab_size - 1), longest),
            TensorSpec("token_type_ids", "INT64", (-1,), (0, config.type_vocab_size - 1), longest),
            TensorSpec("attention_mask", "INT64", (-1,), (0, 1), longest),
        ),
        outputs=(TensorSpec("logits", "FP32", (config.num_labels,)),),
    )


def _config(located: Located) -> Any:
    from transformers import BertConfig

    return BertConfig() if isinstance(located, Drawn) else BertConfig.from_dict(_told(located))


def _told(stored: Stored) -> dict[str, Any]:
    config = read_json(stored.path / "config.json")
    if config is None:
        raise SourceError(
            f"{stored.path} is no folder with a config.json: BERT weights need the configuration they were saved with"
        )
    if config.get("model_type", "bert") != "bert":
        raise SourceError(
            f"{stored.path}/config.json describes {config['model_type']!r}, not bert. Check the model's family or source."
        )
    return config


def _modern(state: State) -> State:
    return {_modern_name(name): tensor for name, tensor in state.items() if not name.endswith(_DERIVED)}


def _modern_name(name: str) -> str:
    for old, new in _OLD_NAMES:
        name = old.sub(new, name)
    return name
