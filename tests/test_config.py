"""Settings: precedence, limits, one plain sentence for every mistake, and nothing else whatever the file holds."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpae.config import (
    ON_DATASET,
    PRESETS,
    Config,
    all_settings,
    from_run,
    nearest_multiples,
    origins,
    parse_assignment,
    read_settings,
    resolve,
)
from mpae.errors import MPAEError
from mpae.files import MAX_BYTES, parse_yaml, read_yaml


def refused(**values: Any) -> str:
    """The message about overrides, given as section__key=value."""
    with pytest.raises(MPAEError) as caught:
        resolve("laptop", None, {name.replace("__", "."): value for name, value in values.items()})
    message = str(caught.value)
    assert "\n" not in message
    assert message[-1] in ".?"
    return message


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "birds.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# -- precedence


def test_defaults_preset_file_and_overrides_in_this_order(tmp_path: Path) -> None:
    file = write(tmp_path, "training: {epochs: 7, batch_size: 32}\nmodel: {num_parts: 4}\n")
    assert Config().training.batch_size == 64
    assert resolve("laptop").training.batch_size == 16
    assert resolve("laptop", file).training.batch_size == 32
    merged = resolve("laptop", file, {"training.batch_size": 24, "model.dim": 64})
    assert (merged.training.batch_size, merged.training.epochs, merged.model.num_parts) == (24, 7, 4)
    assert (merged.model.dim, merged.loss.initial_parts) == (64, 4.0)  # one of the overrides, one of the preset


def test_a_preset_has_values_for_a_dataset_which_file_and_flags_replace(tmp_path: Path) -> None:
    assert resolve("paper").data.image_size == 224
    assert resolve("paper", None, {"data.dataset": "cub"}).data.image_size == 448
    file = write(tmp_path, "preset: paper\ndata: {dataset: partimagenet-seg}\ntraining: {epochs: 7}\n")
    config = resolve(None, file)
    assert (config.training.epochs, config.training.group_size, config.backbone.name) == (7, 64, "dinov2-vitb14-reg")
    assert resolve(None, file, {"data.dataset": "celeba"}).training.group_size == 8
    assert resolve(None, file, {"training.group_size": 16}).training.group_size == 16
    assert resolve("laptop", file).backbone.name == "bundled"  # the flag --preset wins over the file's


def test_the_origin_of_every_value_is_known(tmp_path: Path) -> None:
    file = write(tmp_path, "preset: paper\ndata: {dataset: cub}\nmodel: {num_parts: 4}\n")
    found = origins(None, file, {"training.epochs": 3, "training": {"seed": 5}})
    assert list(found) == [name for name, _ in all_settings()]
    expected = {"data.image_size": "preset paper on cub", "backbone.name": "preset paper", "model.num_parts": str(file),
                "training.epochs": "command line", "training.seed": "command line", "model.dim": "default"}
    assert {name: found[name] for name in expected} == expected
    with pytest.raises(MPAEError, match=r"Unknown option 'model\.dimm'"):
        origins("paper", None, {"model.dimm": 3})


@pytest.mark.parametrize(("dataset", "epochs", "drops"), [
    ("cub", 100, (80, 90)), ("celeba", 20, (15, 18)), ("partimagenet-ood", 70, (50, 60)),
    ("partimagenet-seg", 70, (50, 60))])
def test_the_rate_drops_after_the_released_epochs(dataset: str, epochs: int, drops: tuple[int, int]) -> None:
    config = resolve("paper", None, {"data.dataset": dataset})
    training = config.training
    assert (training.epochs, config.learning_rate(), training.batch_size) == (epochs, 5e-4, 64)
    assert (training.decay, training.clip_norm) == (0.2, 2.0)
    for steps in (1, 7, 93, 94, 232, 320, 713):  # of an epoch; a share that is rounded would miss the epoch's first
        for share, epoch in zip(training.milestones, drops, strict=True):
            assert (epoch * steps - 1) / (epochs * steps) < share <= epoch * steps / (epochs * steps)


@pytest.mark.parametrize("text", ["preset: phone", "preset: [paper]", "preset: 7"])
def test_a_file_with_an_unknown_preset(tmp_path: Path, text: str) -> None:
    with pytest.raises(MPAEError, match=r"^Unknown preset '.*'; choose one of: paper, laptop\.$"):
        resolve(None, write(tmp_path, text))


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_settings(preset: str) -> None:
    values = [PRESETS[preset], *ON_DATASET.get(preset, {}).values()]
    assert all(set(each) <= {name for name, _ in all_settings()} for each in values)
    resolve(preset)


def test_every_setting_has_a_sentence_of_help() -> None:
    assert all(field.description for _, field in all_settings())
    assert len({name for name, _ in all_settings()}) == len(list(all_settings()))


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    config = resolve("paper", None, {"training.milestones": [0.5], "data.root": "a b\nc", "training.max_minutes": 3})
    assert read_settings(write(tmp_path, config.to_yaml())) == config
    assert from_run(yaml.safe_load(config.to_yaml()), "x") == config


def test_a_copy_with_other_values_leaves_the_rest() -> None:
    config = resolve("paper", None, {"model.num_parts": 5})
    other = config.with_values({"training.epochs": 3})
    assert (other.training.epochs, other.model.num_parts, config.training.epochs) == (3, 5, 100)


def test_overrides_are_not_changed_by_reading_them() -> None:
    given_values: dict[str, Any] = {"training": {"epochs": 3}, "training.batch_size": 8}
    assert resolve("laptop", None, given_values).training.epochs == 3
    assert given_values == {"training": {"epochs": 3}, "training.batch_size": 8}


def test_the_learning_rate_follows_the_reading() -> None:
    assert resolve("paper").learning_rate() == 5e-4
    assert resolve("paper", None, {"loss.reading": "paper"}).learning_rate() == 5e-3
    assert resolve("paper", None, {"training.learning_rate": 0.1}).learning_rate() == 0.1


# -- mistakes


@pytest.mark.parametrize(("values", "sentence"), [
    ({"model__num_parts": 0}, "In the settings: model.num_parts is 0, expected at least 1."),
    ({"model__num_parts": 10**9}, "In the settings: model.num_parts is 1000000000, expected at most 1000."),
    ({"training__epochs": True}, "In the settings: training.epochs is True, expected a value other than true or "
                                 "false."),
    ({"loss__semantic": False}, "In the settings: loss.semantic is False, expected a value other than true or "
                                "false."),
    ({"training__milestones": [True]}, "In the settings: training.milestones is [True], expected a value other "
                                       "than true or false."),
    ({"training__epochs": 2.5}, "In the settings: training.epochs is 2.5, expected a whole number."),
    ({"training__epochs": "many"}, "In the settings: training.epochs is 'many', expected a whole number."),
    ({"training__epochs": None}, "In the settings: training.epochs is None, expected a whole number."),
    ({"training__learning_rate": float("nan")},
     "In the settings: training.learning_rate is nan, expected a finite number."),
    ({"loss__semantic": ".inf"}, "In the settings: loss.semantic is '.inf', expected a number."),
    ({"loss__semantic": "inf"}, "In the settings: loss.semantic is 'inf', expected a finite number."),
    ({"training__milestones": [0.5, 2]}, "In the settings: training.milestones is 2, expected at most 1.0."),
    ({"loss__perceptual": [1, 2]}, "In the settings: loss.perceptual is [1, 2], expected more numbers in the "
                                   "list."),
    ({"loss__perceptual": [1] * 6}, "In the settings: loss.perceptual is [1, 1, 1, 1, 1, 1], expected fewer "
                                    "numbers in the list."),
    ({"loss__perceptual": [1, 1, 1, 1, -1]}, "In the settings: loss.perceptual is -1, expected at least 0.0."),
    ({"loss__reading": "both"}, "In the settings: loss.reading is 'both', expected 'released' or 'paper'."),
    ({"data__root": 7}, "In the settings: data.root is 7, expected text (in quotes, if it looks like a number)."),
    ({"cache__enabled": "maybe"}, "In the settings: cache.enabled is 'maybe', expected true or false."),
    ({"training": 5}, "In the settings: training is 5, expected a section with settings."),
    ({"training__seed": 2**64}, "In the settings: training.seed is 18446744073709551616, expected at most "
                                "4294967295."),
    ({"training__seed": -1, "training__epochs": 0},
     "In the settings: training.epochs is 0, expected at least 1; training.seed is -1, expected at least 0."),
])
def test_values_that_cannot_be(values: dict[str, Any], sentence: str) -> None:
    assert refused(**values) == sentence


@pytest.mark.parametrize(("values", "sentence"), [
    ({"model__mask_ration": 1}, "Unknown option 'model.mask_ration' in the settings; did you mean "
                                "'model.mask_ratio'?"),
    ({"mask_ratio": 1}, "Unknown option 'mask_ratio' in the settings; did you mean 'model.mask_ratio'?"),
    ({"loss__num_parts": 1}, "Unknown option 'loss.num_parts' in the settings; did you mean 'model.num_parts'?"),
    ({"modle": {"dim": 8}}, "Unknown option 'modle' in the settings; did you mean 'model'?"),
    ({"xyzzy": 1}, "Unknown option 'xyzzy' in the settings; `mpae settings` lists all."),
    ({"model__dimm": 1, "trainin__epochs": 2, "xyzzy": 3},
     "Unknown options in the settings: 'model.dimm' (did you mean 'model.dim'?), 'trainin' (did you mean "
     "'training'?), 'xyzzy'; `mpae settings` lists all."),
])
def test_unknown_settings_are_all_listed_with_the_nearest(values: dict[str, Any], sentence: str) -> None:
    assert refused(**values) == sentence


def test_the_file_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "model: {mask_ration: 0.5}\n")
    with pytest.raises(MPAEError, match=rf"in {re.escape(str(file))}; did you mean 'model.mask_ratio'\?$"):
        resolve("laptop", file)


@pytest.mark.parametrize(("values", "sentence"), [
    ({"training__batch_size": 20}, "batch_size 20 is not a multiple of group_size 8; use 16 or 24."),
    ({"training__batch_size": 3}, "batch_size 3 is not a multiple of group_size 8; use 8."),
    ({"training__batch_size": 64, "training__devices": 3},
     "batch_size 64 is not a multiple of group_size 8 on each of 3 devices; use 48 or 72."),
    ({"training__batch_size": 16, "training__nodes": 4},
     "batch_size 16 is not a multiple of group_size 8 on each of 4 devices; use 32."),
])
def test_batches_are_made_of_groups(values: dict[str, Any], sentence: str) -> None:
    assert refused(**values) == sentence


@given(st.integers(1, 10_000), st.integers(1, 500))
def test_the_nearest_multiples_are_multiples_around_the_value(value: int, of: int) -> None:
    found = [int(word) for word in nearest_multiples(value, of).split(" or ")]
    assert all(multiple > 0 and multiple % of == 0 and abs(multiple - value) <= of for multiple in found)


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(MPAEError, match=r"^Unknown preset 'phone'; choose one of: paper, laptop\.$"):
        resolve("phone")


# -- --set


@pytest.mark.parametrize(("text", "expected"), [
    ("training.epochs=3", ("training.epochs", 3)),
    (" training.epochs = 3", ("training.epochs", 3)),
    ("data.root=a=b", ("data.root", "a=b")),
    ("training.milestones=[0.5, 0.75]", ("training.milestones", [0.5, 0.75])),
    ("training.max_steps=", ("training.max_steps", None)),
    ("data.root=2024-01-02", ("data.root", "2024-01-02")),
    ("cache.enabled=no", ("cache.enabled", False)),
])
def test_assignments(text: str, expected: tuple[str, Any]) -> None:
    assert parse_assignment(text) == expected
    resolve("laptop", None, dict([expected]))


@pytest.mark.parametrize("text", ["5e-4", "5E-4", "0.0005", "5.0e-4", "'5e-4'"])
def test_numbers_that_yaml_takes_for_text(text: str) -> None:
    name, value = parse_assignment(f"training.learning_rate={text}")
    assert resolve("laptop", None, {name: value}).learning_rate() == 5e-4


@pytest.mark.parametrize(("text", "sentence"), [
    ("training.epochs", "--set 'training.epochs' assigns nothing; write --set section.key=value."),
    ("=3", "--set '=3' assigns nothing; write --set section.key=value."),
    ("a.b=[1", "The value of --set a.b is not plain YAML: expected ',' or ']', but got '<stream end>' "
               "(line 1, column 3)."),
    ("a.b=" + "[" * 2000, "The value of --set a.b is not plain YAML: it is nested too deeply."),
    ("a.b=!!bool 7", "The value of --set a.b is not plain YAML: '7'."),
])
def test_assignments_that_cannot_be(text: str, sentence: str) -> None:
    with pytest.raises(MPAEError) as caught:
        parse_assignment(text)
    assert str(caught.value) == sentence


# -- files


@pytest.mark.parametrize("text", ["", "# nothing\n", "training:\n", "training:\nmodel:\n  # dim: 8\n"])
def test_empty_files_and_sections_change_nothing(tmp_path: Path, text: str) -> None:
    assert resolve("laptop", write(tmp_path, text)) == resolve("laptop")


@pytest.mark.parametrize(("text", "sentence"), [
    ("- a\n- b\n", "holds no sections; expected lines such as 'model:' with settings below"),
    ("just text", "holds no sections"),
    ("model: {dim: 8", r"is not plain YAML: expected ',' or '}', but got '<stream end>' \(line 1, column 15\)"),
    ("model:\n\tdim: 8", r"is not plain YAML: found character '\\t' that cannot start any token \(line 2"),
    (b"\xff\xfe\x00", "is not a text file in UTF-8; expected YAML"),
    ("a: \x00", "is not plain YAML"),
    ("training: {epochs: 3}\ntraining: {seed: 1}\n", r"'training' is given twice \(line 2, column 1\)"),
    ("training:\n  epochs: 3\n  epochs: 4\n", r"'epochs' is given twice \(line 3, column 3\)"),
    ("a: !!python/object/apply:os.system ['touch hacked']", "could not determine a constructor"),
    ("a: &x 1\nb: *x\n", r"aliases such as '\*name' are not used here \(line 2, column 4\)"),
    ("a: !!timestamp 7", "is not plain YAML"),
    ("#" * (MAX_BYTES + 1), r"is larger than 1,000,000 bytes; expected a file of settings"),
    ("[" * 2000, "is not plain YAML: it is nested too deeply"),
    ("a: " + "{a: " * 1000, "is not plain YAML"),
])
def test_files_that_cannot_be(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    with pytest.raises(MPAEError, match=f"^'.*birds.yaml' .*{sentence}.*\\.$"):
        read_yaml(write(tmp_path, text))


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(MPAEError, match=r"^No settings file '.*none.yaml'\.$"):
        read_yaml(tmp_path / "none.yaml")
    for path in (tmp_path, tmp_path / ("a" * 300), tmp_path / "zero\0byte"):
        with pytest.raises(MPAEError, match=r"^Cannot read '.*\.$"):
            read_yaml(path)


def bomb(merge: bool) -> str:
    """Ten levels of ten references each: ten thousand million, if anyone followed them all."""
    lines = ["a0: &a0 {k: v}" if merge else "a0: &a0 [lol, lol]"]
    for level in range(1, 11):
        references = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{references}]}}" if merge else f"[{references}]"))
    return "\n".join(lines)


@pytest.mark.parametrize("merge", [True, False])
def test_a_small_file_cannot_blow_up(tmp_path: Path, merge: bool) -> None:
    start = time.monotonic()
    with pytest.raises(MPAEError, match="aliases"):
        resolve("laptop", write(tmp_path, bomb(merge)))
    assert time.monotonic() - start < 2


def test_long_values_and_many_mistakes_stay_one_readable_sentence(tmp_path: Path) -> None:
    message = refused(training__epochs="x" * 10**6, model__dim=list(range(10**5)), loss__scale=-(16**20_000))
    assert len(message) < 500
    many = write(tmp_path, "\n".join(f"option{number}: 1" for number in range(5000)))
    with pytest.raises(MPAEError, match="and 4980 more; `mpae settings` lists all") as caught:
        resolve("laptop", many)
    assert len(str(caught.value)) < 2000


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().training.epochs = 3  # type: ignore[misc]


# -- fuzzing: only MPAEError, ever, and in one line

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
    st.text(max_size=6) | st.integers(), inner, max_size=4), max_leaves=8)
sections = st.sampled_from(list(Config.model_fields)) | st.text(max_size=8) | st.integers()
keys = st.sampled_from([name.partition(".")[2] for name, _ in all_settings()]) | st.text(max_size=8)
trees = st.dictionaries(sections, values | st.dictionaries(keys, values, max_size=4), max_size=4)


def tried(read: Any) -> str:
    """The outcome in one line; anything but a config or an MPAEError is a bug."""
    try:
        read()
    except MPAEError as error:
        assert str(error) == " ".join(str(error).split("\n"))  # noqa: PT017
        assert len(str(error)) < 5000  # noqa: PT017
        return "refused"
    return "read"


@settings(max_examples=100, deadline=None)
@given(trees)
def test_any_mapping_is_read_or_refused(tree: dict[Any, Any]) -> None:
    assert tried(lambda: from_run(tree, "x"))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([name for name, _ in all_settings()]) | st.text(max_size=12), values,
                       max_size=4))
def test_any_overrides_are_read_or_refused(overrides: dict[str, Any]) -> None:
    assert tried(lambda: resolve("laptop", None, overrides))
    assert tried(lambda: Config().with_values(overrides))


yaml_words = st.sampled_from([
    "model:", "training:", "  epochs:", "dim: 8", "[", "]", "{", "}", "- ", "? ", ": ", ", ", "\n", "  ", "\t", "#",
    "|", ">", "'", '"', "&a", "*a", "<<: ", "!!int", "!!bool x", "!!python/object:os.x", "!!binary", "!!set", "!!omap",
    "!!timestamp", "%YAML 1.1", "---", "...", "2024-01-01", "1:30", "0x", "0o7", ".nan", "~", "yes", "\x00", "\u2028"])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(yaml_words | st.text(max_size=4), max_size=14).map("".join))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    assert tried(lambda: parse_yaml(text, "x"))
    file = write(tmp_path, text.encode("utf-8", "replace"))
    assert tried(lambda: resolve("laptop", file))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    file = write(tmp_path, content)
    assert tried(lambda: read_settings(file))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20))
def test_any_assignment_is_read_or_refused(text: str) -> None:
    assert tried(lambda: parse_assignment(text))
    assert tried(lambda: parse_assignment(f"training.epochs={text}"))


def test_reading_settings_loads_no_heavy_package() -> None:
    script = "import sys, mpae.config; print([name for name in ('torch', 'lightning', 'timm') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60,
                          env={"PYTHONPATH": ":".join(sys.path)})
    assert done.stdout.strip() == "[]"
