"""Functions that kernels call: linked into each kernel, and made machine code there alone."""

from __future__ import annotations

from copy import copy
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder


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


class _InlinedCompiler(CompilerBase):
    """Numba's compiler for what is called by kernels alone."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        state.library = _Inlined(state.targetctx.codegen(), state.func_id.func_qualname)
        return [DefaultPassBuilder.define_nopython_pipeline(state)]


helper = numba.njit(error_model="numpy", pipeline_class=_InlinedCompiler)
"""Decorates a function that kernels call, and nobody else: Python cannot."""
