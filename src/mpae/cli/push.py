"""`mpae push`: a run folder to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from mpae.hub import push


def push_verb(run: Path, repo_id: str, private: bool, licence: str | None, preview: bool, out: Console) -> None:
    page = push(run, repo_id, private=private, licence=licence, preview=preview)
    out.print(f"The run is at {page}", highlight=False, soft_wrap=True)
    out.print(f'Use it:  mpae.load("{repo_id}")  or  mpae predict hf://{repo_id} IMAGES --out DIR',
              highlight=False, soft_wrap=True)
