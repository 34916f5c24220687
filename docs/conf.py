"""How Sphinx builds these pages; `bash scripts/docs.sh` runs it."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx.errors import ConfigError
from sphinx.ext.napoleon import Config, GoogleDocstring

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import generate

from tnvmc import __version__

# A page of the reference imports its module; without these packages each network would be an error.
if lacking := [name for name in ("jax", "flax") if find_spec(name) is None]:
    raise ConfigError(f"{', '.join(lacking)} missing; install with: pip install -e '.[docs]'")
autodoc_mock_imports = [name for name in ("cupy", "netket", "pandas") if find_spec(name) is None]

project = "tnvmc"
version = release = __version__
copyright = ""
html_title = f"tnvmc {__version__}"
html_show_copyright = html_show_sphinx = False

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nb_execution_mode = "off"  # notebooks are shown as they were stored; the tests execute them
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tnvmc.css"]
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b5394",
        "color-brand-content": "#0b5394",
        "font-stack--monospace": "'DejaVu Sans Mono', Menlo, Consolas, monospace",
    }
}
pygments_style, pygments_dark_style = "friendly", "native"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

default_role = "py:obj"
add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 92
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"Array": "Array"}
smartquotes = False  # of "--set" it makes a dash
autodoc_preserve_defaults = True
# Applied by hand below: as an extension it takes "Steps: fewer are noise" for a type and a text.
_SECTIONS = Config(napoleon_use_ivar=True, napoleon_numpy_docstring=False)
_NO_SECTIONS = ("attribute", "data", "property")
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
_LITERAL = re.compile(r"(``.+?``|`[^`]+`)")


def _bars_as_text(lines: list[str]) -> list[str]:
    """Keep |psi|^2 from being taken for a substitution, outside of literal blocks."""
    kept, block = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if block is not None and line.strip() and indent <= block:
            block = None
        if block is None:
            parts = _LITERAL.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            line_out = "".join(parts)
            if line.rstrip().endswith("::"):
                block = indent
        else:
            line_out = line
        kept.append(line_out)
    return kept


def _on_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what not in _NO_SECTIONS:
        lines[:] = GoogleDocstring(lines, _SECTIONS, app, what, name, obj, options).lines()
    lines[:] = _bars_as_text(lines)


def _on_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str
) -> Any:
    """Leave away the arguments of protocols, which nobody calls; write unions of aliases well."""
    if what == "class" and getattr(obj, "_is_protocol", False):
        return "", None
    return tuple(text and _ALIAS.sub(r"\1", text) for text in (signature, returned))


def _on_missing(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Link the name of a class that is the only one of this name, wherever it lives."""
    from sphinx.util.nodes import make_refnode

    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.split(".")[0][:1].isupper():
        return None
    objects = env.domains.python_domain.objects
    found = [name for name in objects if name.endswith("." + target)]
    if len(found) != 1:
        return None
    entry = objects[found[0]]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content)


def _dashes(app: Any, doctree: Any, page: str) -> None:
    """Put a dash between the name of an argument and its meaning, as `smartquotes` would."""
    from docutils.nodes import Text

    for text in [node for node in doctree.findall(Text) if node == " -- "]:
        text.parent.replace(text, Text(" \u2013 "))


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: generate.write(HERE / "generated"))
    app.connect("autodoc-process-docstring", _on_docstring, priority=100)
    app.connect("autodoc-process-signature", _on_signature)
    app.connect("missing-reference", _on_missing)
    app.connect("doctree-resolved", _dashes)
