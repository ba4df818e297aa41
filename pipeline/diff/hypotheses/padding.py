"""Faults of padding: no zeros past an edge of the image, in all bands or in the first, interior or last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.diff.hypotheses.base import Hypothesis
from pipeline.diff.hypotheses.layers import SIDES, Ints, Layer, Side
from pipeline.diff.hypotheses.model import Model

Mask = npt.NDArray[np.bool_]

_BANDS = {
    "top": ("-first",),
    "bottom": ("-last",),
    "left": ("", "-first", "-interior", "-last"),
    "right": ("", "-first", "-interior", "-last"),
}
"""Bands by side, as ids name them; only the first can have padding at the top, the last at the bottom."""


@dataclass(frozen=True, kw_only=True)
class PaddingMissing(Hypothesis):
    """Taps past an edge read the band's map as a ring: pixel (row * columns + column) modulo its pixels.

    Taps past a corner, and so past another edge too, still read zeros.
    """

    side: Side
    bands: str

    def windows(self, layer: Layer, sites: Ints) -> Ints:
        """Pixels, those past the edge found on the ring."""
        part, row, column = layer.taps(sites)
        held = np.array([part.window.rows for part in layer.parts])[part]
        past = {
            "top": row < 0,
            "bottom": row >= held,
            "left": column < 0,
            "right": column >= layer.image_width,
        }
        read = past.pop(self.side) & ~np.logical_or.reduce([*past.values()])
        ring = layer.base[part] + (row * layer.image_width + column) % (held * layer.image_width)
        return np.where(read & self._hit(part, len(layer.parts)), ring, layer.pixels(part, row, column))

    def _hit(self, part: Ints, parts: int) -> Mask:
        first, last = np.equal(part, 0), np.equal(part, parts - 1)
        return {"": first | True, "-first": first, "-interior": ~first & ~last, "-last": last}[self.bands]


def hypotheses(model: Model) -> Iterator[Hypothesis]:
    """Every fault of this family, in each convolution of the program."""
    for layer in model.layers:
        single = len(layer.parts) == 1
        for side in SIDES if layer.conv.padding else ():
            for bands in _BANDS[side][: 1 if single else None]:
                name = f"no-padding-{side}-{layer.number}{bands}"
                yield PaddingMissing(name, (layer.number,), side=side, bands=bands)
