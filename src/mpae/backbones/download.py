"""Weights from the Hugging Face Hub: the one place in the package that downloads."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from mpae.errors import MPAEError
from mpae.extras import require

TIMEOUT = 10.0  # seconds until a hub that does not answer counts as out of reach


def fetch(repository: str, filename: str, revision: str | None, name: str, flags: str) -> Path:
    """A file of a repository on the hub, from the local cache where it is there already.

    Args:
        revision: commit to which the file is pinned; the newest if None.
        name: what the user called the backbone.
        flags: with which the user can pass the file, once it is there by other means.
    """
    hub = require("huggingface_hub", "hub", f"Fetching the weights of '{name}'")
    cached = hub.try_to_load_from_cache(repository, filename, revision=revision)
    if isinstance(cached, str):
        return Path(cached)
    try:
        # One question without retries: a download would ask six times in half a minute before it gives up.
        url = hub.hf_hub_url(repository, filename, revision=revision)
        announced = hub.get_hf_file_metadata(url, timeout=TIMEOUT)
        file = Path(hub.hf_hub_download(repository, filename, revision=announced.commit_hash))
    except Exception as error:  # of requests or httpx, by the version of huggingface_hub
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise MPAEError(
            f"Cannot fetch the weights of '{name}' from the hub ({reason}); get the file {filename} of the "
            f"repository {repository} by other means and pass it with {flags}.") from None
    _verify(file, announced.etag)
    return file


def _verify(file: Path, etag: str | None) -> None:
    """The hub names a large file by its SHA-256; a file that has another one was changed on its way."""
    if etag is None or not re.fullmatch("[0-9a-f]{64}", etag):
        return
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != etag:
        file.resolve().unlink()
        raise MPAEError(f"The download '{file}' has the SHA-256 {digest.hexdigest()}, where the hub announced "
                        f"{etag}; it was removed, try again.")
