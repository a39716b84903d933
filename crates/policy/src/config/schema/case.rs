//! `tests`: what a policy's author claims of it.

use std::time::Duration;

use http::{HeaderName, Method};

use crate::config::case_text::{Between, Sender, Target};
use crate::config::pattern::ExactText;
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::text::FieldValue;
use crate::units::Bytes;

use super::TextForm;

section! {
    /// A file of tests alone, as `tidegate test -t` reads it.
    TestFile ("a map with `tests`") {
        /// The tests.
        required tests: List<Test>,
    }
    later: []
}

section! {
    /// Requests, and what must come of them. `tidegate test` sends them through the real limits under a clock of their own, so that
    /// a month takes milliseconds. Every test begins with nothing counted, at the beginning of a window of every quota.
    Test ("a map with `name`, `send` and `expect`") {
        /// What is claimed, in a sentence.
        required name: String,
        /// The requests: a map of those that are alike, or a list of such maps, one after the other.
        required send: OneOrMany<Send>,
        /// What must come of all requests of the test together.
        optional expect: Expect,
    }
    later: []
}

section! {
    /// Requests that are alike. In `url` and in the values of `headers`, `{n}` stands for the request's number, from 1.
    Send ("a map with `url`") {
        /// Where to: `https://shop.example.com/login`, or a path alone where the host does not matter.
        required url: Target,
        /// Whose connection it comes on: an address, `unix`, or a network, of which each request comes from the next address (in
        /// IPv6 wider than /64, from the next /64). A list is gone through in turn. What a proxy says of others goes into `headers`.
        /// Default 192.0.2.1.
        optional from: OneOrMany<Sender>,
        /// Default GET.
        optional method: Method,
        /// The request's fields.
        optional headers: Keyed<HeaderName, OneOrMany<String>>,
        /// The size of the request's body.
        optional body: Bytes [default 0B],
        /// How many. Default 1, or as many as `every` fits into `for`.
        optional n: Count,
        /// From one to the next. Default 0s: all at once, which is in their order all the same.
        optional every: Duration,
        /// For how long to go on, in the place of `n`.
        optional r#for: Duration,
        /// When the first is sent, from the beginning of the test.
        optional at: Duration,
        /// When the first is sent, from the last of the map before. Default 0s.
        optional after: Duration,
        /// What the origin answers to those that reach it: a status, or a map. Default 200.
        optional answer: Either<Count, Reply>,
        /// What must come of these requests.
        optional expect: Expect,
    }
    later: []
}

section! {
    /// What the origin answers.
    Reply ("a map with `status`") {
        /// The status.
        optional status: Count [200 to 599, default 200],
        /// Its fields.
        optional headers: Keyed<HeaderName, OneOrMany<FieldValue>>,
        /// The size of its body.
        optional body: Bytes [default 0B],
        /// How long the origin takes to answer; so long the request is under way.
        optional takes: Duration [default 0s],
    }
    later: []
}

section! {
    /// What must come of requests. A number or a duration may be a range: `5`, `90..110`, `3..` (or more), `..3` (or less).
    Expect ("a map") {
        /// How many are let through, to the origin or to the route's own answer.
        optional allowed: Between<Count>,
        /// How many a limit or an origin's cap refuses.
        optional limited: Between<Count>,
        /// Who refuses each of those: a limit's name, or `origin:NAME` for the cap of an origin; one of a list.
        optional by: OneOrMany<String>,
        /// How many a limit in shadow mode would have refused.
        optional shadowed: Between<Count>,
        /// The limits in shadow mode that would have refused each of those; one of a list.
        optional shadowed_by: OneOrMany<String>,
        /// How many are held back before they go on.
        optional delayed: Between<Count>,
        /// For how long each of those is held back.
        optional delay: Between<Duration>,
        /// How many pass although they are over a limit, because its action is `tag`.
        optional tagged: Between<Count>,
        /// The status that each is answered with; one of a list.
        optional status: OneOrMany<Count>,
        /// The name of the route that takes each.
        optional route: String,
        /// The client that each counts for: its address, or the network that it is counted by.
        optional client: String,
        /// What each refused request is told in `Retry-After`.
        optional retry_after: Between<Duration>,
        /// Fields of the answer to the last request: the exact value, or a map with `exact` or `regex`.
        optional headers: Keyed<HeaderName, Either<ExactText, TextForm>>,
    }
    later: []
}
