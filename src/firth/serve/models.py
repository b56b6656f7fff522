"""The models that are served, by name, with the summaries of their runs; and the static files of the web page."""

from __future__ import annotations

import contextlib
import logging
import mimetypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.data import tokens_of
from firth.api.exporting import graph_of
from firth.api.using import load
from firth.core.errors import FirthError, nearest
from firth.core.run import Run
from firth.corpus.pairs import corpus_info
from firth.corpus.pictures import is_image, small_image
from firth.evaluation.occurrences import read_sentences
from firth.models.shared.model import ModelFacts
from firth.retrieval.search import IndexModel
from firth.retrieval.topics import live_texts
from firth.serve.answers import ServedFacts
from firth.serve.guard import Problem
from firth.serve.pictures import EXAMPLE_SIZE, index_example, run_example, short_name
from firth.serve.runs import RunSummary, find_runs, run_row, run_summary
from firth.tokenizers.word_tokens import join_words
from firth.tokenizers.words import has_han
from firth.training.checkpoints import read_history

if TYPE_CHECKING:
    from firth.models.shared.model import Model

log = logging.getLogger("firth.serve")
_NOT_SHOWN = ("event", "steps")
_MAX_TOKENS = 4096  # of a text that is read as a whole
_BYTES_PER_TOKEN = 3  # an estimate: letters of a subword, bytes of a Chinese character
_FLOPS = 1e11  # first guesses of how fast the machine is; the worker corrects them by what work takes
_TOKEN_S, _STEP_S, _ROW_S = (
    1e-6,
    3e-4,
    2e-5,
)  # the least time of a token that is read, a step of a search, a row of a step
_WEIGHT_S, _LOOK_S = 4e-10, 1e-10  # to read a weight from memory, and to multiply by a number of the source
_SENTENCES = 60  # of a corpus, to see its language
_ENGLISH = frozenset("the of and to in is that it was he for on are with his they at be this from".split())
_SAMPLES = {  # with the usual number of characters of a token
    "en": ("The animal did not cross the street because it was too tired.", 4.0),
    "zh": ("小狗没有过马路，因为它太累了。", 1.2),
}


def language_of(texts: Sequence[str]) -> str | None:
    """``zh`` or ``en`` where nearly all texts are in it, else None."""
    words = [text.lower().split() for text in texts]
    chinese = [has_han(text) for text in texts]
    english = [
        not han and len(some) > 2 and any(word.strip(".,;") in _ENGLISH for word in some)
        for some, han in zip(words, chinese, strict=True)
    ]
    long = max(1, sum(len(some) > 2 or han for some, han in zip(words, chinese, strict=True)))
    if sum(chinese) >= 0.7 * len(texts):
        return "zh"
    return "en" if texts and sum(english) >= 0.6 * long and sum(chinese) < 0.1 * len(texts) else None


def language_by_tokens(model: Model) -> str | None:
    """The language whose sentence a model cuts into long and known tokens; None where both are alike."""
    if "tokens" not in model.abilities:
        return None
    scores = {}
    for name, (text, usual) in _SAMPLES.items():
        found = tokens_of(model, text)["tokens"]
        known = sum(token["end"] - token["start"] for token in found if not token["unknown"])
        scores[name] = min(1.0, known / max(1, len(found)) / usual)
    best, other = sorted(scores, key=lambda name: -scores[name])
    return best if scores[best] > 1.5 * scores[other] and scores[best] > 0.1 else None


def estimate_tokens(texts: Sequence[str]) -> int:
    """Roughly how many tokens some texts have, special tokens included, without a tokenizer."""
    return sum(2 + len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN for text in texts)


