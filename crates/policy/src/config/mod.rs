//! Text → Policy and Settings, or every fault in it.
//!
//! One loader for `check`, start-up and reload, so that what one accepts no other refuses. The steps, each in its file:
//!
//! 1. `source`, `include`: which files; their texts. `parse`, `variable`: a tree of [`node`](self)s, each with its place,
//!    with aliases unfolded and variables replaced.
//! 2. `schema`: every word that exists, declared once; `read`, `shape`, `section`, and the values of `scalar`, `text`,
//!    `pattern`, `word`, `limit_text`, `limit_value`: the tree becomes typed sections, and the same declarations become the JSON Schema.
//! 3. `compile`: sections become a [`Policy`](crate::policy::Policy) and [`Settings`](settings::Settings); names are resolved,
//!    ranges and clashes checked. `preset` and `secret` read what the file refers to.
//! 4. `effective`, `tree`: what is in force, as a policy file again.
//!
//! Faults are gathered in every step (`fault`, `codes`) and drawn by `render`, without what `redact`, `conceal` and `concealed` say is
//! secret. Nothing half-valid comes out: a [`Config`] exists only when there is no error.
//!
//! The YAML library is `granit-parser`, chosen because it is maintained, has no `unsafe` and gives places; `parse` is the only file
//! that knows it.

pub mod case;
mod case_text;
pub mod certificate;
pub mod codes;
mod compile;
pub mod conceal;
pub mod concealed;
mod configuration;
mod connection_value;
pub mod dated;
pub mod day;
mod effective;
pub mod fault;
mod health_text;
mod include;
mod left_edge;
mod limit_text;
mod limit_value;
mod listen_on;
pub mod nearest;
mod networks;
mod node;
mod parse;
mod pattern;
mod place;
pub mod places;
pub mod preset;
mod queue_text;
mod quoted;
mod read;
mod redact;
pub mod reference;
pub mod render;
mod scalar;
pub mod schema;
mod secret;
mod section;
mod setting;
pub mod settings;
mod shape;
pub mod source;
pub mod span;
mod stand_in;
mod store_text;
mod syntax;
mod text;
mod time_zone;
mod tree;
mod variable;
mod web_origin;
mod word;

use std::path::Path;
use std::sync::Arc;

pub use crate::units::amount::{amount_text, rate_text};
use compile::Context;
use concealed::Concealed;
pub use configuration::Config;
use dated::{OLD_AFTER_DAYS, UsedPreset};
pub use dated::{Shadow, UsedCertificate};
use fault::{Code, Diagnostic, Faults};
use include::Reader;
use node::Node;
pub use places::{Place, Places};
use read::Read;
pub use scalar::{duration as duration_text, percent as percent_text};
use schema::{File, TestFile};
use source::Sources;
use span::Span;
pub use tree::Tree;
pub use variable::Environment;

/// There were errors; the diagnostics say which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub errors: usize,
}

/// A certificate with fewer days than this left should have been renewed: the usual tools do so at 30.
pub const EXPIRES_SOON_DAYS: i64 = 14;

/// The result of a load, good or bad.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration, if there was no error.
    pub outcome: Result<Config, Refused>,
    /// Errors and warnings, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
    /// Diagnostics beyond the first few hundred, which were only counted.
    pub left_out: usize,
    /// The texts that the diagnostics point into.
    pub sources: Sources,
    /// The presets in use, for [`Loaded::warn_of_old_presets`].
    pub presets: Vec<UsedPreset>,
    /// The certificates in use, for [`Loaded::warn_of_certificates`].
    pub certificates: Vec<UsedCertificate>,
    /// The limits in shadow that say since when, for [`Loaded::warn_of_old_shadows`].
    pub shadows: Vec<Shadow>,
    /// The place of `stores:`, for [`Loaded::refuse_stores`].
    pub stores: Option<Span>,
    /// The values of variables, which no text may show.
    pub concealed: Concealed,
}

/// A limit that has been in shadow for more days than this is more likely forgotten than still on trial.
pub const OLD_SHADOW_DAYS: i64 = 30;

/// A duration as it is written in policy files, such as `250ms`, `10s`, `1h30m`, `7d`; for verbs and endpoints.
///
/// # Errors
/// It is none; what is allowed.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    <std::time::Duration as read::Scalar>::parse(text).map_err(|wrong| wrong.label)
}

/// Loads a file, or all `*.yaml` of a directory in the order of their names as one configuration.
///
/// `environment` gives the values of variables. Reads files; reads no clock.
pub fn load(path: &Path, environment: &Environment<'_>) -> Loaded {
    let (mut sources, mut faults) = (Sources::default(), Faults::default());
    let mut reader = Reader { sources: &mut sources, faults: &mut faults, environment };
    let (root, directory) = reader.path(path);
    finish(root, &directory, environment, sources, faults)
}

