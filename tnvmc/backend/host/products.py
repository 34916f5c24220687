"""Small matrix products on the processor, by tiles that stay in its registers.

Complex numbers are pairs of real ones, which tiles count.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tnvmc.backend.host.vectors import (
    BYTES,
    INDEX,
    Code,
    Vector,
    helper,
    inlined,
    lanes,
    parts,
    shifted,
    written,
)  # fmt: skip

MOST_SUMS = BYTES // 4
"""Of one tile: half of the registers of the processor."""


@contextmanager
def _loop(builder: Any, count: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Code that runs until the index that it gets is `count`, once at least; it is not unrolled.

    The index goes on by what is put into the list, else by 1.
    """
    place, body = cgutils.alloca_once(builder, INDEX), builder.append_basic_block()
    builder.store(INDEX(0), place)
    builder.branch(body)
    builder.position_at_end(body)
    index, steps = builder.load(place), list[Any]()
    yield index, steps
    following = builder.add(index, steps[0] if steps else INDEX(1))
    builder.store(following, place)
    again, end = builder.icmp_signed("<", following, count), builder.append_basic_block()
    mark = builder.module.add_metadata([f"loop {len(builder.module.metadata)}"])
    mark.operands = mark, builder.module.add_metadata(["llvm.loop.unroll.disable"])
    builder.cbranch(again, body, end).set_metadata("llvm.loop", mark)
    builder.position_at_end(end)


class _Sums:
    """The sums of one tile, in registers while its inner indices run."""

    def __init__(self, code: Code, rows: int, vectors: int, parts: int) -> None:
        self.code, self.parts, self.rows = code, parts, range(rows)
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

    def store(self, v: int, c: Any, offset: Any, cr: Any, mask: Any) -> None:
        """Write vector v of all rows, which are `cr` apart."""
        for row in self.rows:
            begin = self.code.builder.add(offset, self.code.builder.mul(cr, INDEX(row)))
            self.code.store(self.total(row, v), c, begin, mask)

    def store_in_groups(self, v: int, c: Any, cr: Any, n: Any, groups: Any) -> None:
        """Write the first n lanes, piece by piece.

        `groups`: places for the offset of the next column and for how many are left in its group,
        the width of a group, and what lies between two.
        """
        code, builder, (offset, room, width, gap) = self.code, self.code.builder, groups
        with _loop(builder, n) as (lane, steps):
            left, at, rest = builder.load(room), builder.load(offset), builder.sub(n, lane)
            full = builder.icmp_signed("<=", left, rest)
            some = builder.select(full, left, rest)
            before, end = builder.not_(code.first(lane)), code.first(builder.add(lane, some))
            self.store(v, c, builder.sub(at, lane), cr, builder.and_(before, end))
            following = builder.add(at, some)
            builder.store(builder.select(full, width, builder.sub(left, some)), room)
            builder.store(builder.select(full, builder.add(following, gap), following), offset)
            steps.append(some)


def _start(builder: Any, pointer: Any, offset: Any) -> Any:
    """Give an address as one that has nothing to do with others.

    Otherwise LLVM adds up the addresses of rows one after another, and the sums wait for that.
    """
    given = builder.gep(pointer, [offset])
    return builder.asm(ir.FunctionType(given.type, [given.type]), "", "=r,0", [given], False)


