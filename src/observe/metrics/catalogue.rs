//! Every metric that is exported: name, kind, labels, help. The only list; `docs/metrics.md` is compared with it.
//!
//! Names follow Prometheus' naming guide (prefix, base unit, `_total` for counters) and pass the rules of
//! `promtool check metrics`. A label's values come from the policy file or from a fixed list in [`super`], never from a
//! request: how many series there are is decided when a policy is installed.

/// One metric and all its series.
#[derive(Debug)]
pub struct Family {
    /// The whole name, prefix included.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// Whether we hold the number or ask for it.
    pub kept: Kept,
    /// Label names in the order in which values are given.
    pub labels: &'static [&'static str],
    /// What it counts, for the operator.
    pub help: &'static str,
}

/// What kind of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts per duration bucket.
    Histogram,
}

impl Kind {
    /// The word behind `# TYPE`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Where a number lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Here; requests add to it.
    Here,
    /// Here, in fractions, which cost more to add to.
    Fractions,
    /// Elsewhere; it is read when the page is made.
    Elsewhere,
}

const fn held(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind, kept: Kept::Here, labels, help }
}

const fn fractions(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind, kept: Kept::Fractions, labels, help }
}

const fn read(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind, kept: Kept::Elsewhere, labels, help }
}