/// Loads a text that messages call `name`; relative paths in it start from `directory`.
pub fn load_text(name: &str, text: &str, environment: &Environment<'_>, directory: &Path) -> Loaded {
    let (mut sources, mut faults) = (Sources::default(), Faults::default());
    let source = sources.add(name, text);
    let root = if text.len() > source::MAX_BYTES {
        faults.push(
            Diagnostic::error(Code::TOO_LARGE, Span::new(source, 0, 0), format!("`{name}` is too large"))
                .label("allowed are 4MiB"),
        );
        None
    } else {
        Reader { sources: &mut sources, faults: &mut faults, environment }.text(source, directory)
    };
    finish(root, directory, environment, sources, faults)
}

/// The steps after the tree.
fn finish(
    root: Option<Node>,
    directory: &Path,
    environment: &Environment<'_>,
    mut sources: Sources,
    mut faults: Faults,
) -> Loaded {
    let (mut presets, mut certificates, mut shadows, mut stores) = (Vec::new(), Vec::new(), Vec::new(), None);
    let concealed = faults.concealed().clone();
    sources.conceal(&concealed);
    let config = root.and_then(|root| {
        let root = left_edge::mended(root, &sources, &mut faults);
        let mut others = Vec::new();
        let conceals = conceal::has_variables(&root);
        if conceals {
            for which in 0..stand_in::STAND_INS {
                let root = conceal::stood_in(&root, which);
                // what is wrong with stand-ins is wrong with nothing
                let (mut sources, mut faults) = (sources.clone(), Faults::default());
                let mut context = Context::new(&root, &mut sources, &mut faults, environment, directory);
                context.stands_in = true;
                let file = File::read(&root, context.faults);
                others.extend(file.map(|file| compile::compile(&file, &mut context).effective));
            }
        }
        let mut context = Context::new(&root, &mut sources, &mut faults, environment, directory);
        let file = File::read(&root, context.faults)?;
        let mut config = compile::compile(&file, &mut context);
        if conceals {
            config.shown = conceal::shown(&root, &config.effective, &others);
            config.places.shown = Some(Arc::new(config.shown.clone()));
        }
        (presets, certificates, shadows) = (context.presets, context.certificates, context.shadows);
        stores = file.stores.get().map(|stores| stores.span);
        Some(config)
    });
    let outcome = match (config, faults.errors()) {
        (Some(config), 0) => Ok(config),
        (_, errors) => Err(Refused { errors }),
    };
    let left_out = faults.left_out();
    let diagnostics = faults.into_sorted();
    Loaded { outcome, diagnostics, left_out, sources, presets, certificates, shadows, stores, concealed }
}

/// That a limit has been in shadow for so many days; the same words wherever it is told.
pub fn old_shadow(limit: &str, days: i64) -> String {
    format!("the limit `{limit}` has been in shadow for {days} days")
}

/// What can be done about it.
pub const OLD_SHADOW_HINT: &str = "enforce it (`enforce: 10%` for a start), remove it, or write a new date";

/// More metric series than this are worth a warning.
pub const MANY_SERIES: usize = 5_000;

/// That there are so many metric series; the same words wherever it is told.
pub fn many_series(series: usize) -> String {
    format!("the configuration makes {series} metric series")
}

/// What can be done about it.
pub const MANY_SERIES_HINT: &str = "more than 5000 cost a Prometheus server dearly; join routes or limits";

impl Loaded {
    /// Adds a warning for every preset whose date lies more than [`OLD_AFTER_DAYS`] before `today`, in days since
    /// 1970-01-01: the caller has a clock, this floor has none.
    pub fn warn_of_old_presets(&mut self, today: i64) {
        for used in &self.presets {
            let Some(age) = used.date.map(|date| today - date).filter(|age| *age > OLD_AFTER_DAYS) else {
                continue;
            };
            let name = &used.name;
            self.diagnostics.push(
                Diagnostic::new(Code::OLD_PRESET, used.at, format!("the preset `{name}` is {age} days old"))
                    .label("the networks may have changed")
                    .help(format!("put a fresh list with its `# date:` into presets.d/{name}.txt beside this file")),
            );
        }
    }

