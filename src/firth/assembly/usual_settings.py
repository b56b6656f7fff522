"""Settings of a fine-tuning that nobody named: chosen by the base and by how many labels there are."""

from collections.abc import Set
from typing import Any

from firth.core.task_configs import TaskConfig
from firth.representations.base import Representation
from firth.representations.elmo import ElmoRepresentation

SCRATCH = "scratch"
_TABLES = ("static vectors", SCRATCH)
_TRANSFORMERS = ("encoder", "unified encoder", "two-stream encoder", "decoder", "text-to-text")
_RATES = ((192, 1e-3), (256, 4e-4), (384, 1e-4))  # up to a width; the published rate above
_FEW = 2000  # labelled texts
_READ = 16_000  # texts that a training reads at least, in at most so many epochs:
_MOST, _MOST_TAGGED = 20, 100  # a tagger on no Transformer finds nothing at all in its first thousand steps


def usual_settings(config: TaskConfig, base: Representation, num_train: int, given: Set[str]) -> TaskConfig:
    """Transformers are tuned whole, with higher rates if they are small; word vectors get a body to read them, but few
    texts need none, and an encoder whose first token has not learned to sum up gives the mean; few labels are read more
    often (Mosbach et al. 2021), and a tagger reads a few of them at a time. Found by trying on a few hundred film reviews; the
    tagger on 600 sentences of news."""
    transformer, whole = base.kind in _TRANSFORMERS, config.task in ("classify", "score")
    fewest = 3 if transformer else 10
    most = _MOST_TAGGED if config.task == "tag" and not transformer else _MOST
    epochs = min(most, max(fewest, round(_READ / max(num_train, 1))))
    usual: dict[str, Any] = {"epochs": epochs, "patience": max(4, epochs // 5)}
    if not transformer:
        usual |= {"body": "bilstm", "dropout_prob": 0.3, "warmup_share": 0.0, "tune": base.kind == SCRATCH}
        if config.task == "tag" and num_train < _FEW:
            usual["batch_rows"] = 8
    if base.kind == ElmoRepresentation.kind:
        usual["layers"] = "mix"  # Peters et al. 2018, eq. 1
    if whole and base.kind == "encoder" and base.reader().pooler is None:
        usual["pool"] = "mean"
    if config.place != "input":
        usual["body"] = "bilstm"  # there is no other place without one
    elif whole and base.kind in _TABLES and num_train < _FEW and not given & {"body", "body_dim"}:
        usual |= {"body": "none", "pool": "mean", "learning_rate": 1e-2}
    config = config.replace(**{name: value for name, value in usual.items() if name not in given})
    if config.learning_rate is None:
        tuned = transformer and config.tune and config.body == "none"
        rate = next((rate for dim, rate in _RATES if base.dim <= dim), 5e-5) if tuned else 1e-3
        config = config.replace(learning_rate=rate)
    return config
