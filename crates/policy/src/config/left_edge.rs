//! Entries that lost their indent: `limits:` with nothing in it, and its names below it as if they were sections.

use super::fault::{Code, Diagnostic, Faults};
use super::nearest::nearest;
use super::node::{Entry, Node, Value};
use super::quoted::quoted;
use super::schema::File;
use super::shape::is_extension;
use super::source::Sources;

/// The sections whose entries have names of the operator's own.
const MAPS_OF_NAMES: [&str; 3] = ["limits", "origins", "stores"];

/// Reports such entries as one fault, and moves them to where they belong, so that nothing else is reported for the same reason.
pub fn mended(mut root: Node, sources: &Sources, faults: &mut Faults) -> Node {
    let Value::Map(entries) = &mut root.value else { return root };
    let mut mended: Vec<Entry> = Vec::with_capacity(entries.len());
    let mut lost = false;
    for entry in entries.drain(..) {
        match mended.last_mut().filter(|section| MAPS_OF_NAMES.contains(&&*section.key)) {
            Some(section) if is_lost(&entry, sources) && (lost || section.value.value == Value::Nothing) => {
                if !std::mem::replace(&mut lost, true) {
                    faults.push(report(section, &entry));
                    section.value = Node { span: entry.value.span, value: Value::Map(Vec::new()) };
                }
                if let Value::Map(names) = &mut section.value.value {
                    names.push(entry);
                }
            }
            _ => {
                lost = false;
                mended.push(entry);
            }
        }
    }
    *entries = mended;
    root
}

/// Returns whether an entry of the file stands at the left edge, is a map, and has no name that a section has or nearly has.
fn is_lost(entry: &Entry, sources: &Sources) -> bool {
    let named = File::FIELDS.iter().copied();
    matches!(entry.value.value, Value::Map(_))
        && nearest(&entry.key, named).is_none()
        && !is_extension(&entry.key)
        && sources.position(entry.key_span).column == 1
}

fn report(section: &Entry, entry: &Entry) -> Diagnostic {
    let (section, name) = (quoted(&section.key), quoted(&entry.key));
    Diagnostic::error(Code::EMPTY_VALUE, entry.key_span, format!("{section} has no value, and {name} is not a section"))
        .label(format!("belongs to {section}, if it is indented"))
        .help(format!("put two spaces before {name}, and before all lines of that section"))
}