@dataclass(frozen=True)
class Served:
    """A loaded model with what the server shows of it."""

    name: str
    model: Model
    facts: ServedFacts
    summary: RunSummary
    folder: Path
    corpus: Path | None  # the corpus it was trained on, if it still exists
    dev: list[dict[str, object]]  # of a task: dev examples with their predictions
    graph: Model | None = None  # the exported model, which encodes and predicts the same sooner

    @property
    def abilities(self) -> Sequence[str]:
        return self.facts.abilities

    @property
    def report(self) -> bytes | None:
        """Its HTML report."""
        path = self.folder / "report.html"
        return path.read_bytes() if path.is_file() else None

    @property
    def dev_rows(self) -> list[dict[str, object]]:
        """The dev examples as the page shows them: of images their names, and whether they are still there."""
        if not self.facts.images:
            return self.dev
        return [{**row, "text": short_name(str(row["text"])), "image": is_image(str(row["text"]))} for row in self.dev]

    def dev_image(self, number: str) -> bytes | None:
        """A dev image as a small PNG."""
        if not self.facts.images or not number.isdecimal() or int(number) >= len(self.dev):
            return None
        return small_image(str(self.dev[int(number)]["text"]), EXAMPLE_SIZE)

    @property
    def encoder(self) -> Model:
        """What turns texts into vectors."""
        graph = self.graph
        same = graph is not None and (self.model.sentence is None or graph.sentence is not None)
        return graph if graph is not None and same else self.model

    @property
    def predictor(self) -> Model:
        return self.model if self.graph is None else self.graph

    def can(self, ability: str, images: bool = False) -> bool:
        """Whether it has the ability, for images or for texts; documents are grouped whatever they are."""
        return ability in self.abilities and (ability == "group" or images == self.facts.images)

    def check_lengths(self, texts: Sequence[str]) -> None:
        """Refuses a text that is too long for a translator, which reads it as a whole: its memory grows with the square."""
        if "translate" not in self.abilities:
            return
        for text in texts:
            if len(text) > _MAX_TOKENS and (count := self.model.count_tokens(text)) > _MAX_TOKENS:
                raise Problem(
                    422,
                    f"a text has {count:,} tokens, but '{self.name}' reads at most {_MAX_TOKENS:,} at once: shorten it",
                )

    def read_seconds(self, num_tokens: int) -> float:
        """About how long the model reads so many tokens."""
        return num_tokens * max(2 * self._num_weights / _FLOPS, _TOKEN_S)

    def search_seconds(self, source_len: int, steps: int, rows: int) -> float:
        """About how long a search of so many steps takes, which are done one after another; in each of them every row
        looks at the whole source."""
        row_s = _ROW_S + 2 * self._num_weights / _FLOPS + 4 * source_len * self.model.dim * _LOOK_S
        return steps * (_STEP_S + self._num_weights * _WEIGHT_S + rows * row_s)

    @property
    def _num_weights(self) -> int:
        """That each token is multiplied with: tables of tokens are only looked up, and static vectors are nothing else."""
        if not self.model.num_layers and not self.facts.task:
            return 0
        looked_up = (self.model.vocab_size or 0) * self.model.dim + self.model.subword_parameters
        return max(self.model.num_parameters - looked_up, 0)

    def warning(self, texts: Sequence[str]) -> str | None:
        """A sentence where these texts are largely unknown to the model."""
        return self.model.unknown_warning(texts)


class ServedModels:
    """Finds a model by name or by ability. Names from requests are only looked up here, never used as paths."""

    def __init__(self, served: Sequence[Served], folder: Path | None = None) -> None:
        """``folder``: further runs below it are listed, those in training among them."""
        self.by_name = {one.name: one for one in served}
        self.folder = folder

    def rows(self) -> list[dict[str, object]]:
        """The table of runs: the served ones, then the others of the folder; read anew each time."""
        rows = [{**run_row(one.folder, one.name), "served": True} for one in self.by_name.values()]
        known = {one.folder.resolve() for one in self.by_name.values()}
        names = [str(row["name"]) for row in rows]
        for path in [] if self.folder is None else find_runs(self.folder, unfinished=True):
            if path.resolve() not in known:
                names.append(free_name(path.name, names))
                rows.append({**run_row(path, names[-1]), "served": False})
        return rows

    def find(self, name: str | None, ability: str, images: bool = False) -> Served:
        """The named model, or the first one with the ability. A text is never given to a model of images, which would take it
        for a path."""
        asked = f"{ability} images" if images else ability
        if name is None:
            for one in self.by_name.values():
                if one.can(ability, images):
                    return one
            raise Problem(422, f"no model that is served can do this ({asked}): start the server with one that can")
        if name not in self.by_name:
            raise Problem(404, f"there is no model '{name[:60]}': {nearest(name, list(self.by_name))}")
        if not self.by_name[name].can(ability, images):
            able = [one.name for one in self.by_name.values() if one.can(ability, images)]
            remedy = f"ask {', '.join(able)}" if able else "none that is served can"
            reads = " reads images: give these; it" if self.by_name[name].facts.images and not images else ""
            raise Problem(422, f"the model '{name}'{reads} cannot do this ({asked}): {remedy}")
        return self.by_name[name]


def load_models(paths: Sequence[Path], folder: Path | None = None, graphs: bool = False) -> ServedModels:
    """Loads every model; runs below ``folder`` are listed as well. ``graphs``: answers come from exported graphs where these can
    be made and agree."""
    served: list[Served] = []
    for path in paths:
        served.append(_serve(path, [one.name for one in served], graphs))
    return ServedModels(served, folder)


def _serve(path: Path, taken: Sequence[str], graphs: bool) -> Served:
    """Loads a model and names it after its folder; a task whose name is taken adds its kind: ``bert-classify``."""
    model, name = load(path), path.resolve().name
    facts, summary = model.describe(), run_summary(path)
    name = free_name(f"{name}-{facts.task}" if name in taken and facts.task else name, taken)
    corpus = _text_corpus(summary["corpus"])
    if corpus is not None and "layers" in facts.abilities and summary["kind"] == "pretrain":
        facts = facts.replace(abilities=(*facts.abilities, "occurrences"))
    dev = read_history(path / "dev.jsonl") if facts.task else []
    texts = [] if facts.images else _texts(model, corpus, dev)
    found = graph_of(model, path) if graphs else None
    graph, note = (None, found) if isinstance(found, str) else (found, None)
    if note is not None:
        log.warning("%s answers by torch, without an exported graph: %s", name, note)
    served = ServedFacts(
        **facts.model_dump(),
        name=name,
        recipe=summary["recipe"],
        reads=None if model.languages or facts.images else language_of(texts) if texts else language_by_tokens(model),
        examples=_first_examples(model, facts, dev, texts, path),
        dev=len(dev),
        layers=model.num_layers,
        score=_score(path),
        engine=(model if graph is None else graph).engine,
        engine_note=note,
    )
    return Served(name, model, served, summary, path, corpus, dev, graph)


