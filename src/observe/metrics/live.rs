//! Numbers that live elsewhere and are read when the page is made: what is in flight, what the process uses.
//!
//! Whoever owns such a number leaves a function that reads it. The lock here is taken by the page and by reloads only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, MetricFamily, MetricType};

use super::catalogue::{self, ALL, Family, Kept, Kind};
use super::process::Process;
use crate::limiter::Gauges;
use crate::observe::lines::LogState;
use crate::sketch::Crowding;
use crate::store::ExchangeState;
use crate::system::buffers::BUFFERS;

/// What an origin carries at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OriginLoad {
    /// Requests that are with it.
    pub inflight: u64,
    /// Its cap, if it has one.
    pub limit: Option<u64>,
    /// Requests that wait for a place.
    pub queued: u64,
    /// Requests whose client has left and that still hold their places.
    pub abandoned: u64,
    /// Requests that were sent although all its addresses were out; `None` where none ever is.
    pub despite: Option<u64>,
    /// Its addresses, in the policy's order.
    pub endpoints: Vec<EndpointLoad>,
}

/// How one of an origin's addresses is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndpointLoad {
    /// The address as the policy has it.
    pub endpoint: String,
    /// Whether it is in use, 1 or 0; of a name the share of its addresses that are.
    pub healthy: f64,
    /// How often it was left out because requests failed.
    pub ejections: u64,
}

/// What a limit can say of itself; what does not apply to its kind is `None`, and then no series.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LimitState {
    /// What the limiter says.
    pub gauges: Gauges,
    /// Size of its table, if it has one.
    pub memory_bytes: Option<u64>,
    /// How crowded that is, where it can be told.
    pub crowding: Option<Crowding>,
    /// Of a limit that gates share by leases: units that this one has taken and not spent.
    pub leased: Option<u64>,
}

/// What is known of a certificate, or of the authorities of client certificates, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateState {
    /// Its listener.
    pub listener: String,
    /// What it is called there.
    pub certificate: String,
    /// When it ends, in seconds since 1970; `None` for authorities.
    pub expires: Option<i64>,
    /// Whether what lies in its files is in use.
    pub current: bool,
}

