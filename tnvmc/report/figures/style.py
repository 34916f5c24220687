"""How pictures look: ink, colours that all people can tell apart, axes, file formats."""

import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import numpy as np

from tnvmc._version import __version__

MADE_BY = "tnvmc plot"
"""What every picture says of its origin, in its metadata."""

FORMATS = ("png", "pdf", "svg")


class Lacking(ValueError):
    """A picture has no data; the text says what is lacking."""


# Okabe and Ito's palette (Color Universal Design, 2008).
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#6B7280"
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
DASHES = ("-", "--", "-.", ":")
INK = "#23272E"
"""Of all text and axes (templates/pictures.mplstyle); on a web page it becomes the colour of the
text around the picture.
"""

DIVERGING, SEQUENTIAL, DENSITY = "RdBu_r", "viridis", "Oranges"

_SETTINGS = files("tnvmc.report") / "templates/pictures.mplstyle"


@contextmanager
def styled() -> Iterator[None]:
    """Set fonts, widths and colours inside the block, and nothing outside it."""
    from matplotlib import rc_context

    with rc_context(fname=str(_SETTINGS)):
        yield


def new_figure(width: float = 5.4, height: float = 3.5, layout: Any = "constrained") -> Any:
    """Make an empty figure of a size in inches that needs no window.

    Axes of equal scales need the layout "compressed": the other one cuts off titles of theirs.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def line(number: int) -> dict[str, str]:
    """Give colour and dashes of one of several runs."""
    dashes = DASHES[number // len(CYCLE) % len(DASHES)]
    return {"color": CYCLE[number % len(CYCLE)], "ls": dashes}


def grid(axes: Any, axis: str = "both") -> None:
    """Put faint lines behind the data."""
    axes.grid(axis=axis, color=INK, alpha=0.13, lw=0.6)
    axes.set_axisbelow(True)


def legend(axes: Any, **options: Any) -> None:
    """Explain what has a label, where anything has."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**options)


def colour_bar(axes: Any, mappable: Any, label: str, **options: Any) -> None:
    """Put a colour bar beside some axes."""
    bar = axes.figure.colorbar(mappable, ax=axes, **{"shrink": 0.85, "aspect": 24, **options})
    bar.set_label(label)
    bar.ax.locator_params(nbins=6)
    bar.outline.set_visible(False)


def encode(figure: Any, form: str) -> bytes:
    """Give the file of a figure: "png" (200 dots per inch), "pdf" or "svg"."""
    signed = f"{MADE_BY}, tnvmc {__version__}"
    all_metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": signed},
        "pdf": {"Creator": signed, "CreationDate": None},
        "svg": {"Creator": signed, "Date": None},
    }
    image = io.BytesIO()
    with styled():
        figure.savefig(image, format=form, dpi=200, metadata=all_metadata[form], facecolor="white")
    return image.getvalue()


def inline_svg(figure: Any, name: str) -> str:
    """Give a figure as an <svg> element for a web page: transparent, in the ink of the page.

    The page says in `--line-blue` what the first colour is; identifiers are prefixed with `name`.
    """
    image = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with styled():
        figure.savefig(image, format="svg", transparent=True, metadata=nothing)
    svg = image.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    svg = re.sub(BLUE, "var(--line-blue)", svg, flags=re.IGNORECASE)
    return re.sub(INK, "currentColor", svg, flags=re.IGNORECASE)


ROUNDING = 1e-12
"""Of logarithms of amplitudes and of relative errors: below it a difference says nothing."""

_NARROWEST = 0.8  # decades: of 1, 2 and 5 times a power of ten two at least are within
_LABELS_UP_TO = 2.0  # decades over which 2 and 5 times a power of ten have labels
_PLAIN = (0.01, 1000.0)  # between them 0.2 is easier to read than 2 x 10^-1
_GAP = 1e4
_FEWEST = 4  # values among which one can be told to be absurd


