"""Checkpoints in folders, as far as they can be refused before anything is loaded."""

from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.peft_adapters import WEIGHTS, check_adapter
from attnprobe.model.loading.sentence_folders import check_place
from attnprobe.model.loading.support import BadCheckpointError

#: The name of the encoder that ships inside the package.
DEMO = "demo"
#: What marks a folder as a pruned checkpoint, and says which heads are gone.
RECORD = "attnprobe.json"


def local_folder(name: str) -> Path | None:
    """Find the folder of a checkpoint, or None where the name is one of the hub.

    Raises:
        AttnprobeError: When it is neither.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise AttnprobeError(f"{name} is a file; give the folder that holds config.json and the weights.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise AttnprobeError(f"There is no folder {name}.")
    return None


def find_weights(folder: Path, name: str, *, allow_bin: bool) -> list[Path]:
    """List the weight files of a folder; refuse a folder that is no checkpoint, and pickles."""
    safe = sorted(path for path in folder.glob("*.safetensors") if path.stem.count(".") == 0)
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    check_adapter(folder, name, base=any(not path.name.startswith(WEIGHTS) for path in (*safe, *pickled)))
    check_place(folder, name, weights=bool(safe or pickled))
    if not (folder / "config.json").is_file():
        raise BadCheckpointError(f"{name} holds no config.json, so it is not a Hugging Face checkpoint.")
    if safe:
        return safe
    if pickled and allow_bin:
        return pickled
    if pickled:
        raise BadCheckpointError(
            f"{name} holds only pickled weights ({pickled[0].name}), which can run code when they are "
            "loaded; pass --allow-bin if you trust them."
        )
    raise BadCheckpointError(f"{name} holds no weights (*.safetensors).")
