"""How well a pre-trained model does on held-out text, measured the same way for every run."""

from pathlib import Path

import numpy as np

from firth.assembly.pretrain import Pretraining, same_tokens
from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.runs import Run
from firth.corpus.format import Corpus
from firth.interop.encoders import load_encoder
from firth.representations.encoder import EncoderRepresentation
from firth.text.pieces import Pieces


def evaluate_run(folder: Path, corpus_path: Path | None, num_texts: int) -> dict[str, float]:
    """Masked-token loss and accuracy, next-sentence accuracy where trained, pseudo-perplexity."""
    run = Run.open(folder)
    if run.facts.get("status") != "finished":
        raise FirthError(f"{folder}: this run is not finished; go on with: firth pretrain --resume {folder}")
    corpus = Corpus.open(corpus_path or Path(run.facts["corpus"]["path"]))
    pieces = Pieces.load(folder)
    if not same_tokens(pieces, corpus.pieces):
        raise FirthError(
            f"{corpus.folder}: made with another tokenizer than {folder}; prepare it with --tokenizer {folder}"
        )
    if not corpus.info.heldout.documents:
        raise FirthError(f"{corpus.folder}: no held-out text in it; prepare it with a larger --heldout")
    config = RunConfig.build(run.facts["config"], folder / "firth.json")
    trainee = Pretraining(config, corpus)
    trainee.start_from(folder)
    found = trainee.evaluate()
    model = EncoderRepresentation.from_weights(*load_encoder(folder), pieces, folder)
    found["pseudo_perplexity"] = _pseudo_perplexity(model, corpus, num_texts)
    return found


def _pseudo_perplexity(model: EncoderRepresentation, corpus: Corpus, num_texts: int) -> float:
    """Over the first sentences of held-out documents, each token hidden in turn."""
    split, pieces = corpus.heldout, model.pieces
    scores = []
    for document in range(min(num_texts, split.num_documents)):
        first = int(split.documents[document])
        start, end = int(split.sentences[first]), int(split.sentences[first + 1])
        inner = np.asarray(split.tokens[start:end], np.int64)[: model.config.max_positions - 2]
        assert pieces.cls_id is not None
        assert pieces.sep_id is not None
        ids = np.pad(inner, 1)
        ids[0], ids[-1] = pieces.cls_id, pieces.sep_id
        scores.append(model.score_ids(ids, np.arange(1, len(ids) - 1)))
    return float(np.exp(-np.concatenate(scores).mean()))
