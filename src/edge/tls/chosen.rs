//! Chooses the certificate for a client: the one for exactly the name it asks for, else one with a wildcard for its first label,
//! else the first (RFC 6066 section 3, RFC 9525 section 6.3).
//!
//! The table is immutable and swapped as a whole, so a handshake sees one state of it and never waits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// The certificates of one listener at one moment.
#[derive(Debug)]
pub struct Table {
    first: Arc<CertifiedKey>,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what follows the star, dot included.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
}

impl Table {
    /// The certificates with the names that each is shown for, in lower case; `None` without any. Of two with one name the
    /// earlier has it.
    pub fn new<'a>(certificates: impl IntoIterator<Item = (&'a [String], Arc<CertifiedKey>)>) -> Option<Table> {
        let mut table: Option<Table> = None;
        for (names, key) in certificates {
            let table = table.get_or_insert_with(|| Table {
                first: Arc::clone(&key),
                exact: HashMap::new(),
                wildcard: HashMap::new(),
            });
            for name in names {
                let (map, name) = match name.strip_prefix('*') {
                    Some(suffix) => (&mut table.wildcard, suffix),
                    None => (&mut table.exact, name.as_str()),
                };
                map.entry(name.to_owned()).or_insert_with(|| Arc::clone(&key));
            }
        }
        table
    }

    /// The certificate for the name, in whatever case and with or without the last dot; without a name, the first.
    pub fn find(&self, name: Option<&str>) -> &Arc<CertifiedKey> {
        let Some(name) = name else { return &self.first };
        let name = name.strip_suffix('.').unwrap_or(name);
        let name = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
        let by_wildcard = || self.wildcard.get(name.get(name.find('.').filter(|dot| *dot > 0)?..)?);
        self.exact.get(&*name).or_else(by_wildcard).unwrap_or(&self.first)
    }
}

/// The table that is in use now.
#[derive(Debug)]
pub struct Chosen(ArcSwap<Table>);

impl Chosen {
    /// Begins with this table.
    pub fn new(table: Table) -> Chosen {
        Chosen(ArcSwap::from_pointee(table))
    }

    /// From the next handshake on this table is used.
    pub fn swap(&self, table: Table) {
        self.0.store(Arc::new(table));
    }
}

impl ResolvesServerCert for Chosen {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.0.load().find(hello.server_name())))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;

    fn key() -> Arc<CertifiedKey> {
        let pair = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&pair).unwrap();
        let key = PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
        Arc::new(CertifiedKey::from_der(vec![certificate.der().clone()], key, &ring::default_provider()).unwrap())
    }

    /// Asks a table of three: `first.test`, `*.wild.test`, `one.wild.test`. Says which is chosen, from 0.
    fn asked(name: Option<&str>) -> usize {
        let names = [vec!["first.test".to_owned()], vec!["*.wild.test".to_owned()], vec!["one.wild.test".to_owned()]];
        let keys = [key(), key(), key()];
        let table = Table::new(names.iter().map(Vec::as_slice).zip(keys.iter().cloned())).unwrap();
        let found = table.find(name);
        keys.iter().position(|key| Arc::ptr_eq(key, found)).unwrap()
    }

    #[test]
    fn the_exact_name_goes_before_the_wildcard_and_the_wildcard_before_the_first() {
        assert_eq!(asked(Some("one.wild.test")), 2);
        assert_eq!(asked(Some("two.wild.test")), 1);
        assert_eq!(asked(Some("other.test")), 0);
        assert_eq!(asked(None), 0);
    }

    #[test]
    fn a_wildcard_stands_for_one_label_only() {
        assert_eq!(asked(Some("a.b.wild.test")), 0);
        assert_eq!(asked(Some("wild.test")), 0);
        assert_eq!(asked(Some(".wild.test")), 0);
        assert_eq!(asked(Some("")), 0);
        assert_eq!(asked(Some("wild")), 0);
    }

    #[test]
    fn case_and_the_last_dot_do_not_matter() {
        assert_eq!(asked(Some("ONE.Wild.Test")), 2);
        assert_eq!(asked(Some("TWO.wild.TEST.")), 1);
    }

    #[test]
    fn of_two_with_one_name_the_earlier_has_it() {
        let name = ["a.test".to_owned()];
        let keys = [key(), key()];
        let table = Table::new(keys.iter().map(|key| (name.as_slice(), Arc::clone(key)))).unwrap();
        assert!(Arc::ptr_eq(table.find(Some("a.test")), &keys[0]));
        assert!(Table::new([]).is_none());
    }
}