def logarithmic(axes: Any, which: str, bottom: float | None = None) -> None:
    """Make the "x" or "y" axis logarithmic, once everything is drawn, and not below `bottom`.

    Matplotlib labels nearly every tick of an axis that spans less than a decade, and on an x axis
    they overprint.  Here 1, 2 and 5 times a power of ten have labels, and the axis is widened
    until it has two of them.  Between a hundredth and a thousand they are written without powers.
    """
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator

    getattr(axes, f"set_{which}scale")("log", nonpositive="mask")
    axis = getattr(axes, f"{which}axis")
    axis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(_LABELS_UP_TO,) * 2))
    low, high = getattr(axes, f"get_{which}lim")()
    low = max(low, bottom or low)
    if 0 < low < high:
        missing = max(0.0, _NARROWEST - math.log10(high / low)) / 2
        low, high = (low / 10**missing, high * 10**missing)
        getattr(axes, f"set_{which}lim")(low, high)
        if _PLAIN[0] <= low and high <= _PLAIN[1] and high / low <= 10**_LABELS_UP_TO:
            plain = FuncFormatter(lambda value, _: f"{value:g}")
            axis.set_major_formatter(plain)
            axis.set_minor_formatter(plain)


def absurd(values: Any, gap: float = _GAP) -> np.ndarray:
    """Tell which values would spoil an axis: above 1 and `gap` times the next smaller one.

    They are a tenth of all values at most: a course that is large for longer is to be seen.
    """
    size = np.abs(np.nan_to_num(np.asarray(values, float)))
    if len(size) < _FEWEST:
        return np.zeros(len(size), dtype=bool)
    largest = np.sort(size)[-max(1, len(size) // 10) - 1 :]
    far = (largest[1:] > gap * largest[:-1]) & (largest[:-1] > 0) & (largest[1:] > 1)
    return size >= largest[1:][far][0] if far.any() else np.zeros(len(size), dtype=bool)


def without(values: Any, gone: np.ndarray) -> np.ndarray:
    """Values with a gap where they are `gone`."""
    return np.where(gone, np.nan, values)


def mark_beyond(
    axes: Any, x: np.ndarray, values: np.ndarray, colour: str, name: str | None, edge: str = "top"
) -> None:
    """Mark steps beyond the axis with triangles at its edge; the legend says how far they are."""
    if not len(x):
        return
    largest = values[np.argmax(np.abs(values))]
    told = f"1 step beyond the axis, at {largest:.2g}"
    if len(x) > 1:
        told = f"{len(x)} steps beyond the axis, up to {largest:.2g}"
    axes.plot(
        x, np.full(len(x), float(edge == "top")), "^" if edge == "top" else "v", color=colour,
        transform=axes.get_xaxis_transform(), ms=5, clip_on=False,
        label=told if name is None else f"{name}: {told}",
    )  # fmt: skip


def reach(size: Any, error: Any) -> np.ndarray:
    """Error bars (2, ...) of sizes on a log axis, where they may not reach down to zero."""
    error = np.nan_to_num(np.atleast_1d(error))
    return np.array([np.minimum(error, 0.9 * np.asarray(size)), error])


def logarithmic_or_rounding(
    axes: Any, values: Any, floor: float = ROUNDING, bottom: float | None = None
) -> None:
    """Make the y axis of `values` logarithmic; where nothing is above `floor`, say so instead."""
    known = np.abs(np.asarray(values, float))
    known = known[np.isfinite(known)]
    if not known.size or (known > floor).any():
        if (known > 0).any():
            logarithmic(axes, "y", bottom)
        return
    axes.set_ylim(1e-6 * floor, 1e3 * floor)  # first: all values may be 0
    axes.set_yscale("log", nonpositive="mask")
    axes.axhspan(1e-6 * floor, floor, color=GREY, alpha=0.14, lw=0)
    axes.text(
        0.02, 3 * floor, f"exact to rounding: nothing above {floor:.0e}", fontsize=9, va="bottom",
        transform=axes.get_yaxis_transform(),
    )  # fmt: skip
