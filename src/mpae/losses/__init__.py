"""The objective: one file for each constraint of the paper (Eq. 3-11), and their weighted sum."""

from mpae.losses.alternatives import area_loss, batch_presence_loss, concentration_loss
from mpae.losses.border import border_prior
from mpae.losses.distribution import entropy_loss, variation_loss
from mpae.losses.objective import Objective, ObjectiveInput
from mpae.losses.perceptual import PerceptualNetwork
from mpae.losses.presence import background_loss, centre_distance, foreground_loss
from mpae.losses.restoration import perceptual_loss, pixel_loss, restoration_loss
from mpae.losses.semantic import part_means, semantic_loss

__all__ = [
    "Objective",
    "ObjectiveInput",
    "PerceptualNetwork",
    "area_loss",
    "background_loss",
    "batch_presence_loss",
    "border_prior",
    "centre_distance",
    "concentration_loss",
    "entropy_loss",
    "foreground_loss",
    "part_means",
    "perceptual_loss",
    "pixel_loss",
    "restoration_loss",
    "semantic_loss",
    "variation_loss",
]
