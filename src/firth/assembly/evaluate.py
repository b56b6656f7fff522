"""How well a pre-trained model does on held-out text, measured the same way for every run."""

from pathlib import Path
from typing import Any

from firth.assembly.families import find_family
from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.runs import Run


def evaluate_run(folder: Path, corpus_path: Path | None, num_texts: int) -> dict[str, Any]:
    """What the objective measures on held-out text, and what its family adds (pseudo-perplexity, say)."""
    run = Run.open(folder)
    if run.facts.get("status") != "finished":
        raise FirthError(f"{folder}: this run is not finished; go on with: firth pretrain --resume {folder}")
    config = RunConfig.build(run.facts["config"], folder / "firth.json")
    family = find_family(config)
    corpus = family.open_corpus(corpus_path or Path(run.facts["corpus"]["path"]))
    if not corpus.info.heldout.documents:
        raise FirthError(f"{corpus.folder}: no held-out text in it; prepare it with a larger --heldout")
    if corpus_path is not None:
        family.base_config(folder, corpus)  # refuses a corpus of other tokens
    trainee = family(config, corpus)
    trainee.restore(folder)
    return trainee.evaluate() | trainee.extra_scores(folder, num_texts)