    /// Adds a warning for every limit that has been in shadow for more than [`OLD_SHADOW_DAYS`] by `today`, in days since
    /// 1970-01-01.
    pub fn warn_of_old_shadows(&mut self, today: i64) {
        for Shadow { limit, at, since } in &self.shadows {
            let age = today.saturating_sub(*since);
            if age > OLD_SHADOW_DAYS {
                self.diagnostics.push(
                    Diagnostic::new(Code::OLD_SHADOW, *at, old_shadow(limit, age))
                        .label("it protects nothing meanwhile")
                        .help(OLD_SHADOW_HINT),
                );
            }
        }
    }

    /// Adds a warning for every certificate that is not valid at `now`, in seconds since 1970, or will not be in
    /// [`EXPIRES_SOON_DAYS`].
    pub fn warn_of_certificates(&mut self, now: i64) {
        const DAY: i64 = 86_400;
        for used in &self.certificates {
            let days = used.not_after.saturating_sub(now).div_euclid(DAY);
            let (what, label) = if now < used.not_before {
                ("is not valid yet".to_owned(), "clients will refuse it until its time has come")
            } else if now > used.not_after {
                let past = now.saturating_sub(used.not_after).div_euclid(DAY);
                (format!("expired {past} day{} ago", if past == 1 { "" } else { "s" }), "clients refuse it")
            } else if days < EXPIRES_SOON_DAYS {
                (format!("expires in {days} day{}", if days == 1 { "" } else { "s" }), "clients will refuse it then")
            } else {
                continue;
            };
            self.diagnostics.push(
                Diagnostic::new(Code::CERTIFICATE_TIME, used.at, format!("the certificate `{}` {what}", used.written))
                    .label(label)
                    .help("renew it; the new file is taken over without a restart"),
            );
        }
    }

    /// Adds a warning when the policy makes more than 5,000 metric series: the caller knows the metrics, this floor does not.
    pub fn warn_of_many_series(&mut self, series: usize) {
        if series > MANY_SERIES {
            self.diagnostics.push(
                Diagnostic::new(Code::MANY_SERIES, Span::default(), many_series(series))
                    .label("every route and every limit on it has some")
                    .help(MANY_SERIES_HINT),
            );
        }
    }

    /// Refuses a policy with `stores:`, for a caller that cannot reach any.
    pub fn refuse_stores(&mut self) {
        let Some(at) = self.stores else { return };
        self.diagnostics.push(
            Diagnostic::error(Code::NO_STORES, at, "this tidegate was built without stores")
                .label("needs the feature `store`")
                .help("build it with: cargo build --release --features store")
                .help("or delete `stores:` and each limit's `store:`: each gate then counts for itself"),
        );
        self.outcome = Err(Refused { errors: self.outcome.as_ref().err().map_or(0, |refused| refused.errors) + 1 });
    }

    /// A hash over the names and texts of all files that were read, and over the secrets: another one says that something was
    /// changed, whether what it says now is good or not. Certificates, which are watched by themselves, are not in it.
    pub fn digest(&self) -> [u8; 32] {
        let mut secrets = Vec::new();
        if let Ok(config) = &self.outcome {
            let passwords = config.settings.store_passwords.iter();
            let keys = [&config.settings.client_hmac, &config.settings.previous_client_hmac];
            for secret in keys.into_iter().chain(passwords) {
                // their lengths, so that no two lists run into the same bytes
                let secret = secret.as_ref().map_or(&[][..], |secret| secret.0.as_slice());
                secrets.extend((secret.len() as u64).to_le_bytes());
                secrets.extend(secret);
            }
        }
        self.sources.digest(&secrets)
    }

    /// Reads a file, or all `*.yaml` of a directory, that holds tests alone, and adds them to those of the configuration. What is
    /// wrong with it is added to the diagnostics; an error there refuses the whole. Does nothing where there is no configuration.
    pub fn add_tests(&mut self, path: &Path, environment: &Environment<'_>) {
        let Ok(config) = &mut self.outcome else { return };
        let mut faults = Faults::default();
        let mut reader = Reader { sources: &mut self.sources, faults: &mut faults, environment };
        let (root, _) = reader.path(path);
        self.concealed.add_all(faults.concealed());
        if let Some(file) = root.and_then(|root| TestFile::read(&root, &mut faults)) {
            config.cases.extend(compile::more_cases(&file, &config.policy, &mut faults));
        }
        let errors = faults.errors();
        self.left_out += faults.left_out();
        self.diagnostics.extend(faults.into_sorted());
        if errors > 0 {
            self.outcome = Err(Refused { errors });
        }
    }

    /// How many of the diagnostics are warnings.
    pub fn warnings(&self) -> usize {
        self.diagnostics.iter().filter(|fault| fault.severity() == fault::Severity::Warning).count()
    }
}
