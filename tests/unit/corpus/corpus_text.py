"""Text that the tests of this room make for themselves."""

import json
import random
from pathlib import Path

WORDS = (
    "the a dog dogs cat ran barked slowly quietly house garden over under river stone light café naïve x1 2026".split()
)
HAN = "今天天气很好我们去北京大学学习中文然后回家吃饭他说这个问题非常重要中国经济发展"


def build_documents(number: int, seed: int = 0) -> list[str]:
    """English, Chinese and mixed documents of one to six sentences."""
    chance = random.Random(seed)
    documents = []
    for _ in range(number):
        sentences = []
        for _ in range(chance.randint(1, 6)):
            if chance.random() < 0.3:
                sentences.append("".join(chance.choices(HAN, k=chance.randint(4, 20))) + "。")
            else:
                words = chance.choices(WORDS, k=chance.randint(3, 15))
                sentences.append(" ".join(words).capitalize() + ". ")
        documents.append("".join(sentences).strip())
    return documents


def write_documents(path: Path, documents: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in documents))
    return path


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, to compare byte for byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
