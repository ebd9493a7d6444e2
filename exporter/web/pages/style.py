"""The style sheet of all pages: quiet, readable on a phone, light and dark, safe for colour-blind eyes."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark;
  --paper: #f7f8fa; --card: #ffffff; --ink: #1b2430; --soft: #5b6775; --line: #e1e5ea; --band: #f1f3f6;
  --good: #0a63a8; --bad: #b8480b; --open: #6b5a12; --mute: #5b6775; --none: #8b97a5; --limit: #b8480b;
  --good-bg: #e5f0f9; --bad-bg: #fcebdf; --open-bg: #f6f1dc; --mute-bg: #edf0f3; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #12161b; --card: #191f26; --ink: #e4e9ef; --soft: #9aa7b5; --line: #2a323c; --band: #1f262e;
  --good: #74b8f0; --bad: #f5a06a; --open: #d9c671; --mute: #9aa7b5; --none: #6c7886; --limit: #f5a06a;
  --good-bg: #16324a; --bad-bg: #47260f; --open-bg: #393214; --mute-bg: #27303a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 32px; display: flex; flex-wrap: wrap; gap: 4px 24px; align-items: baseline; }
h1 { font-size: 24px; line-height: 1.2; margin: 0; letter-spacing: -0.01em; }
h1 small { font-size: 14px; font-weight: 400; color: var(--soft); letter-spacing: 0; margin-left: 6px; }
header p { margin: 0; color: var(--soft); font-size: 14px; }
header .since { margin-left: auto; }
.summary { margin: 14px 0 24px; font-size: 17px; }
.problems { margin: 0 0 24px; padding: 12px 16px 12px 34px; background: var(--bad-bg); border-radius: 10px; }
.problems li::marker { content: "▲ "; color: var(--bad); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; margin: 0 0 28px;
  overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14.5px; }
caption { text-align: left; padding: 16px 20px 12px; }
caption b { font-size: 17px; display: block; }
caption span { color: var(--soft); font-size: 13px; }
th, td { text-align: left; padding: 9px 7px; vertical-align: middle; }
th:first-child, td:first-child { padding-left: 20px; }
th:last-child, td:last-child { padding-right: 20px; }
thead th { font-size: 12px; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line);
  vertical-align: bottom; line-height: 1.35; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
tbody th { font-weight: 600; }
tr.group th { background: var(--band); font-size: 14px; padding-top: 7px; padding-bottom: 7px; }
tr.group th span { font-weight: 400; color: var(--soft); margin-left: 8px; }
tbody + tbody tr:first-child > * { border-top: 1px solid var(--line); }
.number { text-align: right; white-space: nowrap; }
.op { font-weight: 500; white-space: nowrap; }
.rate { font-weight: 400; white-space: normal; min-width: 12ch; }
tr.group th span.cost { float: right; }
.soft { color: var(--soft); font-size: 13px; }
.from { white-space: nowrap; line-height: 1.35; } td.picture { padding-left: 4px; padding-right: 4px; }
.big { font-weight: 650; }
.interval { display: block; color: var(--soft); font-size: 12.5px; line-height: 1.35; }
.muted .big { font-weight: 400; color: var(--soft); }
.chip { display: inline-block; padding: 1px 10px; border-radius: 999px; font-size: 13px; font-weight: 600;
  white-space: nowrap; }
.chip i { font-style: normal; font-size: 11px; margin-right: 6px; }
.good { color: var(--good); background: var(--good-bg); }
.bad { color: var(--bad); background: var(--bad-bg); }
.open { color: var(--open); background: var(--open-bg); }
.mute { color: var(--mute); background: var(--mute-bg); }
.chart { display: block; }
.chart .none { stroke: var(--none); stroke-width: 1; }
.chart .limit { stroke: var(--limit); stroke-width: 1; stroke-dasharray: 2 3; }
.chart rect { opacity: 0.4; } .chart rect, .chart circle, .chart path { fill: var(--soft); }
.t-good .chart :is(rect, circle, path) { fill: var(--good); }
.t-bad .chart :is(rect, circle, path) { fill: var(--bad); }
.words { overflow-wrap: anywhere; max-width: 46ch; }
.pair { display: block; } .pair + .pair { margin-top: 3px; }
tbody tr.notes > td { border-top: 0; padding-top: 0; }
.notes ul { margin: 0; padding: 0 0 4px; list-style: none; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.notes li::before { content: "○ "; color: var(--open); } .notes b { color: var(--open); font-weight: 600; }
.notes li.breach { color: var(--ink); } .notes li.breach::before { content: "▲ "; color: var(--bad); }
.empty { padding: 0 20px 20px; margin: 0; color: var(--soft); }
.legend { color: var(--soft); font-size: 13px; margin: -14px 4px 28px; padding: 0; list-style: none; }
.noise { color: var(--soft); font-size: 13px; margin: -14px 4px 28px; }
.legend li { display: inline-block; margin-right: 18px; }
.legend b { font-weight: 600; color: var(--ink); }
footer { padding-bottom: 40px; color: var(--soft); font-size: 14px; display: flex; flex-wrap: wrap; gap: 4px 20px; }
a { color: var(--good); text-underline-offset: 3px; }
footer span { margin-left: auto; }
@media (max-width: 1120px) {
  main, header, footer { padding-left: 14px; padding-right: 14px; }
  header { padding-top: 20px; } header .since, footer span { margin-left: 0; width: 100%; }
  thead { position: absolute; left: -9999px; }
  table, caption, tbody, tr, tbody th, td { display: block; }
  tbody tr { padding: 10px 16px; } tbody tr.group { padding: 0; }
  th, td, th:first-child, td:first-child { padding: 2px 0; } tr.group th:first-child { padding: 7px 16px; }
  tbody tr + tr > * { border-top: 0; } tbody tr + tr { border-top: 1px solid var(--line); }
  tbody + tbody tr:first-child > * { border-top: 0; } tbody tr + tr.notes { border-top: 0; padding-top: 0; }
  td[data-label] { display: grid; grid-template-columns: 142px 1fr; gap: 10px; align-items: baseline;
    justify-items: start; }
  td[data-label]::before { content: attr(data-label); color: var(--soft); font-size: 13px; }
  .number { text-align: left; } td.picture, td.dash:not(.keep) { display: none; }
  .op { font-weight: 650; } tr.group th span.cost { float: none; display: block; margin-left: 0; }
  .words { max-width: none; } caption { padding: 14px 16px 10px; }
  .legend li { display: block; }
}
"""
