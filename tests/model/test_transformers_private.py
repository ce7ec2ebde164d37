"""Undocumented names of transformers and the libraries around it stand in one file, and move in one."""

import ast
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
import transformers

import attnprobe

PACKAGE = Path(attnprobe.__file__).parent
LIBRARIES = ("transformers", "huggingface_hub", "accelerate", "peft", "tokenizers", "safetensors")
#: Where such names may stand: the file of names, and the import of transformers without what costs time,
#: whose own test says when a library has outgrown it.
ROOMS = ("model/transformers_private.py", "model/lean.py")
#: Parts of a library with a page of their own in its documentation.
DOCUMENTED = {
    "huggingface_hub.errors",
    "safetensors.torch",
    "tokenizers.normalizers",
    "transformers.logging",
}
BY_NAME = ("getattr", "setattr", "hasattr", "delattr", "get", "pop")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def is_public(library: str, name: str) -> bool:
    """Tell whether the top level of a library exports a name that is no part of its inside."""
    if f"{library}.{name}" in DOCUMENTED:
        return True
    exported = {"transformers": transformers, "huggingface_hub": huggingface_hub}.get(library)
    if exported is not None and name not in exported.__all__:
        return False
    return not is_module(f"{library}.{name}")


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def names_of_classes(trees: dict[str, ast.Module]) -> set[str]:
    """List what the package's own classes define: attributes, methods, and what is put on ``self``."""
    # What a named tuple has is documented, and has its underscore so as not to be a field.
    found = {*dir(namedtuple("Any", ()))}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    found.add(part.name)
                targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= (
                {node.attr}
                if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
                else set()
            )
    return found


def private_names(tree: ast.Module, own: set[str]) -> Iterator[tuple[int, str]]:
    """List what a module takes of others that they do not document, by line.

    An attribute with a leading underscore is somebody else's if no class of the package defines it.
    """
    modules = {
        alias.asname or alias.name.partition(".")[0]: alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                library, _, part = alias.name.partition(".")
                if library in LIBRARIES and part and alias.name not in DOCUMENTED:
                    yield node.lineno, alias.name
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            library, _, part = node.module.partition(".")
            for alias in node.names:
                hidden = library != "attnprobe" and (is_private(alias.name) or "._" in node.module)
                inside = part and node.module not in DOCUMENTED
                if hidden or (
                    library in LIBRARIES and (inside or (not part and not is_public(library, alias.name)))
                ):
                    yield node.lineno, f"{node.module}.{alias.name}"
        if isinstance(node, ast.Attribute):
            root = node.value.id if isinstance(node.value, ast.Name) else ""
            standard = modules.get(root) in sys.stdlib_module_names
            if is_private(node.attr) and node.attr not in own and not standard:
                yield node.lineno, ast.unparse(node)
            if modules.get(root) in LIBRARIES and not is_public(modules[root], node.attr):
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
            if called in BY_NAME:
                yield from (
                    (node.lineno, text)
                    for text in texts
                    if isinstance(text, str) and is_private(text) and text not in own
                )


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


@pytest.fixture(scope="module")
def own(trees: dict[str, ast.Module]) -> set[str]:
    return names_of_classes(trees)


@pytest.mark.slow
def test_private_names_stand_in_one_file(trees: dict[str, ast.Module], own: set[str]):
    found = {
        f"{path}:{line}: {name}"
        for path, tree in trees.items()
        if path not in ROOMS
        for line, name in private_names(tree, own)
    }
    assert not found, f"move these to {ROOMS[0]}:\n" + "\n".join(sorted(found))


@pytest.mark.parametrize(
    "line",
    [
        "from transformers.masking_utils import sdpa_mask",
        "from transformers import modeling_utils",
        "import transformers.utils",
        "from huggingface_hub import constants",
        "from torch._dynamo import config",
        "import transformers\ntransformers.utils.is_scipy_available()",
        "model.config._attn_implementation",
        "hook = getattr(module, '_hf_hook', None)",
        "vars(model).get('_original_forward')",
    ],
)
def test_every_kind_of_private_name_is_seen(own: set[str], line: str):
    assert list(private_names(ast.parse(line), own))


@pytest.mark.parametrize(
    "line",
    [
        "from transformers import AutoConfig, logging",
        "import transformers\ntransformers.logging.set_verbosity_error()",
        "from huggingface_hub.errors import GatedRepoError",
        "from huggingface_hub import snapshot_download",
        "import os\nos._exit(1)",
        "self.called(__file__)",
    ],
)
def test_what_is_documented_is_not_private(own: set[str], line: str):
    assert not list(private_names(ast.parse(line), own))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "module"),
    [("transformers", "transformers.masking_utils"), ("huggingface_hub", "huggingface_hub.file_download")],
)
@pytest.mark.exhaustive
def test_a_version_that_moved_a_name_is_refused_in_a_sentence(library: str, module: str):
    """With the version that is there, and one that works."""
    script = f"""
import sys, transformers, huggingface_hub, types
from transformers import PreTrainedModel
sys.modules[{module!r}] = types.ModuleType({module!r})
from attnprobe.errors import AttnprobeError
try:
    import attnprobe.model.transformers_private
except AttnprobeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    start = (
        f"attnprobe does not work with {library} {importlib.metadata.version(library)} (cannot import name"
    )
    assert done.stdout.startswith(start)
    assert done.stdout.count(".\n") == 1
    assert f"pip install '{library}==" in done.stdout
