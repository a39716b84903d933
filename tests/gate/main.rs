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
mod access_log;
mod accounted;
mod actions;
mod adaptive;
mod admin;
#[cfg(feature = "store")]
mod alerts;
mod answer_costs;
mod answers;
mod ban_list;
mod bans;
mod both_directions;
mod buffers;
mod campaign;
mod caps;
#[cfg(feature = "store")]
mod cluster_outages;
#[cfg(feature = "store")]
mod cluster_shards;
#[cfg(feature = "store")]
mod cluster_wire;
mod connection_caps;
mod connection_words;
mod criticality;
mod cross_origin;
mod denied;
mod descriptors;
mod direct;
mod edits;
#[cfg(feature = "store")]
mod estimates;
mod expecting;
mod explain;
mod explain_document;
mod failing_origins;
mod fair_door;
mod fair_rate;
mod flood;
mod forged_fields;
mod guessing;
mod h2;
mod handed_over;
mod hostile_origins;
#[cfg(feature = "store")]
mod hostile_stores;
#[cfg(feature = "store")]
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
mod overload;
mod own_answers;
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
#[cfg(feature = "store")]
mod shared_bans;
#[cfg(feature = "store")]
mod shared_campaign;
#[cfg(feature = "store")]
mod shared_holds;
#[cfg(feature = "store")]
mod shared_limits;
#[cfg(feature = "store")]
mod shared_tiers;
#[cfg(feature = "store")]
mod shared_values;
mod shown_commands;
mod shutdown;
mod sick_origins;
mod slow_clients;
#[cfg(feature = "store")]
mod slow_stores;
mod snapshots;
mod socket_activation;
mod startup;
#[cfg(feature = "store")]
mod store;
#[cfg(feature = "store")]
mod store_ready;
mod stubborn;
mod stuck_output;
mod switching;
mod tiny_pieces;
mod tls;
#[cfg(feature = "tui")]
mod top;
mod unix_sockets;
mod untold_fields;
mod upgrade;
mod upgraded;
mod waiting;

#[cfg(not(feature = "store"))]
#[test]
fn without_the_feature_store_its_tests_are_skipped() {
    skips::skip("limits that gates share, and what alerts read of stores", "built without the feature `store`");
}

#[cfg(not(feature = "tui"))]
#[test]
fn without_the_feature_tui_its_tests_are_skipped() {
    skips::skip("`tidegate top`", "built without the feature `tui`");
}
