"""The paper's figures, to print beside ours (Tables 1 to 3, in percent)."""

from __future__ import annotations

Row = dict[str, float]  # nmi, ari, and nme where the table has it


def _row(nmi: float, ari: float, nme: float | None = None) -> Row:
    return {"nmi": nmi, "ari": ari} | ({} if nme is None else {"nme": nme})


# dataset -> K -> system. DINO is the clustering of frozen features by Amir et al.
PAPER: dict[str, dict[int, dict[str, Row]]] = {
    "cub": {
        4: {"MPAE": _row(58.93, 33.73, 7.75), "DINO": _row(31.18, 11.21)},
        8: {"MPAE": _row(68.24, 45.85, 5.53), "DINO": _row(47.21, 19.76)},
        16: {"MPAE": _row(79.00, 66.56, 5.14), "DINO": _row(50.57, 26.14)},
    },
    "celeba": {
        4: {"MPAE": _row(56.13, 37.20, 11.44), "DINO": _row(1.38, 0.01, 11.36)},
        8: {"MPAE": _row(59.64, 41.72, 7.55), "DINO": _row(1.12, 0.01, 10.74)},
        16: {"MPAE": _row(70.21, 60.33, 7.10), "DINO": _row(3.29, 0.06)},
    },
    "partimagenet-ood": {
        8: {"MPAE": _row(32.90, 66.17), "DINO": _row(19.17, 7.59)},
        25: {"MPAE": _row(39.28, 68.87), "DINO": _row(31.46, 14.16)},
        50: {"MPAE": _row(53.65, 74.22), "DINO": _row(37.81, 16.50)},
    },
    "partimagenet-seg": {
        8: {"MPAE": _row(33.51, 65.05)},
        25: {"MPAE": _row(37.22, 68.04)},
        50: {"MPAE": _row(55.10, 73.52)},
    },
}


def paper_row(dataset: str, num_parts: int) -> dict[str, Row] | None:
    """The paper's rows for a dataset and K by system, {"MPAE": {...}, "DINO": {...}}, or None."""
    return PAPER.get(dataset, {}).get(num_parts)
