//! The gate as its users meet it: the built binary as a child process, driven through real sockets.
//!
//! Nothing here links against the library, but for `store`, which drives the face of stores by itself. `harness` holds the
//! tools (a running gate, a scripted origin, a byte-level client); every other file is one claim about the running program. Time is allowed to pass but never decides: waits
//! poll for what they want until a generous deadline, and checks of rates use the stamps that the gate judged by.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a tool of a test fails by a panic, as the test does"
)]

mod harness;
#[path = "../skips/mod.rs"]
mod skips;

mod abandoned;
mod accept_refusal;
mod accounted;
mod actions;
mod adaptive;
mod admin;
mod alerts;
mod answer_costs;
mod answers;
mod buffers;
mod caps;
mod cluster_outages;
mod cluster_shards;
mod cluster_wire;
mod connection_caps;
mod connection_words;
mod descriptors;
mod edits;
mod estimates;
mod expecting;
mod explain;
mod explain_document;
mod failing_origins;
mod fair_floods;
mod flood;
mod forged_fields;
mod guessing;
mod h2;
mod hostile_origins;
mod hostile_stores;
mod hot_keys;
mod identity;
mod leaving_clients;
mod malformed;
mod memory;
mod most_refused;
mod notices;
mod notify;
mod observed;
mod one_judgement;
mod origin_answers;
mod origins_tls;
mod own_limit;
mod page;
mod passing;
mod promise;
mod protected_paths;
mod proxy_protocol;
mod quiet_log;
mod real_clients;
mod real_logs;
mod reload;
mod replayed;
mod respelled;
mod secrets;
mod shared_limits;
mod shared_tiers;
mod shutdown;
mod sick_origins;
mod slow_clients;
mod slow_stores;
mod socket_activation;
mod startup;
mod store;
mod store_ready;
mod stubborn;
mod stuck_output;
mod switching;
mod tiny_pieces;
mod tls;
mod top;
mod unix_sockets;
mod untold_fields;
mod upgrade;
mod upgraded;
mod waiting;
