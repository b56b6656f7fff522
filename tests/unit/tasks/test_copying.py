"""Copying: clauses by hand, every target stands in its source, sizes as they should be, the same every time."""

from collections import Counter

from firth.tasks.write.data import copies, split_clauses

ENGLISH = "The dog, which barked at 10:30, ran away. It was 3.14 miles!"
CHINESE = "采用修正的参数(MRP),建立了模型；利用方程 求解。"


def test_clauses_by_hand() -> None:
    assert [ENGLISH[start:end] for start, end in split_clauses(ENGLISH)] == [
        "The dog",
        "which barked at 10:30",
        "ran away",
        "It was 3.14 miles",
    ]
    assert [CHINESE[start:end] for start, end in split_clauses(CHINESE)] == [
        "采用修正的参数(MRP)",
        "建立了模型",
        "利用方程 求解",
    ]
    assert split_clauses(" , ; ") == []


def test_targets_are_clauses_of_their_sources() -> None:
    texts = [ENGLISH, CHINESE, "ok. no."]
    whole = {text[start:end] for text in texts[:2] for start, end in split_clauses(text)}
    pairs = copies(texts)
    assert pairs == copies(texts)
    assert pairs != copies(texts, seed=1)
    assert {target for _, target in pairs} == whole  # "ok" and "no" are too short to be worth it
    assert all(target in source and any(source in text for text in texts) for source, target in pairs)


def test_half_of_the_sources_are_one_clause() -> None:
    text = " ".join(f"clause number {number}," for number in range(4000))
    sizes = Counter(len(split_clauses(source)) for source, _ in copies([text]))
    total = sum(sizes.values())
    assert abs(sizes[1] / total - 1 / 2) < 0.02
    assert abs(sizes[2] / total - 1 / 4) < 0.02
    assert abs(sizes[4] / total - 1 / 8) < 0.02
    assert abs(sizes[8] / total - 1 / 8) < 0.02


def test_few_texts_are_read_again_and_cut_elsewhere() -> None:
    pairs = copies([ENGLISH])
    assert len(pairs) >= 8
    assert len(set(pairs)) > 4
