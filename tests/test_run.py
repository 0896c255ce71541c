"""The run folder: what is written reads back, what is torn or foreign is told in one sentence, nothing runs."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from broken_images import make_broken_images
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from mpae import __version__
from mpae.config import Config, resolve
from mpae.errors import MPAEError
from mpae.files import one_line, write_atomically, write_text
from mpae.run import FORMAT, Run

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3, dtype=torch.int64)}
STATE: dict[str, Any] = {"step": 7, "minutes": 1.5, "model": WEIGHTS, "optimizer": {"state": {}, "param_groups": []}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", resolve("laptop"), {"backbone_fingerprint": "abc", "images": 12})


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def refused(action: Any, *args: Any) -> str:
    with pytest.raises(MPAEError) as caught:
        action(*args)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


# -- settings


def test_a_run_reads_back_what_was_written(tmp_path: Path) -> None:
    config = resolve("paper", None, {"training.seed": 5, "model.num_parts": 3, "data.root": "two\nlines"})
    Run.create(tmp_path / "deep" / "run", config, {"images": 9})
    run = Run.open(str(tmp_path / "deep" / "run"))
    assert run.config() == config
    content = run.content()
    assert (content["format"], content["version"], content["seed"], content["images"]) == (FORMAT, __version__, 5, 9)
    assert str(run) == str(tmp_path / "deep" / "run")
    assert run.exists()
    assert files_in(tmp_path) == {"deep/run/config.yaml"}


def test_a_run_moves(run: Run, tmp_path: Path) -> None:
    run.save_weights(WEIGHTS, {})
    run.folder.rename(tmp_path / "elsewhere")
    moved = Run.open(tmp_path / "elsewhere")
    assert moved.config() == resolve("laptop")
    assert set(moved.load_weights()) == set(WEIGHTS)


def test_what_is_not_a_run(tmp_path: Path) -> None:
    assert refused(Run.open, tmp_path / "none") == (
        f"No run folder '{tmp_path}/none'; `mpae fit IMAGES --out {tmp_path}/none` makes one.")
    assert refused(Run.open, tmp_path) == f"'{tmp_path}' is not a run folder: it has no config.yaml."
    (tmp_path / "file").write_text("")
    for odd in (tmp_path / "file", tmp_path / ("a" * 300), tmp_path / "zero\0byte"):
        assert "No run folder" in refused(Run.open, odd)
    assert not Run(tmp_path).exists()


@pytest.mark.parametrize("text", [
    "", "model: {dim: 8}", "format: 1", "format: one\nsettings: {}", "format: true\nsettings: {}",
    "format: 0\nsettings: {}", "format: 1\nsettings: 3", "- 1"])
def test_a_config_that_is_not_ours(run: Run, text: str) -> None:
    run.config_file.write_text(text)
    assert "config.yaml" in refused(Run.open, run.folder)


def test_a_run_of_a_newer_version(run: Run) -> None:
    content = run.content() | {"format": FORMAT + 1, "version": "9.9"}
    run.config_file.write_text(yaml.safe_dump(content))
    assert refused(Run.open, run.folder) == (
        f"'{run}' was written by a newer mpae (9.9); this one is {__version__}: upgrade it to read this run.")


def test_a_run_with_unknown_settings_names_its_file(run: Run) -> None:
    content = run.content()
    content["settings"]["model"]["wings"] = 2
    run.config_file.write_text(yaml.safe_dump(content))
    with pytest.raises(MPAEError, match=r"^Unknown option 'model.wings' in .*config\.yaml"):
        Run.open(run.folder).config()


def test_clear_removes_what_is_ours_and_nothing_else(run: Run) -> None:
    run.save_weights(WEIGHTS, {})
    run.save_checkpoint(STATE)
    run.log({"step": 1})
    run.note_skipped({"a": "b"})
    for path in (run.previews / "step-1.png", run.tensorboard / "events", run.report, run.folder / "my notes.txt",
                 run.evaluation("cub", "test") / "figures.json", run.parts_file,
                 run.hierarchy_file):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("x")
    run.clear()
    assert files_in(run.folder) == {"my notes.txt"}
    run.clear()


def test_while_it_is_cleared_it_stays_a_run_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed on the way can overwrite it again: config.yaml goes last."""
    run.save_weights(WEIGHTS, {})
    run.save_checkpoint(STATE)
    run.evaluation("cub", "test").mkdir(parents=True)
    unlink, rmtree, removed = Path.unlink, shutil.rmtree, []

    def watched(remove: Any) -> Any:
        def call(path: Path, *arguments: Any, **options: Any) -> None:
            assert run.exists(), f"'{path}' is removed after config.yaml"
            removed.append(Path(path).name)
            remove(path, *arguments, **options)

        return call

    monkeypatch.setattr(shutil, "rmtree", watched(rmtree))
    monkeypatch.setattr(Path, "unlink", watched(unlink))
    run.clear()
    assert removed[-1] == "config.yaml"
    assert {"evaluations", "checkpoints", "model.safetensors"} <= set(removed)


