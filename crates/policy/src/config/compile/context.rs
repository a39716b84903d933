//! What compiling needs beside the file.

use std::path::Path;

use crate::config::dated::{Shadow, UsedCertificate, UsedPreset};
use crate::config::fault::Faults;
use crate::config::node::Node;
use crate::config::source::Sources;
use crate::config::span::Span;
use crate::config::variable::Environment;

/// What compiling needs beside the file.
pub struct Context<'a> {
    /// Where faults go.
    pub faults: &'a mut Faults,
    /// The texts read so far; lists of networks are added.
    pub sources: &'a mut Sources,
    /// Variables.
    pub environment: &'a Environment<'a>,
    /// What relative paths start from.
    pub directory: &'a Path,
    /// The presets that were used, with their dates.
    pub presets: Vec<UsedPreset>,
    /// The certificates that were read, with their times.
    pub certificates: Vec<UsedCertificate>,
    /// The limits in shadow that say since when.
    pub shadows: Vec<Shadow>,
    /// Where faults of the whole are shown.
    pub start: Span,
    /// Whether stand-ins are compiled, of which only the effective text is wanted, as far as it can be had.
    pub stands_in: bool,
}

impl<'c> Context<'c> {
    /// For the file whose tree this is.
    pub fn new(
        root: &Node,
        sources: &'c mut Sources,
        faults: &'c mut Faults,
        environment: &'c Environment<'c>,
        directory: &'c Path,
    ) -> Context<'c> {
        let start = Span::new(root.span.source(), root.span.range().start, root.span.range().start);
        let (presets, certificates, shadows) = Default::default();
        Context { faults, sources, environment, directory, presets, certificates, shadows, start, stands_in: false }
    }
}
