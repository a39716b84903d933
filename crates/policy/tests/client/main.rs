//! Who is asking: the numbered vectors, laws that hold for any input, what the origin is told, and keys.

mod forwarded;
mod keys;
mod onward;
mod properties;
mod resolving;
mod support;
mod trust_entries;
mod vectors;
mod x_forwarded_for;
