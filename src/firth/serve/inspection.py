"""Endpoints that look inside: what a classifier's answer comes from, what a word is near to in each layer, and what is worth
labelling next."""

from __future__ import annotations

from dataclasses import asdict

from firth.core.errors import FirthError
from firth.evaluation.explain import explain_text
from firth.evaluation.occurrences import neighbours_by_layer
from firth.serve import answers
from firth.serve import schemas as bodies
from firth.serve.endpoints import AnyEndpoint, Json, single
from firth.serve.models import Served
from firth.tasks.model import TaskModel
from firth.tasks.suspects import suggest_texts

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
    if not isinstance(served.model, TaskModel):
        raise FirthError("texts are suggested for a run of firth finetune classify: choose such a model")
    return {"found": [asdict(one) for one in suggest_texts(served.model, body.texts, body.num)]}


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
