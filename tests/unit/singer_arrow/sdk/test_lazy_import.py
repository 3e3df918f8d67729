"""The SDK with lazy imports of its libraries: assumptions, and full function when they are used."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from singer_arrow.sdk.cli import DEFERRED, LazyModule, lazy_modules

PROGRAM = Path(__file__).parents[3] / "support" / "lean_sdk.py"


def sources() -> list[Path]:
    spec = importlib.util.find_spec("singer_sdk")
    assert spec is not None
    assert spec.origin is not None
    return sorted(Path(spec.origin).parent.rglob("*.py"))


@pytest.mark.full
def test_the_sdk_is_imported_without_and_works(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_the_sdk_imports_by_name_it_only_calls() -> None:
    """A placeholder of a class can only be called: it cannot be a base class or used with isinstance."""
    found = set()
    for path in sources():
        tree = ast.parse(path.read_text())
        named = {
            (alias.asname or alias.name): (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module in DEFERRED
            for alias in node.names
        }
        notes = [n.annotation for n in ast.walk(tree) if isinstance(n, ast.arg | ast.AnnAssign) and n.annotation]
        notes += [n.returns for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.returns]
        fine = {id(part) for note in notes for part in ast.walk(note)}  # not evaluated
        fine |= {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in named]
        assert [f"{path}:{node.lineno}" for node in uses if id(node) not in fine] == []
        found |= set(named.values())
    assert {(module, name) for module, names in DEFERRED.items() for name in names} <= found


def test_imported_modules_are_left_alone_and_placeholders_are_removed() -> None:
    known = {name: sys.modules[name] for name in DEFERRED if name in sys.modules}
    gone = "joblib"
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == gone}

    def fails() -> None:
        with lazy_modules():
            assert isinstance(sys.modules[gone], LazyModule)
            assert all(sys.modules[name] is module for name, module in known.items() if name != gone)
            raise KeyError("broken")

    try:
        with pytest.raises(KeyError, match="broken"):
            fails()
        assert gone not in sys.modules
    finally:
        sys.modules.update(kept)


def test_a_placeholder_becomes_the_module_when_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def double(x): return 2 * x\nANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "only_here", raising=False)
    placeholder = LazyModule("only_here", "double")
    monkeypatch.setitem(sys.modules, "only_here", placeholder)
    assert placeholder.double(21) == 42
    assert type(sys.modules["only_here"]) is ModuleType
    assert placeholder.ANSWER == 42
    with pytest.raises(AttributeError, match="only_here"):
        _ = placeholder.missing


EARLY = {
    "a module within": "from requests.auth import AuthBase\nassert AuthBase is sys.modules['requests'].auth.AuthBase",
    "another within": "import urllib3.exceptions as e\nassert e is sys.modules['urllib3'].exceptions",
    "its attributes": "import requests\nassert requests.__version__[0].isdigit()",
    "a class of one that needs others": "import requests\nclass Mine(requests.Session): pass",
    "none": "import requests.none",
}


@pytest.mark.parametrize("early", EARLY)
@pytest.mark.full
def test_what_is_used_too_early_is_the_real_thing(early: str) -> None:
    program = f"""
import sys
from singer_arrow.sdk.cli import LazyModule, lazy_modules
before = list(sys.meta_path)
with lazy_modules():
    import requests.adapters, upath
    try:
        exec({EARLY[early]!r})
        assert {early != "none"}
    except ModuleNotFoundError as error:
        assert error.name == "requests.none", error
    assert not [m for m in sys.modules.values() if isinstance(m, LazyModule)]
    import urllib3.util
import requests, requests.auth, urllib3.exceptions
assert sys.meta_path == before
assert requests.auth.AuthBase in requests.auth.HTTPBasicAuth.__mro__
assert requests.models.HTTPBasicAuth is requests.auth.HTTPBasicAuth
assert requests.auth.__spec__.origin == requests.auth.__file__
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
