"""Settings: frozen pydantic models set by ``key=value``; durations, counts and sizes as people write them; what the machine has."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Self, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from firth.core.errors import FirthError, closest, did_you_mean, nearest

if TYPE_CHECKING:
    from firth.core.storage import Cluster

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
AnyPath: TypeAlias = str | Path
Settings: TypeAlias = Mapping[str, object]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(gt=0)]
Layers = Annotated[int, Field(gt=0, le=1_000)]  # what no network has more of: a larger number is a damaged file
Width = Annotated[int, Field(gt=0, le=1 << 17)]
Positions = Annotated[int, Field(gt=0, le=1 << 24)]
MAX_VOCAB = 1 << 25


def parse_duration(text: str) -> float:
    """Seconds in ``90s``, ``20m``, ``1h30m`` or a plain number of seconds."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        seconds = float(compact)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", compact):
        seconds = sum(
            float(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd])", compact)
        )
    else:
        raise FirthError(f"'{text}' is not a duration: write it like 90s, 20m or 1h30m")
    if seconds <= 0:
        raise FirthError(f"'{text}' is not a duration: it must be greater than zero, like 90s or 20m")
    return seconds


def show_duration(seconds: float) -> str:
    """``4.2s``, ``3m05s``, ``2h10m``."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def usable_cores() -> int:
    """The processor cores that this process may use, which a container, ``taskset`` or a cluster (FIRTH_CORES) may have limited."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on every system
    found = len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    given = os.environ.get("FIRTH_CORES", "")
    return min(found, int(given)) if given.isdigit() and int(given) else found


def memory_bytes() -> int:
    """The memory of this machine, or of the container if that has less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 1 << 62
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limit = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Refuses what cannot fit into the memory of the machine, before any of it is taken. ``needed`` is the least."""
    most = memory_bytes()
    if needed > most:
        raise FirthError(
            f"{what} would take at least {show_bytes(needed)} of memory, but this machine has {show_bytes(most)}: {remedy}"
        )


def show_count(number: float) -> str:
    """``950``, ``12.3k``, ``4.56M``, ``1.20G``."""
    if abs(number) < 1e4:
        return f"{number:,.0f}"
    divisor, mark = next(
        ((size, mark) for size, mark in ((1e3, "k"), (1e6, "M")) if abs(number) < 999.5 * size), (1e9, "G")
    )
    scaled = number / divisor
    return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f}{mark}"


def show_bytes(number: float) -> str:
    """``512 B``, ``3.4 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


class Config(BaseModel):
    """A frozen set of named settings; an unknown key is an error with the nearest name."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True)

    @classmethod
    def build(cls, data: object, where: str | Path, section: str = "") -> Self:
        """From plain data; what is wrong is said in one sentence that starts with ``where`` and names settings with
        their ``section``."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise FirthError(f"{where}: {_explain(cls, error, section)}") from None

    def replace(self, **changes: object) -> Self:
        """A copy with some settings changed, checked like any other config."""
        return type(self).build({**self.model_dump(), **changes}, type(self).__name__)

    def update(self, settings: Mapping[str, object]) -> Self:
        """A copy with other values: by full names, by short names where these are unique, or in nested mappings.

        Values are checked as they are; only a ``TypedText`` is read first.
        """
        data = self.model_dump()
        for key, value in self._flat(settings):
            _assign(data, key, value.read(self._type_of(key)) if isinstance(value, TypedText) else value)
        return type(self).build(data, "settings")

    def override(self, assignments: Sequence[str]) -> Self:
        """The same from ``key=value`` words."""
        return self.update(parse_settings(assignments))

    def _flat(self, settings: Mapping[str, object], section: str = "") -> list[tuple[str, object]]:
        """Full names and values; what is no setting but a mapping is a section."""
        known, found = self.keys(), list[tuple[str, object]]()
        for name, value in settings.items():
            key = f"{section}{name}"
            if isinstance(value, Mapping) and key not in known:
                found += self._flat(value, f"{key}.")
            else:
                found.append((self._full_key(key), value))
        return found

    def _type_of(self, key: str) -> object:
        name, _, rest = key.partition(".")
        inner = getattr(self, name)
        return inner._type_of(rest) if rest and isinstance(inner, Config) else type(self).model_fields[name].annotation

    def keys(self) -> list[str]:
        """Every setting by its full name, ``training.learning_rate`` and so on."""
        found = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            found += [f"{name}.{key}" for key in value.keys()] if isinstance(value, Config) else [name]
        return found

    def _full_key(self, key: str) -> str:
        known = self.keys()
        if key in known:
            return key
        short = [name for name in known if _last(name) == key]
        if len(short) == 1:
            return short[0]
        if short:
            raise FirthError(f"'{key}' could be any of {', '.join(short)}: write it in full")
        raise FirthError(f"unknown setting '{key}': {_suggest(key, known)}")


def _suggest(key: str, known: list[str]) -> str:
    """The setting that was meant: of the section that was named or, where it has none like it, of another one. A key with
    a section is answered with one."""
    section, dot, name = key.rpartition(".")
    here = [full for full in known if full.startswith(f"{section}.")] if dot else []
    for pool in (here, known):
        found = closest(name, {_last(full): None for full in pool})
        if found:
            return did_you_mean([full for full in pool if _last(full) in found] if dot else found)
    return f"known: {', '.join(sorted(here or {_last(full) for full in known}))}"


def _last(key: str) -> str:
    return key.rpartition(".")[2]


class TypedText(str):
    """The value of a setting as somebody typed it: ``1e-3``, ``true``, ``[1, 2]``, ``null``, or any text."""

    def read(self, annotation: object) -> object:
        """JSON where the setting is no text; of a text, JSON's strings (and null where nothing may be given) only. A list may be
        typed with commas alone."""
        if get_origin(annotation) is tuple and not self.startswith("["):
            inner = get_args(annotation)[0]
            inner = get_args(inner)[0] if get_origin(inner) is Annotated else inner
            return [TypedText(part.strip()).read(inner) for part in self.split(",") if part.strip()]
        try:
            value: object = json.loads(self)
        except (ValueError, RecursionError):
            return str(self)
        kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        if str not in kinds or isinstance(value, str) or (value is None and type(None) in kinds):
            return value
        return str(self)


def parse_settings(words: Sequence[str]) -> dict[str, TypedText]:
    """``key=value`` words as settings for ``Config.update``."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise FirthError(
                f"'{word}' is not a setting: write it as key=value, for example training.learning_rate=1e-3"
            )
        found[key.strip()] = TypedText(value.strip())
    return found


