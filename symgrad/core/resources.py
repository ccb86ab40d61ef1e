"""Files that are no Python: where the templates of the code generators lie."""

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def template_dir() -> Path:
    """Return the folder of the code templates.

    In a checkout, and in an editable install of one, it is the top-level ``codegen_templates/``, so that
    an edit takes effect at once; a wheel carries a copy inside the package.

    Returns
    -------
    pathlib.Path
        An existing folder.

    Raises
    ------
    FileNotFoundError
        If the installation holds no templates.

    Examples
    --------
    >>> template_dir().is_dir()
    True
    """
    candidates = (_PACKAGE / "_templates", _PACKAGE.parent / "codegen_templates")
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        "symgrad's code templates are missing; looked in "
        + " and ".join(str(folder) for folder in candidates)
        + ". Reinstall symgrad."
    )
