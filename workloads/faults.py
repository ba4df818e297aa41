"""The faults that can be injected and that a diagnosis may name: what each does, and where it cannot show.

An id is a family and, where both convolutions can have the fault, the number of the convolution. `what` is
the contract between injection and diagnosis; both follow it to the byte. Facts only: the pipeline
commits and diagnoses them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from golden.chain import INPUT, Layer
from golden.errors import UserError
from golden.geometry import C0, SIDES, Conv
from kernels.windows import Window
from workloads.form import Convolution, Form, Loading, Part

STEPS = ("load", "layout", "address", "conv1", "requant1", "hand-over", "conv2", "requant2", "store")
"""The steps of convolutions that follow each other, in order; each fault belongs to one step."""


class FaultError(UserError):
    """A fault's id is unknown; the message says where all are listed, and names a close one if any is."""


OF_PROGRAM = frozenset(
    {
        "wrong-stride",
        "k-step-skipped",
        "k-step-twice",
        "acc-not-reset",
        *(f"no-padding-{side}" for side in ("top", "bottom", "left", "right")),
        "band-up",
        "band-down",
        "halo-stale",
        "map-corrupted",
        "nz-as-nd-mid",
        "nd-as-nz-mid",
        "planes-swapped-2",
    }
)
"""Faults, by family or id, that are mistakes of a program or its plan: if it is proved, it has none of them.

The others are in how numbers are computed, or in what the host hands over and gets back.
"""


@dataclass(frozen=True)
class Fault:
    """One fault: `family` and `conv` (1, 2, or 0 where it is not a convolution's own) make its id.

    `what` says exactly what it does; `step` is the one of `STEPS` that it makes wrong.
    """

    id: str
    family: str
    conv: int
    what: str
    step: str


