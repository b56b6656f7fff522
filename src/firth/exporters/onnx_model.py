"""An exported encoder: the same answers as the run it came from, computed by onnxruntime and NumPy. Nothing here loads torch.

B batch, T tokens, D hidden size, L layers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from firth.core.config import usable_cores
from firth.core.errors import FirthError, import_extra
from firth.core.run import LayerMix, Run
from firth.core.types import Array, Floats, Inputs, Ints, Layers, SameProcess, TextReader, batches_by_length, pad
from firth.exporters.onnx_check import ROOM, check_graph
from firth.exporters.onnx_encoder import ENDS, IDS, LOGITS, MASK, OWNER, SEGMENTS, STARTS, layer_name
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.model import Model, TextLayers, require_room
from firth.models.shared.sentences import MODULES, SentenceConfig, SentenceEncoder, read_sentence_modules, text_rows
from firth.nn.arrays import ArrayCRF, encode_windows, load_arrays, padded_batches, pool_rows, window_places
from firth.tasks.config import ArrayNetwork, TaskConfig
from firth.tasks.counts import CountsTask
from firth.tasks.model import ADDED, TaskModel, build_task
from firth.tasks.tag_schemes import transitions
from firth.tokenizers.pieces import Pieces, special_frame

if TYPE_CHECKING:
    import torch

BATCH_TOKENS = 256  # what one batch works on stays in a processor's cache: twice as many cost a tenth more each


def num_threads() -> int:
    """As many as PyTorch would take: OMP_NUM_THREADS, or the cores that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return usable_cores()


class Session:
    """A graph in onnxruntime; only what is asked for is computed."""

    def __init__(self, path: Path, sizes: Mapping[str, int] | None = None, room: int = ROOM) -> None:
        """``sizes`` and ``room``: the longest text, and the largest value that it needs (see ``check_graph``)."""
        runtime = import_extra("onnxruntime", "onnx", "an exported model")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = num_threads()
        options.log_severity_level = 4  # what goes wrong is said by us
        self._run_options = runtime.RunOptions()
        self._run_options.only_execute_path_to_fetches = True
        self._run_options.log_severity_level = 4
        if not path.is_file():
            raise FirthError(f"{path}: no such file; export the model again")
        longest = {"B": 1, "T": 1, "N": 1, **(sizes or {})}
        few = {**longest, "B": 2, "T": min(3, longest["T"])}
        self._shapes = [(given, check_graph(path, given, room)) for given in (few, longest)]
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            reason = str(error).partition("\n")[0][:160]
            raise FirthError(f"{path}: not a whole ONNX file ({reason}); export the model again") from None
        self.path, self._process = path, SameProcess("onnxruntime")
        self._alone = options.intra_op_num_threads == 1
        self.inputs = [value.name for value in self._session.get_inputs()]
        self.outputs = self._shapes[-1][1]

    def run(self, names: Sequence[str], **inputs: Ints | Floats) -> list[Floats]:
        if not self._alone:
            self._process.check()
        try:
            found: list[Floats] = self._session.run(list(names), inputs, self._run_options)
        except Exception as error:
            reason = str(error).partition("\n")[0][-160:]
            raise FirthError(f"{self.path}: its graph cannot be computed ({reason}); export the model again") from None
        return found

    def check(
        self, outputs: Mapping[str, Sequence[str | int | None]], inputs: Sequence[str] = (IDS, MASK, SEGMENTS)
    ) -> None:
        """These outputs, each of this shape (a dimension by its name, its size, or any), and no others; inputs likewise."""
        for sizes, shapes in self._shapes:
            if sorted(self.inputs) != sorted(inputs) or set(shapes) != set(outputs):
                raise FirthError(f"{self.path}: not the graph that its firth.json describes; export the model again")
            for name, dims in outputs.items():
                found, wanted = shapes[name], [sizes[one] if isinstance(one, str) else one for one in dims]
                if len(found) != len(wanted) or any(
                    one not in (None, other) for one, other in zip(wanted, found, strict=True)
                ):
                    expected = " x ".join("any" if one is None else str(one) for one in dims)
                    raise FirthError(
                        f"{self.path}: '{name}' has the shape {' x '.join(map(str, found))}, its firth.json says {expected}; "
                        "export the model again"
                    )


