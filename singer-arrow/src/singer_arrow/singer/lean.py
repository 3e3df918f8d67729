"""Imports the Singer SDK without the libraries that it imports and our connectors hardly use: half of its time.

The SDK imports all it has at once: its REST and GraphQL streams with requests, urllib3, backoff and jsonpath_ng, fsspec
for its own batch files, joblib for its draining. While it is imported, `Later`s stand in `sys.modules` for these; the
SDK's modules keep them, and each becomes the real module as soon as anything of it is used. Once the SDK is imported
they are out of `sys.modules` again, so that whoever imports these libraries gets the real ones.

`tests/unit/singer_arrow/test_lean.py` says what is relied on. Where an SDK breaks it, a library is imported too early,
and everything works as without this module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

PUT_OFF: dict[str, tuple[str, ...]] = {
    "backoff": (),
    "joblib": ("Parallel", "delayed", "parallel_config"),
    "requests": (),
    "requests.adapters": (),
    "requests.exceptions": (),
    "singer_sdk.helpers.jsonpath": ("extract_jsonpath",),
    "upath": ("UPath",),
    "urllib3": (),
}
"""Modules, and what the SDK imports from each and only calls."""


class Later(ModuleType):
    """Stands for a module that is imported when something of it is used.

    Args:
        name: Of the module.
        calls: Its functions and classes that may be imported from it before that, and do no more than be called.
    """

    def __init__(self, name: str, *calls: str) -> None:
        super().__init__(name)
        for call in calls:
            setattr(self, call, self._put_off(call))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import machinery asks for
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)

    def _put_off(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._real(), name)(*args, **kwargs)

        return call


@contextmanager
def putting_off() -> Iterator[None]:
    """Let `Later`s stand for those modules of `PUT_OFF` that are not imported yet. While no other thread imports."""
    stand_ins = [Later(name, *calls) for name, calls in PUT_OFF.items() if name not in sys.modules]
    sys.modules.update({stand_in.__name__: stand_in for stand_in in stand_ins})
    try:
        yield
    finally:
        for stand_in in stand_ins:
            if sys.modules.get(stand_in.__name__) is stand_in:
                del sys.modules[stand_in.__name__]


def import_sdk() -> None:
    """Import the SDK; for programs of our own, at their start."""
    with putting_off():
        import_module("singer_sdk")
