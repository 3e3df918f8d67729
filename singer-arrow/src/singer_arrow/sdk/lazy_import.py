"""Imports the Singer SDK without the libraries that it imports and our connectors hardly use: half of its time.

The SDK imports all it has at once: its REST and GraphQL streams with requests, urllib3, backoff and jsonpath_ng, fsspec
for its own batch files, joblib for its draining. While it is imported, `Later`s stand in `sys.modules` for these; the
SDK's modules keep them, and each becomes the real module as soon as anything of it is used. Once the SDK is imported
they are out of `sys.modules` again, so that whoever imports these libraries gets the real ones.

`tests/unit/singer_arrow/sdk/test_lazy_import.py` lists what is relied on. Where an SDK breaks it, a library is imported
too early: all stand-ins that are left are removed then, so that the library and what is imported after it find the real
modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
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
_LOOKED_FOR = {"__cached__", "__file__"}  # by those who look at every module that there is


class Later(ModuleType):
    """Stands for a module that is imported when something of it is used.

    Args:
        name: Of the module.
        calls: Its functions and classes that may be imported from it before that, and do no more than be called.
    """

    def __init__(self, name: str, *calls: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # a package, so that `_Within` is asked for what is in it
        for call in calls:
            setattr(self, call, self._put_off(call))

    def __getattr__(self, name: str) -> Any:
        if name in _LOOKED_FOR:
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> ModuleType:
        _take_away()
        return import_module(self.__name__)

    def _put_off(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._real(), name)(*args, **kwargs)

        return call


class _Within(MetaPathFinder, Loader):
    """Finds the modules within packages that stand-ins stand for: as the real packages have them."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if not isinstance(sys.modules.get(fullname.rpartition(".")[0]), Later):
            return None
        _take_away()
        module = import_module(fullname)
        # Of a module that came while it was looked for, the machinery takes its own spec, and would run it once more.
        self._specs[fullname], module.__spec__ = module.__spec__, spec_from_loader(fullname, self)
        return module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._specs.pop(module.__name__)


def _take_away() -> None:
    for name, module in list(sys.modules.items()):
        if isinstance(module, Later):
            del sys.modules[name]


@contextmanager
def putting_off() -> Iterator[None]:
    """Let `Later`s stand for those modules of `PUT_OFF` that are not imported yet. While no other thread imports."""
    stand_ins = [Later(name, *calls) for name, calls in PUT_OFF.items() if name not in sys.modules]
    sys.modules.update({stand_in.__name__: stand_in for stand_in in stand_ins})
    within = _Within()
    sys.meta_path.insert(0, within)
    try:
        yield
    finally:
        sys.meta_path.remove(within)
        _take_away()


def import_sdk() -> None:
    """Import the SDK; for programs of our own, at their start."""
    with putting_off():
        import_module("singer_sdk")
