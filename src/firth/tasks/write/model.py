"""A task that is done by writing (T5, UniLM): the model with the words around its texts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.registry import find_spec
from firth.core.run import Run, ScoreInterval, Scores
from firth.core.types import Prediction, TextReader
from firth.corpus.pairs import PairSplit
from firth.data.labelled import TextExample
from firth.models.shared.model import Guess, Model, ModelFacts, TextLayers, Translated
from firth.tasks.config import WritingConfig
from firth.tasks.model import tag_example
from firth.tasks.write.data import WritingExample, prefixed, read_back, score_written, source_text, target_text

SETTINGS = "write.json"
_TOGETHER = 256
_OF_BASE = {"encode", "layers", "map", "context", "fill", "translate"}  # what it passes on to its base


class WritingModel(Model):
    """What ``firth.load`` gives for a run of ``firth finetune write``."""

    kind = "writer"

    def __init__(self, config: WritingConfig, base: Model) -> None:
        self.config, self.base = config, base
        self.dim, self.num_layers, self.spec_name = base.dim, base.num_layers, base.spec_name
        self.sentence = base.sentence
        self.languages = base.languages
        base.source_len = config.max_source_len

    @classmethod
    def load(cls, folder: Path) -> "WritingModel":
        """A run of ``firth finetune write``; at the end of its training, too, when it is scored."""
        config = WritingConfig.build(read_json(folder / SETTINGS), folder / SETTINGS)
        return cls(config, find_spec(Run.open(folder).record.model).load(folder))

    @property
    def num_parameters(self) -> int:
        return self.base.num_parameters

    @property
    def vocab_size(self) -> int | None:
        return self.base.vocab_size

    @property
    def title(self) -> str:
        return f"{self.kind} on {self.base.kind}"

    @property
    def mask_token(self) -> str:
        return self.base.mask_token

    def _abilities(self) -> set[str]:
        """What it writes is a prediction, or where it is plain text the translation."""
        return self.base._abilities() & _OF_BASE | (set() if self.config.form == "text" else {"predict"})

    def describe(self) -> ModelFacts:
        task = None if self.config.form == "text" else self.config.form
        return super().describe().replace(task=task, pair=self.config.pairs, labels=self.config.labels)

    def encode(
        self, texts: str | Sequence[str], layer: int = -1, pool: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        return self.base.encode(texts, layer, pool, prompt)

    def layers(self, text: str | list[str]) -> TextLayers:
        return self.base.layers(text)

    def reader(self) -> TextReader:
        return self.base.reader()

    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        return self.base.fill(text, top)

    # -- writing

    def translations(
        self, texts: str | Sequence[str], beams: int = 5, nbest: int = 1, **settings: object
    ) -> list[list[Translated]]:
        """The best few targets of each text, which gets its prefix here."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        return self._translations([prefixed(self.config, text) for text in texts], beams, nbest, **settings)

    def translate(self, texts: str | Sequence[str], beams: int = 5, **settings: object) -> list[str]:
        return [found[0].text for found in self.translations(texts, beams, 1, **settings)]

    def write(self, texts: str | Sequence[str], beams: int | None = None) -> list[str]:
        """The best target of each text."""
        return self.translate(texts, beams or self.config.num_beams)

    def _translations(
        self, sources: list[str], beams: int, nbest: int = 1, **settings: object
    ) -> list[list[Translated]]:
        if settings.get("max_tokens") is None:
            settings["max_tokens"] = self.config.max_target_len
        return self.base.translations(sources, beams, nbest, **settings)

    def written(self, sources: Sequence[str]) -> list[str]:
        """The targets of sources that have their prefix already."""
        return [best[0].text for best in self._translations(list(sources), self.config.num_beams)]

    # -- as a task

    def example(self, text: str | Sequence[str]) -> WritingExample:
        """What a user gives as an example of this task."""
        if self.config.form == "tag":
            return tag_example(text, self.config.characters, self.base.segmentation)
        parts = [text] if isinstance(text, str) else list(text)
        if not all(isinstance(part, str) for part in parts) or len(parts) != 1 + self.config.pairs:
            wanted = "two strings, text and second text," if self.config.pairs else "a string"
            raise FirthError(f"this task reads {wanted} for each example, not {str(text)[:40]!r}")
        return TextExample(parts[0], parts[1] if self.config.pairs else None)

    def predict(self, texts: str | Sequence[str | Sequence[str]]) -> list[Prediction]:
        """What was written for each text, and what it means: a label, entities or tags."""
        return self.predict_examples([self.example(text) for text in ([texts] if isinstance(texts, str) else texts)])

    def predict_examples(self, examples: Sequence[WritingExample]) -> list[Prediction]:
        written = self.written([source_text(self.config, example) for example in examples])
        return [read_back(self.config, text) for text in written]

    def stream(self, examples: Iterable[WritingExample]) -> Iterator[tuple[WritingExample, Prediction]]:
        """Pairs of example and prediction, in constant memory."""
        rest = iter(examples)
        while block := list(islice(rest, _TOGETHER)):
            yield from zip(block, self.predict_examples(block), strict=True)

    def score(self, text: str) -> float:
        return self.base.score(text)

    def score_examples(self, examples: Sequence[WritingExample]) -> dict[str, object]:
        """All scores, with the interval of the main one."""
        sources = [source_text(self.config, example) for example in examples]
        scores, interval = self.score_references(sources, [target_text(self.config, one) for one in examples])
        return {**scores.together(), "interval": interval.model_dump()}

    def score_references(self, sources: Sequence[str], references: Sequence[str]) -> tuple[Scores, ScoreInterval]:
        """All scores, and the interval of the main one."""
        from firth.models.shared.translation_model import score_translations

        written = self.written(sources)
        scores, name, (low, high) = score_written(self.config, written, references)
        more = score_translations(written, references) if self.config.form == "text" else Scores()
        return Scores({**scores, **more.metrics}, more.notes), ScoreInterval(metric=name, low=low, high=high)


def score_heldout(folder: Path, heldout: PairSplit, limit: int) -> Scores:
    """The scores of a run of writing on the pairs held out."""
    sources, references = (heldout.texts(side)[:limit] for side in ("source", "target"))
    return WritingModel.load(folder).score_references(sources, references)[0]
