"""The one kind of error that is the user's to mend."""


class FirthError(Exception):
    """A mistake of input or environment, told in one sentence: what, where (file, line), what to do.

    The command line prints it without a traceback and leaves with exit code 2.
    """


class Interrupted(FirthError):
    """The user or the system asked to stop; the message says how to go on."""


def nearest(word: str, known: list[str]) -> str:
    """A hint such as ``did you mean 'hidden_dim'?``, or the list of what there is."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known: " + ", ".join(sorted(known))