_REQUANTISATION = {
    "round-then-add": "the product is clipped to -256..255 and rounded, then the offset is added",
    "half-away": "ties are rounded away from zero",
    "offset-unsigned": "the 9-bit offset is read as 0..511",
    "scale32": "the scale is used with all 32 bits (packed with bits 12..0 kept)",
    "scale19-rne": "the scale is rounded to nearest even, not truncated, to 19 bits when it is packed",
    "fma": "product and sum are rounded to fp32 together, once",
    "exact": "the product with the whole accumulator and the sum are exact, and rounded to an integer only",
    "offset-sign": "the offset is subtracted, not added",
    "scale-ignored": "the scale is taken as 1",
    "other-table": "the other convolution's table is used",
    "no-saturation": "not saturated: the low 8 bits of the rounded integer are kept",
    "unsigned-saturation": "saturated to 0..255, of which the low 8 bits are kept",
    "per-row-scale": "row m of an ACC tile of C channels uses entry m % C of theirs for all of them",
}
_BIAS = {
    "bias-missing": "the bias is 0",
    "other-bias": "the other convolution's bias is added",
}
_K_ORDER = {
    "k-order-khkwc": "the filter's K runs (kh, kw, c) over all channels",
    "k-order-ckhkw": "the filter's K runs (c, kh, kw)",
}
_CONVOLUTION = {
    "wrong-stride": "img2col's stride is one less in each direction (2 if it is 1); the positions asked for "
    "stay the same",
    "k-step-skipped": "the last K step of every ACC tile is left out",
    "k-step-twice": "the last K step of every ACC tile is accumulated twice",
    "acc-not-reset": "every ACC tile of a band but its first accumulates onto the tile before, without bias",
}
_PAST_EDGE = (
    "the zero padding past the {side} edge is missing{bands}: a tap there reads the feature map's memory as "
    "a ring, at pixel (row * columns + column) modulo the pixels of the band's map, in its C1 plane"
)
_BAND_CLASSES = {
    "top": ("-first",),
    "bottom": ("-last",),
    "left": ("", "-first", "-interior", "-last"),
    "right": ("", "-first", "-interior", "-last"),
}
_IN_BANDS = {
    "": " in every band",
    "-first": " in the first band",
    "-interior": " in the bands between the first and the last",
    "-last": " in the last band",
}
_WHOLE = (
    Fault("planes-swapped-1", "planes-swapped", 1, "C1 plane p of x holds plane (p + 1) % C1", "layout"),
    Fault(
        "planes-swapped-2",
        "planes-swapped",
        2,
        "C1 plane p of the mid that conv2 reads holds plane (p + 1) % C1",
        "hand-over",
    ),
    Fault("x-nhwc", "x-nhwc", 0, "the buffer of x holds the bytes of NHWC", "layout"),
    Fault(
        "nz-as-nd-mid",
        "nz-as-nd-mid",
        0,
        "a band's mid map [rows * columns, Cmid] lies as NZ and is read as ND",
        "hand-over",
    ),
    Fault(
        "nd-as-nz-mid",
        "nd-as-nz-mid",
        0,
        "a band's mid map [rows * columns, Cmid] lies as ND and is read as NZ",
        "hand-over",
    ),
    Fault(
        "nz-as-nd-y", "nz-as-nd-y", 0, "each ACC tile of y is stored as the bytes of its NZ fractals", "store"
    ),
    Fault(
        "nd-as-nz-y",
        "nd-as-nz-y",
        0,
        "each ACC tile of y is stored as if its ND bytes were NZ fractals, and reordered to ND",
        "store",
    ),
    Fault(
        "band-up",
        "band-up",
        0,
        "all bands except the first read their x rows from one row higher, if that is in the image",
        "load",
    ),
    Fault(
        "band-down",
        "band-down",
        0,
        "all bands except the first read their x rows from one row lower, if that is in the image",
        "load",
    ),
    Fault(
        "halo-stale",
        "halo-stale",
        0,
        "the first kernel2 - stride2 rows of a band's mid buffer are not filled again: they still are those "
        "of the first band",
        "hand-over",
    ),
    Fault(
        "map-corrupted",
        "map-corrupted",
        0,
        "the first 16 rows x 32 columns of filter1 lie over the first 16 pixels of C1 plane 0 of each band's "
        "feature map, if that is gathered beside the other tiles that stay in L1",
        "address",
    ),
    Fault("unwritten", "unwritten", 0, "the last ACC tile of y never reaches GM", "store"),
    Fault(
        "mid-of-other-run",
        "mid-of-other-run",
        0,
        "conv2 reads the mid that a warm-up run on an x of zeros left",
        "hand-over",
    ),
)


def _all() -> Iterator[Fault]:
    for conv in (1, 2):
        for family, what in _REQUANTISATION.items():
            yield Fault(f"{family}-{conv}", family, conv, f"requantisation {conv}: {what}", f"requant{conv}")
        for family, what in _BIAS.items():
            yield Fault(f"{family}-{conv}", family, conv, f"conv{conv}: {what}", f"conv{conv}")
        for family, what in _K_ORDER.items():
            yield Fault(f"{family}-{conv}", family, conv, f"conv{conv}: {what}", "layout")
        for side, classes in _BAND_CLASSES.items():
            for suffix in classes:
                what = _PAST_EDGE.format(side=side, bands=_IN_BANDS[suffix])
                family = f"no-padding-{side}"
                yield Fault(f"{family}-{conv}{suffix}", family, conv, f"conv{conv}: {what}", f"conv{conv}")
        for family, what in _CONVOLUTION.items():
            yield Fault(f"{family}-{conv}", family, conv, f"conv{conv}: {what}", f"conv{conv}")
    yield from _WHOLE


_LAYOUTS_OF_X = frozenset({"planes-swapped-1", "x-nhwc"})
"""Faults in how x lies in GM. A program whose x the host packs cannot have them."""

_MAPS_OF_SECOND = frozenset({"planes-swapped-2", "nz-as-nd-mid", "nd-as-nz-mid", "halo-stale"})
"""Faults in how the whole feature map of the second convolution lies in L1."""

FAULTS: Mapping[str, Fault] = {fault.id: fault for fault in _all()}
"""Every fault by its id."""