# -- weights


def test_weights_read_back(run: Run) -> None:
    transposed = {"t": torch.arange(6.0).reshape(2, 3).T.requires_grad_()}
    run.save_weights(WEIGHTS | transposed, {"step": "7"})
    loaded = run.load_weights()
    assert set(loaded) == {"a.weight", "b", "t"}
    for name, tensor in (WEIGHTS | transposed).items():
        torch.testing.assert_close(loaded[name], tensor.detach(), rtol=0, atol=0)
    assert files_in(run.folder) == {"config.yaml", "model.safetensors"}


def test_an_unfinished_run_says_how_to_go_on(run: Run) -> None:
    assert refused(run.load_weights) == (
        f"'{run}' is unfinished: it has no model.safetensors; `mpae fit --resume --out {run}` goes on with it.")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_torn_weights(run: Run, share: float) -> None:
    run.save_weights(WEIGHTS, {})
    whole = run.weights_file.read_bytes()
    run.weights_file.write_bytes(whole[: int(len(whole) * share)])
    assert "model.safetensors' is damaged or not safetensors" in refused(run.load_weights)


# -- checkpoints


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str):
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_checkpoints_read_back(run: Run) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    run.save_checkpoint({"step": 3, "minutes": 0.5, "model": model.state_dict(), "optimizer": optimizer.state_dict()})
    state = run.load_checkpoint()
    assert (state["step"], state["minutes"]) == (3, 0.5)
    torch.testing.assert_close(state["model"]["weight"], model.weight.detach(), rtol=0, atol=0)
    torch.optim.Adam(model.parameters()).load_state_dict(state["optimizer"])


def test_no_checkpoint(run: Run) -> None:
    assert refused(run.load_checkpoint) == (
        f"'{run}' has no checkpoint to resume from; start it anew with --overwrite.")


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("form", ["torch archive", "legacy torch", "plain pickle"])
def test_a_checkpoint_with_a_payload_is_refused_and_does_not_run(run: Run, tmp_path: Path, form: str) -> None:
    hacked = tmp_path / "hacked"
    state = STATE | {"extra": Payload(f"touch '{hacked}'")}
    run.checkpoint_file.parent.mkdir()
    if form == "plain pickle":
        run.checkpoint_file.write_bytes(pickle.dumps(state))
    else:
        torch.save(state, run.checkpoint_file, _use_new_zipfile_serialization=form == "torch archive")
    assert refused(run.load_checkpoint) == (
        f"'{run.checkpoint_file}' is refused: it is no checkpoint of mpae, or it holds objects that could run "
        "code; start the run anew with --overwrite.")
    assert not hacked.exists()
    torch.load(run.checkpoint_file, weights_only=False) if form != "plain pickle" else pickle.loads(
        run.checkpoint_file.read_bytes())
    assert hacked.exists()  # the payload is a real one


@pytest.mark.parametrize("state", [
    {}, [], {"step": 1}, STATE | {"step": "7"}, STATE | {"model": 3}, STATE | {"minutes": None}])
def test_a_checkpoint_of_something_else(run: Run, state: Any) -> None:
    run.checkpoint_file.parent.mkdir()
    torch.save(state, run.checkpoint_file)
    assert "is not a checkpoint of mpae: expected step, minutes, model, optimizer." in refused(run.load_checkpoint)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_torn_checkpoints(run: Run, share: float) -> None:
    run.save_checkpoint(STATE)
    whole = run.checkpoint_file.read_bytes()
    run.checkpoint_file.write_bytes(whole[: int(len(whole) * share)])
    assert "start the run anew with --overwrite" in refused(run.load_checkpoint)


