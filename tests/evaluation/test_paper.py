"""The paper's own figures."""

from __future__ import annotations

from mpae.evaluation.paper import PAPER, paper_row


def test_rows_of_the_papers_tables():
    assert paper_row("cub", 8) == {"MPAE": {"nmi": 68.24, "ari": 45.85, "nme": 5.53},
                                   "DINO": {"nmi": 47.21, "ari": 19.76}}
    assert paper_row("partimagenet-seg", 50) == {"MPAE": {"nmi": 55.10, "ari": 73.52}}
    assert paper_row("cub", 7) is None
    assert paper_row("folder", 8) is None


def test_every_dataset_has_three_sizes():
    assert {name: sorted(rows) for name, rows in PAPER.items()} == {
        "cub": [4, 8, 16], "celeba": [4, 8, 16],
        "partimagenet-ood": [8, 25, 50], "partimagenet-seg": [8, 25, 50]}