macro_rules! catalogue {
    ($($constant:ident = $made:expr;)+) => {
        $(#[doc = concat!("See [`Family::help`] of `", stringify!($constant), "`.")] pub const $constant: Family = $made;)+
        /// All of them, in the order of the document.
        pub const ALL: &[&Family] = &[$(&$constant),+];
    };
}

use Kind::{Counter, Gauge, Histogram};

catalogue! {
    // requests
    REQUESTS = held("tidegate_requests_total", Counter, &["listener", "route", "code"],
        "Requests that ended, by class of the status sent; route `_none` when none matched.");
    REQUEST_DURATION = held("tidegate_request_duration_seconds", Histogram, &["route"],
        "Time from a request's head to the last byte of its answer.");
    REFUSED = held("tidegate_refused_requests_total", Counter, &["route", "reason"],
        "Requests refused by the policy, each counted once; route `_none` when none matched.");
    MALFORMED = held("tidegate_malformed_requests_total", Counter, &["reason"],
        "Malformed or too slow requests, by reason.");
    CLIENT_ADDRESS = held("tidegate_client_address_total", Counter, &["source", "result"],
        "How clients' addresses were found, and how sure that is.");
    // limits
    DECISIONS = held("tidegate_limit_decisions_total", Counter, &["route", "limit", "mode", "verdict"],
        "What each limit said. A shadow limit's `limited` was not obeyed.");
    REFUSED_ELSEWHERE = held("tidegate_limit_refused_elsewhere_total", Counter, &["route", "limit", "mode"],
        "Requests that this limit allowed or delayed and something else refused; they are charged nowhere.");
    DELAYS = held("tidegate_delays_total", Counter, &["route"],
        "Admitted requests held back by `action: delay` or in the queue of a fair_share.");
    DELAY_SECONDS = fractions("tidegate_delay_seconds_total", Counter, &["route"],
        "Time for which admitted requests were held back.");
    FAIR_SHARE_REFUSED = held("tidegate_fair_share_refused_total", Counter, &["limit", "node"],
        "Requests that a fair_share limit refused, or would have in shadow, by what weighed most.");
    FAIR_SHARE_SHED = held("tidegate_fair_share_shed_requests_total", Counter, &["limit", "reason"],
        "Requests that a fair_share limit refused: `rate_pushed_out` of a full queue as the heaviest, or `rate_timeout`.");
    LIMIT_INFLIGHT = read("tidegate_limit_inflight_requests", Gauge, &["limit"],
        "Requests that hold a place of an in-flight limit.");
    LIMIT_UPGRADED = read("tidegate_limit_upgraded_connections", Gauge, &["limit"],
        "Open connections under an in-flight limit that switched to another protocol.");
    LIMIT_MEMORY = read("tidegate_limit_memory_bytes", Gauge, &["limit"],
        "Memory of a limit's table; fixed.");
    LIMIT_FILL = read("tidegate_limit_fill_ratio", Gauge, &["limit"],
        "Share of the cells of a rate, aligned quota or recent_average limit in use, 0 to 1; sampled.");
    LIMIT_ERROR = read("tidegate_limit_error_ratio", Gauge, &["limit"],
        "Probability that such a limit refuses a new client because of others; sampled. Above 0.001 it needs more memory.");
    LIMIT_EXACT_KEYS = read("tidegate_limit_exact_keys", Gauge, &["limit"],
        "Keys near their quota that are counted exactly.");
    LIMIT_LOAD = read("tidegate_limit_load_ratio", Gauge, &["limit"],
        "How full a distinct limit's set of values is, 0 to 1; near 1 it needs more memory.");
    LIMIT_DISPLACED = read("tidegate_limit_displaced_total", Counter, &["limit"],
        "Values that a distinct limit forgot early to make room; each may count once more.");
    LIMIT_PENDING = read("tidegate_limit_pending_units", Gauge, &["limit"],
        "Units held back for attempts without an answer yet.");
    LIMIT_TOKENS = read("tidegate_limit_token_requests", Gauge, &["limit"],
        "Requests that a fair_share limit could let go on now.");
    LIMIT_CAPACITY = read("tidegate_limit_capacity_requests_per_second", Gauge, &["limit"],
        "What a fair_share limit shares out.");
    LIMIT_WAITING = read("tidegate_limit_waiting_requests", Gauge, &["limit"],
        "Requests that wait for a fair_share limit.");
    LIMIT_LEASED = read("tidegate_limit_leased_units", Gauge, &["limit"],
        "Units of a shared limit taken from the store and not spent yet.");
    LIMIT_CONTENDED = held("tidegate_limit_contended_total", Counter, &["limit"],
        "Requests refused because a race between requests of one client was not settled in time.");
    // origins
    ORIGIN_ANSWERS = held("tidegate_origin_answers_total", Counter, &["origin", "route", "code"],
        "Forwarded requests that ended, by class of the origin's status. The gate's own answers and clients that left before \
        are not in it.");
    ORIGIN_DURATION = held("tidegate_origin_request_duration_seconds", Histogram, &["origin", "route"],
        "Time from choosing an address to the head of the answer, or to the failure.");
    ORIGIN_INFLIGHT = read("tidegate_origin_inflight_requests", Gauge, &["origin"],
        "Requests that are with the origin.");
    ORIGIN_INFLIGHT_LIMIT = read("tidegate_origin_inflight_limit", Gauge, &["origin"],
        "Requests that may be with the origin at once; absent without a cap.");
    ORIGIN_QUEUE = read("tidegate_origin_queue_requests", Gauge, &["origin", "criticality"],
        "Requests that wait for a place at the origin.");
    ORIGIN_HELD = read("tidegate_origin_held_requests", Gauge, &["origin", "criticality"],
        "Requests that hold a place at the origin; absent without a cap.");
    ORIGIN_MOST_HELD = read("tidegate_origin_most_held_requests", Gauge, &["origin", "by"],
        "Places of the one client, or the one network, that holds most.");
    ORIGIN_RESERVE = read("tidegate_origin_reserve_places", Gauge, &["origin"],
        "Places that the heaviest clients leave to lighter ones.");
    ORIGIN_ABANDONED = read("tidegate_origin_abandoned_requests", Gauge, &["origin"],
        "Requests whose client has left and that still hold places at the origin.");
    ORIGIN_SHED = held("tidegate_origin_shed_requests_total", Counter, &["origin", "criticality", "reason"],
        "Requests that got no place at the origin: `full` without a queue, `pushed_out` as the heaviest, `queue_timeout`, or \
        `client_left` while waiting; or that let go of one which their client kept idle: `gave_way`.");
    ORIGIN_ERRORS = held("tidegate_origin_errors_total", Counter, &["origin", "reason"],
        "Attempts that the origin failed, retried ones included.");
    ORIGIN_CONNECTIONS = held("tidegate_origin_connections_total", Counter, &["origin", "reused"],
        "Connections that requests were sent on, new or reused.");
    ORIGIN_RETRIES = held("tidegate_origin_retries_total", Counter, &["origin"],
        "Attempts after the first one of a request.");
    ORIGIN_RETRIES_REFUSED = held("tidegate_origin_retries_refused_total", Counter, &["origin"],
        "Attempts that the retry budget refused.");
    ENDPOINT_HEALTHY = read("tidegate_origin_endpoint_healthy", Gauge, &["origin", "endpoint"],
        "1 while requests are sent to this address, 0 while it is left out; of a name the share of its addresses.");
    ENDPOINT_EJECTIONS = read("tidegate_origin_endpoint_ejections_total", Counter, &["origin", "endpoint"],
        "Times that this address was ejected.");
    ORIGIN_DESPITE = read("tidegate_origin_all_unhealthy_requests_total", Counter, &["origin"],
        "Requests sent although no address was healthy; absent where addresses are never left out.");
    // stores that limits are shared through
    STORE_CONNECTED = read("tidegate_store_connected", Gauge, &["store"],
        "1 while there is a connection to the store, or to any server of a cluster.");
    STORE_BREAKER = read("tidegate_store_breaker_state", Gauge, &["store"],
        "0: the store is asked; 1: one question tries it; 2: it is left alone. Of a cluster the highest.");
    STORE_SERVERS = read("tidegate_store_servers", Gauge, &["store", "state"],
        "Servers that the store keeps keys on, by state.");
    STORE_NODES = read("tidegate_store_nodes", Gauge, &["store"],
        "Gates that share the store, this one among them, as last known.");
    STORE_QUESTIONS = read("tidegate_store_questions_total", Counter, &["store"],
        "Questions to the store about a key, and what it was told of grants.");
    STORE_ANSWERS = read("tidegate_store_answers_total", Counter, &["store"],
        "Questions that the store answered.");
    STORE_WAITS = read("tidegate_store_waits_total", Counter, &["store"],
        "Requests that waited for the store, once for each limit.");
    STORE_DURATION = read("tidegate_store_operation_duration_seconds", Histogram, &["store"],
        "Time from sending a question to its answer, or to giving up.");
    STORE_ERRORS = read("tidegate_store_errors_total", Counter, &["store", "reason"],
        "Questions that the store did not answer, by reason.");
    STORE_FALLBACKS = read("tidegate_store_fallback_decisions_total", Counter, &["store", "policy"],
        "Decisions without the store, by what was done.");
    STORE_STALENESS = read("tidegate_store_staleness_seconds", Gauge, &["store"],
        "With `sharing: estimate`: age of the oldest report of another gate.");
    STORE_BANS_AGE = read("tidegate_store_bans_age_seconds", Gauge, &["store"],
        "Time since gate and store last had the same bans.");
    STORE_MESSAGES_SENT = read("tidegate_store_messages_sent_total", Counter, &["store"],
        "With `sharing: estimate`: messages that the store has.");
    STORE_MESSAGES_RECEIVED = read("tidegate_store_messages_received_total", Counter, &["store"],
        "Messages of other gates that were read.");
    STORE_MESSAGES_MISSED = read("tidegate_store_messages_missed_total", Counter, &["store"],
        "Messages of other gates that were gone before they were read.");
    STORE_MESSAGES_DROPPED = read("tidegate_store_messages_dropped_total", Counter, &["store", "reason"],
        "Messages of other gates, or parts of them, that were not charged.");
    STORE_DELTAS_SENT = read("tidegate_store_deltas_sent_total", Counter, &["store"],
        "Keys in the messages sent.");
    STORE_DELTAS_RECEIVED = read("tidegate_store_deltas_received_total", Counter, &["store"],
        "Keys in the messages received.");
    STORE_UNREPORTED = read("tidegate_store_unreported_units_total", Counter, &["store"],
        "With `sharing: estimate`: units not told to other gates because too many keys were in use.");
    // connections of clients
    CONNECTIONS = held("tidegate_connections", Gauge, &["listener"],
        "Open connections of clients.");
    CONNECTIONS_ACCEPTED = held("tidegate_connections_accepted_total", Counter, &["listener"],
        "Accepted connections of clients.");
    CONNECTIONS_REFUSED = held("tidegate_connections_refused_total", Counter, &["listener", "reason"],
        "Connections that were not accepted, or closed before a request, by reason.");
    ACCEPT_PAUSES = held("tidegate_accept_pauses_total", Counter, &["listener"],
        "Times that accepting stopped because clients held all file descriptors of their share.");
    // TLS towards clients
    TLS_HANDSHAKES = held("tidegate_tls_handshakes_total", Counter, &["listener", "version", "resumed"],
        "Successful handshakes, by TLS version and whether they resumed by a ticket.");
    TLS_FAILURES = held("tidegate_tls_handshake_failures_total", Counter, &["listener", "reason"],
        "Failed handshakes, by reason.");
    TLS_EXPIRY = read("tidegate_tls_certificate_expiry_timestamp_seconds", Gauge, &["listener", "certificate"],
        "When the certificate in use ends, in seconds since 1970.");
    TLS_RELOAD = read("tidegate_tls_certificate_reload_successful", Gauge, &["listener", "certificate"],
        "1 when the certificate's files are in use, 0 when they cannot be used.");
    H2_ABUSE = held("tidegate_h2_abuse_total", Counter, &["listener", "reason"],
        "HTTP/2 connections closed for abuse, by kind.");
    // the process
    BUILD_INFO = held("tidegate_build_info", Gauge, &["version"],
        "Always 1; the version is in the label.");
    POLICY_INFO = held("tidegate_policy_info", Gauge, &["fingerprint"],
        "Always 1; the label has the fingerprint of the policy in force.");
    POLICY_GENERATION = held("tidegate_policy_generation", Gauge, &[],
        "Number of the policy in force: 1 at start, one more with each successful reload.");
    RELOAD_SUCCESSFUL = held("tidegate_config_last_reload_successful", Gauge, &[],
        "1 when the last load of the policy file succeeded, 0 when it was refused.");
    RELOAD_TIME = held("tidegate_config_last_reload_success_timestamp_seconds", Gauge, &[],
        "When the policy in force was installed, in seconds since 1970.");
    RELOADS = held("tidegate_config_reloads_total", Counter, &["result"],
        "Loads of the policy file after the start, by result.");
    BANS = read("tidegate_bans", Gauge, &[],
        "Bans in force.");
    BANS_GIVEN = read("tidegate_bans_given_total", Counter, &["by"],
        "Bans given by an `operator`, by the penalty of a `limit`, or on another `gate`.");
    NOTICE = held("tidegate_notice", Gauge, &["notice"],
        "1 while this warning is active. The text is in `tidegate status`.");
    TOP_CLIENT_SHARE = fractions("tidegate_top_client_share_ratio", Gauge, &[],
        "Share of recent requests that one client makes, at least, 0 to 1; sampled, 0 below 32 samples.");
    LOG_DROPPED = read("tidegate_log_dropped_total", Counter, &["stream"],
        "Log lines that were not written.");
    LOG_ERRORS = read("tidegate_log_write_errors_total", Counter, &["stream"],
        "Failed attempts to open or write a log.");
    PANICS = read("tidegate_panics_total", Counter, &[],
        "Panics that ended a request or task. Should be 0.");
    PRESSURE = read("tidegate_pressure_ratio", Gauge, &["resource"],
        "How loaded the process is, by resource, 0 to 1: `server.overload` refuses from 0.5 on. The greatest counts. Absent \
        with `overload: off`.");
    SCHEDULING_DELAY = read("tidegate_scheduling_delay_seconds", Gauge, &[],
        "How late the worker threads begin with what is ready.");
    OVERLOAD_REFUSING = read("tidegate_overload_refusing", Gauge, &[],
        "1 while heavy or unimportant requests are refused for overload.");
    SNAPSHOT_AGE = read("tidegate_snapshot_age_seconds", Gauge, &[],
        "Age of the latest snapshot of limits, 0 while nothing changed. Absent without `server.state`, and before the first \
        one.");
    SNAPSHOT_BYTES = read("tidegate_snapshot_bytes", Gauge, &[],
        "Size of the latest snapshot.");
    SNAPSHOT_SECONDS = read("tidegate_snapshot_write_seconds", Gauge, &[],
        "How long it took to write.");
    SNAPSHOT_ERRORS = read("tidegate_snapshot_errors_total", Counter, &[],
        "Snapshots that could not be written.");
    BUFFERED = read("tidegate_buffered_bytes", Gauge, &[],
        "Bytes of bodies that transfers may hold: an upper estimate.");
    BUFFERED_LIMIT = read("tidegate_buffered_bytes_limit", Gauge, &[],
        "The bound on them: `server.max_buffered`.");
    BUFFERS_REFUSED = read("tidegate_buffers_refused_total", Counter, &[],
        "Transfers refused or cut off because of that bound.");
    PROCESS_RESIDENT = read("process_resident_memory_bytes", Gauge, &[], "Resident memory in bytes.");
    PROCESS_VIRTUAL = read("process_virtual_memory_bytes", Gauge, &[], "Virtual memory in bytes.");
    PROCESS_CPU = read("process_cpu_seconds_total", Counter, &[], "User and system CPU time in seconds.");
    PROCESS_OPEN_FDS = read("process_open_fds", Gauge, &[], "Open file descriptors.");
    PROCESS_MAX_FDS = read("process_max_fds", Gauge, &[], "Most open file descriptors.");
    PROCESS_START = read("process_start_time_seconds", Gauge, &[], "Start of the process, in seconds since 1970.");
    PROCESS_THREADS = read("process_threads", Gauge, &[], "Threads of the process.");
}

/// The lines of `docs/metrics.md`, so that the document can be compared with the program.
pub fn document_lines() -> impl Iterator<Item = String> {
    ALL.iter().map(|family| {
        let labels = if family.labels.is_empty() { String::new() } else { format!("{{{}}}", family.labels.join(",")) };
        format!("- `{}{labels}`: {}", family.name, family.help)
    })
}
