from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import yaml
from miniatures import write_cub
from pictures import draw_photo
from tiny_run import SETTINGS, make_run, make_tiny_run

import mpae
from mpae import hub
from mpae.cli.evaluate import evaluate
from mpae.cli.report import report
from mpae.config import resolve
from mpae.errors import MPAEError
from mpae.model.hierarchy import Hierarchy
from mpae.prediction.part_names import PartNames
from mpae.run import Run


class FolderHub:
    """The Hub as a folder: repositories with one commit after another, each a folder of files."""

    def __init__(self, root: Path):
        self.root = root
        self.private: dict[str, bool] = {}
        self.tokens: list[str | None] = []

    def api(self, token: str | None = None) -> FolderHub:
        self.tokens.append(token)
        return self

    def create_repo(self, repo_id: str, private: bool, exist_ok: bool) -> str:
        assert exist_ok or repo_id not in self.private
        self.private[repo_id] = private
        return f"https://hub.example/{repo_id}"

    def upload_folder(self, repo_id: str, folder_path: str, allow_patterns: list[str], commit_message: str) -> None:
        commits = self.root / repo_id
        commits.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder_path, commits / f"v{len(list(commits.iterdir())) + 1}")

    def snapshot_download(self, repo_id: str, revision: str | None, allow_patterns: list[str]) -> str:
        """As the real cache: blobs by number, and a folder of links to them."""
        commits = self.root / repo_id
        if not commits.is_dir():
            raise huggingface_hub.errors.LocalEntryNotFoundError("Cannot find the repository.\nAnd more lines.")
        commit = commits / (revision or max(path.name for path in commits.iterdir()))
        cache = self.root.parent / "cache" / repo_id.replace("/", "--")
        snapshot = cache / "snapshots" / commit.name
        shutil.rmtree(snapshot, ignore_errors=True)
        snapshot.mkdir(parents=True)
        (cache / "blobs").mkdir(exist_ok=True)
        for file in commit.iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                if file.is_symlink():
                    (snapshot / file.name).symlink_to(file.readlink())
                    continue
                blob = cache / "blobs" / f"{commit.name}-{file.name}"
                shutil.copy(file, blob)
                (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
        return str(snapshot)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    fake = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", fake.api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    return fake


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An untrained run on the bundled backbone, with what a trained and evaluated one has."""
    folder = tmp_path_factory.mktemp("hub") / "run"
    settings = SETTINGS | {"data.image_size": 56, "model.num_parts": 5, "backbone.name": "bundled",
                           "data.root": "/home/ada/photos", "cache.folder": "/home/ada/.cache"}
    run = make_run(folder, resolve("laptop", None, settings))
    run.log({"step": 40, "minutes": 1.5, "total": 3.5})
    run.log({"evaluation": "cub", "split": "test", "nmi": 11.0, "ari": 7.0, "nme": None})
    run.log({"evaluation": "cub", "split": "test", "nmi": 61.234, "ari": 40.5, "nme": None})
    run.previews.mkdir()
    for step in (3, 40):
        draw_photo(step).save(run.previews / f"step-{step:06d}.png")
    (run.folder / "secret.txt").write_text("not part of a run")
    return run


def test_a_run_that_was_pushed_loads_by_its_name(server: FolderHub, trained: Run) -> None:
    page = hub.push(trained.folder, "ada/birds", private=True, token="token")
    assert page == "https://hub.example/ada/birds"
    assert server.private == {"ada/birds": True}
    assert server.tokens == ["token"]
    ours, theirs = mpae.load(trained.folder), mpae.load("ada/birds")
    photo = draw_photo(1)
    assert np.array_equal(theirs.predict(photo).mask, ours.predict(photo).mask)
    assert theirs.parts == 5
    for address in ("hf://ada/birds", Path("hf://ada/birds")):
        assert hub.run_folder(address) == theirs.run_.folder


def test_what_goes_up(server: FolderHub, trained: Run) -> None:
    PartNames(5).rename(3, "head").save(trained.folder)
    Hierarchy(5, ((1, 2), (1, 3), (1, 4))).save(trained)
    hub.push(trained.folder, "ada/birds", licence="cc-by-4.0")
    commit = server.root / "ada" / "birds" / "v1"
    assert sorted(path.name for path in commit.iterdir()) == sorted(hub.FILES)
    assert (commit / "preview.png").read_bytes() == (trained.previews / "step-000040.png").read_bytes()
    assert "/home/ada" not in (commit / "config.yaml").read_text()
    assert "/home/ada" not in (commit / "README.md").read_text()
    assert "/home/ada" in trained.config_file.read_text()
    assert Run.open(commit).config().model == trained.config().model


def test_the_card_tells_what_how_and_how_good(trained: Run) -> None:
    card = hub.model_card(trained, "ada/birds", licence="cc-by-4.0", preview=True)
    _, front, body = card.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "library_name": "mpae", "pipeline_tag": "image-segmentation", "license": "cc-by-4.0",
        "tags": ["unsupervised-part-discovery", "mpae"]}
    assert body.startswith("\n# birds\n\nFinds 5 parts")
    assert 'mpae.load("ada/birds")' in body
    assert "vit_small_patch14_dinov2.lvd142m" in body
    assert "| licence of the backbone's weights | apache-2.0 |" in body
    assert "| licence of these weights | cc-by-4.0 |" in body
    assert "12 images, 40 steps" in body
    assert "![image, parts, restoration](preview.png)" in body
    assert "| evaluated on | NMI | ARI |\n| --- | --- | --- |\n| cub test | 61.23 | 40.50 |" in body


def test_the_card_of_a_run_without_figures_and_preview(tmp_path: Path) -> None:
    card = hub.model_card(make_tiny_run(tmp_path / "run"), "ada/birds")
    assert "Figures" not in card
    assert "preview" not in card
    assert "license:" not in card
    assert "| licence of these weights | not stated |" in card


def test_previews_stay_at_home_on_request(server: FolderHub, trained: Run) -> None:
    hub.push(trained.folder, "ada/birds", preview=False)
    assert not (server.root / "ada" / "birds" / "v1" / "preview.png").exists()


def test_a_revision_is_what_was_pushed_then(server: FolderHub, trained: Run, tmp_path: Path) -> None:
    hub.push(trained.folder, "ada/birds")
    other = shutil.copytree(trained.folder, tmp_path / "other")
    content = yaml.safe_load((other / "config.yaml").read_text())
    content["seed"] = 7
    (other / "config.yaml").write_text(yaml.safe_dump(content))
    hub.push(other, "ada/birds")

    def seed(folder: Path) -> int:
        return Run.open(folder).content()["seed"]

    assert seed(hub.run_folder("ada/birds")) == 7
    assert seed(hub.run_folder("ada/birds", revision="v1")) == 0
    assert seed(hub.run_folder("hf://ada/birds@v1")) == 0


def test_a_folder_here_comes_before_the_hub(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained.folder, tmp_path / "ada" / "birds")
    assert hub.run_folder("ada/birds") == Path("ada/birds")
    assert hub.run_folder(Path("nowhere/birds")) == Path("nowhere/birds")
    with pytest.raises(MPAEError, match="a folder here, which has no revision 'v1'"):
        hub.run_folder("ada/birds", revision="v1")


def steal(commit: Path) -> None:
    secret = commit.parents[2] / "secret.yaml"
    secret.write_text("format: 1")
    (commit / "config.yaml").unlink()
    (commit / "config.yaml").symlink_to(secret)


def escape(commit: Path) -> None:
    (commit / "metrics.jsonl").unlink(missing_ok=True)
    (commit / "metrics.jsonl").symlink_to("../../../../secret.jsonl")


def folder_as_file(commit: Path) -> None:
    (commit / "preview.png").unlink()
    (commit / "preview.png").symlink_to("../../blobs/../../..")


@pytest.mark.parametrize("attack", [steal, escape, folder_as_file])
def test_links_out_of_the_repository_are_not_followed(
        server: FolderHub, trained: Run, attack: Callable[[Path], None]) -> None:
    hub.push(trained.folder, "ada/birds")
    attack(server.root / "ada" / "birds" / "v1")
    with pytest.raises(MPAEError, match="not a plain file of the repository"):
        hub.run_folder("ada/birds")


def test_strange_files_are_left_on_the_hub(server: FolderHub, trained: Run) -> None:
    PartNames(5).rename(3, "head").save(trained.folder)
    Hierarchy(5, ((1, 2), (1, 3), (1, 4))).save(trained)
    hub.push(trained.folder, "ada/birds")
    commit = server.root / "ada" / "birds" / "v1"
    (commit / "setup.py").write_text("raise SystemExit")
    (commit / "weights.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    folder = hub.run_folder("ada/birds")
    assert sorted(path.name for path in folder.iterdir()) == sorted(hub.FILES)
    assert PartNames.load(folder, 5).name(3) == "head"


def refuse(*_: Any, **__: Any) -> None:
    raise ConnectionError("Failed to resolve the host.\nMax retries exceeded")


def test_a_hub_out_of_reach_is_one_sentence(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", refuse)
    with pytest.raises(MPAEError, match=r"no run folder 'ada/none' here.*\(Failed to resolve the host\); check") as no:
        mpae.load("ada/none")
    assert "\n" not in str(no.value)
    with pytest.raises(MPAEError, match=r"did not take .* as 'ada/birds' \(Failed to resolve the host\)"):
        hub.push(trained.folder, "ada/birds")


def test_what_cannot_be_shared_is_told_before_anything_goes_up(server: FolderHub, trained: Run, tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match=r"trained on the weights file '.*tiny.safetensors', which nobody else has"):
        hub.push(make_tiny_run(tmp_path / "run").folder, "ada/birds")
    unfinished = Path(shutil.copytree(trained.folder, tmp_path / "unfinished"))
    (unfinished / "model.safetensors").unlink()
    with pytest.raises(MPAEError, match="unfinished"):
        hub.push(unfinished, "ada/birds")
    for name in ("birds", "ada/birds/more", "../birds", "ada/..", "-/x", "https://hub.example/ada/birds"):
        with pytest.raises(MPAEError, match="write it as user/name"):
            hub.push(trained.folder, name)
    with pytest.raises(MPAEError, match="write it as user/name"):
        hub.run_folder("hf://../../etc")
    assert not server.root.exists()


def test_a_repository_of_something_else_is_told(server: FolderHub) -> None:
    commit = server.root / "ada" / "bert" / "v1"
    commit.mkdir(parents=True)
    (commit / "README.md").write_text(json.dumps({}))
    with pytest.raises(MPAEError, match="'ada/bert' on the Hugging Face Hub is not a run of mpae"):
        mpae.load("ada/bert")


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_report_of_a_run_on_the_hub(server: FolderHub, trained: Run, photos: Path, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    hub.push(trained.folder, "ada/birds")
    monkeypatch.chdir(tmp_path)
    before = files_below(hub.run_folder("ada/birds"))
    with pytest.raises(MPAEError, match="are not here; add --images DIR"):
        report(Path("hf://ada/birds"), quiet=True)
    report(Path("hf://ada/birds@v1"), images=photos, against=trained.folder, limit=2, quiet=True)
    assert (tmp_path / "birds-report" / "index.html").is_file()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("mine")
    with pytest.raises(MPAEError, match="is not a report of mpae"):
        report(Path("hf://ada/birds"), images=photos, out_folder=tmp_path / "thesis", quiet=True)
    assert files_below(hub.run_folder("ada/birds")) == before  # a copy of what is on the Hub stays one


def test_the_evaluation_of_a_run_on_the_hub(server: FolderHub, trained: Run, tmp_path: Path) -> None:
    hub.push(trained.folder, "ada/birds")
    before = files_below(hub.run_folder("ada/birds"))
    root = write_cub(tmp_path / "CUB").root
    evaluate(Path("hf://ada/birds"), dataset="cub", root_folder=root, limit=2, nme=False, workers=0,
             json_file=tmp_path / "figures.json", quiet=True)
    assert json.loads((tmp_path / "figures.json").read_text())["weights"] == trained.weights_digest()
    assert len((tmp_path / "figures.csv").read_text().splitlines()) == 3
    assert files_below(hub.run_folder("ada/birds")) == before
