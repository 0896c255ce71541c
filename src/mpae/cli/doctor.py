"""`mpae doctor`: versions, devices, what is missing; for bug reports and for whoever wonders why nothing works."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib import import_module, metadata
from pathlib import Path

from mpae import __version__
from mpae.cli.console import results
from mpae.cores import available_cores

BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # any of them makes `--precision bfloat16` fast
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimd", "asimddp",
                "i8mm", "bf16")


def doctor() -> None:
    """Versions, devices, instruction sets, cache and what is missing: for bug reports."""
    out = results()
    sections = {"mpae": machine(), "packages": packages(), "devices": devices(), "files": files()}
    faults = [fault for _, found in sections.values() for fault in found]
    for title, (facts, _) in sections.items():
        out.print(f"[bold]{title}[/]", highlight=False)
        for name, value in facts.items():
            out.print(f"  {name:<22}{value}", highlight=False, markup=False, soft_wrap=True)
    for fault in faults:
        out.print(f"- {fault}", highlight=False, markup=False, soft_wrap=True)
    out.print("Nothing is missing." if not faults else f"{len(faults)} missing.", highlight=False)


Facts = tuple[dict[str, str], list[str]]  # what is there, and sentences on what is missing


def machine() -> Facts:
    return {"version": __version__, "Python": sys.version.split()[0],
            "system": platform.platform(), "processor": processor(),
            "cores": f"{available_cores()} of {os.cpu_count()}",
            "instruction sets": ", ".join(instruction_sets()) or "not known",
            "bfloat16": "yes, --precision bfloat16 is fast here" if BFLOAT16 & {*instruction_sets()} else "no"}, []


def packages() -> Facts:
    """Every package that mpae asks for, with the extra that it belongs to."""
    facts, faults = {}, []
    for name, oldest, extra in requirements():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            facts[name] = "missing"
            how = f"'mpae[{extra}]'" if extra else name
            faults.append(f"{name} is not installed{f', which {extra} needs' if extra else ''}; pip install {how}.")
            continue
        facts[name] = found
        if oldest and numbers(found) < numbers(oldest):
            faults.append(f"{name} {found} is older than the {oldest} that mpae needs; pip install -U {name}.")
    return facts, faults


def devices() -> Facts:
    try:
        import torch
    except ImportError as error:
        return {}, [f"torch cannot be imported ({error})."]
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {"threads of torch": str(torch.get_num_threads()),
            "kernels of torch": torch.backends.cpu.get_cpu_capability(),
            "CUDA": ", ".join(gpus) or "none", "mps": "yes" if torch.backends.mps.is_available() else "none",
            "int8 arithmetic": "yes" if torch.backends.mkldnn.is_available() else "none"}, []


def files() -> Facts:
    """What comes with the package, and the cache."""
    from mpae.assets import VGG19, VIT_SMALL
    from mpae.assets.trained import trained_runs

    faults = [f"'{file}' is missing; install mpae again." for file in (VIT_SMALL, VGG19) if not file.is_file()]
    facts = {"installed at": str(Path(import_module("mpae").__file__ or "").parent),
             "runs": ", ".join(trained_runs()) or "none"}
    if not trained_runs():
        faults.append("The runs that come with mpae are missing; install it again.")
    try:
        from mpae.backbones.cache import default_folder
    except ImportError as error:
        return facts, [*faults, f"The feature cache cannot be looked at ({error})."]
    cache = default_folder()
    size = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
    there = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if free < 1e9 or not os.access(there, os.W_OK):
        faults.append(f"The feature cache has no room in '{there}'; free some space, or set cache.folder to another.")
    return facts | {"feature cache": f"{cache}, {size / 1e9:.2f} GB", "free there": f"{free / 1e9:.1f} GB"}, faults


def requirements() -> list[tuple[str, str, str]]:
    """(package, oldest version, extra) of what the installed mpae asks for; what only developers need is left out."""
    try:
        lines = metadata.requires("mpae") or []
    except metadata.PackageNotFoundError:  # run from its source, not installed
        return []
    found = []
    for line in lines:
        name, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"](\w+)['\"]", marker)
        oldest = re.search(r">=\s*([\d.]+)", name)
        if not (extra and extra[1] == "dev"):
            found.append((re.split(r"[\s\[<>=!~(]", name)[0], oldest[1] if oldest else "", extra[1] if extra else ""))
    return found


def numbers(version: str) -> tuple[int, ...]:
    """(2, 4) for 2.4.1+cpu: what is compared."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:2])


def processor() -> str:
    return cpu_info("model name") or platform.processor() or platform.machine()


def instruction_sets() -> list[str]:
    """Those that decide how fast a CPU predicts; Linux tells them."""
    flags = f"{cpu_info('flags')} {cpu_info('Features')}".split()
    return [name for name in INSTRUCTIONS if name in flags]


def cpu_info(key: str) -> str:
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return ""
    found = re.search(rf"^{key}\s*:\s*(.*)$", file.read_text(errors="replace"), re.MULTILINE)
    return found[1] if found else ""
