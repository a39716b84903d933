//! The changes that may survive, with their reasons: `mutants/explained.txt`.

use std::collections::BTreeSet;

use crate::find::Change;

/// Names of changes, each with its reason if it has one.
pub struct Explained(Vec<(String, Option<String>)>);

impl Explained {
    /// Reads names, each with its reason in the indented line below it. A line that begins with `#` is a comment.
    pub fn read(text: &str) -> Explained {
        let mut entries: Vec<(String, Option<String>)> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match entries.last_mut() {
                Some((_, reason)) if line.starts_with(' ') => *reason = Some(line.trim().to_owned()),
                _ => entries.push((line.to_owned(), None)),
            }
        }
        Explained(entries)
    }

    /// Returns why the change of this name may survive.
    pub fn reason(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == name).and_then(|(_, reason)| reason.clone())
    }

    /// Returns what is wrong: a name that none of these changes has, one without a reason, one that is there twice.
    pub fn faults(&self, all: &[Change]) -> Vec<String> {
        let names: BTreeSet<String> = all.iter().map(Change::name).collect();
        let mut seen = BTreeSet::new();
        let mut faults = Vec::new();
        for (name, reason) in &self.0 {
            if !names.contains(name) {
                faults.push(format!("no such change, mend the name or remove it with its reason: {name}"));
            }
            if reason.is_none() {
                faults.push(format!("no reason below: {name}"));
            }
            if !seen.insert(name) {
                faults.push(format!("twice: {name}"));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::changes;

    const FIRST: &str = "a.rs less: x < y → x <= y";
    const SECOND: &str = "a.rs less: x < y → x > y";

    fn all() -> Vec<Change> {
        changes("a.rs", "fn less(x: u8, y: u8) -> bool {\n    x < y\n}\n")
    }

    #[test]
    fn a_reason_stands_below_its_own_name() {
        let explained = Explained::read(&format!("# head\n{FIRST}\n{SECOND}\n    No input tells.\n"));
        assert_eq!(explained.reason(FIRST), None);
        assert_eq!(explained.reason(SECOND).as_deref(), Some("No input tells."));
        assert_eq!(explained.faults(&all()), [format!("no reason below: {FIRST}")]);
    }

    #[test]
    fn a_name_that_the_sources_no_longer_have_is_a_fault() {
        assert!(Explained::read(&format!("{FIRST}\n    a\n{SECOND}\n    b\n")).faults(&all()).is_empty());
        let stale = "a.rs less: x < z → x <= z";
        let faults = Explained::read(&format!("{FIRST}\n    a\n{stale}\n    b\n")).faults(&all());
        assert!(faults.len() == 1 && faults[0].ends_with(stale), "{faults:?}");
    }

    #[test]
    fn a_name_stands_once() {
        let twice = format!("{FIRST}\n    a\n{FIRST}\n    b\n");
        assert_eq!(Explained::read(&twice).faults(&all()), [format!("twice: {FIRST}")]);
    }
}
