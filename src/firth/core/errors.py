"""``FirthError``, an error with a remedy, and suggestions for unknown names: by another name that the field uses,
by words, by letters.
"""

import re
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from types import ModuleType

_GENERIC = frozenset({"num", "max", "min", "prob", "dim", "size", "len", "ratio"})  # they say what kind of number it is
_WORDS = {  # other forms of the words that names are made of
    "accum": "accumulation",
    "attn": "attention",
    "dimension": "dim",
    "emb": "embed",
    "embedding": "embed",
    "epsilon": "eps",
    "eval": "evaluation",
    "feedforward": "ffn",
    "grad": "gradient",
    "hid": "hidden",
    "length": "len",
    "lr": "learning_rate",
    "n": "num",
    "number": "num",
    "p": "prob",
    "probability": "prob",
    "scheduler": "schedule",
    "sequence": "seq",
    "vocabulary": "vocab",
}


def closest(word: str, known: Collection[str]) -> list[str]:
    """The names that a word may have meant, several where they are equally near; none rather than a far one."""
    wanted = _words(word)
    same = [name for name in known if _words(name) == wanted]
    if same:
        return same
    elsewhere = OTHER_NAMES.get("_".join(wanted))
    if elsewhere is not None:
        return [name for name in elsewhere if name in known][:1]
    return _by_words(word, known, _is_wider) or _by_letters(word, known) or _by_words(word, known, _is_part)


def _parts(name: str) -> list[str]:
    """``maskProbabilities`` as mask, probabilities."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _words(name: str) -> list[str]:
    """And in our own words: mask, prob."""
    parts = [_singular(part) for part in _parts(name)]
    return [word for part in parts for word in _WORDS.get(part, part).split("_")]


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _is_wider(wanted: set[str], words: set[str]) -> bool:
    """All the words that were wanted, and at most one more."""
    return bool(wanted) and wanted <= words and len(words) <= len(wanted) + 1


def _is_part(wanted: set[str], words: set[str]) -> bool:
    """At least half of the words that were wanted, and no other."""
    return bool(words) and words <= wanted and 2 * len(words) >= len(wanted)


def _by_words(word: str, known: Collection[str], fits: Callable[[set[str], set[str]], bool]) -> list[str]:
    """The names whose telling words fit those of the word, as near to it as any."""
    wanted, spelt = set(_words(word)), set(_parts(word))
    found: dict[str, tuple[int, ...]] = {}
    for name in known:
        words = set(_words(name))
        if fits(wanted - _GENERIC, words - _GENERIC):
            telling = (wanted ^ words) - _GENERIC
            alike = spelt & set(_parts(name))  # "heads" is rather num_heads than head_dim
            found[name] = (len(telling), len(wanted ^ words), -len(alike))
    least = min(found.values(), default=())
    return [name for name, far in found.items() if far == least]


def _by_letters(word: str, known: Collection[str]) -> list[str]:
    """The first name that is a slip of the keyboard away: a letter in four may be wrong."""
    allowed = max(1, len(word) // 4) if len(word) > 2 else 0
    found = {name: _edits(word.lower(), name.lower()) for name in known if abs(len(name) - len(word)) <= allowed}
    nearest = min(found.values(), default=allowed + 1)
    return [name for name, edits in found.items() if edits == nearest <= allowed][:1]


def _edits(one: str, two: str) -> int:
    """How many letters must be changed, added, left out or swapped with their neighbours (optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(two) + 1))
    for row, (previous, letter) in enumerate(pairwise(f" {one}"), 1):
        now = [row]
        for column, (second, other) in enumerate(pairwise(f" {two}"), 1):
            best = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and (letter, previous) == (second, other):
                best = min(best, before[column - 2] + 1)
            now.append(best)
        before, last = last, now
    return last[-1]


class FirthError(Exception):
    """A mistake of input or environment, as one sentence: what, where (file, line), what to do.

    The command line prints it without a traceback and leaves with exit code 2.
    """


_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy or PyTorch could not get the memory it asked for."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _OUT_OF_MEMORY)


SAME_COMMAND = "run the same command again"


