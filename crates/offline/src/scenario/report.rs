//! Outcomes for people, for machines, and for the systems that gather the results of tests.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::failures;
use super::outcome::{Difference, Outcome};

/// How outcomes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As test runners do, for people.
    Text,
    /// One JSON document.
    Json,
    /// JUnit's XML, as build servers read it.
    Junit,
}

/// The schema of [`Format::Json`]. Fields may be added under this number, none taken away.
pub const JSON_SCHEMA: &str = "tidegate.test/1";

/// A test that was run.
#[derive(Debug)]
pub struct Tested {
    /// What it claims.
    pub name: String,
    /// The file that it stands in.
    pub file: String,
    /// Its line there.
    pub line: usize,
    /// What came of it.
    pub outcome: Outcome,
}

/// All outcomes. `left_out`: how many tests were not asked for. The same tests give the same text each time, but for `took`, the
/// time that they took on the machine, which stands in [`Format::Junit`] only.
pub fn report(tests: &[Tested], left_out: usize, format: Format, took: Duration) -> String {
    match format {
        Format::Text => text(tests, left_out),
        Format::Json => json(tests, left_out),
        Format::Junit => junit(tests, took),
    }
}

fn failed(tests: &[Tested]) -> impl Iterator<Item = &Tested> {
    tests.iter().filter(|test| !test.outcome.holds())
}

