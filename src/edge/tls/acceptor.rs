//! What one listener does TLS with.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::chosen::{Chosen, Table};
use crate::config::settings::ClientCertificateMode;

/// One listener's TLS. Cheap to ask, swapped without disturbing anybody.
#[derive(Debug)]
pub struct Acceptor {
    chosen: Arc<Chosen>,
    alpn: Vec<Vec<u8>>,
    asks: Option<ClientCertificateMode>,
    config: ArcSwap<ServerConfig>,
}

impl Acceptor {
    /// Shows certificates from `table`, speaks the protocols of `alpn` in the order of our preference, and asks clients for a
    /// certificate from these authorities, if any.
    ///
    /// # Errors
    /// No randomness for the tickets' keys, or authorities that cannot be used; the text says which.
    pub fn new(
        table: Table,
        alpn: Vec<Vec<u8>>,
        clients: Option<(RootCertStore, ClientCertificateMode)>,
    ) -> Result<Acceptor, String> {
        let chosen = Arc::new(Chosen::new(table));
        let asks = clients.as_ref().map(|(_, mode)| *mode);
        let config = config(&chosen, &alpn, clients)?;
        Ok(Acceptor { chosen, alpn, asks, config: ArcSwap::from_pointee(config) })
    }

    /// From the next handshake on these certificates are shown. Connections that stand go on.
    pub fn swap_certificates(&self, table: Table) {
        self.chosen.swap(table);
    }

    /// From the next handshake on clients are asked for a certificate from these authorities. Without effect where none is
    /// asked for.
    ///
    /// # Errors
    /// As [`Acceptor::new`]; then everything stays as it was.
    pub fn swap_authorities(&self, authorities: RootCertStore) -> Result<(), String> {
        if let Some(mode) = self.asks {
            self.config.store(Arc::new(config(&self.chosen, &self.alpn, Some((authorities, mode)))?));
        }
        Ok(())
    }

    /// Whether clients are asked for a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.asks.is_some()
    }

    /// What the next handshake is made with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}

fn config(
    chosen: &Arc<Chosen>,
    alpn: &[Vec<u8>],
    clients: Option<(RootCertStore, ClientCertificateMode)>,
) -> Result<ServerConfig, String> {
    // named, so that whatever another crate installs for the process does not matter
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| error.to_string())?;
    let asks = clients.is_some();
    let builder = match clients {
        Some((authorities, mode)) => builder.with_client_cert_verifier(verifier(authorities, mode, provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::clone(chosen) as _);
    config.alpn_protocols = alpn.to_vec();
    if asks {
        // a resumed session would vouch for a client whose certificate has ended or whose authority is no longer trusted
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else {
        config.ticketer = ring::Ticketer::new().map_err(|error| error.to_string())?;
    }
    Ok(config)
}

fn verifier(
    authorities: RootCertStore,
    mode: ClientCertificateMode,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn tokio_rustls::rustls::server::danger::ClientCertVerifier>, String> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    let builder = match mode {
        ClientCertificateMode::Required => builder,
        ClientCertificateMode::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| error.to_string())
}
