//! Metrics that are read when the page is made: what is in flight, how tables and stores stand, what the process uses.

use std::collections::BTreeMap;

use prometheus::proto::{self, MetricFamily, MetricType};

use super::catalogue::{self, Family, Kind};
use super::process::Process;
use crate::observe::state::{Address, Door, Limit, Origin, State};
use crate::store::{ExchangeState, StoreState};
use crate::system::buffers::BUFFERS;
use crate::units::Criticality;

/// Returns the families of a state, by name.
pub(super) fn families(state: &State) -> Vec<MetricFamily> {
    let mut page = Page::default();
    state.origins.iter().for_each(|origin| page.origin(origin));
    state.limits.iter().for_each(|limit| page.limit(limit));
    for certificate in &state.certificates {
        let labels = [certificate.listener.as_str(), certificate.certificate.as_str()];
        if let Some(expires) = certificate.expires {
            page.add_labelled(&catalogue::TLS_EXPIRY, &labels, expires as f64);
        }
        page.add_labelled(&catalogue::TLS_RELOAD, &labels, f64::from(u8::from(certificate.current)));
    }
    state.stores.iter().for_each(|store| page.store(store));
    for (stream, log) in &state.logs {
        page.add(&catalogue::LOG_DROPPED, Some(stream), Some(log.dropped));
        page.add(&catalogue::LOG_ERRORS, Some(stream), log.errors);
    }
    if let Some(overload) = &state.overload {
        for (resource, pressure) in &overload.resources {
            page.add_labelled(&catalogue::PRESSURE, &[resource], *pressure);
        }
        page.add_fraction(&catalogue::SCHEDULING_DELAY, None, Some(overload.delay_seconds));
        page.add(&catalogue::OVERLOAD_REFUSING, None, Some(u64::from(overload.refusing)));
    }
    page.add(&catalogue::BANS, None, Some(state.bans as u64));
    for (by, given) in ["operator", "limit", "gate"].into_iter().zip(state.bans_given) {
        page.add(&catalogue::BANS_GIVEN, Some(by), Some(given));
    }
    if let Some(snapshots) = &state.snapshots {
        page.add_fraction(&catalogue::SNAPSHOT_AGE, None, snapshots.age_seconds);
        page.add(&catalogue::SNAPSHOT_BYTES, None, Some(snapshots.bytes));
        page.add_fraction(&catalogue::SNAPSHOT_SECONDS, None, Some(snapshots.write_seconds));
        page.add(&catalogue::SNAPSHOT_ERRORS, None, Some(snapshots.errors));
    }
    page.add(&catalogue::PANICS, None, Some(state.panics));
    page.add(&catalogue::BUFFERED, None, Some(BUFFERS.held() as u64));
    page.add(&catalogue::BUFFERED_LIMIT, None, Some(BUFFERS.most() as u64));
    page.add(&catalogue::BUFFERS_REFUSED, None, Some(BUFFERS.refused()));
    let process = Process::read();
    page.add(&catalogue::PROCESS_RESIDENT, None, process.resident_bytes);
    page.add(&catalogue::PROCESS_VIRTUAL, None, process.virtual_bytes);
    page.add_fraction(&catalogue::PROCESS_CPU, None, process.cpu_seconds);
    page.add(&catalogue::PROCESS_OPEN_FDS, None, process.open_files);
    page.add(&catalogue::PROCESS_MAX_FDS, None, process.max_files);
    page.add_fraction(&catalogue::PROCESS_START, None, process.start_seconds);
    page.add(&catalogue::PROCESS_THREADS, None, process.threads);
    page.0.into_values().collect()
}