def collect(settings: Settings | None, keywords: Settings, **named: object) -> dict[str, object]:
    """All settings of a call: the named parameters that are not None, further keywords, and ``settings``."""
    if settings is not None and not isinstance(settings, Mapping):
        raise FirthError('settings are names with values, for example {"model.num_layers": 2}: give a dictionary')
    given = {name: value for name, value in named.items() if value is not None}
    return {**given, **keywords, **(settings or {})}


def _assign(data: dict[str, object], key: str, value: object) -> None:
    *path, last = key.split(".")
    for name in path:
        inner = data[name]
        assert isinstance(inner, dict)
        data = inner
    data[last] = value


def _explain(cls: type[BaseModel], error: ValidationError, section: str = "") -> str:
    first = error.errors()[0]
    path = _without_tags(cls, [str(part) for part in first["loc"]])
    name = ".".join([section, *path] if section else path)
    if first["type"] == "extra_forbidden":
        return f"unknown setting '{name}': {nearest(path[-1], _fields_at(cls, path[:-1]))}"
    if first["type"] == "missing":
        return f"setting '{name}' is missing"
    if first["type"] == "union_tag_not_found":
        return f"setting '{name}.kind' is missing"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{name + ': ' if name else ''}{message}"
    found = repr(first["input"])
    found = found if len(found) <= 60 else f"{found[:57]}..."
    what = f"setting '{name}'" if name else "the whole"
    return f"{what} cannot be {found}: {message[:1].lower()}{message[1:]}"


def _without_tags(cls: type[BaseModel], path: list[str]) -> list[str]:
    """A place as the user writes it: which config of a union it was is no part of its name."""
    kept: list[str] = []
    for place, part in enumerate(path):
        inner = 0 < place < len(path) - 1 and not part.isdigit()
        if not inner or part in _fields_at(cls, kept):
            kept.append(part)
    return kept


def _fields_at(cls: type[BaseModel], path: list[str]) -> list[str]:
    """The field names of the config found below ``path`` (union tags in it are skipped)."""
    classes: list[type[BaseModel]] = [cls]
    for part in path:
        deeper = [field for one in classes if (field := one.model_fields.get(part))]
        if deeper:
            classes = [found for field in deeper for found in _config_types(field.annotation)]
    return [name for one in classes for name in one.model_fields]


def _config_types(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType):
        return [found for part in get_args(annotation) for found in _config_types(part)]
    return []


# -- paths, and addresses of other machines: the plain path needs none of ``core.storage``

ENGINES = ("local", "ray")
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}([^/].*)")  # one slash: as Path writes it


def optional_path(path: AnyPath | None) -> Path | None:
    """The path, if there is one."""
    return None if path is None else Path(path)


def as_paths(paths: AnyPath | Sequence[AnyPath]) -> list[str]:
    """One or several paths as strings."""
    return [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def address_of(path: str | Path) -> str | None:
    """The address that a path stands for; none for a path of this machine."""
    match = _ADDRESS.fullmatch(str(path))
    if match is None or match[1] == "file" or Path(path).exists():
        return None
    return f"{match[1]}://{match[2].rstrip('/')}"


def named(path: Path) -> str:
    """A path as a record keeps it: its address, or absolute."""
    return address_of(path) or str(path.absolute())


def local_path(path: str | Path) -> Path:
    """A file or folder on this machine: fetched once into the cache where an address is given."""
    address = address_of(path)
    if address is None:
        return Path(path)
    from firth.core.storage import fetch

    return fetch(address)


Made = TypeVar("Made")


def made_at(
    out: Path,
    overwrite: bool,
    settings: Callable[[], str],
    make: Callable[[Path], Made],
    read: Callable[[Path], Made],
) -> Made:
    """A new folder, made at ``out`` itself, or on this machine and sent to the address ``out`` at the end. What was made with
    the same ``settings`` but could not be sent is only read and sent."""
    address = address_of(out)
    if address is None:
        return make(out)
    from firth.core.storage import made_there

    return made_there(address, overwrite, settings(), make, read)


def cluster_for(engine: str, address: str | None, cores: int = 1) -> "Cluster | None":
    """A cluster whose jobs have so many cores each, if work goes to one."""
    if not check_engine(engine, address):
        if cores != 1:
            raise FirthError("--cores is for the jobs of a cluster: write --engine ray with it")
        return None
    from firth.core.storage import Cluster

    return Cluster(address, cores=cores)


def check_engine(engine: str, address: str | None) -> bool:
    """Whether work goes to a cluster."""
    if engine not in ENGINES:
        raise FirthError(f"unknown engine '{engine}': choose local or ray")
    if address is not None and engine != "ray":
        raise FirthError("--address names a Ray cluster: write --engine ray with it")
    return engine == "ray"