class Stopped(FirthError):
    """The end of a job through no mistake in it; the message ends with the advice how to go on."""

    def __init__(self, reason: str, advice: str = SAME_COMMAND, joint: str = "; ") -> None:
        super().__init__(f"{reason}{joint}{advice}")
        self.advice = advice

    def advise(self, advice: str) -> None:
        """Other advice: a part of a job does not know how to go on with the whole."""
        self.args = (f"{str(self).removesuffix(self.advice)}{advice}",)
        self.advice = advice


class Interrupted(Stopped):
    """The user or the system asked to stop. 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""

    exit_code = 130


class DiskFull(Stopped):
    """No space is left, or a size limit was reached."""

    def __init__(self, what: object) -> None:
        super().__init__(
            f"{what}: the disk is full or a size limit was reached; free some space", SAME_COMMAND, " and "
        )


@contextmanager
def going_on(advice: str) -> Iterator[None]:
    """Around a job: whatever stops it says how to go on with the whole of it. The command line shows the note that other
    signals get."""
    try:
        yield
    except Stopped as error:
        error.advise(advice)
        raise
    except KeyboardInterrupt:
        raise Interrupted("stopped", advice) from None
    except BaseException as error:
        if not isinstance(error, Exception):
            error.add_note(advice)
        raise


STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


def counted(count: int, noun: str) -> str:
    """Such as ``1 field`` and ``2 fields``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_article(kind: str) -> str:
    """Such as ``a task`` and ``an encoder``."""
    return f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"


def nearest(word: str, known: Collection[str]) -> str:
    """A hint such as ``did you mean 'hidden_dim'?``, or the list of what there is."""

    return did_you_mean(closest(word, known)) or f"known: {', '.join(sorted(known))}"


def did_you_mean(found: Sequence[str]) -> str:
    """The question about the names that may have been meant; empty without any."""
    quoted = [f"'{name}'" for name in found]
    if len(quoted) > 2:
        return f"did you mean one of {', '.join(quoted)}?"
    return f"did you mean {' or '.join(quoted)}?" if quoted else ""


class Later:
    """A package that is loaded when something of it is first used, in the place of its import: what needs only a part of
    Firth starts at once, and works where the package is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            found = getattr(import_module(self._name), name)
        except ModuleNotFoundError as error:
            raise missing_package(error) from None
        setattr(self, name, found)
        return found


def missing_package(error: ModuleNotFoundError) -> FirthError:
    """What to say where ``firth-runtime`` is installed, which only serves and predicts."""
    name = str(error.name or error).partition(".")[0]
    return FirthError(f"this needs the package {name}, which firth-runtime does without: pip install firth")


def in_a_sentence(function: Callable[..., object]) -> Callable[..., object]:
    """The function, with a missing package said as a ``FirthError``."""

    @wraps(function)
    def called(*given: object, **named: object) -> object:
        try:
            return function(*given, **named)
        except ModuleNotFoundError as error:
            raise missing_package(error) from None

    return called


def is_installed(name: str) -> bool:
    """Whether a package can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def with_extra(extra: str) -> str:
    """What pip is asked for: the extra of the distribution that is installed."""
    return f"{'firth' if is_installed('torch') else 'firth-runtime'}[{extra}]"


def import_extra(name: str, extra: str, purpose: str) -> ModuleType:
    """An optional package; if it is missing, the error names the extra that installs it."""
    try:
        return import_module(name)
    except ImportError:
        raise FirthError(f"{purpose} needs the package {name}: pip install '{with_extra(extra)}'") from None


# -- names that settings have in transformers, PyTorch's examples, gensim and fastText: ours, the likeliest first. One that is
# here never gets another answer: where a model has no such setting, nothing is suggested.