class OnnxModel(Model):
    """What ``firth.load`` gives for an exported encoder."""

    kind = "exported encoder"
    engine = "onnxruntime"
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
        windows = [
            [ids[places] for places in window_places(len(ids), self.config.max_positions)] for ids in self._ids(texts)
        ]
        return encode_windows(windows, self.dim, pool, lambda some: self._pooled(some, layer, pool))

    def _pooled(self, windows: Sequence[Ints], layer: int, pool: str) -> Iterator[tuple[Ints, Floats]]:
        """(numbers, a vector each) of some windows at a time."""
        for numbers, ids_BT, mask_BT in padded_batches(windows, self.pieces.pad_id or 0, BATCH_TOKENS):
            (hidden_BTD,) = self._run([self._names[layer]], ids_BT, mask_BT)
            yield numbers, pool_rows(hidden_BTD, mask_BT.sum(1), [pool])

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

    def pool_sentences(self, texts: Sequence[str], config: SentenceConfig, prompt: str) -> Floats:
        """The pooled tokens of texts with a prompt before them, as the modules of a sentence model say."""
        reader = _reader(self)
        rows = text_rows(reader, config, [prompt + text for text in texts])
        skip = 0
        if prompt and not config.include_prompt:
            skip = len(reader.frame.before) + len(reader.tokenize(prompt).ids)
        found = np.zeros((len(rows), len(config.pool) * self.dim), np.float32)
        for numbers in batches_by_length([len(row) for row in rows], BATCH_TOKENS):
            some = [rows[number] for number in numbers.tolist()]
            ids_BT, mask_BT = pad([row if len(row) else np.zeros(1, np.int64) for row in some], reader.pad_id)
            (hidden_BTD,) = self._run(self._names[-1:], ids_BT, mask_BT)
            found[numbers] = pool_rows(hidden_BTD, np.asarray([len(row) for row in some]), config.pool, skip)
        return found

    def _run(self, names: Sequence[str], ids_BT: Ints, mask_BT: Ints, segments_BT: Ints | None = None) -> list[Floats]:
        segments_BT = np.zeros_like(ids_BT) if segments_BT is None else segments_BT
        inputs = {IDS: ids_BT, MASK: mask_BT, SEGMENTS: segments_BT}
        more = {name: np.arange(len(ids_BT)) for name in self.session.inputs if name not in inputs}
        return self.session.run(names, **inputs, **more)


