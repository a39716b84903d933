//! The metrics page, read back: Prometheus text format 0.0.4, as much of it as the gate writes.

use std::collections::BTreeMap;

/// Every series with its value, by name and labels.
#[derive(Debug, Clone)]
pub struct Metrics {
    series: BTreeMap<String, f64>,
}

impl Metrics {
    /// Reads a page.
    ///
    /// # Panics
    /// On a line that is no comment and has no number, and on a series that appears twice.
    pub fn parse(page: &str) -> Metrics {
        let mut series = BTreeMap::new();
        for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a series has a value");
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(series.insert(name.to_owned(), value).is_none(), "a series appears twice: {line}");
        }
        Metrics { series }
    }

    /// All series of this metric.
    pub fn every(&self, name: &str) -> Vec<(&str, f64)> {
        let of_name =
            |series: &str| series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
        self.series
            .iter()
            .filter(|(series, _)| of_name(series))
            .map(|(series, value)| (series.as_str(), *value))
            .collect()
    }

    /// The sum over all series of this metric that carry all these labels; zero when there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let carries = |series: &str| labels.iter().all(|(label, value)| has_label(series, label, value));
        self.every(name).into_iter().filter(|(series, _)| carries(series)).map(|(_, value)| value).sum()
    }

    /// How many series there are.
    pub fn count(&self) -> usize {
        self.series.len()
    }

    /// The names and labels of all series.
    pub fn names(&self) -> Vec<&str> {
        self.series.keys().map(String::as_str).collect()
    }
}

fn has_label(series: &str, label: &str, value: &str) -> bool {
    let pair = format!("{label}=\"{value}\"");
    series.match_indices(&pair).any(|(at, _)| matches!(series.as_bytes().get(at.wrapping_sub(1)), Some(b'{' | b',')))
}

#[test]
fn a_label_is_found_by_its_whole_name() {
    let page = "# HELP a b\na{mode=\"x\",code=\"2xx\"} 3\na{mode=\"y\",code=\"2xx\"} 4\nab 1\n";
    let metrics = Metrics::parse(page);
    assert_eq!(metrics.sum("a", &[("code", "2xx")]), 7.0);
    assert_eq!(metrics.sum("a", &[("code", "2xx"), ("mode", "y")]), 4.0);
    assert_eq!(metrics.sum("a", &[("ode", "2xx")]), 0.0);
    assert_eq!(metrics.sum("ab", &[]), 1.0);
}
