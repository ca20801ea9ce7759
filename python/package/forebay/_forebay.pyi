"""The compiled half of the package."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

__version__: str
OPS: list[str]

_Column = tuple[str, bytes] | list[str]
_Columns = dict[str, _Column]
_Pairs = Sequence[tuple[str, str]]
_Policies = Sequence[tuple[str, str | Callable[[], Any]]]

@final
class Machine:
    def __new__(cls, name: str, settings: _Pairs) -> Machine: ...
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    def parameters(self) -> list[tuple[str, int, int, int, str, str]]: ...
    def texts(self) -> list[tuple[str, str]]: ...

@final
class Access:
    """One page that a read or a fault has met."""

    @property
    def page(self) -> int: ...
    @property
    def remaining(self) -> int:
        """Pages from this one to the end of the request."""
    @property
    def first(self) -> bool:
        """Whether it is the first page of the request."""
    @property
    def found(self) -> Literal["absent", "marked", "present"]: ...
    @property
    def fault(self) -> bool:
        """Whether the page was touched through a mapping."""
    @property
    def file_pages(self) -> int: ...
    @property
    def available_pages(self) -> int:
        """Pages of memory that are free or could be reclaimed without harm."""
    @property
    def congested(self) -> bool:
        """Whether the device refuses further readahead for now."""

@final
class Dirtied:
    """A page that a task has written."""

    @property
    def task(self) -> int: ...
    @property
    def now(self) -> float:
        """Seconds since the run began."""
    @property
    def newly(self) -> bool:
        """Whether the page was clean before."""
    @property
    def again(self) -> bool:
        """Whether the task comes back from a pause, and has written no further page."""
    @property
    def dirty(self) -> int:
        """Dirty pages of the whole memory, those under writeback included."""
    @property
    def device_dirty(self) -> int:
        """Those of the device that the page belongs to."""
    @property
    def background(self) -> int:
        """The level above which the flush rule writes, in pages."""
    @property
    def limit(self) -> int:
        """The level above which writers wait, in pages."""
    @property
    def drain(self) -> int | None:
        """Pages a second that the device takes, once this has been measured."""

@final
class TraceReader:
    def __new__(
        cls, path: str, format: str | None, skip_bad: int, batch: int
    ) -> TraceReader: ...
    @property
    def format(self) -> str: ...
    @property
    def layer(self) -> str: ...
    def next(self) -> tuple[_Columns, list[str], list[str], bool] | None: ...

def machines() -> list[str]: ...
def policies() -> list[
    tuple[str, str, str, str, list[tuple[str, int, int, int, str]]]
]: ...
def is_trace(path: str) -> bool: ...
def run_job(
    *,
    text: str,
    name: str,
    machine: Machine,
    policies: _Policies,
    seed: int,
    fio: str,
    keep_calls: bool,
) -> tuple[_Columns, _Columns, _Columns | None]: ...
def run_trace(
    *,
    paths: Sequence[str],
    options: Mapping[str, Any],
    machines: Sequence[Machine],
    policies: _Policies,
    seed: int,
) -> tuple[_Columns, _Columns, list[str]]: ...
def run_points(
    *,
    inputs: Sequence[tuple[str, str] | str],
    options: Mapping[str, Any],
    points: Sequence[tuple[int, Machine, _Policies, int]],
    fio: str,
    threads: int,
) -> tuple[_Columns, list[str]]: ...