# -- writing


def leave_half(path: Path) -> None:
    path.write_text("half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_keeps_the_last_good_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save_checkpoint(STATE)
    before = files_in(run.folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", lambda path, content: leave_half(path))
        assert refused(run.save_checkpoint, STATE | {"step": 8}) == (
            f"The disk is full: '{run.checkpoint_file}' could not be written; its last good version stays; "
            "free some space.")
        assert refused(run.save_weights, WEIGHTS, {}) == (
            f"The disk is full: '{run.weights_file}' could not be written; free some space.")
    assert run.load_checkpoint()["step"] == 7
    assert files_in(run.folder) == before


def test_a_really_full_disk(tmp_path: Path) -> None:
    """`/dev/full` accepts no byte: the errors are those of the system, not of this test."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    run = Run.create(tmp_path / "run", Config(), {})
    run.metrics_file.symlink_to("/dev/full")
    run.skipped_file.symlink_to("/dev/full")
    assert refused(run.log, {"step": 1}).startswith("The disk is full: ")
    assert refused(run.note_skipped, {"a": "b"}).startswith("The disk is full: ")
    run.checkpoint_file.parent.mkdir()
    (run.checkpoint_file.parent / f".last.ckpt.{os.getpid()}.part").symlink_to("/dev/full")
    assert refused(run.save_checkpoint, STATE).startswith("The disk is full: ")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refused(Run.create, tmp_path / "file" / "run", Config(), {}).startswith("Cannot write '")
    assert refused(Run.create, tmp_path / ("a" * 300), Config(), {}).endswith("File name too long.")


def test_an_interrupt_while_writing_leaves_the_old_file_alone(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")

    def interrupted(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.txt", interrupted)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert files_in(tmp_path) == {"a.txt"}


@pytest.mark.parametrize("name", ["a" * 250 + ".txt", "鳥" * 80 + ".txt", "new\nline", os.fsdecode(b"\xff")])
def test_names_of_any_length_and_kind_are_written(tmp_path: Path, name: str) -> None:
    write_text(tmp_path / name, "text")
    assert (tmp_path / name).read_text() == "text"


def test_text_that_utf8_cannot_hold(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "no \udcff utf-8")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "no \\udcff utf-8"


def test_what_a_killed_process_left_is_swept(run: Run) -> None:
    run.save_checkpoint(STATE)
    run.save_weights(WEIGHTS, {})
    before = files_in(run.folder)
    theirs = run.folder / ".mine.part"
    theirs.write_text("no number in its name: not ours")
    for left in (run.folder / ".model.safetensors.1.part", run.checkpoint_file.parent / ".last.ckpt.2.part",
                 run.previews / ".step-000001.png.3.part"):
        left.parent.mkdir(exist_ok=True)
        left.write_text("half")
    run.sweep()
    assert files_in(run.folder) == before | {".mine.part"}


def test_a_folder_is_free_if_no_run_began_there(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    assert run.is_free()
    run.folder.mkdir()
    assert run.is_free()
    (run.folder / ".config.yaml.17.part").write_text("half")
    assert run.is_free()
    (run.folder / "thesis.txt").write_text("")
    assert not run.is_free()
    assert not Run(run.folder / "thesis.txt").is_free()


# -- logs


def test_records_read_back(run: Run) -> None:
    assert list(run.records()) == []
    written = [{"step": 1, "total": 0.5}, {"step": 2, "name": "é \udcff"}]
    for record in written:
        run.log(record)
    assert list(run.records()) == written
    assert len(run.metrics_file.read_text().splitlines()) == 2


@pytest.mark.parametrize("torn", ['{"step": 3, "tot', "{", "\xff", "[" * 100_000, "3", "null"])
def test_a_torn_line_is_left_out_and_spoils_no_other(run: Run, torn: str) -> None:
    run.log({"step": 2})
    with run.metrics_file.open("a", encoding="latin-1") as file:
        file.write(torn)
    assert list(run.records()) == [{"step": 2}]
    run.log({"step": 3})
    assert list(run.records()) == [{"step": 2}, {"step": 3}]
    run.forget_after(2)
    assert run.metrics_file.read_text() == '{"step": 2}\n'


def test_forgetting_what_comes_after_a_checkpoint(run: Run) -> None:
    run.forget_after(0)
    assert list(run.records()) == []
    records = [{"step": 5}, {"step": 6, "evaluation": "validation"}, {"evaluation": "cub"}, {"step": 6},
               {"step": 7}, {"step": 7, "evaluation": "validation"}, {"step": "x"}, {"step": None}]
    for record in records:
        run.log(record)
    run.forget_after(6)
    assert list(run.records()) == records[:4]  # the validation of step 7 will be made again


def test_every_skipped_image_gets_one_line_whatever_its_name(run: Run, tmp_path: Path) -> None:
    names = make_broken_images(tmp_path / "images").names
    run.note_skipped({name: f"reason\n{index}" for index, name in enumerate(names)})
    run.note_skipped({"last.jpg": "torn"})
    lines = run.skipped_file.read_text(encoding="utf-8").split("\n")
    assert lines[-2:] == ["last.jpg\ttorn", ""]
    assert len(lines) == len(names) + 2
    assert len({line.split("\t")[0] for line in lines}) == len(lines)
    assert "other/html.jpg\t" in "\n".join(lines)


def test_one_line() -> None:
    assert one_line("a bird \U0001f426.jpg") == "a bird \U0001f426.jpg"
    assert one_line("new\nline \udcff") == r"'new\nline \udcff'"


# -- fuzzing: only MPAEError, ever

fuzz = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
damage = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=8)


def damaged(content: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    changed = bytearray(content)
    for place, value in changes:
        changed[place % len(changed)] = value
    return bytes(changed[: len(changed) - cut])


def tried(read: Any) -> str:
    """Anything but a result or an MPAEError of one line is a bug."""
    try:
        read()
    except MPAEError as error:
        return "refused" if "\n" not in str(error) else ""
    return "read"


@fuzz
@given(damage, st.integers(0, 200))
def test_any_config_is_read_or_refused(run: Run, changes: list[tuple[int, int]], cut: int) -> None:
    whole = Run.create(run.folder, Config(), {}).config_file.read_bytes()
    run.config_file.write_bytes(damaged(whole, changes, cut))
    assert tried(lambda: Run.open(run.folder).config())


@fuzz
@given(damage, st.integers(0, 40))
def test_any_weights_are_read_or_refused(run: Run, changes: list[tuple[int, int]], cut: int) -> None:
    run.weights_file.write_bytes(damaged(save(WEIGHTS), changes, cut))
    assert tried(run.load_weights)


tensors = st.dictionaries(st.text(max_size=4), st.fixed_dictionaries({
    "dtype": st.sampled_from(["F32", "F16", "BF16", "F64", "I64", "BOOL", "F8_E4M3", "F8_E8M0", "F4", "C64", "X", ""]),
    "shape": st.lists(st.integers(-1, 2**40), max_size=3),
    "data_offsets": st.lists(st.integers(-1, 64), min_size=1, max_size=3)}) | st.integers(), max_size=3)


@fuzz
@given(tensors, st.binary(max_size=64), st.sampled_from([0, 1, -1, 2**40, 2**63]))
def test_any_weights_header_is_read_or_refused(run: Run, header: dict, content: bytes, lie: int) -> None:
    text = json.dumps(header).encode()
    run.weights_file.write_bytes(struct.pack("<Q", max(0, len(text) + lie) % 2**64) + text + content)
    assert tried(run.load_weights)


@pytest.mark.filterwarnings("ignore::UserWarning")
@fuzz
@given(damage, st.integers(0, 40), st.booleans())
def test_any_checkpoint_is_read_or_refused(run: Run, changes: list[tuple[int, int]], cut: int, plain: bool) -> None:
    if plain:
        whole = pickle.dumps({"step": 1, "minutes": 2.0, "model": {}, "optimizer": {}}, protocol=2)
    else:
        run.save_checkpoint(STATE)
        whole = run.checkpoint_file.read_bytes()
    run.checkpoint_file.parent.mkdir(exist_ok=True)
    run.checkpoint_file.write_bytes(damaged(whole, changes, cut))
    assert tried(run.load_checkpoint)


@fuzz
@given(st.binary(max_size=80))
def test_any_log_is_read(run: Run, content: bytes) -> None:
    run.metrics_file.write_bytes(content)
    run.forget_after(3)
    run.log({"step": 4})
    assert list(run.records())[-1] == {"step": 4}
