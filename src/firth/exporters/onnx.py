"""Exports encoders, tasks on them and models of images to ONNX, and compares the result with the original."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch

from firth.core.errors import FirthError
from firth.core.files import (
    atomic_folder,
    checksum,
    fingerprint,
    lock_folder,
    read_json,
    replace_folder,
    save_tensors,
    shorten,
    write_json,
)
from firth.core.run import ExportRecord, OutputCheck, Run, RunRecord, is_run, versions
from firth.core.storage import cache_folder
from firth.core.types import Batch
from firth.exporters.onnx_encoder import EncoderWriter, Head, loudness, write_head
from firth.exporters.onnx_graph import GraphWriter
from firth.exporters.onnx_images import export_images
from firth.exporters.onnx_model import CRF_WEIGHTS, GRAPH, load_onnx
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.image_model import ImageModel
from firth.models.shared.model import Model
from firth.models.shared.sentences import SentenceModules
from firth.tasks.config import ArrayNetwork
from firth.tasks.data import Reading
from firth.tasks.model import ADDED, TaskModel
from firth.tasks.network import ComparingNetwork, TagNetwork
from firth.tasks.predict import evaluate_task
from firth.tasks.training import AnyNetwork
from firth.tokenizers.pieces import READ

SAMPLES = (
    "The doctor found an old map in the library.",
    "No!",
    "我们在图书馆看书，老师说了三个故事。",
    "Whether the captain would sell the boat, nobody in the village could say; he himself had been silent for weeks.",
    "An answer, a question? And 42 numbers: 3.14, 2,718 & so on (in brackets).",
    "It rained. " * 12,
)
"""Texts of many lengths, on which int8 finds out what is loud, and an export is compared with its original."""


def export_onnx(
    model: Model, source: Path, out: Path, int8: bool = False, verify: bool = False, data: Path | None = None
) -> Run:
    """A folder that computes what the model at ``source`` computes; written whole or not at all."""
    if out.exists():
        raise FirthError(f"{out}: exists already; choose another name")
    if isinstance(model, ImageModel):
        return export_images(model, source, out, int8, verify, data)
    task = model if isinstance(model, TaskModel) else None
    base = _exportable(source, model, task)
    if data is not None and task is None:
        raise FirthError(
            f"{source}: no task was learned here, so there is nothing to score on {data}; leave out --data"
        )
    head = None if task is None else _head(source, task)
    graph = GraphWriter(int8)
    loud = loudness(base.encoder, [base.pieces.encode(text).ids for text in SAMPLES]) if int8 else {}
    writer = EncoderWriter(graph, base.encoder, loud)
    writer.outputs()
    if head is not None:
        write_head(graph, writer, head)
    with atomic_folder(out) as folder:
        graph.save(folder / GRAPH, "firth")
        base.pieces.save(folder)
        if task is None and base.sentence is not None:
            modules = base.sentence.modules
            modules = SentenceModules(modules.config.replace(network=""), modules.tail)
            modules.save(folder, base.dim)
        if task is not None and isinstance(task.network, TagNetwork) and task.network.crf is not None:
            save_tensors(folder / CRF_WEIGHTS, dict(task.network.crf.state_dict()))
        if task is not None and task.counts is not None:
            (folder / ADDED).mkdir()
            task.counts.save(folder / ADDED, None)
        export = _export_record(source, task, int8)
        exported = Run(folder, _record(source, base, model, task, export))
        exported.save(
            checksums={
                str(path.relative_to(folder)): checksum(path)
                for path in sorted(folder.rglob("*"))
                if path.suffix in (".onnx", ".json", ".safetensors")
            }
        )
        if verify or data is not None:
            exported.save(export=export.replace(verified=_verify(source, folder, model, data)))
    return Run.open(out)


def _exportable(source: Path, model: Model, task: TaskModel | None) -> EncoderModel:
    base = task.base if task is not None else model
    if not isinstance(base, EncoderModel) or not isinstance(base.config, EncoderConfig):
        raise FirthError(
            f"{source}: a model of kind '{base.kind}', which is not exported; encoders such as BERT and tasks on them are"
        )
    return base


def _head(source: Path, model: TaskModel) -> Head:
    """The head's weights, or a word about what has none in ONNX."""
    network, config = model.network, model.config
    if network.body is not None or model.extra_vectors is not None:
        raise FirthError(
            f"{source}: a task with body=bilstm or extra_vectors cannot be exported; train it with neither"
        )
    if (model.pairs and not network.reader.joins_pairs) or isinstance(network, ComparingNetwork):
        raise FirthError(
            f"{source}: a task that encodes two texts separately cannot be exported; use a base with [SEP]"
        )
    weights = {f"out.{name}": tensor for name, tensor in network.out.state_dict().items()}
    if network.pooler is not None:
        weights |= {f"pooler.{name}": tensor for name, tensor in network.pooler.state_dict().items()}
    for found in network.learned_mixes().values():
        if config.mix_norm:
            raise FirthError(f"{source}: a task with mix_norm=true cannot be exported; train it without")
        weights["mix"] = found.gamma * torch.tensor(found.weights)
    arrays = {name: tensor.detach().float().numpy() for name, tensor in weights.items()}
    windows = config.window_pool if config.long_text == "windows" and config.task in ("classify", "score") else None
    return Head(config.task, network.pool, arrays, windows, config.layers == "all")