OTHER_NAMES: dict[str, tuple[str, ...]] = {  # by its words, as ``_words`` normalises them
    "alpha": ("learning_rate",),
    "attention_dropout": ("attention_dropout_prob",),
    "attention_dropout_prob": ("attention_dropout_prob",),
    "attention_pdrop": ("attention_dropout_prob",),
    "attention_prob_dropout_prob": ("attention_dropout_prob",),
    "bf16": ("precision",),
    "block_size": ("seq_len", "max_positions"),
    "bptt": ("seq_len",),
    "bs": ("batch_size",),
    "bucket": ("bucket",),
    "classifier_dropout": (),
    "clip": ("clip_norm",),
    "context_len": ("seq_len", "max_positions"),
    "d_ff": ("ffn_dim",),
    "d_kv": ("head_dim",),
    "d_model": ("hidden_dim",),
    "depth": ("num_layers",),
    "dim": ("hidden_dim",),
    "early_stopping_patience": ("patience",),
    "embd_pdrop": ("dropout_prob",),
    "embed_dim": ("embedding_dim", "dim"),
    "embed_share": ("embeddings_ratio",),
    "embed_size": ("embedding_dim", "dim"),
    "emsize": ("embedding_dim",),
    "evaluation_batch_size": (),
    "evaluation_step": ("evaluations",),
    "evaluation_strategy": ("evaluations",),
    "fp16": ("precision",),
    "gradient_clip": ("clip_norm",),
    "gradient_clip_norm": ("clip_norm",),
    "gradient_clip_val": ("clip_norm",),
    "hidden_act": ("activation",),
    "hidden_dropout_prob": ("dropout_prob",),
    "hidden_size": ("hidden_dim",),
    "initializer_range": ("init_std",),
    "intermediate_size": ("ffn_dim",),
    "iter": ("steps", "epochs"),
    "iteration": ("steps", "epochs"),
    "learning_rate_schedule": ("schedule",),
    "learning_rate_schedule_type": ("schedule",),
    "learning_rate_update_rate": (),
    "load_best_model_at_end": ("finish",),
    "logging_step": (),
    "max_gradient_norm": ("clip_norm",),
    "max_len": ("seq_len", "max_len", "max_positions"),
    "max_position_embed": ("max_positions",),
    "max_seq_len": ("seq_len", "max_len", "max_positions"),
    "metric_for_best_model": ("metric",),
    "min_alpha": (),
    "min_count": ("min_count",),
    "mlm_prob": ("mask_prob",),
    "neg": ("num_negatives", "negatives"),
    "negative": ("num_negatives", "negatives"),
    "nhid": ("hidden_dim",),
    "nlayer": ("num_layers",),
    "noise_density": ("noise_density",),
    "noise_share": ("noise_density",),
    "ns_exponent": ("noise_power",),
    "num_attention_head": ("num_heads",),
    "num_ctx": ("seq_len", "max_positions"),
    "num_decoder_layer": ("decoder_layers",),
    "num_embd": ("hidden_dim",),
    "num_head": ("num_heads",),
    "num_hidden_layer": ("num_layers",),
    "num_inner": ("ffn_dim",),
    "num_key_value_head": ("num_kv_heads",),
    "num_layer": ("num_layers",),
    "num_position": ("max_positions",),
    "num_train_epoch": ("epochs",),
    "num_warmup_step": ("warmup_ratio",),
    "optim": ("optimizer",),
    "output_dir": (),
    "per_device_evaluation_batch_size": (),
    "per_device_train_batch_size": ("batch_size",),
    "pool": ("pooling",),
    "pooling": ("pool",),
    "pooling_mode": ("pooling", "pool"),
    "resid_pdrop": ("dropout_prob",),
    "rnn_type": ("cell",),
    "sample": ("sample",),
    "save_step": ("checkpoints",),
    "save_total_limit": ("keep",),
    "schedule_type": ("schedule",),
    "sg": ("architecture",),
    "tie_embed": ("tied_output",),
    "tie_weight": ("tied_output",),
    "tie_word_embed": ("tied_output",),
    "tied_weight": ("tied_output",),
    "type_vocab_size": ("num_segments",),
    "vector_size": ("dim",),
    "warmup_step": ("warmup_ratio",),
    "wd": ("weight_decay",),
    "weight_tying": ("tied_output",),
    "width": ("hidden_dim",),
    "window": ("window",),
    "window_size": ("window",),
    "word_ngram": ("word_ngrams",),
    "worker": ("threads",),
    "ws": ("window",),
}
