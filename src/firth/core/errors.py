"""The one kind of error that the user can fix, and hints for it."""

from collections.abc import Collection, Sequence


class FirthError(Exception):
    """A mistake of input or environment, told in one sentence: what, where (file, line), what to do.

    The command line prints it without a traceback and leaves with exit code 2.
    """


class Interrupted(FirthError):
    """The user or the system asked to stop; the message says how to go on."""


def nearest(word: str, known: Collection[str]) -> str:
    """A hint such as ``did you mean 'hidden_dim'?``, or the list of what there is."""
    from firth.core.suggestions import closest

    return did_you_mean(closest(word, known)) or f"known: {', '.join(sorted(known))}"


def did_you_mean(found: Sequence[str]) -> str:
    """The question about the names that may have been meant; empty without any."""
    quoted = [f"'{name}'" for name in found]
    if len(quoted) > 2:
        return f"did you mean one of {', '.join(quoted)}?"
    return f"did you mean {' or '.join(quoted)}?" if quoted else ""
