"""Small texts that look like real ones, the same every time."""

import random
from pathlib import Path

_PEOPLE = "the old doctor,a young teacher,my neighbour,the captain,Anna,the farmer,Mr. Brown,a tired nurse".split(",")
_DEEDS = "found,painted,sold,carried,forgot,repaired,watched,described".split(",")
_THINGS = "the red boat,a broken clock,two letters,the garden gate,some bread,her first book,an apple,the map".split(
    ","
)
_PLACES = "near the river,in the market,after the storm,at half past 3.5,behind the church,on Monday".split(",")
_WHO = "我们,老师,小王,这位医生,他的朋友,北京的工人".split(",")
_DID = "看见了,修好了,买了,喜欢,带来了,忘记了".split(",")
_WHAT = "一本书,红色的船,两封信,新的地图,一个苹果,旧房子".split(",")


def english(number: int) -> str:
    """Document ``number``: a few sentences."""
    pick = random.Random(number)
    sentences = []
    for _ in range(pick.randint(1, 6)):
        words = f"{pick.choice(_PEOPLE)} {pick.choice(_DEEDS)} {pick.choice(_THINGS)} {pick.choice(_PLACES)}"
        sentences.append(words[0].upper() + words[1:] + pick.choice([".", ".", "!", "?"]))
    return " ".join(sentences)


def chinese(number: int) -> str:
    pick = random.Random(number)
    return "".join(pick.choice(_WHO) + pick.choice(_DID) + pick.choice(_WHAT) + "。" for _ in range(pick.randint(1, 5)))


def documents(count: int = 300) -> list[str]:
    """Two in three are English."""
    return [chinese(number) if number % 3 == 2 else english(number) for number in range(count)]


def write_documents(path: Path, count: int = 300) -> Path:
    path.write_text("".join(f"{document}\n" for document in documents(count)), encoding="utf-8")
    return path
