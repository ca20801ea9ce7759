"""The I/O path of Linux in virtual time: machines, policies, traces, sweeps.

    import forebay

    job = "[r]\\nrw=randread\\nsize=64M\\nbs=16k\\n"
    result = forebay.simulate(job, machine="nvme-2026", policies={"readahead": "off"})
    print(result.run["read_p99_us"], result.calls["done_ns"] - result.calls["issued_ns"])

Names and units of columns are those of `forebay simulate`, see docs/job-files.md.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
import stat
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, SupportsFloat, Union

import numpy as np

from . import _forebay
from ._forebay import OPS, Access, Dirtied, __version__

__all__ = [
    "Access",
    "CALL_OPS",
    "Dirtied",
    "Machine",
    "OPS",
    "Parameter",
    "Policy",
    "PolicyParameter",
    "Readahead",
    "Reclaim",
    "Result",
    "Throttle",
    "Trace",
    "__version__",
    "machines",
    "policies",
    "simulate",
    "sweep",
]

CALL_OPS = ("read", "fault", "write", "sync")
"""What the numbers in the column `op` of `Result.calls` mean."""

SLOTS = ("readahead", "flush", "controller", "throttle", "elevator", "dispatch", "reclaim")

WRITTEN = ("readahead", "throttle", "reclaim")
"""Slots whose policy can be written in Python."""

Name = Union[str, "os.PathLike[str]"]

Columns = dict[str, Any]
"""Names with NumPy arrays of equal length, or lists of texts."""


class Parameter(NamedTuple):
    """A number of a machine, in its base unit, and the range that it lies in."""

    key: str
    value: int
    low: int
    high: int
    unit: str
    source: str


class Machine:
    """A modelled machine: one of `machines()`, or a TOML file if the name has a dot or a slash."""

    def __init__(
        self, name: str | os.PathLike[str], settings: Mapping[str, object] | None = None
    ) -> None:
        self._settings = _mapping("settings", settings)
        pairs = [(key, str(value)) for key, value in self._settings.items()]
        self._name = _name("a machine", name)
        self._machine = _forebay.Machine(self._name, pairs)

    @property
    def name(self) -> str:
        return self._machine.name

    @property
    def summary(self) -> str:
        return self._machine.summary

    def parameters(self) -> dict[str, Parameter]:
        """The numbers of the machine by their keys."""
        return {one[0]: Parameter(*one) for one in self._machine.parameters()}

    def texts(self) -> dict[str, str]:
        """What the machine has that is no number, such as its kernel's policies."""
        return dict(self._machine.texts())

    def __reduce__(self) -> tuple[Any, ...]:
        return Machine, (self._name, self._settings)

    def __repr__(self) -> str:
        return f"Machine({self.name!r})"


class PolicyParameter(NamedTuple):
    """A number that a policy takes."""

    name: str
    default: int
    low: int
    high: int
    summary: str


class Policy(NamedTuple):
    """A compiled policy."""

    slot: str
    name: str
    summary: str
    source: str
    parameters: list[PolicyParameter]


class Readahead(Protocol):
    """A readahead policy in Python. An object is made for each open file.

    `on_read` answers with `None`, or with the window that is to be in memory: `(start, size)` or
    `(start, size, tail)` in pages. The access that meets the page `tail` pages before the window's
    end finds it "marked". Faults are answered by `on_fault`, if there is one. With
    `sees_hits = True` pages that are present are asked for as well.
    """

    def on_read(self, access: Access) -> Window: ...


class Throttle(Protocol):
    """A throttle in Python. An object is made for each run of tasks.

    `on_dirtied` is asked after each written page. It answers with `None`, or with the pause of the
    writer in seconds of virtual time. After a pause it is asked about the same page `again`.
    """

    def on_dirtied(self, dirtied: Dirtied) -> float | None: ...


Page = tuple[int, int]
"""The number of a file, and a page of it."""


