//! A policy of a thousand routes with twenty different mistakes: every one is found, at its place, with a way out.

use std::fmt::Write;
use std::time::Instant;

use tidegate::config::fault::Diagnostic;

use crate::text;

/// A mistake: its code, the line of YAML with the place of the fault between `‹` and `›`, and words of the way out.
struct Mistake {
    code: &'static str,
    line: &'static str,
    out: &'static str,
}

const fn mistake(code: &'static str, line: &'static str, out: &'static str) -> Mistake {
    Mistake { code, line, out }
}

/// Those that are made among the limits.
const IN_LIMITS: [Mistake; 6] = [
    mistake("E0203", "  wrong_rate: { rate: ‹10/sec›, burst: 5 }", "write `10/s`"),
    mistake("E0102", "  wrong_word: { rate: 10/s, ‹brust›: 5 }", "did you mean `burst`?"),
    mistake("E0104", "  ‹no_rate›: { burst: 5 }", "needs `rate`"),
    mistake("E0207", "  wrong_mode: { rate: 10/s, mode: ‹shadwo› }", "did you mean `shadow`?"),
    mistake("E0310", "  by_key: { rate: 10/s, key: ‹header:x-api-key› }", "missing"),
    mistake("E0219", "  odd_memory: { rate: 10/s, memory: ‹3MiB› }", "write `4MiB`"),
];

/// Those that are made among the routes.
const IN_ROUTES: [Mistake; 14] = [
    mistake(
        "E0301",
        "  - { name: a1, match: { path: /a1 }, origin: origin_3, limits: [‹limit_l2›] }",
        "did you mean `limit_2`?",
    ),
    mistake("E0302", "  - { name: a2, match: { path: /a2 }, origin: ‹orgin_7› }", "did you mean `origin_7`?"),
    mistake(
        "E0202",
        "  - { name: a3, match: { path: /a3 }, origin: origin_3, timeouts: { read: ‹30› } }",
        "write `30s`",
    ),
    mistake("E0204", "  - { name: a4, match: { path: /a4 }, origin: origin_3, body_limit: ‹10mb› }", "write `10MiB`"),
    mistake("E0216", "  - { name: a5, match: { path: ‹a5› }, origin: origin_3 }", "write `/a5`"),
    mistake("E0215", "  - { name: a6, match: { host: ‹https://a6.example.com› }, origin: origin_3 }", "without scheme"),
    mistake("E0218", "  - { name: a7, match: { method: ‹get› }, origin: origin_3 }", "GET"),
    mistake("E0217", "  - { name: a8, match: { path: { regex: ‹\"/a(8\"› } }, origin: origin_3 }", "unclosed group"),
    mistake("E0201", "  - { name: ‹A-9›, match: { path: /a9 }, origin: origin_3 }", "write `a_9`"),
    mistake("E0304", "  - { name: ‹route_17›, match: { path: /a10 }, origin: origin_3 }", "first here"),
    mistake(
        "E0306",
        "  - { name: a11, match: ‹{ host: shop31.example.com, path: /items/31 }›, origin: origin_3 }",
        "remove one",
    ),
    mistake("E0308", "  - ‹{ name: a12, match: { path: /a12 } }›", "needs `origin` or `respond`"),
    mistake("E0212", "  - { name: a13, match: { path: /a13 }, origin: origin_3, limit: ‹10/s bust 20› }", "burst"),
    mistake(
        "E0214",
        "  - { name: a14, match: { path: /a14 }, origin: origin_3, request_headers: { set: { x-a: ‹\"{client.adress}\"› } } }",
        "{client.ip}",
    ),
];