class OnnxLayers:
    """The layers that the graph has besides the scores of its task, as a network that does not learn."""

    training = can_pack = False

    def __init__(self, base: OnnxModel) -> None:
        self.base = base

    def __call__(self, inputs: Inputs) -> Layers:
        return Layers(self._run(self.base._names, inputs), inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        return self._run(self.base._names[-1:], inputs)[0]

    def _run(self, names: Sequence[str], inputs: Inputs) -> torch.Tensor:
        """[layers, B, T, D]; for those who work with tensors."""
        import torch

        segments = torch.zeros_like(inputs.ids) if inputs.segments is None else inputs.segments
        given = [part.cpu().numpy() for part in (inputs.ids, inputs.mask.long(), segments)]
        return torch.from_numpy(np.stack(self.base._run(names, *given)))


GRAPH, CRF_WEIGHTS = "model.onnx", "crf.safetensors"
_BATCH_NAMES = {IDS: "ids", MASK: "doc_ids", SEGMENTS: "segments", OWNER: "owner"}


class OnnxNetwork(ArrayNetwork):
    """The graph in the place of a ``TaskNetwork``: batches in, scores out."""

    def __init__(
        self,
        config: TaskConfig,
        session: Session,
        crf: ArrayCRF | None,
        mixes: Mapping[str, LayerMix],
        reader: TextReader,
    ) -> None:
        self.config, self.session, self.crf, self._mixes, self.reader = config, session, crf, mixes, reader

    def learned_mixes(self) -> dict[str, LayerMix]:
        """By place: the weight of each layer, and γ, as the original learned them."""
        return dict(self._mixes)

    def _run(self, names: Sequence[str], arrays: Mapping[str, Array]) -> Floats:
        """The outputs side by side, of a few rows at a time; all at once where windows of one text are put together."""
        num_rows, longest = arrays["doc_ids"].shape
        size = num_rows if OWNER in self.session.inputs else max(1, BATCH_TOKENS // longest)
        given = {name: arrays[_BATCH_NAMES[name]] for name in self.session.inputs}
        parts = []
        for start in range(0, num_rows, size):
            found = self.session.run(names, **{name: array[start : start + size] for name, array in given.items()})
            parts.append(found[0] if len(found) == 1 else np.stack(found, -1))
        return np.concatenate(parts)

    def text_arrays(self, arrays: Mapping[str, Array], num_texts: int) -> Floats:
        """[N, K]."""
        scores = self._run([LOGITS], arrays)
        assert len(scores) == num_texts
        return scores

    def token_arrays(self, arrays: Mapping[str, Array]) -> Floats:
        """[B, T, K]."""
        return self._run([LOGITS] if LOGITS in self.session.outputs else [STARTS, ENDS], arrays)

    # -- for a task that is taught by it, which works with tensors

    def to(self, device: str) -> OnnxNetwork:
        return self

    def eval(self) -> OnnxNetwork:
        return self

    def text_scores(self, tensors: Mapping[str, torch.Tensor], num_texts: int) -> torch.Tensor:
        from torch import from_numpy

        return from_numpy(self.text_arrays({name: tensor.cpu().numpy() for name, tensor in tensors.items()}, num_texts))

    def token_scores(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        from torch import from_numpy

        return from_numpy(self.token_arrays({name: tensor.cpu().numpy() for name, tensor in tensors.items()}))


class OnnxTask(TaskModel):
    """What ``firth.load`` gives for an exported task."""

    kind = "exported task"
    engine = "onnxruntime"

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
    session = Session(folder / GRAPH, {"T": config.max_positions}, _largest_value(config))
    names: dict[str, tuple[str | int, ...]] = {
        layer_name(layer, config.num_layers): ("B", "T", config.hidden_dim) for layer in range(config.num_layers + 1)
    }
    base = OnnxModel(config, Pieces.load(folder), session, run.record.parameters)
    base.spec_name = run.record.model
    if export.task is None:
        session.check(names)
        if (folder / MODULES).is_file():
            modules = read_sentence_modules(folder, config.hidden_dim, arrays=True)
            base.sentence = SentenceEncoder(modules, base.pool_sentences)
        return base
    task = TaskConfig.build(export.task, run.path)
    windows = task.task in ("classify", "score") and task.long_text == "windows"
    rows: tuple[str, ...] = ("B", "T") if task.task in ("tag", "answer") else ("N",) if windows else ("B",)
    if task.task == "answer":
        names |= {STARTS: rows, ENDS: rows}
    else:
        names[LOGITS] = (*rows, max(1, len(task.labels)))
    session.check(names, [IDS, MASK, SEGMENTS, *([OWNER] if windows else [])])
    reader = _reader(base)
    network = OnnxNetwork(task, session, _load_crf(folder, task), export.mixes, reader)
    found = OnnxTask(task, base, build_task(task, reader), network, export.pairs)  # type: ignore[arg-type]
    found.counts = CountsTask.load(folder / ADDED) if (folder / ADDED).is_dir() else None
    return found


def _largest_value(config: EncoderConfig) -> int:
    """Numbers in the largest value that a text as long as the model needs: scores, distances, the widest layer."""
    length, widest = config.max_positions, max(config.hidden_dim * (config.num_layers + 3), 2 * config.ffn_dim)
    by_distance = config.num_heads * 2 * config.position_buckets
    return length * max(config.num_heads * length, widest, by_distance)


def _load_crf(folder: Path, task: TaskConfig) -> ArrayCRF | None:
    if not task.crf:
        return None
    weights, size = load_arrays(folder / CRF_WEIGHTS), len(task.labels)
    shapes = {"start": (size,), "step": (size, size), "end": (size,)}
    if {name: array.shape for name, array in weights.items()} != shapes:
        raise FirthError(f"{folder / CRF_WEIGHTS}: does not fit its settings; export the model again")
    return ArrayCRF(weights, transitions(task.labels, task.scheme) if task.scheme else ())


def _reader(base: OnnxModel) -> TextReader:
    """How the task cuts texts, as the original did."""
    pieces, frame = base.pieces, special_frame(base.pieces)
    return TextReader(
        kind=base.kind,
        module=cast(Any, OnnxLayers(base)),
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