def fault_named(name: str) -> Fault:
    """The fault of an id.

    Raises:
        FaultError: there is none.
    """
    if name not in FAULTS:
        near = difflib.get_close_matches(name, FAULTS, n=1)
        closest = f"the closest known name is `{near[0]}`; " if near else ""
        raise FaultError(f"unknown fault {name!r}: {closest}python -m pipeline list --faults has them all")
    return FAULTS[name]


def band_class(fault: Fault) -> str:
    """`first`, `interior` or `last` for a fault of such bands only, empty for one of all bands."""
    last = fault.id.rpartition("-")[2]
    return last if f"-{last}" in _IN_BANDS else ""


def no_place(fault: Fault, form: Form) -> str:
    """Why a program of this form has no place for a fault; empty where it has one."""
    missing = [number for number in _needed(fault) if form.convolution(number) is None]
    if missing:
        return f"this program has no {('first', 'second')[missing[0] - 1]} convolution"
    first = form.convolution(1)
    second = form.convolution(2)
    if fault.id in _MAPS_OF_SECOND and second is not None and second.by_planes:
        return "L1 never holds the whole map of the second convolution, which comes in plane by plane"
    if fault.step == "address" and (
        first is None or first.loading is not Loading.GATHERED or first.by_planes
    ):
        return "this program gathers no feature map beside the other tiles that stay in L1"
    if fault.step in ("load", "layout") and not fault.conv and first is None:
        return f"this program does not read {INPUT}"
    if fault.id in _LAYOUTS_OF_X and first is not None and first.loading is Loading.PACKED:
        return f"the host packs what this program reads of {INPUT}"
    if fault.step == "store" and not form.gives_all:
        return f"this program does not give the whole of {form.chain[-1].output}"
    return ""


def _needed(fault: Fault) -> tuple[int, ...]:
    """Numbers of the convolutions that a program must have for a fault; a hand-over needs its reader."""
    if fault.step == "hand-over":
        return (2,)
    return (fault.conv,) if fault.conv else ()


def can_show(fault: Fault, form: Form) -> str:
    """Why a fault cannot change the output of a program, whatever the data; empty where it can.

    Args:
        fault: one that the program has a place for.
        form: of the program.
    """
    if fault.family in ("other-table", "other-bias"):
        return _not_interchangeable(form)
    if fault.family in ("nz-as-nd-y", "nd-as-nz-y"):
        return _one_plane(f"an ACC tile of {form.last.layer.output}", form.last.columns)
    if fault.family == "halo-stale":
        return _halo_unread(form)
    number = fault.conv or (2 if fault.step == "hand-over" else 1)
    convolution = form.convolution(number)
    if convolution is None:
        return ""
    layer, tile = convolution.layer, convolution.tile
    if fault.family.startswith("k-order") and layer.conv.taps == 1:
        return f"{layer.name} has a kernel of 1"
    if fault.family in ("k-order-khkwc", "planes-swapped"):
        return _one_plane(f"{layer.name}'s input", layer.cin)
    if fault.family in ("x-nhwc", "nz-as-nd-mid", "nd-as-nz-mid"):
        return _one_plane(layer_input(convolution), layer.cin)
    if fault.family in ("k-step-skipped", "k-step-twice"):
        return "" if tile.steps > 1 else f"{layer.name}'s K loop has a single step"
    if fault.family == "acc-not-reset":
        several = any(size > tile.positions for size in convolution.sizes)
        return "" if several else f"a band holds a single ACC tile of {layer.name}"
    if fault.family.startswith("no-padding"):
        return _padding_unread(fault, convolution)
    if fault.family in ("band-up", "band-down"):
        moved = shifted_bands(fault, layer.height, [part.window for part in convolution.parts])
        return "" if moved else "no band can move and stay in the image"
    return ""


def layer_input(convolution: Convolution) -> str:
    """Name of the image that a convolution reads."""
    return INPUT if convolution.number == 1 else convolution.source


