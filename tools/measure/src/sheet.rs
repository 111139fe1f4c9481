//! The style sheet of the page: readable on a phone, on a desk, in the dark and on paper.

/// Rules; those of series and drawings are added by the page.
pub(crate) const SHEET: &str = "\
:root{color-scheme:light dark;--ink:#1d2126;--soft:#5b6470;--paper:#fff;--card:#f6f7f9;\
--edge:#d9dde3;--held:#006b4e;--fell:#b13c00;--open:#5b6470;--link:#0a58a8}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#a2abb6;--paper:#14161a;\
--card:#1c1f25;--edge:#343a43;--held:#3fd0a3;--fell:#ff9468;--open:#a2abb6;--link:#79b4ff}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:1180px;padding:0 16px 64px;background:var(--paper);color:var(--ink);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;overflow-wrap:break-word}\
h1{font-size:1.7rem;line-height:1.2;margin:28px 0 6px}\
h2{font-size:1.25rem;line-height:1.3;margin:0 0 4px}\
h2 small{font-weight:400;color:var(--soft);font-size:.85rem;display:block}\
p{margin:8px 0;max-width:75ch}a{color:var(--link)}code,pre{font:13px/1.5 ui-monospace,monospace}\
pre{background:var(--card);border:1px solid var(--edge);border-radius:6px;padding:8px 10px;\
overflow-x:auto;margin:8px 0}\
section{border-top:1px solid var(--edge);padding-top:26px;margin-top:34px}\
.soft{color:var(--soft)}\
.warn{border-left:4px solid var(--fell);background:var(--card);padding:8px 12px;margin:12px 0}\
.warn p{margin:4px 0}\
.panels{display:grid;gap:18px 24px;\
grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));\
margin:14px 0}\
.panels svg{width:100%;max-width:560px;height:auto;display:block}\
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,250px),1fr));gap:6px 20px;\
margin:12px 0;font-size:.88rem}dt{color:var(--soft);font-size:.8rem}dd{margin:0;min-width:0}\
.scroll{overflow-x:auto;margin:10px 0}\
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
caption{text-align:left;color:var(--soft);padding-bottom:4px}\
th,td{padding:4px 10px;border-bottom:1px solid var(--edge);text-align:right;white-space:nowrap}\
th:first-child{text-align:left}thead th{vertical-align:bottom}\
.verdicts{width:100%}.verdicts td,.verdicts th{text-align:left;white-space:normal;\
vertical-align:top}.verdicts .out{white-space:nowrap}\
.held,.fell,.open{font-weight:600}.held{color:var(--held)}.fell{color:var(--fell)}\
.open{color:var(--open)}\
details{margin:10px 0}summary{cursor:pointer;color:var(--link);padding:4px 0}\
ul{padding-left:20px;margin:8px 0}li{margin:3px 0}\
@media(max-width:640px){h1{font-size:1.4rem}.verdicts thead{display:none}\
.verdicts tr{display:block;border-bottom:1px solid var(--edge);padding:8px 0}\
.verdicts td,.verdicts th{display:block;border:0;padding:1px 0}}\
@media print{.panels{display:block}section{break-inside:avoid}}";
