"""What people install: a wheel from the sdist, in an environment of its own; versions; what is imported when."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from pictures import draw_photo
from tiny_run import make_tiny_run

import mpae
from mpae import extras
from mpae.assets.trained import trained_runs
from mpae.cli import doctor
from mpae.errors import MPAEError

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LARGEST = 60e6  # bytes of a wheel
SECONDS = 1.0, 0.5  # `mpae --help` and `import mpae`, of a core's time


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, so that what the sdist lacks is missed."""
    pytest.importorskip("setuptools", minversion="70.1", reason="the build backend is not installed")
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build(source, "build_sdist", folder)
    sdist = next(folder.glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    build(next((folder / "unpacked").iterdir()), "build_wheel", folder)
    return next(folder.glob("*.whl"))


def build(source: Path, hook: str, out: Path) -> None:
    code = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, out], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `bin` of an environment with the wheel alone; the packages it needs are those of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps",
                    "--no-index", "--prefix", folder, "--ignore-installed", wheel], check=True, capture_output=True)
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / ("Scripts" if os.name == "nt" else "bin")


def run(installed: Path, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([installed / "python", "-m", "mpae.cli", *map(str, words)], cwd=cwd, capture_output=True,
                          text=True, env=clean)


def test_the_wheel_is_small_and_whole(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    inside = {name.partition("/")[2] for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mpae/")}
    here = {path.relative_to(ROOT / "src" / "mpae").as_posix() for path in (ROOT / "src" / "mpae").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}
    assert here - inside == set()
    assert "py.typed" in inside


def test_an_environment_with_nothing_but_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = run(installed, "doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    where = next(line for line in done.stdout.splitlines() if "installed at" in line)
    assert str(installed.parent) in where
    draw_photo(2).save(tmp_path / "photo.jpg")
    names = [*trained_runs(), make_tiny_run(tmp_path / "tiny").folder][:1]
    done = run(installed, "predict", names[0], "photo.jpg", "--out", "parts", "--workers", 0, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "parts" / "masks" / "photo.png").is_file()


def test_it_starts_at_once(tmp_path: Path) -> None:
    code = "import os, runpy, sys; import mpae{}; print(sum(os.times()[:2]), file=sys.stderr)"
    for text, limit in zip((".cli.app as a; a.app(['--help'], standalone_mode=False)", ""), SECONDS, strict=True):
        done = subprocess.run([sys.executable, "-c", code.format(text)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert float(done.stderr.splitlines()[-1]) < limit


def test_versions_are_the_same_everywhere() -> None:
    assert PROJECT["version"] == mpae.__version__
    assert PROJECT["requires-python"] == ">=" + ".".join(map(str, extras.OLDEST["Python"]))
    assert "torch>=" + ".".join(map(str, extras.OLDEST["torch"])) in PROJECT["dependencies"]
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    assert {"3.10", "3.11", "3.12", "3.13"} <= named
    assert set(PROJECT["optional-dependencies"]) == {"onnx", "serve", "hub", "dev"}


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_python_that_is_here_reads_the_code(version: str, tmp_path: Path) -> None:
    """Its syntax, and `import mpae`; the packages that mpae needs are those of one Python alone."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    python = str(kept[-1]) if kept else shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    code = ("import ast, pathlib, sys; sys.path.insert(0, sys.argv[1]); import mpae; "
            "[ast.parse(f.read_bytes(), str(f)) for f in pathlib.Path(sys.argv[1]).rglob('*.py')]; "
            "print(mpae.__version__, *sys.version_info[:2])")
    done = subprocess.run([python, "-B", "-c", code, ROOT / "src"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [mpae.__version__, *version.split(".")]


@pytest.mark.parametrize(("name", "found", "sentence"), [
    ("torch", "2.1.0+cpu", "mpae needs torch 2.4 or newer, and this is 2.1.0+cpu; upgrade it."),
    ("torch", None, "mpae needs torch, which is not installed here; pip install torch.")])
def test_what_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch, name: str, found: str | None, sentence: str) -> None:
    def version(package: str) -> str:
        if found is None:
            raise extras.metadata.PackageNotFoundError(package)
        return found

    monkeypatch.setattr(extras.metadata, "version", version)
    for use in (extras.check_versions, lambda: mpae.PartDiscovery):  # the command, and the library
        with pytest.raises(MPAEError, match=re.escape(sentence)):
            use()


def test_a_python_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras.sys, "version", "3.9.2 (default)")
    with pytest.raises(MPAEError, match=r"mpae needs Python 3\.10 or newer, and this is 3\.9\.2"):
        extras.check_versions()


def test_a_missing_optional_package_is_one_sentence() -> None:
    with pytest.raises(MPAEError, match=r"Singing needs the package no_such; .* pip install 'mpae\[opera\]'"):
        extras.require("no_such", "opera", "Singing")


def test_the_doctor_finds_what_is_missing_or_old(monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["torch>=99.1", "no-such-package>=1", "no-such-extra>=2; extra == 'onnx'", "ruff; extra == 'dev'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: lines)
    doctor.doctor()
    told = capsys.readouterr().out
    assert f"torch {torch.__version__.partition('+')[0]}" in told
    assert "is older than the 99.1 that mpae needs; pip install -U torch." in told
    assert "no-such-package is not installed; pip install no-such-package." in told
    assert "no-such-extra is not installed, which onnx needs; pip install 'mpae[onnx]'." in told
    assert "ruff" not in told


def test_torch_hub_loads_a_run(tmp_path: Path) -> None:
    tiny = make_tiny_run(tmp_path / "tiny")
    model = torch.hub.load(str(ROOT), "parts", str(tiny.folder), source="local")
    assert model.predict(draw_photo(1)).num_parts == 3
