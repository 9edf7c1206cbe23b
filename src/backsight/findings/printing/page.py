"""A finding as a piece of HTML, for a notebook: it loads nothing, and is readable on light and dark pages alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from backsight.findings.printing.excerpt import Excerpt, Row, at_source, change, shown_at, told

if TYPE_CHECKING:
    from backsight.findings.finding import Finding

_LIGHT = (
    "--page:#fff;--ink:#1b1f24;--soft:#5c6670;--edge:#d5dbe1;--panel:#f6f8fa;"
    "--error:#b3261e;--warning:#8a5a00;--note:#0b57d0;--fix:#1a7f37;--lit:#fdeceb;--near:#e9f1fe"
)
_DARK = (
    "--page:#14171b;--ink:#e4e8ec;--soft:#98a3ae;--edge:#333a42;--panel:#1b2026;"
    "--error:#f2867e;--warning:#e0b050;--note:#7cacf8;--fix:#5fce7c;--lit:#3a2020;--near:#1d2b42"
)

# Notebooks have themes of their own, whatever the system prefers; what says nothing follows the system. The piece has
# its own background beside its own ink, so that a wrong guess can be read as well.
_STYLE = f"""
.backsight{{{_LIGHT}}}
@media(prefers-color-scheme:dark){{.backsight{{{_DARK}}}}}
[data-jp-theme-light="true"] .backsight,.vscode-light .backsight,html[theme="light"] .backsight{{{_LIGHT}}}
[data-jp-theme-light="false"] .backsight,.vscode-dark .backsight,html[theme="dark"] .backsight{{{_DARK}}}
.backsight{{background:var(--page);color:var(--ink);border:1px solid var(--edge);border-left:4px solid var(--error);
border-radius:6px;padding:12px 16px;margin:4px 0;max-width:72em;font:14px/1.5 system-ui,sans-serif;text-align:left}}
.backsight.warning{{border-left-color:var(--warning)}}.backsight.note{{border-left-color:var(--note)}}.backsight.good{{border-left-color:var(--fix)}}
.backsight p{{margin:8px 0 0;max-width:90ch;white-space:pre-line;color:inherit}}
.backsight p.head{{margin:0;font-size:15px;font-weight:600}}
.backsight .code{{font:12.5px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}
.backsight .severity{{color:var(--error)}}.backsight.warning .severity{{color:var(--warning)}}
.backsight.note .severity{{color:var(--note)}}.backsight .severity span{{font-weight:400}}
.backsight .where,.backsight .number,.backsight .from{{color:var(--soft)}}
.backsight p code{{background:var(--panel);color:inherit;border-radius:3px;padding:0 3px}}
.backsight pre{{margin:8px 0 0;padding:6px 0;background:var(--panel);color:var(--ink);border:1px solid var(--edge);
border-radius:6px;overflow-x:auto;white-space:pre;word-break:normal}}
.backsight pre .row,.backsight pre .says{{display:block;padding:0 12px;min-width:max-content}}
.backsight pre .where{{display:block;padding:0 12px 4px}}
.backsight pre .context{{color:var(--soft)}}
.backsight pre mark{{background:var(--near);color:inherit;font-weight:600}}
.backsight pre mark.culprit{{background:var(--lit)}}
.backsight pre .sign{{color:var(--note)}}.backsight pre .culprit .sign{{color:var(--error)}}
.backsight pre .says{{color:var(--note);white-space:pre-wrap;min-width:0;max-width:calc(90ch + var(--in));
padding-left:calc(var(--in) + 12px);text-indent:calc(0px - var(--in))}}
.backsight pre .says.of-culprit{{color:var(--error)}}
.backsight .fix b{{color:var(--fix)}}
.backsight pre.change{{padding:6px 12px}}.backsight pre del{{color:var(--error);text-decoration:none}}
.backsight pre ins{{color:var(--fix);text-decoration:none}}.backsight pre u{{text-underline-offset:3px}}
"""


def to_html(finding: Finding) -> str:
    """Return the piece of HTML that shows a finding."""
    label = f"{finding.severity} {finding.code}"
    return (
        f'<style>{_STYLE}</style><section class="backsight {finding.severity}" aria-label="backsight: {escape(label)}">'
        f'<p class="head"><span class="severity">{finding.severity} <span>{escape(finding.code)}</span></span> '
        f"{escape(finding.title)}</p>{''.join(_told(finding))}</section>"
    )


def nothing_found(looked_at: str, unseen: str = "") -> str:
    """Return the piece of HTML for a report without findings, with what its audit could not see."""
    where = f" in {escape(looked_at)}" if looked_at else ""
    besides = f"<p>{_words(unseen)}</p>" if unseen else ""
    head = f'<p class="head">nothing found{where}</p>'
    return f'<style>{_STYLE}</style><section class="backsight good">{head}{besides}</section>'


def _told(finding: Finding) -> Iterator[str]:
    at = shown_at(finding.evidence, finding.source)
    for part in told(finding.evidence, finding.source):
        if isinstance(part, str):
            yield f"<p>{_words(part)}</p>"
            continue
        for excerpt in part:
            yield _excerpt(excerpt)
    if not any(place.text for place in at) and (lines := at_source(finding.source)) is not None:
        yield _excerpt(lines)
    elif finding.source and not at:
        yield f'<p class="from">at <span class="code">{escape(finding.source)}</span></p>'
    if finding.fix:
        yield f'<p class="fix"><b>fix:</b> {_words(finding.fix)}</p>'
        if changed := change(finding):
            tags = {"-": "del", "+": "ins"}
            texts = (f"<{tags[sign]}>{sign} {escape(text)}</{tags[sign]}>" for sign, text in changed)
            yield f'<pre class="code change">{chr(10).join(texts)}</pre>'


def _words(text: str) -> str:
    """Return text as HTML, with what stands in backquotes as code."""
    return re.sub(r"`([^`\n]+)`", r'<code class="code">\1</code>', escape(text))


def _excerpt(excerpt: Excerpt) -> str:
    digits = max(len(str(row.number or "")) for row in excerpt.rows)
    rows = "".join(_row(row, digits) for row in excerpt.rows)
    # Reads as text where styles are taken away, as on GitHub: hence signs and line breaks that stand in the text.
    return f'<pre class="code" tabindex="0"><span class="where">{escape(excerpt.name)}\n</span>{rows}</pre>'


def _underlined(row: Row) -> str:
    if row.span is None:
        return escape(row.text)
    start, end = row.span[0], sum(row.span)
    return f"{escape(row.text[:start])}<u>{escape(row.text[start:end])}</u>{escape(row.text[end:])}"


def _row(row: Row, digits: int) -> str:
    if row.number is None:
        return f'<span class="row context">{"⋮":>{digits + 2}} │\n</span>'
    line = f'<span class="number">{row.number:>{digits}} │ </span>{_underlined(row)}\n'
    if row.part == "context":
        return f'<span class="row context">  {line}</span>'
    sign = "❱" if row.part == "culprit" else "•"
    marked = f'<span class="sign" role="img" aria-label="{row.part}:">{sign} </span>{line}'
    said = ""
    for note in filter(lambda each: each.says, row.notes):
        lead = f"╰╴{note.number}. " if note.number else "╰╴"
        width = digits + 5 + row.indent + len(lead)
        start = f"{'':{digits + 2}} <span class=number>│ </span>{'':{row.indent}}{lead}"
        style = f'class="says of-{row.part}" style="--in:{width}ch"'
        said += f'<span {style}><span aria-hidden="true">{start}</span>{escape(note.says)}\n</span>'
    return f'<mark class="row {row.part}">{marked}</mark>{said}'