def _export_record(source: Path, task: TaskModel | None, int8: bool) -> ExportRecord:
    record = ExportRecord(source=str(source.absolute()), int8=int8)
    if task is None:
        return record
    mixes = task.network.learned_mixes()
    return record.replace(task=task.config.model_dump(mode="json"), pairs=task.pairs, mixes=mixes)


def _record(source: Path, base: EncoderModel, model: Model, task: TaskModel | None, export: ExportRecord) -> RunRecord:
    found = Run.find(source)
    known = None if found is None else found.record
    return RunRecord(
        kind="onnx",
        model=base.spec_name,
        recipe=known.recipe if known is not None else "encoder" if task is None else task.config.task,
        status="finished",
        versions=versions(),
        config=base.config.model_dump(mode="json"),
        corpus=None if known is None else known.corpus,
        made_from=None if known is None else known.made_from,
        parameters=model.num_parameters,
        export=export,
    )


# -- comparison with the original


def _verify(source: Path, folder: Path, model: Model, data: Path | None) -> OutputCheck:
    """The largest differences of the outputs on sample texts, and the scores of both on a labelled file."""
    exported = load_onnx(folder)
    shown = [(model.layers(text).hidden[-1], exported.layers(text).hidden[-1]) for text in SAMPLES]
    first, second = model.encode(SAMPLES), exported.encode(SAMPLES)
    cosines = (first * second).sum(1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    READ.clear()  # the samples are in several languages, which says nothing about the model
    found = OutputCheck(
        texts=len(SAMPLES),
        largest_difference=max(float(np.abs(ours - theirs).max()) for ours, theirs in shown),
        smallest_cosine=float(cosines.min()),
    )
    if not isinstance(model, TaskModel) or not isinstance(exported, TaskModel):
        return found
    found = found.replace(largest_output_difference=_output_difference(model, exported))
    if data is None:
        return found
    before, after = (_scores(one, path, data) for one, path in ((model, source), (exported, folder)))
    return found.replace(data=str(data.absolute()), before=before, after=after)


def _scores(model: TaskModel, run: Path, data: Path) -> dict[str, float]:
    found = evaluate_task(model, run, data, Reading())
    return {name: value for name, value in found.items() if isinstance(value, float)}


def _output_difference(model: TaskModel, exported: TaskModel) -> float:
    """The largest difference of the task's scores on the sample texts."""
    texts: list[str | tuple[str, str]] = list(SAMPLES)
    if model.config.task == "answer" or model.pairs:
        texts = list(zip(SAMPLES, SAMPLES[1:] + SAMPLES[:1], strict=True))
    largest = 0.0
    for text in texts:
        item = model.task.item(model.example(text), 0)
        ours, theirs = (
            _outputs(one.network, one.task.batch([item]).to("cpu"), one.config.task) for one in (model, exported)
        )
        largest = max(largest, float((ours - theirs).abs().max()))
    return largest


def _outputs(network: AnyNetwork, batch: Batch, task: str) -> torch.Tensor:
    if isinstance(network, ArrayNetwork):
        texts = task in ("classify", "score")
        count = batch.counts["task"]
        return torch.from_numpy(
            network.text_arrays(batch.arrays, count) if texts else network.token_arrays(batch.arrays)
        )
    with torch.inference_mode():
        if task in ("classify", "score"):
            return network.text_scores(batch.tensors, batch.counts["task"])
        return network.token_scores(batch.tensors)


# -- the graph that a server answers with

SERVED, _GRAPH_FACTS = ".served", "graph.json"
_LEAST_COSINE, _MOST_DIFFERENCE = 0.9999, 1e-3


def served_graph(model: Model, source: Path) -> Model | str | None:
    """The exported graph of an encoder or of a task on one, which answers sooner. It is made and compared with the model when
    it is first asked for, and kept in the run's folder (of what is no run, in the cache). A sentence where it cannot be made
    or does not agree; None where there is nothing to export."""
    base = model.base if isinstance(model, TaskModel) else model
    if not isinstance(base, EncoderModel) or not source.is_dir():
        return None
    key: dict[str, object] = {"fingerprint": fingerprint(source), "firth": versions().get("firth")}
    own = is_run(source) and os.access(source, os.W_OK)
    out = source / SERVED if own else cache_folder() / "served" / str(key["fingerprint"])
    try:
        known = read_json(out / _GRAPH_FACTS) if (out / _GRAPH_FACTS).is_file() else {}
        if {name: known.get(name) for name in key} != key:
            out.parent.mkdir(parents=True, exist_ok=True)
            with lock_folder(out, "another process makes it now"):
                known = _make_graph(model, source, out, key)
        return str(known["refused"]) if known.get("refused") else load_onnx(out)
    except Exception as error:
        return shorten(error)


def _make_graph(model: Model, source: Path, out: Path, key: dict[str, object]) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".served-") as folder:
        made = Path(folder) / "graph"
        refused: str | None = None
        try:
            found = export_onnx(model, source, made, verify=True).record.export
            checked = None if found is None else found.verified
            if not isinstance(checked, OutputCheck) or not _agrees(checked):
                refused = "the exported graph does not agree with the model"
        except FirthError as error:
            refused = shorten(error)
        if refused is not None:
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
        facts: dict[str, object] = {**key, "refused": refused}
        write_json(made / _GRAPH_FACTS, facts)
        replace_folder(made, out)
    return facts


def _agrees(checked: OutputCheck) -> bool:
    outputs = checked.largest_output_difference or 0.0
    return checked.smallest_cosine >= _LEAST_COSINE and max(checked.largest_difference, outputs) <= _MOST_DIFFERENCE
