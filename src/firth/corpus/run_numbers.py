"""Numbers for byte strings that occur again and again in a text, in order of first use. A string has one
number, a single character at most two."""

import numpy as np
from numpy.typing import NDArray

_KEYED_BYTES = 15  # the longest run that two 64-bit words can spell, with its length
_NUM_SLOTS = 1 << 17
_SPREAD_1, _SPREAD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
# By the length of a run, a longer one being one of 16: what of its first and second eight bytes is its own; the length itself.
_FIRST = np.asarray([(1 << 8 * min(size, 8)) - 1 for size in range(17)], np.uint64)
_SECOND = np.asarray([(1 << 8 * min(max(size - 8, 0), 7)) - 1 for size in range(17)], np.uint64)
_LENGTH = np.arange(17, dtype=np.uint64) << np.uint64(56)


class RunNumbers:
    """run -> number. Short runs are their own keys in a table of open addressing, which NumPy searches for all runs
    at once; the few long ones go through a dictionary. Where most runs are single characters of one or three bytes, as
    in Chinese, those have a table by their codes; so a run has one number, and such a character may have two."""

    def __init__(self) -> None:
        self._allocate(_NUM_SLOTS)
        self.of_character = np.full(0x10000, -1, np.int64)
        self.long: dict[bytes, int] = {}
        self.new: list[bytes] = []
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def _allocate(self, num_slots: int) -> None:
        self.key_1 = np.zeros(num_slots, np.uint64)
        self.key_2 = np.zeros(num_slots, np.uint64)  # never 0 in a taken slot: it holds the length
        self.number = np.zeros(num_slots, np.int64)

    def take_new(self) -> list[bytes]:
        """The runs numbered since the last call, in the order of their numbers."""
        new, self.new = self.new, []
        return new

    def numbers(self, text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        lens = ends - starts
        padded = np.frombuffer(text + bytes(16), np.uint8)
        leads = padded[starts]
        characters = ((lens == 1) & (leads < 0x80)) | ((lens == 3) & (leads & 0xF0 == 0xE0))
        if 2 * np.count_nonzero(characters) < len(lens):
            return self._longer(text, padded, starts, lens)
        found = np.empty(len(starts), np.int64)
        found[characters] = self._characters(text, padded, starts[characters], ends[characters])
        others = ~characters
        found[others] = self._longer(text, padded, starts[others], lens[others])
        return found

    def _characters(
        self, text: bytes, padded: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Runs of one byte, and of one character of three: its code is its place in a table."""
        codes = padded[starts].astype(np.uint16)
        wide = np.flatnonzero(codes >= 0xE0)
        places = starts[wide]
        codes[wide] = codes[wide] << 12 | (padded[places + 1].astype(np.uint16) & 0x3F) << 6 | padded[places + 2] & 0x3F
        found = self.of_character[codes]
        missing = np.flatnonzero(found < 0)
        if len(missing):
            fresh, first = np.unique(codes[missing], return_index=True)
            spans = zip(starts[missing[first]].tolist(), ends[missing[first]].tolist(), strict=True)
            self.of_character[fresh] = [self._add(text[start:end]) for start, end in spans]
            found[missing] = self.of_character[codes[missing]]
        return found

    def _longer(
        self, text: bytes, padded: NDArray[np.uint8], starts: NDArray[np.int64], lens: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        words = np.ndarray(len(text) + 9, "<u8", padded, strides=(1,))  # eight bytes from every place on
        sizes = np.minimum(lens, _KEYED_BYTES + 1)
        key_1 = words[starts] & _FIRST[sizes]
        key_2 = (words[starts + 8] & _SECOND[sizes]) | _LENGTH[sizes]
        ends = starts + lens
        long = np.flatnonzero(sizes > _KEYED_BYTES)
        if not len(long):
            return self._short(text, starts, ends, key_1, key_2)
        found = np.empty(len(starts), np.int64)
        short = sizes <= _KEYED_BYTES
        found[short] = self._short(text, starts[short], ends[short], key_1[short], key_2[short])
        spans = zip(starts[long].tolist(), ends[long].tolist(), strict=True)
        known, add = self.long, self._add_long
        found[long] = [known[run] if (run := text[start:end]) in known else add(run) for start, end in spans]
        return found

    def _add_long(self, run: bytes) -> int:
        number = self.long[run] = self._add(run)
        return number

    def _add(self, run: bytes) -> int:
        self.new.append(run)
        self.size += 1
        return self.size - 1

    def _short(
        self,
        text: bytes,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        key_1: NDArray[np.uint64],
        key_2: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        slots, missing = self._find(key_1, key_2)
        if self.size + len(missing) > len(self.number) // 2:
            self._grow(self.size + len(missing))
            slots, missing = self._find(key_1, key_2)
        while len(missing):
            # One new run for each free slot; the others meet it, or the next slot, in the next search.
            taken, chosen = np.unique(slots[missing], return_index=True)
            places = missing[chosen]
            self.key_1[taken], self.key_2[taken] = key_1[places], key_2[places]
            spans = zip(starts[places].tolist(), ends[places].tolist(), strict=True)
            self.number[taken] = [self._add(text[start:end]) for start, end in spans]
            slots[missing], still = self._find(key_1[missing], key_2[missing])
            missing = missing[still]
        return self.number[slots]

    def _find(
        self, key_1: NDArray[np.uint64], key_2: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slot of each key, or the free slot where it belongs; and which keys are not there."""
        last = len(self.number) - 1
        mixed = (key_1 ^ key_2 * _SPREAD_2) * _SPREAD_1
        slots = (mixed >> np.uint64(65 - len(self.number).bit_length())).astype(np.int64)
        there = self.key_2[slots]
        other = (there != key_2) | (self.key_1[slots] != key_1)
        places = np.flatnonzero(other)
        free = there[places] == 0
        missing = [places[free]]
        places = places[~free]
        while len(places):
            slots[places] = (slots[places] + 1) & last
            here = slots[places]
            there = self.key_2[here]
            free = there == 0
            missing.append(places[free])
            places = places[((there != key_2[places]) | (self.key_1[here] != key_1[places])) & ~free]
        return slots, np.sort(np.concatenate(missing))

    def _grow(self, wanted: int) -> None:
        old = np.flatnonzero(self.key_2)
        key_1, key_2, number = self.key_1[old], self.key_2[old], self.number[old]
        self._allocate(1 << (2 * wanted).bit_length())
        rest = np.arange(len(old))
        while len(rest):
            slots, _ = self._find(key_1[rest], key_2[rest])
            taken, chosen = np.unique(slots, return_index=True)
            places = rest[chosen]
            self.key_1[taken], self.key_2[taken], self.number[taken] = key_1[places], key_2[places], number[places]
            rest = np.delete(rest, chosen)
