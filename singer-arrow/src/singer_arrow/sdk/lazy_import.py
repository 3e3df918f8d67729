"""Import the Singer SDK without the libraries that connectors here rarely use; this halves the time of its import.

The SDK imports all it has at once: REST and GraphQL streams with requests, urllib3, backoff and jsonpath_ng, fsspec for
its own batch files, joblib to drain sinks, packaging for `--about`, dotenv for `.env` files. During its import
`sys.modules` has a `LazyModule` for each of these. The SDK's modules keep the lazy module, which imports the real one
when an attribute of it is first used. After the import `sys.modules` has no lazy module, so other imports of these
libraries get the real ones.

`tests/unit/singer_arrow/sdk/test_lazy_import.py` lists what this relies on. If a new SDK breaks it, a library is
imported early: then all lazy modules are removed, and that library and all later imports get the real modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

DEFERRED: dict[str, tuple[str, ...]] = {
    "backoff": (),
    "dotenv": ("find_dotenv",),
    "dotenv.main": ("DotEnv",),
    "joblib": ("Parallel", "delayed", "parallel_config"),
    "packaging.specifiers": ("SpecifierSet",),
    "packaging.version": ("Version",),
    "requests": (),
    "requests.adapters": (),
    "requests.exceptions": (),
    "singer_sdk.helpers.jsonpath": ("extract_jsonpath",),
    "upath": ("UPath",),
    "urllib3": (),
}
"""Modules, each with the names that the SDK imports from it and only calls."""
_LOOKED_FOR = {"__cached__", "__file__"}  # by code that inspects every module


class LazyModule(ModuleType):
    """Import a module when an attribute of it is first used; `calls` may be imported from it, but only be called."""

    def __init__(self, name: str, *calls: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # a package, so that `_SubmoduleFinder` is asked for its modules
        for call in calls:
            setattr(self, call, self._deferred(call))

    def __getattr__(self, name: str) -> Any:
        if name in _LOOKED_FOR:
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> ModuleType:
        _remove_lazy_modules()
        return import_module(self.__name__)

    def _deferred(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._real(), name)(*args, **kwargs)

        return call


class _SubmoduleFinder(MetaPathFinder, Loader):
    """Find the submodules of a lazy module in the real package."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if not isinstance(sys.modules.get(fullname.rpartition(".")[0]), LazyModule):
            return None
        _remove_lazy_modules()
        module = import_module(fullname)
        # The import system would run a module again whose spec is the one returned here, so it gets another one.
        self._specs[fullname], module.__spec__ = module.__spec__, spec_from_loader(fullname, self)
        return module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._specs.pop(module.__name__)


def _remove_lazy_modules() -> None:
    for name, module in list(sys.modules.items()):
        if isinstance(module, LazyModule):
            sys.modules.pop(name, None)  # another thread may have removed it


@contextmanager
def lazy_modules(deferred: Mapping[str, tuple[str, ...]] = DEFERRED) -> Iterator[None]:
    """Put lazy modules into `sys.modules` for those not imported yet; no other thread may import them meanwhile."""
    lazy = [LazyModule(name, *calls) for name, calls in deferred.items() if name not in sys.modules]
    sys.modules.update({module.__name__: module for module in lazy})
    finder = _SubmoduleFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _remove_lazy_modules()


def import_sdk() -> None:
    """Import the SDK with lazy modules; called at the start of each program."""
    with lazy_modules():
        import_module("singer_sdk")
