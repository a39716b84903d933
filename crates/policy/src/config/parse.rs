//! YAML text → [`Node`] tree: the only file that knows the YAML library.
//!
//! The library gives events with places; this file composes them, because only so every duplicate key, unset variable
//! and unusable part of YAML is found in one pass, each with its place. Depth, nodes and unfolded bytes are bounded, so a
//! file made to harm ("alias bomb") costs milliseconds.
//!
//! Source: YAML 1.2.2; merge keys after the YAML 1.1 type repository (`<<`), which editors and people still use.

use std::cell::RefCell;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, StrInput, Tag};

use super::conceal::is_word;
use super::fault::{Code, Diagnostic, Faults};
use super::node::{Entry, Node, Text, Value};
use super::quoted::quoted;
use super::source::Sources;
use super::span::Span;
use super::syntax;
use super::variable::{self, Environment};

/// Deeper nesting is refused. The deepest field there is lies at depth 7.
const MAX_DEPTH: usize = 64;
/// More nodes, aliases unfolded, are refused: ten thousand routes with every field are half of that.
const MAX_NODES: usize = 200_000;
/// More bytes of text, aliases unfolded, are refused.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Parses one source. `None` when there is nothing to go on with; faults say why.
pub fn parse(source: usize, sources: &Sources, environment: &Environment<'_>, faults: &mut Faults) -> Option<Node> {
    let text = sources.text(source);
    let parser = Parser::new_from_str(text);
    let start = Span::new(source, 0, 0);
    let mut composer =
        Composer { parser, source, text, environment, faults, anchors: HashMap::new(), weight: Weight::default() };
    match composer.document(start) {
        Ok(root) => root,
        Err(fault) => {
            composer.faults.push(*fault);
            None
        }
    }
}

struct Composer<'a> {
    parser: Parser<'a, StrInput<'a>>,
    source: usize,
    text: &'a str,
    environment: &'a Environment<'a>,
    faults: &'a mut Faults,
    /// Finished anchored nodes; one that is still being read is not here, so no node can hold itself.
    anchors: HashMap<usize, (Node, Weight)>,
    weight: Weight,
}

/// What a tree costs.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
}

/// The fault that ends the reading of this source.
type Stop = Box<Diagnostic>;

