//! Colours by role, in light and in dark.
//!
//! Never by colour alone: what was refused is hatched as well, lines are dashed each in its own way, and the legend
//! stands in the order of the areas. Red and green of equal lightness are what many readers cannot tell apart, so
//! admitted is dark and refused light.

/// The style sheet of every chart.
pub const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#57606a}\
.title{font-size:14px;font-weight:600;fill:#1f2328}\
.heading{font-weight:600;fill:#1f2328}\
.paper{fill:#fff}\
.grid{stroke:#d0d7de;stroke-width:1;fill:none}\
.axis{stroke:#57606a;stroke-width:1;fill:none}\
.admitted{fill:#1a7f64}\
.bystander{fill:#2f6fb5}\
.refused{fill:url(#refused)}\
.hatch{stroke:#c2413b;stroke-width:2.5}\
.under{fill:#f6c9c4}\
.offered{fill:none;stroke:#1f2328;stroke-width:1.5}\
.line{fill:none;stroke:#1f2328;stroke-width:1.5;stroke-dasharray:6 4}\
.second{stroke-dasharray:2 3}\
@media(prefers-color-scheme:dark){\
text{fill:#9ea7b1}\
.title,.heading{fill:#f0f3f6}\
.paper{fill:#0d1117}\
.grid{stroke:#30363d}\
.axis{stroke:#9ea7b1}\
.admitted{fill:#3fb68b}\
.bystander{fill:#6cb0f5}\
.hatch{stroke:#ff8a80}\
.under{fill:#5c2320}\
.offered{stroke:#f0f3f6}\
.line{stroke:#f0f3f6}}";

/// The style sheet of curves, besides.
pub const MORE: &str = "\
.curve{fill:none;stroke-width:2}\
.c0{stroke:#b35900}\
.c1{stroke:#2f6fb5;stroke-dasharray:8 3}\
.c2{stroke:#1a7f64;stroke-dasharray:2 3}\
.c3{stroke:#8250df;stroke-dasharray:8 3 2 3}\
.c4{stroke:#57606a;stroke-dasharray:4 4}\
.c5{stroke:#a40e5b;stroke-dasharray:12 4}\
.point{fill:#1f2328;stroke:#fff;stroke-width:2}\
.said{fill:#1f2328;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px}\
@media(prefers-color-scheme:dark){\
.c0{stroke:#f0a050}\
.c1{stroke:#6cb0f5}\
.c2{stroke:#3fb68b}\
.c3{stroke:#c297ff}\
.c4{stroke:#9ea7b1}\
.c5{stroke:#ff80b5}\
.point{fill:#f0f3f6;stroke:#0d1117}\
.said{fill:#f0f3f6;stroke:#0d1117}\
}";
