"""Small matrix products on the processor, by tiles that stay in its registers.

Complex numbers are pairs of real ones: offsets, strides and widths count real numbers.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from tnvmc.backend.host.vectors import INDEX, Code, Vector, helper, lanes, written

Array = Any


class _Sums:
    """The sums of one tile, in registers while its inner index runs."""

    def __init__(self, code: Code, rows: int, vectors: int, parts: int) -> None:
        self.code, self.parts = code, parts
        self._held = {
            (row, v, part): cgutils.alloca_once_value(code.builder, code.zero)
            for row in range(rows) for v in range(vectors) for part in range(parts)
        }  # fmt: skip
        for place in self._held.values():
            code.builder.store(code.zero, place)

    def add(self, row: int, v: int, factors: Any, right: Any) -> None:
        """Add a number, as one vector for each of its parts, times a vector of the right matrix."""
        builder = self.code.builder
        for part in range(self.parts):
            place = self._held[row, v, part]
            builder.store(self.code.fma(factors[part], right, builder.load(place)), place)

    def total(self, row: int, v: int) -> Any:
        """Give a vector of the product; of complex ones, a b = a_r b + i a_i b."""
        builder = self.code.builder
        value = builder.load(self._held[row, v, 0])
        if self.parts == 1:
            return value
        turned = self.code.exchanged(builder.load(self._held[row, v, 1]))
        return self.code.fma(turned, self.code.signs(), value)


def _tile(rows: int, vectors: int, parts: int) -> Any:
    """A function that writes c = a b for `rows` rows of c and the first n of `vectors` vectors.

    Its arguments: pointers to a, b, c; the strides of a by row and by inner index, of b by inner
    index, of c by row; the inner size; n.  All count real numbers but the inner size.
    """

    @intrinsic
    def tile(typingctx, a, b, c, ar, ak, bk, cr, inner, n):
        vector = Vector(c.dtype)

        def write(code: Code, *given: Any) -> Any:
            builder = code.builder
            a_, b_, c_ = map(code.data, given[:3])
            ar_, ak_, bk_, cr_, inner_, n_ = given[3:]
            at = [INDEX(v * vector.lanes) for v in range(vectors)]
            masks = [None] * (vectors - 1) + [code.first(builder.sub(n_, at[-1]))]
            sums = _Sums(code, rows, vectors, parts)
            with cgutils.for_range(builder, inner_) as loop:
                row = builder.mul(loop.index, bk_)
                right = [code.load(b_, builder.add(row, at[v]), masks[v]) for v in range(vectors)]
                column = builder.mul(loop.index, ak_)
                for r in range(rows):
                    place = builder.add(column, builder.mul(ar_, INDEX(r)))
                    factors = [
                        code.spread(a_, builder.add(place, INDEX(part))) for part in range(parts)
                    ]
                    for v in range(vectors):
                        sums.add(r, v, factors, right[v])
            for r in range(rows):
                row = builder.mul(cr_, INDEX(r))
                for v in range(vectors):
                    code.store(sums.total(r, v), c_, builder.add(row, at[v]), masks[v])
            return code.context.get_dummy_value()

        return written(types.void(a, b, c, *[types.intp] * 6), vector, write)

    return tile


def _product(parts: int) -> Any:
    """The product of real (1 part) or complex (2 parts) matrices."""
    high = 8 // parts
    high1, two1, one1 = (_tile(rows, 1, parts) for rows in (high, 2, 1))
    four2, two2, one2 = (_tile(rows, 2, parts) for rows in (4, 2, 1))

    @helper
    def product(a, b, c, ar, ak, bk, cr, m, n, inner):
        ar, ak, bk, cr = parts * ar, parts * ak, parts * bk, parts * cr
        n, j, wide = parts * n, 0, lanes(c)
        while n - j > wide:
            w, i = min(n - j, 2 * wide), 0
            while m - i >= 4:
                four2(_on(a, i * ar), _on(b, j), _on(c, i * cr + j), ar, ak, bk, cr, inner, w)
                i += 4
            if m - i >= 2:
                two2(_on(a, i * ar), _on(b, j), _on(c, i * cr + j), ar, ak, bk, cr, inner, w)
                i += 2
            if m > i:
                one2(_on(a, i * ar), _on(b, j), _on(c, i * cr + j), ar, ak, bk, cr, inner, w)
            j += w
        if n > j:
            w, i = n - j, 0
            while m - i >= high:
                high1(_on(a, i * ar), _on(b, j), _on(c, i * cr + j), ar, ak, bk, cr, inner, w)
                i += high
            while m - i >= 2:
                two1(_on(a, i * ar), _on(b, j), _on(c, i * cr + j), ar, ak, bk, cr, inner, w)
                i += 2
            if m > i:
                one1(_on(a, i * ar), _on(b, j), _on(c, i * cr + j), ar, ak, bk, cr, inner, w)

    return product


@intrinsic
def _on(typingctx, start, offset):
    """Give the address `offset` real numbers further on, as one of the same type."""

    def write(code: Code, given: Any, offset: Any) -> Any:
        place = code.builder.gep(code.data(given), [offset])
        return code.builder.bitcast(place, given.type)

    return written(start(start, types.intp), Vector(start.dtype), write)


_REAL, _COMPLEX = _product(1), _product(2)


def product(a, b, c, ar, ak, bk, cr, m, n, inner):
    """Write c = a b, (m, n) of (m, inner) and (inner, n), inside compiled functions.

    Args:
        a, b, c: pointers to numbers of one type.
        ar, ak: strides of a by row and by inner index.
        bk, cr: strides of b and c by row; their rows are contiguous.
        m, n, inner: sizes.
    """
    raise NotImplementedError("for compiled functions only")


@overload(product)
def _choose(a, b, c, ar, ak, bk, cr, m, n, inner):
    chosen = _COMPLEX if c.dtype in types.complex_domain else _REAL
    return lambda a, b, c, ar, ak, bk, cr, m, n, inner: chosen(a, b, c, ar, ak, bk, cr, m, n, inner)