impl<'a> Composer<'a> {
    /// The one document of the stream.
    fn document(&mut self, start: Span) -> Result<Option<Node>, Stop> {
        let mut root = None;
        let mut documents = 0;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(Box::new(
                            Diagnostic::error(Code::DOCUMENTS, span, "a second YAML document starts here")
                                .label("allowed is one document in a file")
                                .help("remove the `---`, or move the second document into a file of its own"),
                        ));
                    }
                    let Some((event, span)) = self.next()? else { break };
                    root = Some(self.node(event, span, 0)?);
                }
                Event::StreamEnd => break,
                _ => {}
            }
        }
        match root {
            Some(node) if node.value != Value::Nothing => Ok(Some(node)),
            _ => Err(Box::new(
                Diagnostic::error(Code::EMPTY_FILE, start, "the file holds nothing")
                    .help("four lines are enough: `tidegate check --help` shows them"),
            )),
        }
    }

    /// The node that starts with `event`.
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Stop> {
        if depth > MAX_DEPTH {
            return Err(Box::new(
                Diagnostic::error(Code::TOO_COMPLEX, span, "the YAML nests too deeply")
                    .label(format!("allowed are {MAX_DEPTH} levels")),
            ));
        }
        let before = self.weight;
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                (self.scalar(&text, style, span), anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.charge(Weight { nodes: 1, bytes: 0 }, span)?;
                let mut items = Vec::new();
                let end = loop {
                    match self.expect(span)? {
                        (Event::SequenceEnd, end) => break end,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                };
                (Node { span: self.cover(span, end), value: Value::List(items) }, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.charge(Weight { nodes: 1, bytes: 0 }, span)?;
                (self.map(span, depth)?, anchor)
            }
            Event::Alias(id) => {
                let Some((node, weight)) = self.anchors.get(&id) else {
                    return Err(Box::new(
                        Diagnostic::error(Code::UNSUPPORTED_YAML, span, "an alias inside the node that it stands for")
                            .label("this would have no end"),
                    ));
                };
                let (node, weight) = (node.clone(), *weight);
                self.charge(weight, span)?;
                return Ok(node);
            }
            _ => (Node { span, value: Value::Nothing }, 0),
        };
        if let Value::Text(text) = &node.value {
            self.charge(Weight { nodes: 1, bytes: text.text.len() }, span)?;
        }
        if anchor != 0 {
            let weight = Weight { nodes: self.weight.nodes - before.nodes, bytes: self.weight.bytes - before.bytes };
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        Ok(node)
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Node {
        if style != ScalarStyle::Plain {
            if text.contains("${") {
                self.faults.push(
                    Diagnostic::new(Code::QUOTED_VARIABLE, span, "a quoted `${…}` stays as it is")
                        .label("only plain scalars are expanded")
                        .help("remove the quotes if a variable is meant"),
                );
            }
            return Node { span, value: Value::Text(Text { text: text.to_owned(), ..Text::default() }) };
        }
        if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
            return Node { span, value: Value::Nothing };
        }
        let used = RefCell::new(Vec::new());
        let environment = |name: &str| {
            let value = (self.environment)(name);
            used.borrow_mut().extend(value.iter().map(|value| (name.to_owned(), value.clone())));
            value
        };
        let expanded = variable::expand(text, &environment);
        let used = used.into_inner().into_iter().filter(|(_, value)| !is_word(value));
        used.for_each(|(name, value)| self.faults.conceal(&name, value));
        let value = match expanded {
            Ok(None) => Text { text: text.to_owned(), ..Text::default() },
            Ok(Some(expanded)) => Text { text: expanded, written: Some(text.to_owned()), stand_in: None },
            Err(fault) => {
                self.faults.push(Diagnostic::error(Code::VARIABLE, span, fault.message).help(fault.help));
                // the field has been reported; a reader skips nodes that are marked like this
                return Node { span, value: Value::Unset };
            }
        };
        Node { span, value: Value::Text(value) }
    }

    fn map(&mut self, start: Span, depth: usize) -> Result<Node, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<String, Span> = HashMap::new();
        let mut merges: Vec<Node> = Vec::new();
        let end = loop {
            let (event, key_span) = match self.expect(start)? {
                (Event::MappingEnd, end) => break end,
                other => other,
            };
            let key = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    self.refuse_tag(tag.as_deref(), key_span);
                    let plain = style == ScalarStyle::Plain;
                    if anchor != 0 {
                        let value = Value::Text(Text { text: text.to_string(), ..Text::default() });
                        self.anchors.insert(anchor, (Node { span: key_span, value }, Weight { nodes: 1, bytes: 0 }));
                    }
                    Some((text.into_owned(), plain))
                }
                complex => {
                    let key = self.node(complex, key_span, depth + 1)?;
                    self.faults.push(
                        Diagnostic::error(Code::UNSUPPORTED_YAML, key.span, "a field's name must be plain text")
                            .label(format!("found {}", key.kind())),
                    );
                    None
                }
            };
            let (event, span) = self.expect(key_span)?;
            let value = self.node(event, span, depth + 1)?;
            let Some((key, plain)) = key else { continue };
            if key == "<<" && plain {
                merges.push(value);
            } else if let Some(first) = places.get(&key) {
                self.faults.push(
                    Diagnostic::error(Code::DUPLICATE_FIELD, key_span, format!("{} is here twice", quoted(&key)))
                        .label("a second time")
                        .related(*first, "first here")
                        .help("remove one of them"),
                );
            } else {
                places.insert(key.clone(), key_span);
                entries.push(Entry { key, key_span, value });
            }
        };
        self.merge(merges, &mut entries, &mut places);
        Ok(Node { span: self.cover(start, end), value: Value::Map(entries) })
    }

    /// Adds the fields of merged maps: what the map itself says wins, then the earlier merge.
    fn merge(&mut self, merges: Vec<Node>, entries: &mut Vec<Entry>, places: &mut HashMap<String, Span>) {
        let mut queue: Vec<Node> = Vec::new();
        for merge in merges {
            match merge.value {
                Value::List(items) => queue.extend(items),
                _ => queue.push(merge),
            }
        }
        for node in queue {
            let Value::Map(fields) = node.value else {
                self.faults.push(
                    Diagnostic::error(Code::UNSUPPORTED_YAML, node.span, "only maps can be merged with `<<`")
                        .label(format!("found {}", node.kind())),
                );
                continue;
            };
            for field in fields {
                if !places.contains_key(&field.key) {
                    places.insert(field.key.clone(), field.key_span);
                    entries.push(field);
                }
            }
        }
    }

    /// Tags choose types; here the field does.
    fn refuse_tag(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let name = format!("{}{}", tag.original_handle(), tag.suffix());
            self.faults.push(
                Diagnostic::error(Code::UNSUPPORTED_YAML, span, format!("the tag {} has no use here", quoted(&name)))
                    .help("remove the tag: the field decides what its value means"),
            );
        }
    }

    fn charge(&mut self, weight: Weight, span: Span) -> Result<(), Stop> {
        self.weight.nodes = self.weight.nodes.saturating_add(weight.nodes);
        self.weight.bytes = self.weight.bytes.saturating_add(weight.bytes);
        if self.weight.nodes <= MAX_NODES && self.weight.bytes <= MAX_TEXT_BYTES {
            return Ok(());
        }
        Err(Box::new(
            Diagnostic::error(Code::TOO_COMPLEX, span, "the YAML unfolds to too much")
                .label(format!("allowed are {MAX_NODES} nodes and 16MiB of text, aliases counted each time"))
                .help("use fewer aliases, or split the configuration"),
        ))
    }

    /// The next event, or the end of the text, which is a fault inside a node.
    fn expect(&mut self, open: Span) -> Result<(Event<'a>, Span), Stop> {
        self.next()?.ok_or_else(|| Box::new(Diagnostic::error(Code::SYNTAX, open, "the text ends inside this")))
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Stop> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                let span = self.place(&span);
                Ok(Some((event, span)))
            }
            Some(Err(error)) => Err(Box::new(self.syntax(&error))),
        }
    }

    fn place(&self, span: &granit_parser::Span) -> Span {
        let range = span.byte_range().unwrap_or(0..0);
        Span::new(self.source, range.start, range.end)
    }

    /// From the start of one span to the end of another, without the line break and blanks at its end.
    fn cover(&self, start: Span, end: Span) -> Span {
        let range = start.range().start..end.range().end.min(self.text.len());
        let text = self.text.get(range.clone()).unwrap_or("");
        Span::new(self.source, range.start, range.start + text.trim_end().len())
    }

    /// The library's complaint, with help for what goes wrong most.
    fn syntax(&self, error: &ScanError) -> Diagnostic {
        let offset = error.marker().byte_offset().unwrap_or(0).min(self.text.len());
        let at = Span::new(self.source, offset, offset);
        let line_start = self.text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let line = self.text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or("");
        let indent = line.len() - line.trim_start().len();
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            return Diagnostic::error(Code::TOO_COMPLEX, at, "the YAML nests too deeply")
                .label(format!("allowed are {MAX_DEPTH} levels"));
        }
        let info = error.info();
        let detail = info.split_once(", ").filter(|(first, _)| first.starts_with("while ")).map_or(&*info, |(_, d)| d);
        if *error.kind() == ErrorKind::UnknownQuotedScalarEscape
            && let Some((escape, help)) = syntax::escape(self.text, offset)
        {
            let at = Span::new(self.source, escape.start, escape.end);
            let shown = self.text.get(escape).unwrap_or_default();
            let message = format!("`{shown}` is not an escape in a double-quoted text");
            return Diagnostic::error(Code::SYNTAX, at, message).label("not an escape").help(help);
        }
        let fault = Diagnostic::error(Code::SYNTAX, at, "this is not YAML").label(detail);
        if line.get(..indent).is_some_and(|indent| indent.contains('\t')) {
            fault.help("indent with spaces: YAML allows no tabs there")
        } else if *error.kind() == ErrorKind::UnknownAnchor {
            fault.help("a text that starts with `*` needs quotes, as in \"*.example.com\"")
        } else if matches!(error.kind(), ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent) {
            fault.help("a quote that was opened before is not closed")
        } else if line.contains("${") {
            fault.help("inside `{ }` and `[ ]` a `${…}` cannot be written: give the field a line of its own")
        } else if let Some((label, help)) = syntax::indentation(self.text, offset) {
            let at = Span::new(self.source, line_start + indent, line_start + indent);
            Diagnostic::error(Code::SYNTAX, at, "wrong indent").label(label).help(help)
        } else if let Some(help) = syntax::colon(self.text, offset) {
            fault.help(help)
        } else if *error.kind() == ErrorKind::SimpleKeyExpected {
            fault.help("an item of a list begins with `- `, a field of a map with `name: `")
        } else {
            fault
        }
    }
}
