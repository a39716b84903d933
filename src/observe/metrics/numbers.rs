//! All metrics at one moment, for readers that want a few of them and not the page.

use prometheus::proto::{Metric, MetricFamily};

use super::catalogue::{Family, Kind};

/// All metrics at one moment.
pub struct Numbers(pub(super) Vec<MetricFamily>);

impl Numbers {
    /// The sum of the series of a counter or gauge that have these label values, 0 if there is none.
    pub fn sum(&self, family: &Family, labels: &[(&str, &str)]) -> f64 {
        self.series(family, labels).map(|metric| value(family, metric)).sum()
    }

    /// The same as a whole number.
    pub fn count(&self, family: &Family, labels: &[(&str, &str)]) -> u64 {
        // counts are whole and not negative; from 2⁵³ on they are as near as their format
        self.sum(family, labels) as u64
    }

    fn series<'a>(&'a self, family: &Family, labels: &'a [(&str, &str)]) -> impl Iterator<Item = &'a Metric> {
        let found = self.0.iter().find(|found| found.name() == family.name);
        found.into_iter().flat_map(MetricFamily::get_metric).filter(move |metric| {
            let has = |(name, value): &(&str, &str)| {
                metric.get_label().iter().any(|label| label.name() == *name && label.value() == *value)
            };
            labels.iter().all(has)
        })
    }
}

fn value(family: &Family, metric: &Metric) -> f64 {
    match family.kind {
        Kind::Counter => metric.get_counter().get_value(),
        Kind::Gauge => metric.get_gauge().get_value(),
        Kind::Histogram => metric.get_histogram().get_sample_count() as f64,
    }
}
