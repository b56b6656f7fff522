"""How good translations are beside those by people."""

from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.data.parallel import PairsReadingConfig, find_pair_sources, read_pairs
from firth.models.shared.bleu import score_translations
from firth.models.shared.model import Model
from firth.models.shared.translator import Translator


def evaluate_translations(
    model: Model, source: Path, reference: Path, beams: int, tokenize: str | None, where: str
) -> dict[str, Any]:
    """BLEU and chrF (sacrebleu, with their signatures) on two line-aligned files."""
    if not isinstance(model, Translator):
        raise FirthError(f"{where}: source and reference files are for translators; this is an {model.kind}")
    pairs = list(read_pairs(find_pair_sources([str(source), str(reference)]), PairsReadingConfig()))
    found = model.translate([pair.source for pair in pairs], beams)
    scores = score_translations(found, [pair.target for pair in pairs], model.languages[1], tokenize)
    return {"sentences": len(pairs), **scores}
