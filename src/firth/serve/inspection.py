"""Endpoints that look inside: what a classifier's answer comes from, what a word is near to in each layer, and what is worth
labelling next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.files import disk_errors
from firth.evaluation.explain import explain_text
from firth.evaluation.occurrences import neighbours_by_layer
from firth.serve import answers
from firth.serve import schemas as bodies
from firth.serve.endpoints import AnyEndpoint, Json, single
from firth.serve.models import Served
from firth.tasks.model import TaskModel

_NUM_SENTENCES = 80  # of a corpus that are compared in every layer


def _explain(served: Served, body: bodies.Explain) -> Json:
    return asdict(explain_text(served.model, body.text, body.second, body.label))


def _neighbours(served: Served, body: bodies.Neighbours) -> Json:
    assert served.corpus is not None
    found = neighbours_by_layer(
        served.model, served.corpus, body.sentence, body.word, body.top, num_sentences=_NUM_SENTENCES
    )
    return {"layers": [[asdict(one) for one in some] for some in found]}


def _suggest(served: Served, body: bodies.Suggest) -> Json:
    from firth.tasks.suspects import suggest_texts

    if not isinstance(served.model, TaskModel):
        raise FirthError("texts are suggested for a run of firth finetune classify: choose such a model")
    return {"found": [asdict(one) for one in suggest_texts(served.model, body.texts, body.num)]}


_MOST_ERRORS = 20  # of a kind, that are listed


def entity_facts(rows: Sequence[Mapping[str, Any]]) -> dict[str, object] | None:
    """Scores by type and errors by kind of a tagger's dev examples, as in its report; None where there are no entities."""
    from firth.tasks.report import ERROR_KINDS, entity_errors
    from firth.tasks.tag_schemes import detect_scheme, entity_counts

    tagged = [row for row in rows if "words" in row and "tags" in row]
    true = [[str(tag) for tag in row["true"]] for row in tagged]
    guessed = [[tag or "O" for tag in row["tags"]] for row in tagged]
    if not tagged or detect_scheme(true) is None:
        return None
    found: dict[str, list[str]] = {kind: [] for kind in ERROR_KINDS}
    for row, right, said in zip(tagged, true, guessed, strict=True):
        for kind, text in entity_errors(row["words"], right, said):
            found[kind].append(text)
    scores = entity_counts(true, guessed).by_type()
    return {
        "sentences": len(tagged),
        "types": [{"type": name, **score.model_dump()} for name, score in scores.items()],
        "errors": [
            {"kind": kind, "count": len(texts), "examples": texts[:_MOST_ERRORS]}
            for kind, texts in found.items()
            if texts
        ],
    }


_HEAD = "text\tlabel"
_BREAKS = re.compile(r"[\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")


def append_labels(path: Path, rows: Sequence[tuple[str, str]]) -> None:
    """Texts and labels at the end of a table with these two columns, which is made if it is not there. A tab or a line inside
    of a text becomes a space: a .tsv has no quotes."""
    written = "".join("\t".join(_BREAKS.sub(" ", cell) for cell in row) + "\n" for row in rows)
    with disk_errors(path), open(path, "a+", encoding="utf-8", newline="") as file:
        file.seek(0)
        try:
            first = last = file.readline()
            if first and first.rstrip("\r\n") != _HEAD:
                raise FirthError(
                    f"{path.name}:1: not the columns text and label with a tab between; name another file with --labels"
                )
            for line in file:
                last = line
        except UnicodeDecodeError:
            raise FirthError(f"{path.name}: not in UTF-8; name another file with --labels") from None
        broken = bool(last) and not last.endswith("\n")
        file.write(("" if first else _HEAD + "\n") + ("\n" if broken else "") + written)


INSPECTION: tuple[AnyEndpoint, ...] = (
    single(
        "/explain",
        "predict",
        bodies.Explain,
        answers.Explained,
        "What each word adds to the answer of a classifier or scorer.",
        _explain,
    ),
    single(
        "/neighbours",
        "occurrences",
        bodies.Neighbours,
        answers.LayerNeighbours,
        "The words of the training corpus that are nearest to a word of a sentence, in each layer.",
        _neighbours,
    ),
    single(
        "/suggest",
        "predict",
        bodies.Suggest,
        answers.Suggested,
        "Texts that are worth labelling next: those that a classifier is unsure of and that differ from each other.",
        _suggest,
    ),
)
