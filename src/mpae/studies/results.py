"""What run folders say: trained or not, figures, minutes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mpae.data.catalogue import find_dataset
from mpae.run import Run


def is_trained(run: Run) -> bool:
    """Whether training came to its end, by steps or by time; an interrupted run did not."""
    return run.exists() and any("ended" in record for record in run.records())


def minutes_spent(run: Run) -> float:
    """Minutes of training up to the last step that was logged."""
    return max((float(record.get("minutes", 0)) for record in run.records()), default=0.0)


def end_of(run: Run) -> dict[str, Any]:
    """What was noted at the end of training: steps, why it ended, `memory_gb`; nothing where it has not ended."""
    return next((record for record in reversed(list(run.records())) if "ended" in record), {})


def evaluation_of(run: Run, wanted: Mapping[str, Any], nme: bool = False) -> dict[str, Any] | None:
    """The last record of the evaluation that is wanted, of the weights that are there; None where there is none.

    Args:
        wanted: what the record must say of dataset, split, images and their size.
        nme: the record must have the NME, where the dataset allows one.
    """
    weights = run.weights_digest() if os.path.isfile(run.weights_file) else None
    found = None
    for record in run.records():
        fits = all(record.get(key) == value for key, value in wanted.items()) and record.get("weights") == weights
        has_nme = not nme or record.get("nme") is not None or not find_dataset(wanted["evaluation"]).fit_split
        if fits and has_nme:
            found = record
    return found
