"""Exported encoders and tasks, opened: the graph computes, the task says what it means.

The folder holds ``model.onnx``, the tokenizer's files, ``crf.safetensors`` where tags have a CRF, and ``firth.json``:
what it came from, its settings, and what was found when it was compared with the original.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firth.assembly.task_model import TaskModel, build_task
from firth.core.errors import FirthError
from firth.core.model_configs import EncoderConfig
from firth.core.runs import Run
from firth.core.task_configs import TaskConfig
from firth.core.tensors import load_tensors
from firth.core.text_reader import Frame, TextReader
from firth.interop.onnx_encoder import IDS, MASK, SEGMENTS, layer_name
from firth.interop.onnx_task import ENDS, LOGITS, OWNER, STARTS
from firth.nn.crf import CRF
from firth.representations.base import Representation
from firth.representations.onnx import BATCH_TOKENS, OnnxRepresentation, Session
from firth.tasks.schemes import transitions
from firth.text.pieces import Pieces

GRAPH, CRF_WEIGHTS, KIND = "model.onnx", "crf.safetensors", "onnx"
_BATCH_NAMES = {IDS: "ids", MASK: "blocks", SEGMENTS: "segments", OWNER: "owner"}


class OnnxNetwork(nn.Module):
    """The graph in the place of a ``TaskNetwork``: batches in, scores out."""

    def __init__(self, config: TaskConfig, session: Session, crf: CRF | None, mixes: dict[str, dict[str, Any]]) -> None:
        super().__init__()
        self.config, self.session, self.crf, self._mixes = config, session, crf, mixes

    def learned_mixes(self) -> dict[str, dict[str, Any]]:
        """By place: the share of each layer, and γ, as the original learned them."""
        return self._mixes

    def _run(self, names: Sequence[str], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The outputs side by side, of a few rows at a time; all at once where windows of one text are put together."""
        num_rows, longest = tensors["blocks"].shape
        size = num_rows if OWNER in self.session.inputs else max(1, BATCH_TOKENS // longest)
        given = {name: tensors[_BATCH_NAMES[name]].cpu().numpy() for name in self.session.inputs}
        parts = []
        for start in range(0, num_rows, size):
            found = self.session.run(names, **{name: array[start : start + size] for name, array in given.items()})
            parts.append(found[0] if len(found) == 1 else np.stack(found, -1))
        return torch.from_numpy(np.concatenate(parts))

    def text_scores(self, tensors: Mapping[str, torch.Tensor], num_texts: int) -> torch.Tensor:
        """[N, K]."""
        scores = self._run([LOGITS], tensors)
        assert len(scores) == num_texts
        return scores

    def token_scores(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """[B, T, K]."""
        return self._run([LOGITS] if LOGITS in self.session.outputs else [STARTS, ENDS], tensors)


class OnnxTask(TaskModel):
    """What ``firth.load`` gives for an exported task."""

    kind = "exported task"

    @property
    def num_parameters(self) -> int:
        return self.base.num_parameters

    def save(self, folder: Path, base_path: Path | None) -> None:
        raise FirthError("an exported model is copied with its folder; it does not learn")


def load_onnx(folder: Path) -> Representation:
    """An exported encoder or task; its graph must be the one that firth.json describes."""
    facts = Run.open(folder).facts
    settings = facts["config"]
    if facts["kind"] != KIND or not isinstance(settings, dict) or not {"encoder", "task", "pairs"} <= set(settings):
        raise FirthError(f"{folder / 'firth.json'}: does not describe an exported model; export it again")
    config = EncoderConfig.build(settings["encoder"], folder / "firth.json")
    session = Session(folder / GRAPH)
    names = {layer_name(layer, config.num_layers): config.hidden_dim for layer in range(config.num_layers + 1)}
    base = OnnxRepresentation(config, Pieces.load(folder), session, int(facts.get("parameters", 0)))
    if settings["task"] is None:
        session.check(names)
        return base
    task = TaskConfig.build(settings["task"], folder / "firth.json")
    heads = {STARTS: 0, ENDS: 0} if task.task == "answer" else {LOGITS: max(1, len(task.labels))}
    windows = task.task in ("classify", "score") and task.long_text == "windows"
    session.check(names | heads, [OWNER] if windows else [])
    network = OnnxNetwork(task, session, _load_crf(folder, task), facts.get("mixes", {}))
    return OnnxTask(task, base, build_task(task, _reader(base, network)), network, bool(settings["pairs"]))  # type: ignore[arg-type]


def _load_crf(folder: Path, task: TaskConfig) -> CRF | None:
    if not task.crf:
        return None
    rules = transitions(task.labels, task.scheme) if task.scheme else ()
    crf = CRF(len(task.labels), *(torch.from_numpy(rule) for rule in rules))
    try:
        crf.load_state_dict(load_tensors(folder / CRF_WEIGHTS))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise FirthError(
            f"{folder / CRF_WEIGHTS}: does not fit its settings ({reason}); export the model again"
        ) from None
    return crf


def _reader(base: OnnxRepresentation, network: nn.Module) -> TextReader:
    """How the task cuts texts, as the original did."""
    pieces = base.pieces
    ends = () if pieces.sep_id is None else (pieces.sep_id,)
    first = () if pieces.cls_id is None else (pieces.cls_id,)
    return TextReader(
        kind=base.kind,
        module=network,
        tokenize=lambda text: pieces.encode(text, add_special=False, read_special=False),
        dim=base.dim,
        num_layers=base.config.num_layers + 1,
        max_len=base.config.max_positions,
        frame=Frame(first, ends, ends),
        pad_id=pieces.pad_id or 0,
        summary="first" if first else "mean",
        joins_pairs=bool(ends),
    )