/// How a store stands at one moment, and what became of the questions to it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StoreState {
    /// The store.
    pub store: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// 0 closed, 1 trying, 2 open; of a cluster the highest.
    pub breaker: u8,
    /// How many of its servers stand how.
    pub servers: Vec<(&'static str, u64)>,
    /// How many gates share it.
    pub nodes: u32,
    /// Questions, answers, and requests that waited.
    pub questions: u64,
    /// Those that were answered.
    pub answers: u64,
    /// Requests that waited.
    pub waits: u64,
    /// How many questions took up to so many seconds each, cumulative, and the rest under infinity.
    pub durations: Vec<(f64, u64)>,
    /// What they took together, in seconds.
    pub duration_seconds: f64,
    /// Questions without an answer, by reason.
    pub errors: Vec<(&'static str, u64)>,
    /// Decisions without the store, by what was done.
    pub fallbacks: Vec<(&'static str, u64)>,
    /// What gates tell each other of limits; `None` where they tell nothing.
    pub exchange: Option<ExchangeState>,
}

/// Reads a state of type `T`. Called for each page, so it must neither wait nor take long.
pub type Reader<T> = Arc<dyn Fn() -> T + Send + Sync>;

#[derive(Clone)]
pub(super) struct Live {
    descriptions: Arc<[Desc]>,
    readers: Arc<Mutex<Readers>>,
}

#[derive(Default)]
struct Readers {
    origins: BTreeMap<String, Reader<OriginLoad>>,
    limits: BTreeMap<String, Reader<LimitState>>,
    certificates: Option<Reader<Vec<CertificateState>>>,
    stores: Option<Reader<Vec<StoreState>>>,
    logs: BTreeMap<&'static str, Reader<LogState>>,
    panics: Option<Reader<u64>>,
}

impl Live {
    /// # Panics
    /// An invalid name in the catalogue, seen by every test.
    pub fn new() -> Live {
        let description = |family: &&'static Family| {
            let labels = family.labels.iter().map(|label| (*label).to_owned()).collect();
            #[allow(clippy::panic, reason = "a faulty catalogue is found when the process starts, and by every test")]
            Desc::new(family.name.to_owned(), family.help.to_owned(), labels, HashMap::new())
                .unwrap_or_else(|error| panic!("{}: {error}", family.name))
        };
        let read = ALL.iter().filter(|family| family.kept == Kept::Elsewhere);
        Live { descriptions: read.map(description).collect(), readers: Arc::default() }
    }

    pub fn origin(&self, name: &str, reader: Reader<OriginLoad>) {
        self.readers.lock().origins.insert(name.to_owned(), reader);
    }

    pub fn limit(&self, name: &str, reader: Reader<LimitState>) {
        self.readers.lock().limits.insert(name.to_owned(), reader);
    }

    pub fn certificates(&self, reader: Reader<Vec<CertificateState>>) {
        self.readers.lock().certificates = Some(reader);
    }

    pub fn stores(&self, reader: Reader<Vec<StoreState>>) {
        self.readers.lock().stores = Some(reader);
    }

    pub fn log(&self, stream: &'static str, reader: Reader<LogState>) {
        self.readers.lock().logs.insert(stream, reader);
    }

    pub fn panics(&self, reader: Reader<u64>) {
        self.readers.lock().panics = Some(reader);
    }

    /// What an origin carries now, if somebody has said how to read it.
    pub fn read_origin(&self, name: &str) -> Option<OriginLoad> {
        let reader = self.readers.lock().origins.get(name).cloned()?;
        Some(reader())
    }

    /// Forgets the readers whose origin or limit is not among these.
    pub fn retain(&self, origins: &[String], limits: &[String]) {
        let mut readers = self.readers.lock();
        readers.origins.retain(|name, _| origins.contains(name));
        readers.limits.retain(|name, _| limits.contains(name));
    }
}

impl Collector for Live {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut page = Page::default();
        let readers = self.readers.lock();
        for (name, reader) in &readers.origins {
            let load = reader();
            page.add(&catalogue::ORIGIN_INFLIGHT, Some(name), Some(load.inflight));
            page.add(&catalogue::ORIGIN_INFLIGHT_LIMIT, Some(name), load.limit);
            page.add(&catalogue::ORIGIN_QUEUE, Some(name), Some(load.queued));
            page.add(&catalogue::ORIGIN_ABANDONED, Some(name), Some(load.abandoned));
            page.add(&catalogue::ORIGIN_DESPITE, Some(name), load.despite);
            for EndpointLoad { endpoint, healthy, ejections } in &load.endpoints {
                page.add_labelled(&catalogue::ENDPOINT_HEALTHY, &[name, endpoint], *healthy);
                page.add_labelled(&catalogue::ENDPOINT_EJECTIONS, &[name, endpoint], *ejections as f64);
            }
        }
        for (name, reader) in &readers.limits {
            let state = reader();
            page.limit(name, &state);
        }
        for state in readers.certificates.as_ref().map(|reader| reader()).unwrap_or_default() {
            let labels = [state.listener.as_str(), state.certificate.as_str()];
            if let Some(expires) = state.expires {
                page.add_labelled(&catalogue::TLS_EXPIRY, &labels, expires as f64);
            }
            page.add_labelled(&catalogue::TLS_RELOAD, &labels, f64::from(u8::from(state.current)));
        }
        for state in readers.stores.as_ref().map(|reader| reader()).unwrap_or_default() {
            page.store(&state);
        }
        for (stream, reader) in &readers.logs {
            let state = reader();
            page.add(&catalogue::LOG_DROPPED, Some(stream), Some(state.dropped));
            page.add(&catalogue::LOG_ERRORS, Some(stream), state.errors);
        }
        page.add(&catalogue::PANICS, None, readers.panics.as_ref().map(|reader| reader()));
        drop(readers);

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
}

/// The families in the making.
#[derive(Default)]
struct Page(BTreeMap<&'static str, MetricFamily>);

impl Page {
    fn limit(&mut self, name: &str, state: &LimitState) {
        let LimitState { gauges, memory_bytes, crowding, leased } = state;
        self.add(&catalogue::LIMIT_INFLIGHT, Some(name), gauges.inflight);
        self.add(&catalogue::LIMIT_UPGRADED, Some(name), gauges.upgraded);
        self.add(&catalogue::LIMIT_MEMORY, Some(name), *memory_bytes);
        self.add(&catalogue::LIMIT_LEASED, Some(name), *leased);
        self.add_fraction(&catalogue::LIMIT_FILL, Some(name), crowding.map(|crowding| crowding.fill));
        self.add_fraction(&catalogue::LIMIT_ERROR, Some(name), crowding.map(|crowding| crowding.error));
        self.add(&catalogue::LIMIT_EXACT_KEYS, Some(name), gauges.exact_keys);
        self.add_fraction(&catalogue::LIMIT_LOAD, Some(name), gauges.load);
        self.add(&catalogue::LIMIT_DISPLACED, Some(name), gauges.displaced);
        self.add(&catalogue::LIMIT_PENDING, Some(name), gauges.pending);
        self.add_fraction(&catalogue::LIMIT_SHARE, Some(name), gauges.share);
        self.add_fraction(&catalogue::LIMIT_CAPACITY, Some(name), gauges.capacity);
        self.add_fraction(&catalogue::LIMIT_OFFERED, Some(name), gauges.offered);
    }

    fn store(&mut self, state: &StoreState) {
        let name = Some(state.store.as_str());
        self.add(&catalogue::STORE_CONNECTED, name, Some(u64::from(state.connected)));
        self.add(&catalogue::STORE_BREAKER, name, Some(u64::from(state.breaker)));
        for (standing, count) in &state.servers {
            self.add_labelled(&catalogue::STORE_SERVERS, &[&state.store, standing], *count as f64);
        }
        self.add(&catalogue::STORE_NODES, name, Some(u64::from(state.nodes)));
        self.add(&catalogue::STORE_QUESTIONS, name, Some(state.questions));
        self.add(&catalogue::STORE_ANSWERS, name, Some(state.answers));
        self.add(&catalogue::STORE_WAITS, name, Some(state.waits));
        for (reason, count) in &state.errors {
            self.add_labelled(&catalogue::STORE_ERRORS, &[&state.store, reason], *count as f64);
        }
        for (direction, count) in &state.fallbacks {
            self.add_labelled(&catalogue::STORE_FALLBACKS, &[&state.store, direction], *count as f64);
        }
        if let Some(exchange) = &state.exchange {
            self.exchange(&state.store, exchange);
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
        let mut metric = labelled(&catalogue::STORE_DURATION, &[&state.store]);
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
