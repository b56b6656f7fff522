"""An exported encoder: the same answers as the run it came from, computed by onnxruntime without PyTorch.

B batch, T tokens, D hidden size, L layers.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from firth.core.config import usable_cores
from firth.core.errors import FirthError, import_extra
from firth.core.files import load_tensors
from firth.core.run import LayerMix, Run
from firth.core.types import Floats, Inputs, Ints, Layers, TextReader, padded_batches, pool_windows, window_places
from firth.exporters.onnx_encoder import IDS, MASK, SEGMENTS, layer_name
from firth.exporters.onnx_task import ENDS, LOGITS, OWNER, STARTS
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_model import special_frame
from firth.models.shared.model import Model, TextLayers, require_room
from firth.models.shared.sentences import MODULES, SentenceEncoder, pool_by_reader, read_sentence_modules
from firth.nn.crf import CRF
from firth.nn.layers import TokenNetwork
from firth.tasks.config import TaskConfig
from firth.tasks.counts import CountsTask
from firth.tasks.model import ADDED, TaskModel, build_task
from firth.tasks.tag_schemes import transitions
from firth.tokenizers.pieces import Pieces

BATCH_TOKENS = 256  # what one batch works on stays in a processor's cache: twice as many cost a tenth more each


def num_threads() -> int:
    """As many as PyTorch would take: OMP_NUM_THREADS, or the cores that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return usable_cores()


class Session:
    """A graph in onnxruntime; only what is asked for is computed."""

    def __init__(self, path: Path) -> None:
        runtime = import_extra("onnxruntime", "onnx", "an exported model")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = num_threads()
        options.log_severity_level = 4  # what goes wrong is said by us
        self._run_options = runtime.RunOptions()
        self._run_options.only_execute_path_to_fetches = True
        self._run_options.log_severity_level = 4
        if not path.is_file():
            raise FirthError(f"{path}: no such file; export the model again")
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            reason = str(error).partition("\n")[0][:160]
            raise FirthError(f"{path}: not a whole ONNX file ({reason}); export the model again") from None
        self.path = path
        self.inputs = [value.name for value in self._session.get_inputs()]
        self.outputs = {value.name: value.shape for value in self._session.get_outputs()}

    def run(self, names: Sequence[str], **inputs: Ints | Floats) -> list[Floats]:
        found: list[Floats] = self._session.run(list(names), inputs, self._run_options)
        return found

    def check(self, outputs: dict[str, int], inputs: Sequence[str] = (IDS, MASK, SEGMENTS)) -> None:
        """These outputs, each of this width, and no others; inputs likewise."""
        widths = {name: shape[-1] for name, shape in self.outputs.items()}
        if sorted(self.inputs) != sorted(inputs) or set(widths) != set(outputs):
            raise FirthError(f"{self.path}: not the graph that its firth.json describes; export the model again")
        for name, width in outputs.items():
            if isinstance(widths[name], int) and widths[name] != width:
                raise FirthError(
                    f"{self.path}: '{name}' has {widths[name]} numbers, its firth.json says {width}; export the model again"
                )


