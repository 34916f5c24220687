"""How pictures look: one ink, a palette that colour-blind people can tell apart, and file formats."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from tnvmc._version import __version__

MADE_BY = "tnvmc plot"
"""What every picture says of its origin, in its metadata."""

FORMATS = ("png", "pdf", "svg")

# Okabe and Ito's palette (Color Universal Design, 2008).
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#6B7280"
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
DASHES = ("-", "--", "-.", ":")
INK = "#23272E"
"""Of all text and axes (templates/pictures.mplstyle); on a web page it becomes the colour of the text around the picture."""

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


def colour_bar(figure: Any, mappable: Any, axes: Any, label: str, **options: Any) -> None:
    """Put a colour bar beside some axes."""
    bar = figure.colorbar(mappable, ax=axes, **{"shrink": 0.85, "aspect": 24, **options})
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

    The page says in `--line-blue` what the first colour of the palette is.

    Identifiers are prefixed with `name`, so that several pictures share a page.
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
