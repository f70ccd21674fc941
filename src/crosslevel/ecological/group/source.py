"""What the group link says about subgroups: the process at their embeddings, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from crosslevel.ecological.group.link import GroupModel
from crosslevel.ecological.group.posterior import Draws
from crosslevel.ecological.partitions import Partition
from crosslevel.typing import FloatArray, IntArray

__all__ = ["GroupSource"]


@dataclass(frozen=True, eq=False)
class GroupSource:
    """Parts of places, and draws of their logits.

    Attributes
    ----------
    model : GroupModel
    partitions : list of Partition
    drawn : dict
        Draws by question, once they were made.
    """

    model: GroupModel
    partitions: list[Partition]
    drawn: dict[int, Draws | None] = field(default_factory=dict, repr=False)

    block = 1_000_000
    """Logits drawn at a time: 8 MB for each of the few copies the way takes, beside their embeddings."""

    @property
    def together(self) -> bool:
        """With a product kernel parts must be drawn at once."""
        return self.model.terms.product

    def logits(self, places: slice, parts: Sequence[IntArray], n_draws: int, seed: int) -> list[list[FloatArray]]:
        """Draw the logits of parts, by partition and question, (n_draws, m) each."""
        out = []
        for number, (part, index) in enumerate(zip(self.partitions, parts, strict=True)):
            M, place, effective = part.vectors(index), part.place[index], part.effective[index]
            out.append(
                [
                    self.model.logits(
                        stage, self._draws(stage, n_draws, seed), M, place, effective, n_draws, (seed, number)
                    )
                    for stage in range(len(self.model.fits))
                ]
            )
        return out

    def distance(self, number: int, parts: IntArray) -> FloatArray:
        """Say how far parts lie from the nearest place; of what is left of a place nobody asks."""
        part = self.partitions[number]
        asked = part.asked[parts]
        out = np.zeros(len(parts))
        out[asked] = self.model.distance(part.vectors(parts[asked]), part.effective[parts[asked]])
        return out

    def _draws(self, stage: int, n_draws: int, seed: int) -> Draws | None:
        if stage not in self.drawn:
            self.drawn[stage] = self.model.draws(stage, n_draws, seed)
        return self.drawn[stage]
