//! The registry, and the resolving of label values to the numbers behind them.
//!
//! Resolving takes a lock and hashes the values (30 ns and more), so it happens when a policy is installed; a request
//! only adds to what was resolved (7 ns).

#![expect(
    clippy::panic,
    reason = "a faulty catalogue is found when the process starts, and by every test; no request gets here"
)]

use std::collections::{BTreeSet, HashMap};

use prometheus::proto::{Metric, MetricFamily};
use prometheus::{
    Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use super::catalogue::{ALL, Family, Kept, Kind};

/// Upper bounds of the duration buckets, in seconds: from an answer of our own to the default deadline of a request.
pub(super) const BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// What a histogram adds to the page for each set of label values: its buckets, the one without bound, sum and count.
pub(super) const SERIES_PER_HISTOGRAM: usize = BUCKETS.len() + 3;

/// All families of the process, shared by the policies that follow one another.
pub(super) struct Families {
    registry: Registry,
    held: HashMap<&'static str, Held>,
}

enum Held {
    Counter(IntCounterVec),
    Fractions(CounterVec),
    Gauge(IntGaugeVec),
    Ratio(GaugeVec),
    Histogram(HistogramVec),
}

/// The label values that one policy resolved.
pub(super) type Series = BTreeSet<(&'static str, Vec<String>)>;

impl Families {
    /// # Panics
    /// Two families with one name, or an invalid name: a fault of the catalogue, seen by every test.
    pub fn new() -> Families {
        let registry = Registry::new();
        let mut held = HashMap::new();
        for family in ALL.iter().filter(|family| family.kept != Kept::Elsewhere) {
            let vector = Held::new(family).and_then(|vector| vector.register(&registry).map(|()| vector));
            held.insert(family.name, vector.unwrap_or_else(|error| panic!("{}: {error}", family.name)));
        }
        Families { registry, held }
    }

    /// The counter with these label values, made if need be and noted in `series`.
    ///
    /// # Panics
    /// Not a counter of the catalogue, or the wrong number of values: a fault of the caller, seen by every test.
    pub fn counter(&self, series: &mut Series, family: &'static Family, values: &[&str]) -> IntCounter {
        match self.noted(series, family, values) {
            Held::Counter(vector) => vector.with_label_values(values),
            _ => panic!("{} is no counter", family.name),
        }
    }

    /// The counter of fractions with these label values; otherwise as [`Families::counter`].
    pub fn fractions(&self, series: &mut Series, family: &'static Family, values: &[&str]) -> Counter {
        match self.noted(series, family, values) {
            Held::Fractions(vector) => vector.with_label_values(values),
            _ => panic!("{} is no counter of fractions", family.name),
        }
    }

    /// The gauge with these label values; otherwise as [`Families::counter`].
    pub fn gauge(&self, series: &mut Series, family: &'static Family, values: &[&str]) -> IntGauge {
        match self.noted(series, family, values) {
            Held::Gauge(vector) => vector.with_label_values(values),
            _ => panic!("{} is no gauge", family.name),
        }
    }

    /// The gauge of fractions with these label values; otherwise as [`Families::counter`].
    pub fn ratio(&self, series: &mut Series, family: &'static Family, values: &[&str]) -> Gauge {
        match self.noted(series, family, values) {
            Held::Ratio(vector) => vector.with_label_values(values),
            _ => panic!("{} is no gauge of fractions", family.name),
        }
    }

    /// The histogram with these label values; otherwise as [`Families::counter`].
    pub fn histogram(&self, series: &mut Series, family: &'static Family, values: &[&str]) -> Histogram {
        match self.noted(series, family, values) {
            Held::Histogram(vector) => vector.with_label_values(values),
            _ => panic!("{} is no histogram", family.name),
        }
    }

    fn noted(&self, series: &mut Series, family: &'static Family, values: &[&str]) -> &Held {
        series.insert((family.name, values.iter().map(|value| (*value).to_owned()).collect()));
        self.held.get(family.name).unwrap_or_else(|| panic!("{} is not held here", family.name))
    }

    /// Ends the series that `old` had and `new` has not.
    pub fn retire(&self, old: &Series, new: &Series) {
        for (name, values) in old.difference(new) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            // one that is gone already is what was asked for
            let _ = match self.held.get(name) {
                Some(Held::Counter(vector)) => vector.remove_label_values(&values),
                Some(Held::Fractions(vector)) => vector.remove_label_values(&values),
                Some(Held::Gauge(vector)) => vector.remove_label_values(&values),
                Some(Held::Ratio(vector)) => vector.remove_label_values(&values),
                Some(Held::Histogram(vector)) => vector.remove_label_values(&values),
                None => Ok(()),
            };
        }
    }

    /// Returns the page in the text format 0.0.4: families by name, those that are `read` among them.
    pub fn render(&self, mut read: Vec<MetricFamily>) -> String {
        // as the registry sorts its own
        for family in &mut read {
            let values = |metric: &Metric| metric.get_label().iter().map(|label| label.value().to_owned()).collect();
            family.mut_metric().sort_by_cached_key(|metric| -> Vec<String> { values(metric) });
        }
        let mut families = self.registry.gather();
        families.append(&mut read);
        families.sort_by(|one, other| one.name().cmp(other.name()));
        let mut page = String::new();
        // fails only on a family without name or series, and there is none
        let _ = prometheus::TextEncoder::new().encode_utf8(&families, &mut page);
        page
    }
}

impl Held {
    fn new(family: &Family) -> prometheus::Result<Held> {
        let Family { name, help, labels, .. } = *family;
        Ok(match family.kind {
            Kind::Counter if family.kept == Kept::Fractions => {
                Held::Fractions(CounterVec::new(Opts::new(name, help), labels)?)
            }
            Kind::Counter => Held::Counter(IntCounterVec::new(Opts::new(name, help), labels)?),
            Kind::Gauge if family.kept == Kept::Fractions => Held::Ratio(GaugeVec::new(Opts::new(name, help), labels)?),
            Kind::Gauge => Held::Gauge(IntGaugeVec::new(Opts::new(name, help), labels)?),
            Kind::Histogram => {
                Held::Histogram(HistogramVec::new(HistogramOpts::new(name, help).buckets(BUCKETS.to_vec()), labels)?)
            }
        })
    }

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        match self {
            Held::Counter(vector) => registry.register(Box::new(vector.clone())),
            Held::Fractions(vector) => registry.register(Box::new(vector.clone())),
            Held::Gauge(vector) => registry.register(Box::new(vector.clone())),
            Held::Ratio(vector) => registry.register(Box::new(vector.clone())),
            Held::Histogram(vector) => registry.register(Box::new(vector.clone())),
        }
    }
}
