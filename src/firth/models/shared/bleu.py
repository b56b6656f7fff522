"""BLEU and chrF by sacrebleu (Post 2018), always with the signatures that make them comparable."""

from collections.abc import Sequence
from typing import Any

from firth.tokenizers.characters import is_han


def tokenizer_for(language: str, references: Sequence[str]) -> str:
    """sacrebleu's tokenizer: ``zh`` for Chinese, whether by name or by the look of the references; else ``13a``."""
    if language:
        return "zh" if language.lower().replace("_", "-").split("-")[0] in ("zh", "zho", "cmn", "cn") else "13a"
    letters = [char for text in references[:200] for char in text if char.isalpha()]
    return "zh" if letters and sum(map(is_han, letters)) > 0.5 * len(letters) else "13a"


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "", tokenize: str | None = None
) -> dict[str, Any]:
    """``bleu``, ``chrf`` and their signatures."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(tokenize=tokenize or tokenizer_for(language, references)), CHRF()
    scores = [metric.corpus_score(list(hypotheses), [list(references)]) for metric in (bleu, chrf)]
    return {
        "bleu": float(scores[0].score),
        "chrf": float(scores[1].score),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
