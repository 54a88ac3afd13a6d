"""`@check` patterns are compiled when the schema is, not when the first row arrives.

Values are checked column by column with RE2, so RE2 is asked; the library is loaded only by a
schema that has a pattern.
"""

from __future__ import annotations

from omnigraph.compiler.diagnostics import Diagnostic, DiagnosticList, Phase
from omnigraph.compiler.schema.ast import Check, SchemaAst


def check_patterns(ast: SchemaAst, findings: DiagnosticList) -> None:
    """Report every pattern that cannot be compiled."""
    checks = [
        constraint
        for node in ast.nodes()
        for constraint in node.constraints
        if isinstance(constraint, Check)
    ]
    if not checks:
        return
    from omnigraph.compiler.catalog.arrow import find_pattern_error  # loads the Arrow library

    for check in checks:
        if problem := find_pattern_error(check.pattern):
            findings.add(
                Diagnostic(
                    "C007",
                    Phase.CATALOG,
                    f"the pattern for `{check.prop}` is invalid: {problem}",
                    check.span,
                    "patterns use RE2 syntax: no look-around, no back-references",
                )
            )
