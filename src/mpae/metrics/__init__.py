"""How good the discovered parts are: NMI, ARI, NME, presence and foreground IoU, streaming and exact."""

from mpae.metrics.clustering import PartClusteringMetric, ari, nmi
from mpae.metrics.foreground import ForegroundIoU, foreground_iou
from mpae.metrics.presence import PartPresence, part_areas
from mpae.metrics.regression import KeypointSamples, keypoint_errors, nme, part_centres

__all__ = ["ForegroundIoU", "KeypointSamples", "PartClusteringMetric", "PartPresence", "ari",
           "foreground_iou", "keypoint_errors", "nme", "nmi", "part_areas", "part_centres"]