class Reclaim(Protocol):
    """A reclaim policy in Python. An object is made for each run of tasks.

    Pages are `(file, page)`. `on_added` and `on_removed` are called for every page that comes and
    leaves; `origin` is "read" or "write", and `evicted` is false if the file was cut or dropped.
    `make_room` is called when memory is full. It answers with an iterable of pages in the order in
    which they are to leave, of which at most `wanted` do; a generator goes on after each page has
    left. A page that is being read, waited for, or dirty stays, and the next one is taken. It is an
    error to stop while other pages could leave.

    A policy may have more: `begin(frames)` is called first. `on_accessed(page, first)`,
    `on_dirtied(page)` and `on_cleaned(page)` are called for pages in memory. `evictable()` answers
    with how many pages could leave before pages that matter more; without it all clean ones could.
    `cluster` is how many pages leave beyond those that are needed.
    """

    def on_added(self, page: Page, origin: Literal["read", "write"]) -> None: ...

    def on_removed(self, page: Page, evicted: bool) -> None: ...

    def make_room(self, wanted: int) -> Iterable[Page]: ...


Window = Union[None, tuple[int, int], tuple[int, int, int]]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run came to."""

    jobs: Columns
    """A row for each section of the job, or each volume of the trace."""
    run: dict[str, Any]
    """The figures of the whole run; `nan` is not known."""
    calls: Columns | None
    """Every call: `task`, `op` (see `CALL_OPS`), `file`, `offset`, `length`, `issued_ns`, `done_ns`,
    and `result`, which is bytes or -1 for an error. Tasks and files are numbered in the order of the
    job."""

    def __repr__(self) -> str:
        rows = len(self.jobs.get("job", ()))
        calls = "none kept" if self.calls is None else len(self.calls["op"])
        return f"Result(jobs: {rows} x {len(self.jobs)}, run: {len(self.run)} figures, calls: {calls})"


def machines() -> list[str]:
    """The names of the machines that come with the package."""
    return _forebay.machines()


def policies(slot: str | None = None) -> list[Policy]:
    """Every compiled policy, or those of one slot."""
    if slot is not None and slot not in SLOTS:
        raise ValueError(f"no slot is named {slot!r} (known: {', '.join(SLOTS)})")
    lines = [line for line in _forebay.policies() if slot in (None, line[0])]
    return [Policy(*line[:4], [PolicyParameter(*one) for one in line[4]]) for line in lines]


def simulate(
    input: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    machine: Name | Machine | Sequence[Name | Machine] = "vm-2026",
    policies: Mapping[str, str | Callable[[], Readahead | Throttle | Reclaim]] | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    seed: int = 1,
    calls: bool = True,
    fio: str = "3.35",
    trace_format: str | None = None,
    skip_bad: int = 0,
    speed: float = 1.0,
    depth: int | None = None,
    devices: int | None = None,
    layer: str | None = None,
) -> Result:
    """Runs a fio job, or replays traces, in virtual time.

    `input` is the path of a job file or of a trace, or the text of a job (a `str` with a line
    break). `policies` names a policy for each slot, such as `{"throttle": "paced"}`; for `readahead`,
    `throttle` and `reclaim` it may be a class that is written in Python. `settings` are the machine's,
    such as `{"device.delay": "50us"}`. `calls=False` does not keep every call.

    Several traces of one format are replayed together by their clock. A block trace enters below
    the page cache, at its recorded times divided by `speed`, or in a closed loop with `depth`
    requests of each volume in flight. A trace of file calls enters above it, as `layer="cache"` has a
    block trace do. The volumes of a block trace lie on devices of their own, or on `devices`, which
    are of the machines in turn if there are several. The calls of traces are not kept.
    """
    made = [_machine(one, settings)._machine for one in _machines(machine)]
    chosen = _chosen(_mapping("policies", policies))
    seed = _whole("seed", seed, 0, _U64)
    options = _trace_options(trace_format, skip_bad, speed, depth, devices, layer)
    version = _fio(fio)
    inputs = _listed("input", input, (str, os.PathLike))
    if not inputs:
        raise ValueError("there is no input")
    paths = [] if any(map(_is_job, inputs)) else [_path(one) for one in inputs]
    if paths and (trace_format is not None or _forebay.is_trace(paths[0])):
        volumes, run, said = _forebay.run_trace(
            paths=paths, options=options, machines=made, policies=chosen, seed=seed
        )
        _warn(said)
        return Result(_columns(volumes), _scalars(run), None)
    if len(inputs) != 1 or len(made) != 1:
        given = f"{len(inputs)} and {len(made)} are given"
        raise ValueError(f"a job takes one input and one machine; {given}")
    text, label = (inputs[0], "job") if not paths else (_text(paths[0]), Path(paths[0]).name)
    _refuse_trace_options(options, [label])
    jobs, run, kept = _forebay.run_job(
        text=text,
        name=label,
        machine=made[0],
        policies=chosen,
        seed=seed,
        fio=version,
        keep_calls=bool(calls),
    )
    return Result(_columns(jobs), _scalars(run), None if kept is None else _columns(kept))


def sweep(
    inputs: Name | Sequence[Name],
    machines: Name | Machine | Sequence[Name | Machine] = "vm-2026",
    grid: Mapping[str, object] | None = None,
    seeds: int | Iterable[int] = (1,),
    *,
    threads: int | None = None,
    fio: str = "3.35",
    trace_format: str | None = None,
    skip_bad: int = 0,
    speed: float = 1.0,
    depth: int | None = None,
    devices: int | None = None,
    layer: str | None = None,
) -> Columns:
    """Runs jobs and traces on machines with every combination of a grid's values and every seed.

    Inputs and their options are those of `simulate`. A key of the grid is a slot (`throttle`) or a
    parameter of the machine (`device.delay`), with a list of values or a single one; a class that is
    written in Python appears under its name. Returns the columns `input`, `machine`, those of the
    grid, `seed`, and the figures of each run. The order is that of the loops over them, the seed
    varying fastest; it does not depend on `threads`.
    """
    options = _trace_options(trace_format, skip_bad, speed, depth, devices, layer)
    version = _fio(fio)
    read: list[tuple[str, str] | str] = []
    listed = _listed("inputs", inputs, (str, os.PathLike))
    paths = [None if _is_job(one) else _path(one) for one in listed]
    names = _labels_of_inputs(paths)
    for one, path, label in zip(listed, paths, names):
        if path is None:
            read.append((one, label))
        elif trace_format is not None or _forebay.is_trace(path):
            read.append(path)
        else:
            read.append((_text(path), label))
    if all(isinstance(one, tuple) for one in read):
        _refuse_trace_options(options, names)
    on = [(one, _label_of_machine(one)) for one in _machines(machines)]
    _distinct("machines", [label for _, label in on])
    values = {key: _values(key, one) for key, one in _mapping("grid", grid).items()}
    for key, of_key in values.items():
        _distinct(f"grid[{key!r}]", [_label(one) for one in of_key])
    drawn = [_whole("seed", seed, 0, _U64) for seed in _listed("seeds", seeds, int)]
    _distinct("seeds", drawn)
    points, labels = [], []
    for place, (machine, machine_label) in itertools.product(range(len(read)), on):
        if isinstance(machine, Machine) and any(key not in SLOTS for key in values):
            raise ValueError("a grid over parameters takes machines by their names")
        for combination in itertools.product(*values.values()):
            typed = dict(zip(values, combination))
            chosen = [(key, value) for key, value in typed.items() if key in SLOTS]
            settings = {key: value for key, value in typed.items() if key not in SLOTS}
            try:
                made = _machine(machine, settings)
            except ValueError as error:
                raise ValueError(f"machine {machine_label}: {error}") from None
            called = [_label(one) for one in combination]
            for seed in drawn:
                points.append((place, made._machine, chosen, seed))
                labels.append((names[place], machine_label, *called, seed))
    threads = os.cpu_count() or 1 if threads is None else _whole("threads", threads, 1, 65536)
    rows, said = _forebay.run_points(
        inputs=read, options=options, points=points, fio=version, threads=threads
    )
    _warn(said)
    keys = ["input", "machine", *values, "seed"]
    columns: Columns = {
        key: _label_column([label[place] for label in labels]) for place, key in enumerate(keys)
    }
    columns["seed"] = np.array(columns["seed"], dtype=np.uint64)
    columns["seed"].flags.writeable = False
    rows.pop("job", None)
    columns.update(_columns(rows))
    return columns


class Trace:
    """A trace of I/O, read as a stream whatever its format and size.

    `for batch in Trace(path)` gives columns of up to `batch` requests: `time_ns`, `took_ns` (-1 if
    it is not known), `op` (see `OPS`), `offset`, `length`, `object` and `stream`. `names[object]` is
    the file or device. A trace can be iterated more than once, and is read each time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        skip_bad: int = 0,
        batch: int = 65536,
    ) -> None:
        skip_bad, batch = _whole("skip_bad", skip_bad, 0, _U64), _whole("batch", batch, 1, _I64)
        self._options = (_path(path), _optional("format", format), skip_bad, batch)
        # Errors of the first bytes are raised here.
        first = _forebay.TraceReader(*self._options)
        self.format: str = first.format
        self.layer: str = first.layer
        self.names: list[str] = []
        self.warnings: list[str] = []

    def __iter__(self) -> Iterator[Columns]:
        reader = _forebay.TraceReader(*self._options)
        # Another iteration has lists of its own.
        all_names, all_warnings = self.names, self.warnings = [], []
        is_last = False
        while not is_last:
            read = reader.next()
            if read is None:
                return
            columns, names, said, is_last = read
            all_names += names
            all_warnings += said
            batch = _columns(columns)
            if len(batch["op"]):
                yield batch

    def __repr__(self) -> str:
        return f"Trace({self._options[0]!r}, {self.format!r})"


