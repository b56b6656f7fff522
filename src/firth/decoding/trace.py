"""The tree that a beam search grew, as plain data: what was weighed at each step, what was kept."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Fate = Literal["kept", "finished", "dropped"]


@dataclass(frozen=True)
class Node:
    """A candidate: its parent and token, log p of all tokens so far, what became of it."""

    number: int
    parent: int  # 0 is the prompt
    step: int  # the first token after the prompt is 1
    token: int
    score: float
    fate: Fate


@dataclass
class Trace:
    """One list of nodes a sentence; numbers count from 1 in each."""

    trees: list[list[Node]] = field(default_factory=list)
    live: list[list[int]] = field(default_factory=list)  # the nodes of the hypotheses under way

    def begin(self, num_sentences: int, width: int) -> None:
        self.trees = [[] for _ in range(num_sentences)]
        self.live = [[0] * width for _ in range(num_sentences)]

    def add(
        self, sentence: int, step: int, parents: list[int], tokens: list[int], scores: list[float], fates: list[Fate]
    ) -> None:
        """The candidates of a step, best first; ``parents`` are places among the hypotheses under way.
        Those that are kept are the next hypotheses, in their order."""
        tree, live = self.trees[sentence], self.live[sentence]
        kept = []
        for parent, token, score, fate in zip(parents, tokens, scores, fates, strict=True):
            if score == float("-inf"):
                continue
            tree.append(Node(len(tree) + 1, live[parent], step, token, score, fate))
            if fate == "kept":
                kept.append(len(tree))
        self.live[sentence] = kept + [0] * (len(live) - len(kept))

    def plain(self) -> list[list[dict[str, Any]]]:
        """For JSON."""
        return [[asdict(node) for node in tree] for tree in self.trees]