def shifted_bands(fault: Fault, height: int, windows: Sequence[Window]) -> tuple[int, ...]:
    """Which bands `band-up` or `band-down` moves: the interior ones together, and the last.

    Args:
        fault: one of the two.
        height: rows of x.
        windows: the x rows of each band.
    """
    shift, last = _shift_of(fault), len(windows) - 1

    def fits(number: int) -> bool:
        return 0 <= windows[number].row + shift <= height - windows[number].rows

    interior = tuple(range(1, last))
    return (interior if all(map(fits, interior)) else ()) + ((last,) if last > 0 and fits(last) else ())


def moved_windows(fault: Fault, height: int, windows: Sequence[Window]) -> list[Window]:
    """The x rows of each band as `band-up` or `band-down` moves them; arguments as of `shifted_bands`."""
    moved = shifted_bands(fault, height, windows)
    return [
        replace(window, row=window.row + _shift_of(fault)) if number in moved else window
        for number, window in enumerate(windows)
    ]


def _shift_of(fault: Fault) -> int:
    """By how many x rows `band-up` or `band-down` moves a band."""
    return -1 if fault.family == "band-up" else 1


def _not_interchangeable(form: Form) -> str:
    if len(form.chain) < 2:
        return "there is no other convolution"
    return "" if form.chain[0].cout == form.chain[1].cout else "the convolutions differ in output channels"


def _one_plane(what: str, channels: int) -> str:
    return "" if channels > C0 else f"{what} has one C1 plane of channels, where both orders are the same"


def padded_side(fault: Fault) -> str:
    """The edge at which a fault leaves the zero padding out, one of `SIDES`; empty if it is another fault."""
    side = fault.family.removeprefix("no-padding-")
    return side if side in SIDES else ""


def other_stride(stride: int) -> int:
    """The stride that `wrong-stride` takes instead of one in a direction: one less, or 2 instead of 1."""
    return stride - 1 or 2


def _padding_unread(fault: Fault, convolution: Convolution) -> str:
    side, bands = padded_side(fault), band_class(fault)
    layer, parts = convolution.layer, convolution.parts
    if not any(layer.conv.sides):
        return f"{layer.name} has no padding"
    if not layer.conv.sides[SIDES.index(side)]:
        return f"{layer.name} has no padding at its {side}"
    if not _passes(layer, side):
        return f"{layer.name}'s windows never pass the {side} edge"
    if bands == "interior" and len(parts) < 3:
        return "there is no band between a first and a last"
    of_class = {"first": parts[:1], "interior": parts[1:-1], "last": parts[-1:]}.get(bands, parts)
    if not any(_reads_past(layer.conv, side, part) for part in of_class):
        return f"no band that this program computes has padding past the {side} edge of {layer.name}"
    if bands and side in ("left", "right") and len(parts) == 1:
        return f"a single band: the same as {fault.family}-{fault.conv}"
    return ""


def _passes(layer: Layer, side: str) -> bool:
    """Whether a window reads past an edge, which has padding; a stride may leave out the last of it."""
    conv = layer.conv
    top, _, left, _ = conv.sides
    if side == "bottom":
        return (layer.out_height - 1) * conv.stride_rows - top + conv.kernel_rows > layer.height
    if side == "right":
        return (layer.out_width - 1) * conv.stride_columns - left + conv.kernel_columns > layer.width
    return True


def _reads_past(conv: Conv, side: str, part: Part) -> bool:
    """Whether a band reads padding past an edge; above and below there may be more of it than it reads."""
    window = part.window
    top = window.skip * conv.stride_rows - window.padding[0]
    if side == "top":
        return top < 0
    if side == "bottom":
        return top + (part.rows - 1) * conv.stride_rows + conv.kernel_rows > window.rows
    return window.padding[SIDES.index(side)] > 0


def halo_rows(conv: Conv) -> int:
    """Input rows that an output row and the next one both read."""
    return max(0, conv.kernel_rows - conv.stride_rows)


def _halo_unread(form: Form) -> str:
    second = form.convolution(2)
    if second is None:
        return ""
    conv = second.layer.conv
    later = [second.parts[number].window for number in second.order[1:]]
    read = any(window.skip * conv.stride_rows - window.padding[0] < halo_rows(conv) for window in later)
    return "" if read else "no band reads mid rows that the band before has read"
