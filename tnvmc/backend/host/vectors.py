"""Vectors of the processor inside functions that Numba compiles.

A value of type `Vector` is one register: 64 bytes on processors with AVX-512, else 32.  What is
done to it is written down in LLVM, so that no compiler has to find out that a loop can be
vectorised.  Memory is given by pointers to numbers, as an array is counted at each call; offsets
and masks of complex numbers count real ones.  Nothing is checked.
"""

import gc
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.extending import intrinsic, models, overload, register_model

BYTES = 64 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 32
"""Of one vector."""

LINE = 64
"""Bytes of one line of the cache; vectors that lie in two take twice as long."""

INDEX, LANE = ir.IntType(64), ir.IntType(32)


class _Inlined(JITCodeLibrary):
    """Code of a function that waits, as it was written, for the kernels into which it is linked.

    Numba makes machine code of every function, with all that it calls: five times the work.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        own: Any = copy(codegen)
        own.set_env = lambda name, env: None  # it has no place in memory
        super().__init__(own, name)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


_NOT_USED = {
    "with_lifting", "inline_closure_likes", "dead_branch_prune", "inline_inlinables",
    "inline_overloads", "nopython_rewrites",
}  # fmt: skip
"""Passes for what helpers do not hold: functions within them, expressions of whole arrays."""


class _InlinedCompiler(CompilerBase):
    """Numba's compiler for what is called by kernels alone."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        state.library = _Inlined(state.targetctx.codegen(), state.func_id.func_qualname)
        whole = DefaultPassBuilder.define_nopython_pipeline(state)
        manager = PassManager("helper")
        manager.passes = [each for each in whole.passes if each[0].name() not in _NOT_USED]
        manager.finalize()
        return [manager]


class KernelCompiler(Compiler):
    """Numba's compiler for kernels: what they call of Numba is linked as it was written, too."""

    def compile_extra(self, func: Any) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = codegen.create_library(func.__qualname__)
        self.state.library.enable_object_caching()
        codegen.create_library = partial(_Inlined, codegen)  # Numba compiles one at a time
        begin = gc.enable if gc.isenabled() else gc.disable
        gc.disable()  # it takes a tenth of the time
        try:
            return super().compile_extra(func)
        finally:
            del codegen.create_library
            begin()


_OPTIONS: Any = {"error_model": "numpy", "pipeline_class": _InlinedCompiler}

helper = numba.njit(**_OPTIONS)
"""Decorates a function that kernels call, and nobody else: Python cannot."""

inlined = numba.njit(error_model="numpy", pipeline_class=_InlinedCompiler, forceinline=True)
"""The same for a part of another function, which becomes one with it."""


def chosen(function: Any) -> Any:
    """Decorate a helper that gives its body by the types of its arguments."""
    return overload(function, jit_options=_OPTIONS, prefer_literal=True)(function)


