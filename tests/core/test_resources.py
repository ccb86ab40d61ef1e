"""The templates are found in a checkout and in a wheel, and their absence is explained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symgrad.core import resources


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site" / "symgrad"
    folder.mkdir(parents=True)
    monkeypatch.setattr(resources, "_PACKAGE", folder)
    resources.template_dir.cache_clear()
    yield folder
    resources.template_dir.cache_clear()


def test_checkout_has_them_beside_the_package(package: Path) -> None:
    beside = package.parent / "codegen_templates"
    beside.mkdir()
    assert resources.template_dir() == beside


def test_wheel_has_them_inside_the_package(package: Path) -> None:
    # A stray folder of that name in site-packages belongs to somebody else.
    (package.parent / "codegen_templates").mkdir()
    inside = package / "_templates"
    inside.mkdir()
    assert resources.template_dir() == inside


def test_absence_names_the_places_and_the_remedy(package: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"_templates and .*codegen_templates.*Reinstall"):
        resources.template_dir()
