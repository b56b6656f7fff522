"""ERNIE under knowledge masking. A run is a BERT directory, or an ERNIE one with tasks."""

from pathlib import Path

from torch import nn

from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.types import Objective
from firth.corpus.format import Corpus
from firth.models.ernie.config import KnowledgeMaskingConfig
from firth.models.ernie.objective import NUM_TASKS, TASKS, KnowledgeMasking
from firth.models.ernie.phrases import Entities, find_phrases
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_pretraining import EncoderPretraining, specials_of
from firth.tokenizers.pieces import Pieces

_SPACE = "▁"  # how Unigram writes it


def read_entities(path: Path, pieces: Pieces) -> Entities:
    """A file with a name a line, as the tokenizer sees them."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file; entities= names a file with an entity a line") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FirthError(f"{path}: cannot be read as UTF-8 text ({error}); check the file") from None
    names = [pieces.encode(line.strip(), add_special=False, read_special=False).ids.tolist() for line in lines]
    names += [_inside(pieces, name) for name in names]
    vocabulary = pieces.backend.get_vocab(with_added_tokens=True)
    found = Entities(
        [name for name in names if pieces.unk_id not in name],
        [number for token, number in vocabulary.items() if token.startswith("##")],
    )
    if not len(found):
        raise FirthError(f"{path}: no entity in it that the tokenizer knows; write one a line")
    return found


def _inside(pieces: Pieces, name: list[int]) -> list[int]:
    """A name where no space is before it, as in Chinese, if its first piece has one in it; else none."""
    first = pieces.token(name[0]) if name else ""
    if not first.startswith(_SPACE):
        return []
    bare = pieces.id(first.removeprefix(_SPACE)) if first != _SPACE else None
    return name[1:] if first == _SPACE else [] if bare is None else [bare, *name[1:]]


class ErniePretraining(EncoderPretraining):
    """An encoder that predicts hidden phrases and entities, and answers the tasks about whole texts."""

    objective: KnowledgeMasking

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderConfig)
        objective = config.objective
        assert isinstance(objective, KnowledgeMaskingConfig)
        if 0 < config.model.num_tasks < NUM_TASKS:
            raise FirthError(f"num_tasks={config.model.num_tasks} is too few: set it to {NUM_TASKS}, or to 0 for none")
        specials = specials_of(corpus.pieces, corpus.folder)
        phrases = find_phrases(corpus.train, objective.sample_tokens, objective.phrase_count, objective.phrase_score)
        entities = read_entities(Path(objective.entities), corpus.pieces) if objective.entities else None
        return Encoder(config.model), KnowledgeMasking(objective, config.model, specials, phrases, entities)

    @classmethod
    def fewest_documents(cls, config: RunConfig) -> int:
        return 2 if any(getattr(config.objective, name) for name in TASKS) else 1
