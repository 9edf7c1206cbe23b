"""Rules and explanations: from a graph, or an error, to findings."""

from backsight.diagnosis.audit import audit, audit_at
from backsight.diagnosis.explain import explain, explaining
from backsight.diagnosis.finding import UNKNOWN, AuditFailed, Finding, Report
from backsight.diagnosis.history import Site

__all__ = ["UNKNOWN", "AuditFailed", "Finding", "Report", "Site", "audit", "audit_at", "explain", "explaining"]