class OnnxModel(Model):
    """What ``firth.load`` gives for an exported encoder."""

    kind = "exported encoder"
    spec_name = "bert"
    pools = ("mean", "cls", "max")

    def __init__(self, config: EncoderConfig, pieces: Pieces, session: Session, num_parameters: int) -> None:
        self.config, self.pieces, self.session = config, pieces, session
        self.dim, self.num_layers = config.hidden_dim, config.num_layers
        self._num_parameters = num_parameters
        require_room(pieces.vocab_size, config.vocab_size, session.path.parent)
        self._names = [layer_name(layer, config.num_layers) for layer in range(config.num_layers + 1)]

    @property
    def num_parameters(self) -> int:
        return self._num_parameters

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    def reader(self) -> TextReader:
        raise FirthError(
            "an exported model does not learn, so it cannot be the base of a task: use the run it came from"
        )

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> Floats:
        """One vector per text, float32 [N, D]; texts longer than the model are read in windows."""
        self._check_choice(layer, pool)
        windows: list[Ints] = []
        owner: list[int] = []
        for number, ids in enumerate(self._ids(texts)):
            found = [ids[places] for places in window_places(len(ids), self.config.max_positions)]
            windows += found
            owner += [number] * len(found)
        pooled = np.zeros((len(windows), self.dim), np.float32)
        for numbers, ids_BT, mask_BT in padded_batches(windows, self.pieces.pad_id or 0, BATCH_TOKENS):
            (hidden,) = self._run([self._names[layer]], ids_BT, mask_BT)
            pooled[numbers] = pool_tokens(hidden, mask_BT, pool)
        return pool_windows(pooled, np.asarray(owner), np.asarray([len(one) for one in windows]), len(texts), pool)

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every token; a list is taken as words."""
        encoding = self.pieces.encode(text)
        hidden = np.zeros((self.config.num_layers + 1, len(encoding.ids), self.dim), np.float32)
        windows = window_places(len(encoding.ids), self.config.max_positions)
        # [CLS] and [SEP], which all windows have, are the longest one's, as in the original
        for places in sorted(windows, key=len):
            ids = encoding.ids[places][None]
            hidden[:, places] = np.stack(self._run(self._names, ids, np.ones_like(ids)))[:, 0]
        return TextLayers(encoding.tokens, encoding.offsets, encoding.words, hidden)

    def _ids(self, texts: list[str]) -> list[Ints]:
        """The tokens of each text; all at once where no byte of a text needs a second look."""
        if self.pieces.byte_ids is not None:
            return [self.pieces.encode(text).ids for text in texts]
        with self.pieces.reading(special=True) as backend:
            return [np.asarray(found.ids, np.int64) for found in backend.encode_batch_fast(texts)]

    def _run(self, names: Sequence[str], ids_BT: Ints, mask_BT: Ints, segments_BT: Ints | None = None) -> list[Floats]:
        segments_BT = np.zeros_like(ids_BT) if segments_BT is None else segments_BT
        inputs = {IDS: ids_BT, MASK: mask_BT, SEGMENTS: segments_BT}
        more = {name: np.arange(len(ids_BT)) for name in self.session.inputs if name not in inputs}
        return self.session.run(names, **inputs, **more)


def pool_tokens(hidden_BTD: Floats, mask_BT: Ints, pool: str) -> Floats:
    """One vector a row from those of its tokens."""
    if pool == "cls":
        return hidden_BTD[:, 0]
    if pool == "max":
        found: Floats = np.where(mask_BT[:, :, None] > 0, hidden_BTD, -np.inf).max(1)
        return found
    weights_BT = (mask_BT / mask_BT.sum(1, keepdims=True)).astype(np.float32)
    return np.matmul(weights_BT[:, None], hidden_BTD)[:, 0]


class OnnxLayers(TokenNetwork):
    """The layers that the graph has besides the scores of its task."""

    def __init__(self, base: OnnxModel) -> None:
        super().__init__()
        self.base = base

    def forward(self, inputs: Inputs) -> Layers:
        return Layers(self._run(self.base._names, inputs), inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        return self._run(self.base._names[-1:], inputs)[0]

    def _run(self, names: Sequence[str], inputs: Inputs) -> torch.Tensor:
        """[layers, B, T, D]."""
        segments = torch.zeros_like(inputs.ids) if inputs.segments is None else inputs.segments
        given = [part.cpu().numpy() for part in (inputs.ids, inputs.mask.long(), segments)]
        return torch.from_numpy(np.stack(self.base._run(names, *given)))


GRAPH, CRF_WEIGHTS = "model.onnx", "crf.safetensors"
_BATCH_NAMES = {IDS: "ids", MASK: "doc_ids", SEGMENTS: "segments", OWNER: "owner"}


class OnnxNetwork(nn.Module):
    """The graph in the place of a ``TaskNetwork``: batches in, scores out."""

    def __init__(
        self, config: TaskConfig, session: Session, crf: CRF | None, mixes: Mapping[str, LayerMix], reader: TextReader
    ) -> None:
        super().__init__()
        self.config, self.session, self.crf, self._mixes, self.reader = config, session, crf, mixes, reader

    def learned_mixes(self) -> dict[str, LayerMix]:
        """By place: the weight of each layer, and γ, as the original learned them."""
        return dict(self._mixes)

    def _run(self, names: Sequence[str], tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The outputs side by side, of a few rows at a time; all at once where windows of one text are put together."""
        num_rows, longest = tensors["doc_ids"].shape
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


def load_onnx(folder: Path) -> Model:
    """An exported encoder or task; its graph must be the one that firth.json describes."""
    run = Run.open(folder)
    export = run.record.export
    if run.record.kind != "onnx" or export is None:
        raise FirthError(f"{run.path}: does not describe an exported model; export it again")
    config = EncoderConfig.build(run.record.config, run.path)
    session = Session(folder / GRAPH)
    names = {layer_name(layer, config.num_layers): config.hidden_dim for layer in range(config.num_layers + 1)}
    base = OnnxModel(config, Pieces.load(folder), session, run.record.parameters)
    if export.task is None:
        session.check(names)
        if (folder / MODULES).is_file():
            base.sentence = SentenceEncoder(read_sentence_modules(folder), pool_by_reader(_reader(base), BATCH_TOKENS))
        return base
    task = TaskConfig.build(export.task, run.path)
    heads = {STARTS: 0, ENDS: 0} if task.task == "answer" else {LOGITS: max(1, len(task.labels))}
    windows = task.task in ("classify", "score") and task.long_text == "windows"
    session.check(names | heads, [IDS, MASK, SEGMENTS, *([OWNER] if windows else [])])
    reader = _reader(base)
    network = OnnxNetwork(task, session, _load_crf(folder, task), export.mixes, reader)
    found = OnnxTask(task, base, build_task(task, reader), network, export.pairs)  # type: ignore[arg-type]
    found.counts = CountsTask.load(folder / ADDED) if (folder / ADDED).is_dir() else None
    return found


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


def _reader(base: OnnxModel) -> TextReader:
    """How the task cuts texts, as the original did."""
    pieces, frame = base.pieces, special_frame(base.pieces)
    return TextReader(
        kind=base.kind,
        module=OnnxLayers(base),
        tokenize=lambda text: pieces.encode(text, add_special=False, read_special=False),
        dim=base.dim,
        num_layers=base.config.num_layers + 1,
        max_len=base.config.max_positions,
        frame=frame,
        pad_id=pieces.pad_id or 0,
        summary="cls" if frame.before else "mean",
        joins_pairs=bool(frame.between),
        tokenize_all=pieces.batch_ids,
        unk_id=pieces.unk_id,
    )
