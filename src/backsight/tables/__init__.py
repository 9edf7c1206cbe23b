"""Recordings as tables in a terminal or a file: what there is, and one step of a run by module.

Offered to other rooms: `cases`, `codes`, `difference`, `doctor`, `forecast`, `listing`, `named`, `printing`,
`settings`, `step`, `tree`, `verify`.
"""

from backsight.tables.commands import audit_runs, export_run, list_runs, show_run, show_runs, top

__all__ = ["audit_runs", "export_run", "list_runs", "show_run", "show_runs", "top"]