/// The policy, and where its mistakes stand: line and column, from 1.
fn policy() -> (String, Vec<(usize, usize, &'static Mistake)>) {
    let mut lines: Vec<String> = vec!["listen: \":8080\"".into(), "origins:".into()];
    lines.extend((0..20).map(|nth| format!("  origin_{nth}: {{ addresses: [\"10.0.0.{nth}:8080\"] }}")));
    lines.push("limits:".into());
    for nth in 0..50 {
        lines.push(format!("  limit_{nth}: {{ rate: {}/s, burst: {} }}", nth + 1, 2 * nth + 2));
        lines.extend(IN_LIMITS.get(nth / 8).filter(|_| nth % 8 == 3).map(|mistake| mistake.line.to_owned()));
    }
    lines.push("routes:".into());
    for nth in 0..1_000 - IN_ROUTES.len() {
        let mut line =
            format!("  - {{ name: route_{nth}, match: {{ host: shop{nth}.example.com, path: /items/{nth} }}");
        let _ =
            write!(line, ", origin: origin_{}, limits: [limit_{}, limit_{}] }}", nth % 20, nth % 50, (nth + 7) % 50);
        lines.push(line);
        lines.extend(IN_ROUTES.get(nth / 65).filter(|_| nth % 65 == 40).map(|mistake| mistake.line.to_owned()));
    }
    // whoever is used nowhere would be told so, beside its own mistake
    let named = "wrong_rate, wrong_word, no_rate, wrong_mode, by_key, odd_memory";
    lines.push(format!("  - {{ name: last, match: {{ path: /last }}, origin: origin_0, limits: [{named}] }}"));
    let mut places = Vec::new();
    for (index, line) in lines.iter_mut().enumerate() {
        let Some(at) = line.find('‹') else { continue };
        let mistake = IN_LIMITS.iter().chain(&IN_ROUTES).find(|mistake| mistake.line == line).unwrap();
        places.push((index + 1, at + 1, mistake));
        *line = line.replace(['‹', '›'], "");
    }
    (lines.join("\n") + "\n", places)
}

/// All that is said about a fault, but for its place.
fn said(fault: &Diagnostic) -> String {
    let related: Vec<&str> = fault.related.iter().map(|(_, text)| text.as_str()).collect();
    format!("{} | {} | {} | {}", fault.message, fault.label, fault.help.join(" | "), related.join(" | "))
}

#[test]
fn twenty_mistakes_among_a_thousand_routes_are_found_each_at_its_place_with_a_way_out() {
    let (policy, places) = policy();
    assert_eq!(places.len(), 20);
    let begun = Instant::now();
    let loaded = text(&policy);
    let took = begun.elapsed();
    println!(
        "{} lines, {} bytes: checked in {took:?} (this build, this machine)",
        policy.lines().count(),
        policy.len()
    );
    let found: Vec<String> = loaded
        .diagnostics
        .iter()
        .map(|fault| {
            let at = loaded.sources.position(fault.at);
            format!("{}:{} {} {}", at.line, at.column, fault.code.text(), said(fault))
        })
        .collect();
    for (line, column, mistake) in &places {
        let head = format!("{line}:{column} {} ", mistake.code);
        let told = found.iter().find(|told| told.starts_with(&head));
        let told = told.unwrap_or_else(|| panic!("{head} `{}` is not told:\n{}", mistake.line, found.join("\n")));
        assert!(told.contains(mistake.out), "no way out `{}` in: {told}", mistake.out);
    }
    assert_eq!(found.len(), 20, "more is told than is wrong:\n{}", found.join("\n"));
    assert_eq!(loaded.left_out, 0);
}

/// A thousand routes that are right are not told to be wrong; the same number of steps makes ten times as many routes about ten times
/// as long, which the printed figures show.
#[test]
fn a_thousand_routes_without_a_mistake_are_accepted() {
    let (policy, _) = policy();
    let mistakes: Vec<String> =
        IN_LIMITS.iter().chain(&IN_ROUTES).map(|mistake| mistake.line.replace(['‹', '›'], "")).collect();
    let right: Vec<&str> = policy
        .lines()
        .filter(|line| !mistakes.iter().any(|mistake| mistake == line) && !line.contains("name: last"))
        .collect();
    let loaded = text(&(right.join("\n") + "\n"));
    assert!(loaded.outcome.is_ok() && loaded.diagnostics.is_empty(), "{:#?}", loaded.diagnostics);
}
