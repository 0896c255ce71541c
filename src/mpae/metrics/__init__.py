"""How good the discovered parts are: NMI, ARI, NME, presence and foreground IoU, streaming and exact."""