/// The families in the making.
#[derive(Default)]
struct Page(BTreeMap<&'static str, MetricFamily>);

impl Page {
    fn origin(&mut self, origin: &Origin) {
        let name = origin.name.as_str();
        self.add(&catalogue::ORIGIN_INFLIGHT, Some(name), Some(origin.inflight));
        self.add(&catalogue::ORIGIN_INFLIGHT_LIMIT, Some(name), origin.limit);
        for (class, queued) in Criticality::ALL.into_iter().zip(origin.queued_by_class) {
            self.add_labelled(&catalogue::ORIGIN_QUEUE, &[name, class.word()], queued as f64);
        }
        if let Some(door) = &origin.door {
            for (class, held) in &door.held {
                self.add_labelled(&catalogue::ORIGIN_HELD, &[name, class], *held as f64);
            }
            for (by, holders) in [("client", &door.clients), ("network", &door.networks)] {
                self.add_labelled(&catalogue::ORIGIN_MOST_HELD, &[name, by], Door::most(holders) as f64);
            }
            self.add_fraction(&catalogue::ORIGIN_RESERVE, Some(name), Some(door.reserve));
        }
        self.add(&catalogue::ORIGIN_ABANDONED, Some(name), Some(origin.abandoned));
        self.add(&catalogue::ORIGIN_DESPITE, Some(name), origin.despite);
        for Address { address, healthy, ejections } in &origin.addresses {
            self.add_labelled(&catalogue::ENDPOINT_HEALTHY, &[name, address], *healthy);
            self.add_labelled(&catalogue::ENDPOINT_EJECTIONS, &[name, address], *ejections as f64);
        }
    }

    fn limit(&mut self, limit: &Limit) {
        let Limit { name, gauges, fill, error, leased, .. } = limit;
        self.add(&catalogue::LIMIT_INFLIGHT, Some(name), gauges.inflight);
        self.add(&catalogue::LIMIT_UPGRADED, Some(name), gauges.upgraded);
        self.add(&catalogue::LIMIT_MEMORY, Some(name), limit.keyed.then_some(limit.memory_bytes));
        self.add(&catalogue::LIMIT_LEASED, Some(name), *leased);
        self.add_fraction(&catalogue::LIMIT_FILL, Some(name), *fill);
        self.add_fraction(&catalogue::LIMIT_ERROR, Some(name), *error);
        self.add(&catalogue::LIMIT_EXACT_KEYS, Some(name), gauges.exact_keys);
        self.add_fraction(&catalogue::LIMIT_LOAD, Some(name), gauges.load);
        self.add(&catalogue::LIMIT_DISPLACED, Some(name), gauges.displaced);
        self.add(&catalogue::LIMIT_PENDING, Some(name), gauges.pending);
        self.add_fraction(&catalogue::LIMIT_TOKENS, Some(name), gauges.tokens);
        self.add_fraction(&catalogue::LIMIT_CAPACITY, Some(name), gauges.capacity);
        self.add(&catalogue::LIMIT_WAITING, Some(name), gauges.waiting);
    }

    fn store(&mut self, state: &StoreState) {
        let name = Some(state.name.as_str());
        self.add(&catalogue::STORE_CONNECTED, name, Some(u64::from(state.connected)));
        self.add(&catalogue::STORE_BREAKER, name, Some(u64::from(state.breaker.number())));
        for (standing, count) in &state.standings {
            self.add_labelled(&catalogue::STORE_SERVERS, &[&state.name, standing.word()], *count as f64);
        }
        self.add(&catalogue::STORE_NODES, name, Some(u64::from(state.nodes)));
        self.add(&catalogue::STORE_QUESTIONS, name, Some(state.questions));
        self.add(&catalogue::STORE_ANSWERS, name, Some(state.answers));
        self.add(&catalogue::STORE_WAITS, name, Some(state.waits));
        for (reason, count) in &state.errors {
            self.add_labelled(&catalogue::STORE_ERRORS, &[&state.name, reason], *count as f64);
        }
        for (direction, count) in &state.fallbacks_by_direction {
            self.add_labelled(&catalogue::STORE_FALLBACKS, &[&state.name, direction], *count as f64);
        }
        self.add_fraction(&catalogue::STORE_BANS_AGE, name, state.bans_age_seconds);
        if let Some(exchange) = &state.exchange {
            self.exchange(&state.name, exchange);
        }
        let mut histogram = proto::Histogram::default();
        let finite = state.durations.iter().filter(|(end, _)| end.is_finite());
        let bucket = |(end, count): &(f64, u64)| {
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(*end);
            bucket.set_cumulative_count(*count);
            bucket
        };
        histogram.set_bucket(finite.map(bucket).collect());
        histogram.set_sample_count(state.durations.last().map_or(0, |(_, count)| *count));
        histogram.set_sample_sum(state.duration_seconds);
        let mut metric = labelled(&catalogue::STORE_DURATION, &[&state.name]);
        metric.set_histogram(histogram);
        self.push(&catalogue::STORE_DURATION, metric);
    }

    fn exchange(&mut self, store: &str, state: &ExchangeState) {
        let name = Some(store);
        self.add_fraction(&catalogue::STORE_STALENESS, name, Some(state.staleness_seconds));
        self.add(&catalogue::STORE_MESSAGES_SENT, name, Some(state.messages_sent));
        self.add(&catalogue::STORE_MESSAGES_RECEIVED, name, Some(state.messages_received));
        self.add(&catalogue::STORE_MESSAGES_MISSED, name, Some(state.messages_missed));
        for (reason, count) in &state.messages_dropped {
            self.add_labelled(&catalogue::STORE_MESSAGES_DROPPED, &[store, reason], *count as f64);
        }
        self.add(&catalogue::STORE_DELTAS_SENT, name, Some(state.deltas_sent));
        self.add(&catalogue::STORE_DELTAS_RECEIVED, name, Some(state.deltas_received));
        self.add(&catalogue::STORE_UNREPORTED, name, Some(state.units_unreported));
    }

    /// Whole numbers are exact up to 2⁵³, which is the format's own limit.
    fn add(&mut self, family: &'static Family, label: Option<&str>, value: Option<u64>) {
        self.add_fraction(family, label, value.map(|value| value as f64));
    }

    fn add_fraction(&mut self, family: &'static Family, label: Option<&str>, value: Option<f64>) {
        if let Some(value) = value {
            self.add_labelled(family, label.as_slice(), value);
        }
    }

    fn add_labelled(&mut self, family: &'static Family, labels: &[&str], value: f64) {
        let mut metric = labelled(family, labels);
        if family.kind == Kind::Counter {
            let mut counter = proto::Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.push(family, metric);
    }

    fn push(&mut self, family: &'static Family, metric: proto::Metric) {
        let made = self.0.entry(family.name).or_insert_with(|| {
            let mut made = MetricFamily::default();
            made.set_name(family.name.to_owned());
            made.set_help(family.help.to_owned());
            made.set_field_type(match family.kind {
                Kind::Counter => MetricType::COUNTER,
                Kind::Gauge => MetricType::GAUGE,
                Kind::Histogram => MetricType::HISTOGRAM,
            });
            made
        });
        made.mut_metric().push(metric);
    }
}

fn labelled(family: &'static Family, labels: &[&str]) -> proto::Metric {
    let labels = family.labels.iter().zip(labels).map(|(name, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    proto::Metric::from_label(labels.collect())
}