fn text(tests: &[Tested], left_out: usize) -> String {
    let mut out = String::new();
    let plural = if tests.len() == 1 { "" } else { "s" };
    let _ = writeln!(out, "running {} test{plural}", tests.len());
    for test in tests {
        let word = if test.outcome.holds() { "ok" } else { "FAILED" };
        let _ = writeln!(out, "test {} ... {word}", test.name);
    }
    for test in failed(tests) {
        let _ = writeln!(out, "\n---- {} ({}:{})", test.name, test.file, test.line);
        for difference in &test.outcome.differences {
            let _ = writeln!(out, "{}", sentence(difference));
        }
        if let Some(account) = &test.outcome.account {
            let _ = writeln!(out, "the first request that differs:");
            for line in account.lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    let broken = failed(tests).count();
    let word = if broken == 0 { "ok" } else { "FAILED" };
    let sent: u64 = tests.iter().map(|test| test.outcome.sent).sum();
    let lasted = tests.iter().map(|test| test.outcome.lasted).sum();
    let _ = writeln!(
        out,
        "\ntest result: {word}. {} passed; {broken} failed; {left_out} left out; {sent} request{} in {}",
        tests.len() - broken,
        if sent == 1 { "" } else { "s" },
        failures::span(lasted)
    );
    out
}

/// `expected allowed 5, found 6`.
fn sentence(difference: &Difference) -> String {
    let Difference { step, word, expected, found, requests } = difference;
    let place = step.map_or_else(String::new, |step| format!("`send` {step}: "));
    let many = match requests {
        None | Some(1) => String::new(),
        Some(requests) => format!(" (first of {requests} requests)"),
    };
    format!("{place}expected {word} {expected}, found {found}{many}")
}

fn json(tests: &[Tested], left_out: usize) -> String {
    let difference = |difference: &Difference| -> Value {
        json!({
            "step": difference.step, "word": difference.word, "expected": difference.expected,
            "found": difference.found, "requests": difference.requests
        })
    };
    let one = |test: &Tested| -> Value {
        let outcome = &test.outcome;
        json!({
            "name": test.name, "file": test.file, "line": test.line, "passed": outcome.holds(),
            "requests": outcome.sent, "seconds": outcome.lasted.as_secs_f64(),
            "differences": outcome.differences.iter().map(difference).collect::<Vec<_>>(),
            "account": outcome.account.as_ref().map(|account| account.lines().collect::<Vec<_>>())
        })
    };
    let broken = failed(tests).count();
    let document = json!({
        "schema": JSON_SCHEMA, "passed": tests.len() - broken, "failed": broken, "left_out": left_out,
        "tests": tests.iter().map(one).collect::<Vec<_>>()
    });
    format!("{document:#}\n")
}

/// The form that JUnit's own Ant task began and that every build server reads.
fn junit(tests: &[Tested], took: Duration) -> String {
    let broken = failed(tests).count();
    let (count, seconds) = (tests.len(), took.as_secs_f64());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites tests=\"{count}\" failures=\"{broken}\" time=\"{seconds:.3}\">");
    let _ = writeln!(
        out,
        "  <testsuite name=\"tidegate\" tests=\"{count}\" failures=\"{broken}\" errors=\"0\" skipped=\"0\" time=\"{seconds:.3}\">"
    );
    for test in tests {
        let (name, file) = (xml(&test.name), xml(&test.file));
        let head = format!("    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{}\"", test.line);
        if test.outcome.holds() {
            let _ = writeln!(out, "{head}/>");
            continue;
        }
        let said: Vec<String> = test.outcome.differences.iter().map(sentence).collect();
        let _ = writeln!(out, "{head}>");
        let _ = writeln!(out, "      <failure message=\"{}\">{}", xml(&said.join("; ")), xml(&said.join("\n")));
        if let Some(account) = &test.outcome.account {
            let _ = writeln!(out, "{}", xml(&format!("the first request that differs:\n{account}")));
        }
        let _ = writeln!(out, "      </failure>\n    </testcase>");
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// Text as it may stand in XML, in attributes too. What XML 1.0 cannot hold at all becomes a question mark.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(u32::from(c), 0xfffe | 0xffff) => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> Vec<Tested> {
        let test = |name: &str, differences: Vec<Difference>, account: Option<&str>| Tested {
            name: name.into(),
            file: "a.yaml".into(),
            line: 7,
            outcome: Outcome {
                sent: 6,
                lasted: Duration::from_secs(5),
                differences,
                account: account.map(str::to_owned),
            },
        };
        let count =
            Difference { step: None, word: "allowed".into(), expected: "5".into(), found: "6".into(), requests: None };
        let status = Difference {
            step: Some(2),
            word: "status".into(),
            expected: "401".into(),
            found: "<429>".into(),
            requests: Some(3),
        };
        vec![
            test("one \"holds\"", Vec::new(), None),
            test("one fails", vec![count, status], Some("at 5s: GET /\nallowed")),
        ]
    }

    #[test]
    fn people_read_what_differs_and_why() {
        let text = report(&tests(), 1, Format::Text, Duration::ZERO);
        assert_eq!(
            text,
            "running 2 tests\ntest one \"holds\" ... ok\ntest one fails ... FAILED\n\n\
             ---- one fails (a.yaml:7)\nexpected allowed 5, found 6\n\
             `send` 2: expected status 401, found <429> (first of 3 requests)\n\
             the first request that differs:\n    at 5s: GET /\n    allowed\n\n\
             test result: FAILED. 1 passed; 1 failed; 1 left out; 12 requests in 10s\n"
        );
    }

    #[test]
    fn machines_read_the_same() {
        let value: Value = serde_json::from_str(&report(&tests(), 0, Format::Json, Duration::ZERO)).unwrap();
        assert_eq!((&value["schema"], &value["failed"]), (&json!("tidegate.test/1"), &json!(1)));
        assert_eq!(value["tests"][1]["differences"][0]["found"], "6");
        assert_eq!(value["tests"][1]["account"][1], "allowed");
        let xml = report(&tests(), 0, Format::Junit, Duration::from_millis(1_500));
        assert!(xml.contains("tests=\"2\" failures=\"1\" time=\"1.500\""), "{xml}");
        assert!(xml.contains("<testcase name=\"one &quot;holds&quot;\"") && xml.contains("found &lt;429&gt;"), "{xml}");
        assert_eq!(xml.matches("<failure").count(), xml.matches("</failure>").count());
    }
}