def _machine(machine: Any, settings: Mapping[str, object] | None) -> Machine:
    if not isinstance(machine, Machine):
        return Machine(machine, settings)
    if settings:
        raise ValueError("settings belong to Machine(name, settings)")
    return machine


_I64, _U64 = 2**63 - 1, 2**64 - 1


def _whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} is a whole number from {low} to {high}, not {number}")
    return number


def _listed(name: str, given: Any, kinds: Any) -> list[Any]:
    """A list of what was given: one of these kinds alone, or several."""
    if isinstance(given, (np.generic, np.ndarray)) and not given.shape:
        given = given.item()
    if isinstance(given, kinds):
        return [given]
    if given is None or isinstance(given, (bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a single one or a list, not {given!r}")
    return list(given)


def _values(key: str, given: Any) -> list[Any]:
    """The values of a key of a grid, which are texts, numbers, or classes of policies."""
    listed = [given] if callable(given) else _listed(f"grid[{key!r}]", given, (str, int, float))
    for one in listed:
        is_number = isinstance(one, (int, float, np.number)) and not isinstance(one, bool)
        if key in SLOTS:
            _chosen({key: one})
        elif not (isinstance(one, str) or is_number):
            raise TypeError(f"a value of {key} is a text or a number, not {one!r}")
    return listed


def _mapping(name: str, given: Any) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{name} is a mapping, such as a dict, not {given!r}")
    for key in given or {}:
        if not isinstance(key, str):
            raise TypeError(f"the keys of {name} are texts, not {key!r}")
    return dict(given or {})


def _optional(name: str, given: Any) -> str | None:
    """A text or nothing."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{name} is a text, not {given!r}")
    return given


def _fio(given: Any) -> str:
    if str(given) not in ("3.34", "3.35"):
        raise ValueError(f"fio is '3.34' or '3.35', not {given!r}")
    return str(given)


def _is_job(given: Any) -> bool:
    """Whether it is the text of a job, and no path."""
    return isinstance(given, str) and "\n" in given


def _name(what: str, given: Any) -> str:
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if not isinstance(given, str):
        raise TypeError(f"{what} is a path or a name, not {given!r}")
    return given


def _path(given: Any) -> str:
    """The path of a regular file: anything else might be waited for, and cannot be read twice."""
    path = _name("an input", given)
    if not path:
        raise ValueError("an input is a path, or the text of a job, and not empty")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path!r} is no regular file")
    return path


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        what = f"{path!r} is no trace that is recognized, and no text: byte {error.start} is not UTF-8"
        raise ValueError(what) from None


def _machines(given: Any) -> list[Any]:
    machines = _listed("machine", given, (str, os.PathLike, Machine))
    if not machines:
        raise ValueError("there is no machine")
    return machines


def _warn(said: Sequence[str]) -> None:
    """Says what a reader of the traces should know."""
    for sentence in said:
        warnings.warn(sentence, stacklevel=3)


def _labels_of_inputs(paths: Sequence[str | None]) -> list[str]:
    """What the column `input` calls them: names of files, and paths where names are the same."""
    names = [Path(path).name for path in paths if path is not None]
    labels = []
    for place, path in enumerate(paths):
        name = f"job {place}" if path is None else Path(path).name
        labels.append(path if path is not None and names.count(name) > 1 else name)
    real = [os.path.realpath(path) for path in paths if path is not None]
    _distinct("inputs", real)
    return labels


def _label_of_machine(machine: Any) -> str:
    if not isinstance(machine, Machine):
        return Machine(machine).name
    return " ".join([machine.name, *(f"{key}={value}" for key, value in machine._settings.items())])


def _label(value: Any) -> Any:
    """What a column calls a value: a class by its name."""
    if not callable(value):
        return value
    if isinstance(value, functools.partial):
        value = value.func
    return getattr(value, "__qualname__", type(value).__qualname__)


def _distinct(name: str, labels: Sequence[Any]) -> None:
    for label, count in Counter(map(str, labels)).items():
        if count > 1:
            raise ValueError(f"{name} has {label!r} more than once")


def _label_column(labels: list[Any]) -> Any:
    """Numbers as an array; anything else as the list that it is."""
    if labels and all(isinstance(one, (int, float, np.number)) for one in labels):
        return np.array(labels)
    return labels


def _chosen(policies: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Policies by their slots, each a text or a class."""
    for slot, policy in policies.items():
        if slot not in SLOTS:
            raise ValueError(f"no slot is named {slot!r} (known: {', '.join(SLOTS)})")
        if isinstance(policy, str):
            continue
        if slot not in WRITTEN:
            known = ", ".join(WRITTEN)
            raise TypeError(f"the policy of {slot} is a text, not {policy!r} (classes: {known})")
        if not callable(policy):
            what = "a text, or a class of which the run makes objects"
            raise TypeError(f"the policy of {slot} is {what}, not {policy!r}")
    return list(policies.items())


_WITHOUT_TRACE = {
    "trace_format": None,
    "skip_bad": 0,
    "speed": 1.0,
    "depth": None,
    "devices": None,
    "layer": None,
}
"""The options of traces, as they are if none is given."""


def _trace_options(
    trace_format: str | None,
    skip_bad: int,
    speed: float,
    depth: int | None,
    devices: int | None,
    layer: str | None,
) -> dict[str, Any]:
    if isinstance(speed, (str, bytes)) or not isinstance(speed, SupportsFloat):
        raise TypeError(f"speed is a number, not {speed!r}")
    return {
        "trace_format": _optional("trace_format", trace_format),
        "skip_bad": _whole("skip_bad", skip_bad, 0, _U64),
        "speed": float(speed),
        "depth": None if depth is None else _whole("depth", depth, 1, 2**32 - 1),
        "devices": None if devices is None else _whole("devices", devices, 1, 2**32 - 1),
        "layer": _optional("layer", layer),
    }


def _refuse_trace_options(options: Mapping[str, Any], jobs: Sequence[str]) -> None:
    for name, value in options.items():
        if value != _WITHOUT_TRACE[name]:
            what = f"no trace is recognized in {', '.join(jobs)}; trace_format says that it is one"
            raise ValueError(f"{name}={value!r} is for traces, and {what}")


def _columns(given: Mapping[str, Any]) -> Columns:
    """Arrays over the bytes of the compiled half, which are not copied and cannot be written."""
    return {
        name: column if isinstance(column, list) else np.frombuffer(column[1], dtype=column[0])
        for name, column in given.items()
    }


def _scalars(given: Mapping[str, Any]) -> dict[str, Any]:
    columns = _columns(given)
    return {
        name: column[0] if isinstance(column, list) else column[0].item()
        for name, column in columns.items()
    }


