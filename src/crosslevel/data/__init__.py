"""The way in: frames, bags, streams, regions, official file formats and simulated worlds."""