def _tile(rows: int, vectors: int) -> Any:
    """A function that writes c = a b for `rows` rows of c and the first n of `vectors` vectors.

    Its arguments: pointers to a, b, c; strides of a by row, by inner and by outer index, of b by
    both as one, of c by row; sizes inner, outer, n; of groups of columns of c, what is left of the
    first, their width, and what lies between two.
    """

    @intrinsic
    def tile(typingctx, a, b, c, steps, sizes, groups):
        vector, parts = Vector(c.dtype), 2 if c.dtype in types.complex_domain else 1

        def write(code: Code, *given: Any) -> Any:
            builder, reals = code.builder, INDEX(parts)
            a_, b_, c_ = map(code.data, given[:3])
            steps_, sizes_, groups_ = (cgutils.unpack_tuple(builder, some) for some in given[3:])
            ar, ak, ao, bk, cr = (builder.mul(step, reals) for step in steps_)
            room, width, gap = (builder.mul(size, reals) for size in groups_)
            inner, outer, n = sizes_[0], sizes_[1], builder.mul(sizes_[2], reals)
            at = [INDEX(v * vector.lanes) for v in range(vectors)]
            some = [INDEX(vector.lanes)] * (vectors - 1) + [builder.sub(n, at[-1])]
            masks = [None] * (vectors - 1) + [code.first(some[-1])]
            sums = _Sums(code, rows, vectors, parts)
            starts = [_start(builder, a_, builder.mul(ar, INDEX(r))) for r in range(0, rows, 4)]
            with _loop(builder, outer) as (out, _), _loop(builder, inner) as (k, _):
                row = builder.mul(builder.add(builder.mul(out, inner), k), bk)
                right = [code.load(b_, builder.add(row, at[v]), masks[v]) for v in range(vectors)]
                column = builder.add(builder.mul(out, ao), builder.mul(k, ak))
                for r in range(rows):
                    place = builder.add(column, builder.mul(ar, INDEX(r % 4)))
                    places = [builder.add(place, INDEX(part)) for part in range(parts)]
                    factors = [code.spread(starts[r // 4], place) for place in places]
                    for v in range(vectors):
                        sums.add(r, v, factors, right[v])
            whole, begins = builder.icmp_signed("<=", n, room), at
            if vectors == 2:  # whole too where the second lies in the next group
                apart = builder.icmp_signed("==", room, at[1])
                fits = builder.icmp_signed("<=", some[1], width)
                whole = builder.or_(whole, builder.and_(apart, fits))
                begins = [at[0], builder.add(at[1], builder.select(apart, gap, INDEX(0)))]
            with builder.if_else(whole) as (at_once, in_groups):
                with at_once:
                    for v in range(vectors):
                        sums.store(v, c_, begins[v], cr, masks[v])
                with in_groups:
                    places = [cgutils.alloca_once(builder, INDEX) for _ in range(2)]
                    builder.store(INDEX(0), places[0])
                    builder.store(room, places[1])
                    for v in range(vectors):
                        sums.store_in_groups(v, c_, cr, some[v], (*places, width, gap))
            return code.context.get_dummy_value()

        return written(types.void(a, b, c, steps, sizes, groups), vector, write)

    return tile


def _rows(heights: tuple[int, ...], vectors: int) -> Any:
    """The same for m rows, by tiles of these heights, of which the last is 1."""
    height, tile = heights[0], _tile(heights[0], vectors)
    lower = _rows(heights[1:], vectors) if height > 1 else inlined(lambda *given: None)

    @inlined
    def rows(a, b, c, steps, sizes, groups, m):
        while m >= height and height * vectors * parts(c) <= MOST_SUMS:
            tile(a, b, c, steps, sizes, groups)
            a, c, m = shifted(a, height * steps[0]), shifted(c, height * steps[4]), m - height
        lower(a, b, c, steps, sizes, groups, m)

    return rows


_PAIRS, _SINGLES = _rows((8, 4, 2, 1), 2), _rows((8, 4, 2, 1), 1)


@intrinsic
def _numbers(typingctx, some):
    """Give a tuple as one of whole numbers of one type: constants would make code of their own."""
    numbers = types.UniTuple(types.intp, len(some))

    def cast(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return context.cast(builder, given[0], some, numbers)

    return numbers(some), cast


@inlined
def products(a, b, c, of_a, of_b, of_c, sizes):
    """Write c = a b, (m, n) of (m, outer inner) and (outer inner, n), inside compiled functions.

    Args:
        a, b, c: pointers to numbers of one type.
        of_a: strides from one matrix to the next, by row, by inner and by outer index.
        of_b: from one matrix to the next and by row; the numbers of a row are contiguous.
        of_c: the same, and from one group of columns to the next; those of one are contiguous.
        sizes: number of matrices, m, n, inner, outer, columns in a group.
    """
    _products(a, b, c, _numbers(of_a), _numbers(of_b), _numbers(of_c), _numbers(sizes))


@helper
def _products(a, b, c, of_a, of_b, of_c, sizes):
    n_matrices, m, n, inner, outer, width = sizes
    gap, steps = of_c[2] - width, (of_a[1], of_a[2], of_a[3], of_b[1], of_c[1])
    j, wide, width = 0, lanes(c) // parts(c), width if gap != 0 else n
    while j < n:
        group, some = j // width if width < n else 0, min(n - j, 2 * wide)
        of_tile, groups = (inner, outer, some), ((group + 1) * width - j, width, gap)
        for i in range(n_matrices):
            left, right = shifted(a, i * of_a[0]), shifted(b, i * of_b[0] + j)
            out = shifted(c, i * of_c[0] + j + group * gap)
            if some > wide:
                _PAIRS(left, right, out, steps, of_tile, groups, m)
            else:
                _SINGLES(left, right, out, steps, of_tile, groups, m)
        j += some


@helper
def product(a, b, c, ar, ak, bk, cr, m, n, inner):
    """The same for one matrix, with one inner index and one group."""
    products(a, b, c, (0, ar, ak, 0), (0, bk), (0, cr, n), (1, m, n, inner, 1, n))
