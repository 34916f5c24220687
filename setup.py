"""Puts the settings files of scripts/ into the package, as tnvmc/examples; the rest: setup.cfg."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

EXAMPLES = sorted([*Path("scripts").glob("*.toml"), *Path("scripts").glob("my_*.py")])


class BuildWithExamples(build_py):
    """The package with its examples; an editable install finds them in scripts/ itself."""

    def run(self) -> None:
        if not self.editable_mode:  # modules of an earlier build may be gone from the source
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            self.mkpath(str(Path(self.build_lib, "tnvmc", "examples")))
            for source, target in self._examples().items():
                self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self._examples().values()]

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), *self._examples()]

    def _examples(self) -> dict[str, str]:
        """Files of the repository and where the build puts them."""
        folder = Path(self.build_lib or ".", "tnvmc", "examples")
        return {path.as_posix(): str(folder / path.name) for path in EXAMPLES}


setup(cmdclass={"build_py": BuildWithExamples})
