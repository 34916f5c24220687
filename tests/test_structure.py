"""Structure of the code: no circle of modules, imports to lower levels, short functions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.structure_of_a_step import structure_of
from tests.test_levels import LEVELS, PACKAGE
from tnvmc import PEPS, VMC, Sampler, heisenberg, square
from tnvmc.backend import host

MOST_LINES = 450  # of a file; the aim is 400
MOST_PARAMETERS = 6  # of a function, without self
MOST_OF_KERNELS = 11  # of a compiled function: what it is given are pointers and sizes, one by one
# Files, functions, depth of calls, pairs of files that call each other, in one step of a PEPS.
MOST_IN_A_STEP = (45, 196, 18, 0)
MOST_METHODS = 12  # public ones of a class, properties included

# Constructors whose arguments are the parts that a user puts together, and a measurement, which is
# told in one call how it is made, whether to show it and where to keep it.
MANY_PARAMETERS = {"FlaxAnsatz.__init__", "PEPS.__init__", "VMC.__init__", "VMC.measure"}

# Budgets of the whole package: what needs more takes something out that is worth less.
MOST_LINES_OF_PACKAGE = 50_000
MOST_FILES = 259
MOST_TYPE_TESTS = 142
MOST_TYPE_TESTS_OF_STATES = 3  # isinstance on one wave function, above ansatz/
LONGEST_CHAIN = 22  # modules that import each other in turn

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Modules of the package by dotted name, a package by the name of its folder."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node, bodies of functions too, but no block for the type checker."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            children = child.orelse
        else:
            children = [child]
        for kept in children:
            yield kept
            yield from at_run_time(kept)


def imported(module: str) -> Iterator[tuple[str, str | None]]:
    """Pairs (module of the package, name in it or None) that a module imports."""
    for node in at_run_time(modules()[module]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            if node.module in modules():
                yield from ((node.module, alias.name) for alias in node.names)


@cache
def origin(module: str, name: str | None) -> str:
    """Where a name that is imported from a module stands: a re-export is followed."""
    if f"{module}.{name}" in modules():
        return f"{module}.{name}"
    for node in modules()[module].body:
        if not isinstance(node, ast.ImportFrom) or node.module not in modules():
            continue
        if name in (alias.asname or alias.name for alias in node.names):
            return origin(node.module, name)
    return module


@cache
def edges() -> dict[str, set[str]]:
    """The modules that each module needs."""
    return {
        module: {origin(*found) for found in imported(module)} - {module} for module in modules()
    }


def level(module: str) -> int | None:
    """The level of the package that a module is in; None for the root, which has none."""
    return LEVELS.get(module.split(".")[1]) if "." in module else None


def definitions(kind: type | tuple[type, ...]) -> Iterator[tuple[str, str, ast.AST]]:
    """Classes or functions as (place, name within the module, node), nested ones included."""

    def below(node: ast.AST, outer: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{outer}.{child.name}".lstrip(".")
                yield name, child
            yield from below(child, name)

    for module, tree in modules().items():
        for name, node in below(tree, ""):
            if isinstance(node, kind):
                yield f"{module}:{node.lineno} {name}", name, node


def n_parameters(function: Function) -> int:
    given = function.args
    named = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"])) + bool(given.vararg) + bool(given.kwarg)


def most_parameters(place: str) -> int:
    return MOST_OF_KERNELS if place.startswith("tnvmc.backend.host.") else MOST_PARAMETERS


def n_public_methods(class_: ast.ClassDef) -> int:
    methods = [node for node in class_.body if isinstance(node, Function)]
    return len({node.name for node in methods if not node.name.startswith("_")})


def test_no_circle_of_modules() -> None:
    """Imports within functions count: they hide a circle, they do not open it."""
    try:
        TopologicalSorter(edges()).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_imports_go_to_lower_levels() -> None:
    """To a lower level, or to any package of the same one."""
    wrong = [
        f"{module} imports {other}"
        for module, needed in edges().items()
        for other in sorted(needed)
        if (here := level(module)) is not None and (there := level(other)) is not None
        if there > here
    ]
    assert wrong == []


def test_every_package_has_a_level() -> None:
    """Except tnvmc itself, its version and ``python -m tnvmc``."""
    packages = {module.split(".")[1] for module in modules() if "." in module}
    assert packages - {"__main__", "_version"} == set(LEVELS)


def test_functions_have_few_parameters() -> None:
    many = {
        name: f"{place}: {n_parameters(node)}"
        for place, name, node in definitions((ast.FunctionDef, ast.AsyncFunctionDef))
        if n_parameters(node) > most_parameters(place)  # type: ignore[arg-type]
    }
    assert [place for name, place in many.items() if name not in MANY_PARAMETERS] == []
    assert set(many) >= MANY_PARAMETERS, "take from the list what has become shorter"


def test_classes_have_few_public_methods() -> None:
    many = [
        f"{place}: {n_public_methods(node)}"
        for place, _, node in definitions(ast.ClassDef)
        if n_public_methods(node) > MOST_METHODS  # type: ignore[arg-type]
    ]
    assert many == []


def test_files_stay_readable() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert [f"{Path(path).name}: {n}" for path, n in lengths.items() if n > MOST_LINES] == []


@pytest.mark.skipif(not host.available(), reason="NumPy passes through more functions")
@pytest.mark.parametrize("sharing", [None, "auto"])
def test_a_step_passes_through_few_files(sharing: str | None) -> None:
    """Upper limits, to be lowered as the code becomes shorter."""
    hamiltonian = heisenberg(square(4, 4))
    sampler = Sampler(n_samples=64, n_walkers=16, n_burn=1, threads=1)
    vmc = VMC(hamiltonian, PEPS(hamiltonian.lattice, 3, sharing=sharing), sampler)
    vmc.run(1, progress=False)
    found = structure_of(vmc.step)
    seen = len(found.files), len(found.functions), found.depth, len(found.two_way)
    assert all(map(operator.le, seen, MOST_IN_A_STEP)), f"{seen}; {sorted(found.two_way)}"


def sources() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def test_the_package_stays_within_its_budget() -> None:
    n_lines = sum(len(text.splitlines()) for text in sources().values())
    assert n_lines <= MOST_LINES_OF_PACKAGE
    assert len(sources()) <= MOST_FILES


def type_tests() -> Iterator[tuple[str, ast.Call]]:
    """All calls of isinstance with the modules that they stand in."""
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                yield module, node


def concrete_states() -> set[str]:
    """Names of the wave functions: classes of ansatz/ that inherit from one of them, or from `GenericAnsatz`."""
    bases = {
        node.name: {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        for module, tree in modules().items()
        if module.startswith("tnvmc.ansatz")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    states = {"PEPS", "GenericAnsatz"}
    while more := {name for name, above in bases.items() if above & states} - states:
        states |= more
    return states


def test_types_are_seldom_asked_for() -> None:
    """What differs between types is a method of them; a wave function is met through its interface."""
    assert len(list(type_tests())) <= MOST_TYPE_TESTS
    states = concrete_states()
    of_states = [
        f"{module}:{node.lineno}"
        for module, node in type_tests()
        if (here := level(module)) is not None and here > LEVELS["ansatz"]
        and {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)} & states
    ]  # fmt: skip
    assert len(of_states) <= MOST_TYPE_TESTS_OF_STATES, of_states


def test_chains_of_imports_are_short() -> None:
    @cache
    def length(module: str) -> int:
        needed = (other for other in edges()[module] if not is_package(other))
        return 1 + max(map(length, needed), default=0)

    longest = max(modules(), key=length)
    assert length(longest) <= LONGEST_CHAIN, longest


def is_package(module: str) -> bool:
    return PACKAGE.parent.joinpath(*module.split("."), "__init__.py").exists()


def test_no_module_names_a_higher_one() -> None:
    """Nor as a text that is imported later: what a low level needs of a high one is an argument."""
    upwards = [
        f"{module}:{node.lineno} names {node.value}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in modules()
        if (here := level(module)) is not None and (there := level(node.value)) is not None
        if there > here
    ]
    assert upwards == []
