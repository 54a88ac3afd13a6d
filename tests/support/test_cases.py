"""The golden-case reader: what it accepts, what it rewrites, and that it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import read_case

TEXT = "// schema: social.pg\n// mode: strict\nquery q { }\n=== diagnostics\nnone\n=== ir\na\n\nb\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "some_case.gq"
    found.write_text(TEXT, encoding="utf-8")
    return found


def test_a_case_is_headers_source_and_sections(path: Path) -> None:
    case = read_case(path)
    assert case.name == "some_case"
    assert case.headers == {"schema": "social.pg", "mode": "strict"}
    assert case.text == "// schema: social.pg\n// mode: strict\nquery q { }\n"
    assert case.sections == {"diagnostics": "none\n", "ir": "a\n\nb\n"}


def test_a_different_output_fails(path: Path) -> None:
    outputs = {"diagnostics": lambda: "none", "ir": lambda: "a\n\nc"}
    with pytest.raises(pytest.fail.Exception, match=r"section `ir` differs"):
        read_case(path).check(outputs, update=False)
    assert path.read_text(encoding="utf-8") == TEXT


def test_an_update_rewrites_only_the_sections(path: Path) -> None:
    outputs = {"diagnostics": lambda: "none", "ir": lambda: "a\n\nc"}
    read_case(path).check(outputs, update=True)
    assert path.read_text(encoding="utf-8") == TEXT.replace("b\n", "c\n")
    read_case(path).check(outputs, update=False)


def test_only_listed_sections_are_computed(path: Path) -> None:
    outputs = {"diagnostics": lambda: "none", "ir": lambda: "a\n\nb", "plan": lambda: 1 // 0}
    read_case(path).check(outputs, update=False)


def test_a_case_that_checks_nothing_is_refused(path: Path) -> None:
    path.write_text("query q { }\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="would check nothing"):
        read_case(path).check({"ir": lambda: ""}, update=False)


def test_a_misspelt_section_is_refused(path: Path) -> None:
    with pytest.raises(AssertionError, match="unknown sections"):
        read_case(path).check({"ir": lambda: ""}, update=True)


def test_line_ends_of_the_source_survive(path: Path) -> None:
    path.write_bytes(b"node A {\r\n}\r\n=== ir\nx\n")
    case = read_case(path)
    assert case.text == "node A {\r\n}\r\n"
    case.check({"ir": lambda: "y"}, update=True)
    assert path.read_bytes() == b"node A {\r\n}\r\n=== ir\ny\n"