def _score(path: Path) -> float | None:
    """What a task reached on its dev examples, by which the page chooses between runs for one task."""
    run = Run.find(path)
    task = None if run is None else run.record.task
    return None if run is None or task is None else run.record.metrics.get(task.metric)


def _first_examples(
    model: Model, facts: ModelFacts, dev: list[dict[str, object]], texts: list[str], folder: Path
) -> dict[str, str]:
    """What the page's forms begin with, from what the model was made from."""
    if facts.images:
        return index_example(model) if isinstance(model, IndexModel) else run_example(folder)
    if dev:
        return _examples(facts.task, dev)
    return _index_example(texts) if isinstance(model, IndexModel) else {}


def _texts(model: Model, corpus: Path | None, dev: list[dict[str, object]]) -> list[str]:
    """Some of the text that a model was made from."""
    if dev:
        first = dev[:_SENTENCES]
        return [str(row.get("text") or row.get("passage") or _joined(row.get("words"))) for row in first]
    if isinstance(model, IndexModel):
        return [text for _, text in islice(live_texts(model.index.refresh()), _SENTENCES)]
    if corpus is None:
        return []
    read = islice(read_sentences(corpus), _SENTENCES)
    return [text if isinstance(text, str) else _joined(text) for text in read]


def _joined(words: object) -> str:
    return join_words([str(word) for word in words]) if isinstance(words, list) else ""


def _examples(task: object, dev: list[dict[str, object]]) -> dict[str, str]:
    """What the forms of a task begin with: a dev example of a readable length, of tags one that has some."""
    first = next((row for row in dev if _shows(row)), dev[0])
    if task == "tag":
        return {"tag": re.sub(r" (?=[.,;:!?%)\]])", "", _joined(first.get("words")))}
    if task == "answer":
        return {"question": str(first["question"]), "passage": str(first["passage"])}
    found = {"classify": str(first["text"])}
    return found if first.get("second") is None else {**found, "classifySecond": str(first["second"])}


def _shows(row: dict[str, object]) -> bool:
    tags = row.get("true") if "words" in row else None
    text = str(row.get("text") or row.get("passage") or _joined(row.get("words")))
    some = sum(tag != "O" for tag in tags) > 1 if isinstance(tags, list) else True
    return some and 20 <= len(text) <= 300


def _index_example(texts: list[str]) -> dict[str, str]:
    """Some words that an index surely has."""
    text = next((" ".join(text.split()) for text in texts if text.strip()), "")
    if not text:
        return {}
    return {"search": text[:12] if has_han(text) else " ".join(text.split()[:8])}


def _text_corpus(place: str | None) -> Path | None:
    """The corpus of a run, if it still exists and holds text (not pairs)."""
    with contextlib.suppress(FirthError):
        if place and corpus_info(Path(place), verify=False).kind == "text":
            return Path(place)
    return None


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, with the first free number appended if it is taken."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name


def read_page(manual: bool = False) -> dict[str, tuple[bytes, str]]:
    """Every file of the web page with its MIME type, by path below ``page/``; its design is that of the reports. Read once: no
    request opens a file. With ``manual`` it links to the manual's pages."""
    parts = dict(_walk(files("firth.serve") / "page", ""))
    parts["styles/design.css"] = files("firth.reports") / "design.css"
    read = {name: part.read_bytes() for name, part in parts.items()}
    # Named in advance, all modules are asked for at once, not one import after the other.
    modules = "".join(f'  <link rel="modulepreload" href="static/{name}">\n' for name in read if _is_module(name))
    if "index.html" in read:
        read["index.html"] = read["index.html"].replace(b"</head>", f"{modules}</head>".encode(), 1)
        if manual:
            read["index.html"] = read["index.html"].replace(b"<html", b"<html data-manual", 1)
    return {name: (data, _type(name)) for name, data in read.items()}


def _is_module(name: str) -> bool:
    return name.endswith(".js") and name != "theme.js"  # which is a plain script, run before the page is drawn


def _walk(folder: Traversable, before: str) -> Iterator[tuple[str, Traversable]]:
    for part in sorted(folder.iterdir(), key=lambda one: one.name) if folder.is_dir() else ():
        if part.is_dir():
            yield from _walk(part, f"{before}{part.name}/")
        else:
            yield f"{before}{part.name}", part


def _type(name: str) -> str:
    found = mimetypes.guess_type(name)[0] or "application/octet-stream"
    found = "text/javascript" if found == "application/javascript" else found
    return f"{found}; charset=utf-8" if found.startswith("text/") else found
