"""Run folders on the Hugging Face Hub: push one with a model card, load one by its name."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import yaml

from mpae.assets.trained import comes_with_mpae, trained_runs
from mpae.baselines import find_method
from mpae.errors import MPAEError
from mpae.extras import require
from mpae.run import Run

log = logging.getLogger("mpae")

ADDRESS = re.compile(r"hf:/{1,2}([^@]+)(?:@(.+))?")  # a Path makes one slash of two
REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
CARD, PREVIEW = "README.md", "preview.png"
# All that goes up or comes down.
FILES = ("config.yaml", "model.safetensors", "metrics.jsonl", "parts.yaml", "hierarchy.yaml", PREVIEW, CARD)
SAME = ("evaluation", "split", "outline", "num_parts", "image_size", "images")  # of figures that are averaged

MODEL_CARD = """---
{front}---

# {name}

Finds {num_parts} parts of the things in a picture. {learnt}
{preview}
## Use

```python
import mpae                                          # pip install mpae
model = mpae.load("{repo_id}")
parts = model.predict("photo.jpg")                   # parts.mask, parts.present, parts.descriptors
```

or `mpae predict hf://{repo_id} PHOTOS --out DIR`.

## What it is

| | |
|---|---|
{facts}

The files hold the trained blocks. The frozen backbone is not among them: mpae fetches it by its name.
{figures}"""


LEARNT = """It learnt them from pictures that nobody had labelled, with
MPAE, the Masked Part Autoencoder ("Unsupervised Part Discovery via Descriptor-Based Masked Image Restoration with
Optimized Constraints", ICCV 2025)."""


def run_folder(where: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The run folder that is meant: one here, one that comes with mpae, or one on the Hub.

    A name such as ``birds`` is a run that comes with mpae, unless a run folder of that name is here. On the Hub are
    ``hf://user/name`` and ``hf://user/name@revision`` always, and the text ``user/name`` where there is no such
    folder here.
    """
    text = os.fspath(where)
    address = ADDRESS.fullmatch(text)
    if address:
        return download(address[1], revision or address[2])
    if isinstance(where, str) and not Path(text).exists() and REPO_ID.fullmatch(text):
        return download(text, revision)
    if revision is not None:
        raise MPAEError(f"'{text}' is a folder here, which has no revision '{revision}'; leave that out.")
    return _trained_run(text) or Path(text)


def is_read_only(where: str | os.PathLike[str]) -> bool:
    """Whether this is a run to read, not to write to: on the Hub, ``hf://user/name``, or one that comes with mpae."""
    text = os.fspath(where)
    return ADDRESS.fullmatch(text) is not None or comes_with_mpae(text) or _trained_run(text) is not None


def _trained_run(text: str) -> Path | None:
    """The folder of the run of this name that comes with mpae; a run folder of the same name here goes first."""
    folder = trained_runs().get(text)
    if folder is None or not os.path.exists(text):
        return folder
    if Run(text).exists():
        log.info("'%s' is the run folder here, and not the run of that name that comes with mpae.", text)
        return None
    log.info("'%s' is the run that comes with mpae; what is here under that name is no run folder.", text)
    return folder


def download(repo_id: str, revision: str | None = None) -> Path:
    """The run folder of a repository, from the local cache where it is there already."""
    _check_repo_id(repo_id)
    snapshot_download = _package().snapshot_download
    try:
        folder = Path(snapshot_download(repo_id, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:  # of requests, httpx or others, by the version of huggingface_hub
        raise MPAEError(f"There is no run folder '{repo_id}' here, and the Hugging Face Hub does not give one "
                        f"({_reason(error)}); check the name and the connection.") from None
    for name in FILES:
        _check_inside(folder, name, repo_id)
    if not (folder / "config.yaml").is_file():
        raise MPAEError(f"'{repo_id}' on the Hugging Face Hub is not a run of mpae: it has no config.yaml.")
    return folder


def push(folder: str | os.PathLike[str], repo_id: str, *, private: bool = False, licence: str | None = None,
         preview: bool = True, token: str | None = None) -> str:
    """Upload a run folder with a model card; returns the address of the page.

    Args:
        repo_id: ``user/name``; it is made where there is none, and brought up to date where there is one.
        private: only you can see it.
        licence: of the trained weights, as the Hub abbreviates it, such as ``apache-2.0``.
        preview: upload the last preview, which shows some of the training images.
        token: of the Hub; the one that ``hf auth login`` keeps if not given.
    """
    run = Run.open(Path(folder))
    _check_repo_id(repo_id)
    package = _package()
    with tempfile.TemporaryDirectory(prefix="mpae-push-") as staging:
        stage(run, Path(staging), repo_id, licence, preview)
        try:
            api = package.HfApi(token=token)
            page = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=staging, allow_patterns=list(FILES),
                              commit_message="Upload a run of mpae")
        except Exception as error:
            raise MPAEError(f"The Hugging Face Hub did not take '{run}' as '{repo_id}' ({_reason(error)}); check "
                            "the name, the connection and `hf auth login`.") from None
    return str(page)


def stage(run: Run, folder: Path, repo_id: str, licence: str | None = None, preview: bool = True) -> None:
    """Put together what is uploaded: the run without the folders of this machine, a preview, the card."""
    from mpae.backbones import NAMED
    from mpae.backbones.weights import is_weights_file

    run.load_weights()  # an unfinished or damaged run is told before anything goes up
    config = run.config()
    if config.backbone.name not in NAMED and is_weights_file(config.backbone.name):
        raise MPAEError(f"'{run}' was trained on the weights file '{config.backbone.name}', which nobody else has; "
                        "a run to share needs a backbone with a name (`mpae backbones` lists them).")
    (folder / "config.yaml").write_text(yaml.safe_dump(run.shared_content(), sort_keys=False), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(run.weights_file.read_bytes())
    for file in (run.metrics_file, run.parts_file, run.hierarchy_file):
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    previews = sorted(run.previews.glob("*.png")) if preview else []
    if previews:
        (folder / PREVIEW).write_bytes(previews[-1].read_bytes())
    (folder / CARD).write_text(model_card(run, repo_id, licence, bool(previews)), encoding="utf-8")


def model_card(run: Run, repo_id: str, licence: str | None = None, preview: bool = False) -> str:
    """README.md: what it is, how to load it, and the figures of its evaluations, if there were any."""
    num_parts, method = run.config().model.num_parts, find_method(run.config().model.method)
    learnt = LEARNT if method.name == "mpae" else f"It learnt them with {method.title} ({method.supervision})."
    front: dict[str, Any] = {"library_name": "mpae", "pipeline_tag": "image-segmentation",
                             "tags": ["unsupervised-part-discovery", "mpae"]}
    if licence:
        front["license"] = licence
    return MODEL_CARD.format(
        front=yaml.safe_dump(front, sort_keys=False), name=repo_id.partition("/")[2], repo_id=repo_id,
        num_parts=num_parts, learnt=learnt, preview=f"\n![image, parts, restoration]({PREVIEW})\n" if preview else "",
        facts="\n".join(f"| {key} | {value} |" for key, value in card_facts(run, licence).items()),
        figures=figures_table(run))


def card_facts(run: Run, licence: str | None = None) -> dict[str, str]:
    """What a card says of a run."""
    config, content = run.config(), run.content()
    backbone, backbone_licence = _backbone(config.backbone.name)
    return {
        "trained on": _trained_on(run),
        "parts": f"{config.model.num_parts}, and the background",
        "input": f"the whole picture, squashed to {config.data.image_size} x {config.data.image_size} px",
        "backbone": f"`{config.backbone.name}` (timm's `{backbone}`), frozen",
        "licence of the backbone's weights": backbone_licence,
        "licence of these weights": licence or "not stated",
        "made with": f"mpae {content.get('version')}",
    }


def _trained_on(run: Run) -> str:
    """Images, how long, what it learned from besides them, and the terms of the dataset."""
    from mpae.data.catalogue import DATASETS

    content, data = run.content(), DATASETS.get(run.config().data.dataset)
    known = data is not None and data.name != "folder"
    facts = [f"{content.get('images', 'some')} images" + (f" of {data.description}" if data and known else "")]
    for key, unit in (("step", "steps"), ("minutes", "minutes")):
        most = max((record[key] for record in run.records() if isinstance(record.get(key), (int, float))), default=0)
        facts += [f"{most:.0f} {unit}"] if most else []
    facts.append(find_method(run.config().model.method).supervision)
    return ", ".join(facts) + (f". Terms of use: {data.licence}" if data and known else "")


def figures_table(run: Run, others: Sequence[Run] = ()) -> str:
    """A table of the evaluation to quote on each dataset and split.

    Args:
        others: the same run with other random seeds; mean and standard deviation of all go into the table too.
    """
    from mpae.evaluation.result import final_evaluations, title_of
    from mpae.metrics.registry import HEADLINE

    records = final_evaluations(list(run.records()))
    titles = {name: title for name, title in HEADLINE.items()
              if any(isinstance(record.get(name), (int, float)) for record in records)}
    if not titles:
        return ""
    rows = [["evaluated on", *titles.values()], ["---"] * (len(titles) + 1)]
    for record in records:
        how = [title_of(record), *(f"{record[key]} {unit}" for key, unit in (("images", "images"), ("image_size", "px"))
                                   if key in record)]
        rows.append([", ".join(how), *(_digits(record, name) for name in titles)])
        again = [record, *(same for other in others for same in final_evaluations(list(other.records()))
                           if all(same.get(key) == record.get(key) for key in SAME))]
        if len(again) > 1:
            rows.append([f"the same, mean of {len(again)} random seeds", *(_spread(again, name) for name in titles)])
    return "\n## Figures\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _spread(records: Sequence[Mapping[str, Any]], name: str) -> str:
    """Mean and standard deviation; nothing where one of the records lacks the figure."""
    values = [record[name] for record in records if isinstance(record.get(name), (int, float))]
    return f"{mean(values):.2f} ± {stdev(values):.2f}" if len(values) == len(records) else ""


def _digits(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return f"{value:.2f}" if isinstance(value, (int, float)) else ""


def _backbone(name: str) -> tuple[str, str]:
    """timm's name of a backbone, and the licence of its weights."""
    import timm

    from mpae.backbones import BUNDLED, BUNDLED_ARCHITECTURE, NAMED

    architecture = BUNDLED_ARCHITECTURE if name == BUNDLED else NAMED.get(name, name)
    try:
        origin = timm.get_pretrained_cfg(architecture, allow_unregistered=False)
    except RuntimeError:  # a file, or a name that this version of timm does not know
        return architecture, "not known"
    return architecture, (origin and origin.license) or "not known"


def _check_repo_id(repo_id: str) -> None:
    if not REPO_ID.fullmatch(repo_id) or ".." in repo_id:
        raise MPAEError(f"'{repo_id}' is not a name on the Hugging Face Hub; write it as user/name.")


def _check_inside(folder: Path, name: str, repo_id: str) -> None:
    """The cache of the Hub links files to its own blobs; a link to anywhere else is not followed."""
    file = (folder / name).resolve()
    inside = file.parent == folder.resolve() or file.parent == folder.resolve().parent.parent / "blobs"
    if not inside or (file.exists() and not file.is_file()):
        raise MPAEError(f"'{repo_id}' is not loaded: its {name} is not a plain file of the repository.")


def _package() -> Any:
    return require("huggingface_hub", "hub", "The Hugging Face Hub")


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".: ") if lines else type(error).__name__