class Vector(types.Type):
    """A register of real numbers of one type; of a complex type those of its parts."""

    def __init__(self, dtype: types.Float | types.Complex) -> None:
        self.dtype = getattr(dtype, "underlying_float", dtype)
        super().__init__(name=f"Vector({self.dtype})")

    @property
    def lanes(self) -> int:
        return int(8 * BYTES // self.dtype.bitwidth)

    @property
    def register(self) -> ir.VectorType:
        """Its type in LLVM."""
        element = ir.DoubleType() if self.dtype == types.float64 else ir.FloatType()
        return ir.VectorType(element, self.lanes)

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{self.dtype.bitwidth}"

    @property
    def align(self) -> int:
        """Bytes to which its address is known to be aligned: those of one number."""
        return int(self.dtype.bitwidth // 8)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.register)


class Code:
    """LLVM that is being written: vectors in memory and in registers."""

    def __init__(self, context: Any, builder: Any, vector: Vector) -> None:
        self.context, self.builder, self.vector = context, builder, vector
        self.zero = ir.Constant(vector.register, None)

    def data(self, pointer: Any) -> Any:
        """A pointer to numbers as one to real numbers."""
        return self.builder.bitcast(pointer, self.vector.register.element.as_pointer())

    def load(self, data: Any, offset: Any, mask: Any = None) -> Any:
        """A vector; with a mask, zeros where it is not set, and nothing is read there."""
        address = self._address(data, offset)
        if mask is not None:
            given = [address, LANE(self.vector.align), mask, self.zero]
            name = f"llvm.masked.load.{self.vector.suffix}.p0"
            return self.call(name, self.vector.register, given)
        value = self.builder.load(address)
        value.align = self.vector.align
        return value

    def store(self, value: Any, data: Any, offset: Any, mask: Any = None) -> None:
        address = self._address(data, offset)
        if mask is not None:
            given = [value, address, LANE(self.vector.align), mask]
            self.call(f"llvm.masked.store.{self.vector.suffix}.p0", ir.VoidType(), given)
        else:
            self.builder.store(value, address).align = self.vector.align

    def spread(self, data: Any, offset: Any) -> Any:
        """One number of an array in every lane."""
        return self.spread_value(self.builder.load(self.builder.gep(data, [offset])))

    def spread_value(self, number: Any) -> Any:
        kind = ir.VectorType(number.type, self.vector.lanes)
        undefined = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(undefined, number, LANE(0))
        return self.builder.shuffle_vector(first, undefined, self.lanes_at([0] * kind.count))

    def exchanged(self, value: Any) -> Any:
        """Neighbouring lanes exchanged: real and imaginary parts."""
        order = [lane ^ 1 for lane in range(self.vector.lanes)]
        return self.builder.shuffle_vector(value, value, self.lanes_at(order))

    def signs(self) -> Any:
        """-1 and 1 in turns."""
        element = self.vector.register.element
        signs = [ir.Constant(element, 2.0 * (lane % 2) - 1.0) for lane in range(self.vector.lanes)]
        return ir.Constant(self.vector.register, signs)

    def first(self, n: Any) -> Any:
        """A mask of the first n lanes."""
        numbers = list(range(self.vector.lanes))
        kind = ir.VectorType(INDEX, self.vector.lanes)
        return self.builder.icmp_signed("<", ir.Constant(kind, numbers), self.spread_value(n))

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x y + z, rounded once."""
        return self.call(f"llvm.fma.{self.vector.suffix}", self.vector.register, [x, y, z])

    def call(self, name: str, result: Any, given: Sequence[Any]) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in given])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, given)

    def _address(self, data: Any, offset: Any) -> Any:
        element = self.builder.gep(data, [offset])
        return self.builder.bitcast(element, self.vector.register.as_pointer())

    def lanes_at(self, numbers: Sequence[int]) -> Any:
        """Places of lanes, as a shuffle takes them."""
        return ir.Constant(ir.VectorType(LANE, len(numbers)), list(numbers))


def written(signature: Any, vector: Vector, write: Callable[..., Any]) -> tuple[Any, Any]:
    """Signature and body of an intrinsic, which ``write(code, *arguments)`` writes down."""
    return signature, lambda context, builder, _, arguments: write(
        Code(context, builder, vector), *arguments
    )


@intrinsic
def pointer(typingctx: Any, array: Any, offset: Any) -> Any:
    """Give the address of a number of an array, which has to live as long."""

    def write(code: Code, given: Any, offset: Any) -> Any:
        data = code.context.make_array(array)(code.context, code.builder, given).data
        return code.builder.gep(data, [offset])

    return written(types.CPointer(array.dtype)(array, types.intp), Vector(array.dtype), write)


@helper
def aligned(array):
    """Give an array from its first number on that begins a line of the cache."""
    return array[-array.ctypes.data % LINE // array.itemsize :]


@helper
def lined(n):
    """Give the numbers from one group of n to the next, so that all begin lines of the cache."""
    return (n + 7) // 8 * 8


@intrinsic
def reals(typingctx: Any, start: Any) -> Any:
    """Give a pointer to numbers as one to real numbers, two for each complex one."""
    vector = Vector(start.dtype)
    return written(types.CPointer(vector.dtype)(start), vector, Code.data)


@helper
def keep(*arrays):
    """Nothing: an array whose pointers are in use lives at least to here."""


@intrinsic
def shifted(typingctx: Any, start: Any, offset: Any) -> Any:
    """Give the address of the number `offset` places further on."""
    return written(
        start(start, types.intp), Vector(start.dtype),
        lambda code, given, offset: code.builder.gep(given, [offset]),
    )  # fmt: skip


@intrinsic
def load(typingctx: Any, start: Any, offset: Any) -> Any:
    """Give the vector that begins at `offset`."""
    vector = Vector(start.dtype)
    return written(
        vector(start, types.intp), vector,
        lambda code, given, offset: code.load(code.data(given), offset),
    )  # fmt: skip


@intrinsic
def store(typingctx: Any, start: Any, offset: Any, value: Any) -> Any:
    """Write a vector from `offset` on."""

    def write(code: Code, given: Any, offset: Any, vector: Any) -> Any:
        code.store(vector, code.data(given), offset)
        return code.context.get_dummy_value()

    return written(types.void(start, types.intp, value), value, write)


@intrinsic
def filled(typingctx: Any, start: Any, number: Any) -> Any:
    """Give a number in every lane, of the type that a pointer leads to."""
    vector = Vector(start.dtype)

    def write(code: Code, _: Any, given: Any) -> Any:
        value = code.context.cast(code.builder, given, number, vector.dtype)
        return code.spread_value(value)

    return written(vector(start, number), vector, write)


@intrinsic
def lanes(typingctx: Any, start: Any) -> Any:
    """Give how many real numbers a vector holds."""
    vector = Vector(start.dtype)
    return written(types.intp(start), vector, lambda code, _: INDEX(vector.lanes))


@intrinsic
def parts(typingctx: Any, start: Any) -> Any:
    """Give how many real numbers one number is, 2 for complex ones, as a type of its own."""
    number = 2 if start.dtype in types.complex_domain else 1
    kind = types.literal(number)
    return written(kind(start), Vector(start.dtype), lambda code, _: INDEX(number))


def _reduced(name: str, *before: float) -> Any:
    """A function that gives one number for all lanes of a vector."""

    def reduced(typingctx: Any, x: Any) -> Any:
        def write(code: Code, given: Any) -> Any:
            element = x.register.element
            first = [ir.Constant(element, number) for number in before]
            return code.call(f"llvm.vector.reduce.{name}.{x.suffix}", element, [*first, given])

        return written(x.dtype(x), x, write)

    return intrinsic(reduced)


summed, highest = _reduced("fadd", -0.0), _reduced("fmax")


def _elementwise(name: str, n: int) -> Any:
    """A function of `n` vectors that LLVM has for registers."""

    def write(code: Code, *given: Any) -> Any:
        if name in ("fadd", "fsub", "fmul", "fdiv"):
            return getattr(code.builder, name)(*given)
        return code.call(f"llvm.{name}.{code.vector.suffix}", code.vector.register, given)

    if n == 1:
        return intrinsic(lambda typingctx, x: written(x(x), x, write))
    if n == 2:
        return intrinsic(lambda typingctx, x, y: written(x(x, y), x, write))
    return intrinsic(lambda typingctx, x, y, z: written(x(x, y, z), x, write))


add, subtract, multiply, divide = (_elementwise(n, 2) for n in ("fadd", "fsub", "fmul", "fdiv"))
fma, copysign, sqrt = _elementwise("fma", 3), _elementwise("copysign", 2), _elementwise("sqrt", 1)
absolute, larger = _elementwise("fabs", 1), _elementwise("maxnum", 2)


@intrinsic
def nonzero(typingctx: Any, x: Any) -> Any:
    """Give x, with 1 in place of 0."""

    def write(code: Code, given: Any) -> Any:
        one = ir.Constant(x.register, [1.0] * x.lanes)
        vanishes = code.builder.fcmp_ordered("==", given, code.zero)
        return code.builder.select(vanishes, one, given)

    return written(x(x), x, write)


def _transposed(code: Code, rows: list[Any]) -> list[Any]:
    """Vectors whose lane i are those of vector i: blocks are exchanged, of one lane, of two, ..."""
    wide, size = len(rows), 1
    while size < wide:
        lower = [lane if not lane & size else wide + lane - size for lane in range(wide)]
        upper = [lane + size if not lane & size else wide + lane for lane in range(wide)]
        changed = list(rows)
        for i in range(wide):
            if not i & size:
                pair = rows[i], rows[i + size]
                changed[i] = code.builder.shuffle_vector(*pair, code.lanes_at(lower))
                changed[i + size] = code.builder.shuffle_vector(*pair, code.lanes_at(upper))
        rows, size = changed, 2 * size
    return rows


def _transpose(store: Any) -> Any:
    """A function that copies a square of numbers, as many as a vector has lanes, transposed.

    Its arguments: where to read, place and step there; the same to write; a number for `store`.
    """

    @intrinsic
    def transpose(typingctx, source, begin, step, target, to, to_step, n):
        def write(code: Code, *given: Any) -> Any:
            read_from, begin_, step_, kept, to_, to_step_, n_ = given

            def place(first: Any, by: Any, i: int) -> Any:
                return code.builder.add(first, code.builder.mul(by, INDEX(i)))

            lanes = range(code.vector.lanes)
            rows = [code.load(code.data(read_from), place(begin_, step_, i)) for i in lanes]
            for i, row in enumerate(_transposed(code, rows)):
                store(code, i, row, (code.data(kept), place(to_, to_step_, i)), n_)
            return code.context.get_dummy_value()

        signature = types.void(source, *[types.intp] * 2, target, *[types.intp] * 3)
        return written(signature, Vector(target.dtype), write)

    return transpose


def _first_rows(code: Code, i: int, row: Any, place: tuple[Any, Any], n: Any) -> None:
    with code.builder.if_then(code.builder.icmp_signed("<", INDEX(i), n)):
        code.store(row, *place)


def _first_lanes(code: Code, i: int, row: Any, place: tuple[Any, Any], n: Any) -> None:
    code.store(row, *place, code.first(n))


transpose_rows, transpose_lanes = _transpose(_first_rows), _transpose(_first_lanes)
"""The first writes n rows, the second n numbers of each row."""
