//! A writer of SVG, and of the HTML around it, that cannot write a broken one: what is opened is closed, what is text is
//! escaped.

use std::fmt::{self, Display, Write};

/// Attributes of an element, in their order.
pub type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// A document in the making.
#[derive(Debug, Default)]
pub struct Svg {
    text: String,
}

impl Svg {
    /// An element around whatever `inside` writes, on lines of its own.
    pub fn element(&mut self, name: &str, attributes: Attributes<'_>, inside: impl FnOnce(&mut Svg)) {
        self.open(name, attributes);
        self.text.push_str(">\n");
        inside(self);
        self.close(name);
    }

    /// An element around a text.
    pub fn labelled(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        self.open(name, attributes);
        self.text.push('>');
        escape(text, &mut self.text);
        self.close(name);
    }

    /// An element without content.
    pub fn empty(&mut self, name: &str, attributes: Attributes<'_>) {
        self.open(name, attributes);
        self.text.push_str("/>\n");
    }

    /// An element of HTML that has no end.
    pub fn void(&mut self, name: &str, attributes: Attributes<'_>) {
        self.open(name, attributes);
        self.text.push_str(">\n");
    }

    /// What a writer of this module wrote before.
    pub fn trusted(&mut self, written: &str) {
        self.text.push_str(written);
    }

    /// A text between elements.
    pub fn text(&mut self, text: &str) {
        escape(text, &mut self.text);
    }

    /// What another of these has written, as it is.
    pub fn append(&mut self, other: Svg) {
        self.text.push_str(&other.text);
    }

    /// All that was written.
    pub fn into_text(self) -> String {
        self.text
    }

    fn open(&mut self, name: &str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(name);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(&value.to_string(), &mut self.text);
            self.text.push('"');
        }
    }

    fn close(&mut self, name: &str) {
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
    }
}

/// A coordinate: one decimal at most, so that the same picture is the same text everywhere. What is no finite number is
/// 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At(pub f64);

impl Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() } else { 0.0 };
        // a minus before zero would be another text for the same place
        let tenths = if tenths == 0.0 { 0.0 } else { tenths };
        if tenths % 10.0 == 0.0 { write!(f, "{:.0}", tenths / 10.0) } else { write!(f, "{:.1}", tenths / 10.0) }
    }
}

/// The `d` of a path.
#[derive(Debug, Default)]
pub struct Path {
    text: String,
}

impl Path {
    /// Begins at a point.
    pub fn start(&mut self, x: f64, y: f64) {
        self.command(format_args!("M{} {}", At(x), At(y)));
    }

    /// A horizontal line to `x`.
    pub fn across(&mut self, x: f64) {
        self.command(format_args!("H{}", At(x)));
    }

    /// A vertical line to `y`.
    pub fn along(&mut self, y: f64) {
        self.command(format_args!("V{}", At(y)));
    }

    /// A line to any point.
    pub fn to(&mut self, x: f64, y: f64) {
        self.command(format_args!("L{} {}", At(x), At(y)));
    }

    /// Whether nothing was drawn.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// A line back to where it began.
    pub fn close(&mut self) {
        self.text.push('Z');
    }

    fn command(&mut self, command: fmt::Arguments<'_>) {
        // writing to a string does not fail
        _ = self.text.write_fmt(command);
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Text as it may stand in an element or an attribute. Characters that XML 1.0 cannot hold are left out.
fn escape(text: &str, into: &mut String) {
    for character in text.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() && !matches!(c, '\n' | '\t') => {}
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        let mut svg = Svg::default();
        svg.labelled("text", &[("class", &"a\" onload=\"b")], "</text><script>&\0\u{1b}");
        assert_eq!(svg.into_text(), "<text class=\"a&quot; onload=&quot;b\">&lt;/text&gt;&lt;script&gt;&amp;</text>\n");
    }

    #[test]
    fn a_number_has_one_text() {
        let texts = [0.0, -0.04, 3.0, 2.25, -7.06, f64::NAN, f64::INFINITY, 99.96].map(|number| At(number).to_string());
        assert_eq!(texts, ["0", "0", "3", "2.3", "-7.1", "0", "0", "100"]);
    }
}
