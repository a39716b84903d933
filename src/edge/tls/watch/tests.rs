use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;
use crate::config::settings::{ClientCertificateMode, ClientCertificates};

/// Some day of 2030 at noon.
const NOW: i64 = 1_900_000_000;

/// A folder with the files of a listener; time is a number of milliseconds.
struct Place {
    folder: PathBuf,
    start: Instant,
}

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-watch-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Place { folder, start: Instant::now() }
    }

    fn file(&self, name: &str) -> FilePath {
        FilePath { path: self.folder.join(name), written: name.to_owned() }
    }

    /// Puts a file there as careful tools do: all at once.
    fn put(&self, name: &str, text: &str) {
        fs::write(self.folder.join("new"), text).unwrap();
        fs::rename(self.folder.join("new"), self.folder.join(name)).unwrap();
    }

    fn put_pair(&self, (cert, key): &(String, String)) {
        self.put("cert.pem", cert);
        self.put("key.pem", key);
    }

    fn watch(&self, clients: bool) -> Watch {
        let files = CertificateFiles { cert: self.file("cert.pem"), key: self.file("key.pem"), names: Vec::new() };
        let client_certificates =
            clients.then(|| ClientCertificates { ca: self.file("ca.pem"), mode: ClientCertificateMode::Required });
        let tls = Tls { certificates: vec![files], client_certificates };
        let listener = Listener { tls: Some(tls), ..Listener::new("https", "127.0.0.1:0".parse().unwrap()) };
        Watch::new(&[listener], |_| vec![b"http/1.1".to_vec()]).unwrap()
    }

    fn poll(&self, watch: &Watch, millis: u64) {
        watch.poll(self.start + Duration::from_millis(millis), NOW);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A certificate for the name, valid for these years, and its key.
fn pair(name: &str, from: i32, to: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn good(name: &str) -> (String, String) {
    pair(name, 2020, 2040)
}

fn shown(watch: &Watch) -> String {
    watch.watched.lock()[0].pairs[0].used.names[0].clone()
}

#[test]
fn a_renewed_pair_is_in_use_at_the_next_look() {
    let place = Place::new();
    place.put_pair(&good("one.test"));
    let watch = place.watch(false);
    assert_eq!((shown(&watch).as_str(), watch.states()[0].certificate.as_str()), ("one.test", "one.test"));
    place.poll(&watch, 0);
    place.put_pair(&pair("two.test", 2020, 2035));
    place.poll(&watch, 250);
    assert_eq!(shown(&watch), "two.test");
    let state = &watch.states()[0];
    // the label stays what it was, so that a series goes on
    assert_eq!(state.certificate, "one.test");
    assert_eq!((state.expires(), state.is_current()), (Some(2_051_222_400), true));
}

#[test]
fn a_certificate_whose_key_comes_later_is_no_fault() {
    let place = Place::new();
    place.put_pair(&good("one.test"));
    let watch = place.watch(false);
    let (cert, key) = good("two.test");
    place.put("cert.pem", &cert);
    place.poll(&watch, 0);
    assert_eq!(shown(&watch), "one.test");
    assert!(watch.states()[0].is_current());
    place.put("key.pem", &key);
    place.poll(&watch, 250);
    assert_eq!(shown(&watch), "two.test");
    assert!(watch.states()[0].is_current());
}

#[test]
fn a_bad_file_keeps_the_old_certificate_and_is_told_of_once_it_stays() {
    let place = Place::new();
    place.put_pair(&good("one.test"));
    let watch = place.watch(false);
    for bad in ["", "nonsense", &good("two.test").0, &good("two.test").1] {
        place.put("cert.pem", bad);
        place.poll(&watch, 0);
        assert!(watch.states()[0].is_current(), "not told of at once");
        place.poll(&watch, 2_000);
        assert!(!watch.states()[0].is_current());
        assert_eq!(shown(&watch), "one.test");
        place.put_pair(&good("one.test"));
        place.poll(&watch, 2_250);
        assert!(watch.states()[0].is_current());
    }
    fs::remove_file(place.folder.join("key.pem")).unwrap();
    place.poll(&watch, 3_000);
    place.poll(&watch, 5_000);
    assert!(!watch.states()[0].is_current());
    assert_eq!(shown(&watch), "one.test");
}

#[test]
fn a_certificate_out_of_its_time_does_not_replace_one_that_is_in_it() {
    let place = Place::new();
    place.put_pair(&good("one.test"));
    let watch = place.watch(false);
    for bad in [pair("old.test", 2020, 2021), pair("early.test", 2035, 2040)] {
        place.put_pair(&bad);
        assert!(!watch.reload(place.start, NOW));
        assert_eq!(shown(&watch), "one.test");
    }
    // time passes, and it is tried again though the files look the same
    let later = place.start + Duration::from_secs(61);
    watch.poll(later, NOW + 6 * 365 * 86_400);
    assert_eq!(shown(&watch), "early.test");
}

#[test]
fn a_file_that_is_being_written_is_left_alone_until_it_rests() {
    let place = Place::new();
    place.put_pair(&good("one.test"));
    let watch = place.watch(false);
    place.poll(&watch, 0);
    let (cert, key) = good("two.test");
    place.put("key.pem", &key);
    fs::write(place.folder.join("cert.pem"), &cert).unwrap();
    place.poll(&watch, 250);
    assert_eq!(shown(&watch), "one.test");
    place.poll(&watch, 500);
    assert_eq!(shown(&watch), "two.test");
}

#[test]
fn symbolic_links_are_followed() {
    let place = Place::new();
    let (old, new) = (good("one.test"), good("two.test"));
    for (version, (cert, key)) in [("1", &old), ("2", &new)] {
        place.put(&format!("cert{version}.pem"), cert);
        place.put(&format!("key{version}.pem"), key);
    }
    let link = |version: &str| {
        for name in ["cert", "key"] {
            let _ = fs::remove_file(place.folder.join(format!("{name}.pem")));
            let target = format!("{name}{version}.pem");
            std::os::unix::fs::symlink(target, place.folder.join(format!("{name}.pem"))).unwrap();
        }
    };
    link("1");
    let watch = place.watch(false);
    assert_eq!(shown(&watch), "one.test");
    link("2");
    place.poll(&watch, 0);
    assert_eq!(shown(&watch), "two.test");
}

#[test]
fn authorities_are_renewed_and_bad_ones_are_not() {
    let place = Place::new();
    place.put_pair(&good("one.test"));
    place.put("ca.pem", &good("authority.test").0);
    let watch = place.watch(true);
    let config = |watch: &Watch| Arc::as_ptr(&watch.acceptor(0).unwrap().config());
    let first = config(&watch);
    place.poll(&watch, 0);
    assert_eq!(config(&watch), first);
    place.put("ca.pem", "nonsense");
    place.poll(&watch, 250);
    place.poll(&watch, 2_250);
    assert_eq!(config(&watch), first);
    let state = &watch.states()[1];
    assert_eq!((state.certificate.as_str(), state.expires(), state.is_current()), ("client_certificates", None, false));
    place.put("ca.pem", &good("other.test").0);
    place.poll(&watch, 2_500);
    assert_ne!(config(&watch), first);
    assert!(state.is_current());
}

#[test]
fn a_start_without_a_good_pair_says_which_file_and_why() {
    let place = Place::new();
    place.put_pair(&(good("one.test").0, good("two.test").1));
    let files = CertificateFiles { cert: place.file("cert.pem"), key: place.file("key.pem"), names: Vec::new() };
    let tls = Tls { certificates: vec![files], client_certificates: None };
    let listener = Listener { tls: Some(tls), ..Listener::new("https", "127.0.0.1:0".parse().unwrap()) };
    let told = Watch::new(&[listener], |_| Vec::new()).unwrap_err().to_string();
    assert!(told.starts_with("listener https: key.pem: the key does not match the certificate; "), "{told}");
}
