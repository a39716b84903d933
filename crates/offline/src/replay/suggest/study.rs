//! The first pass: every request of the log goes to the frontiers of the groups that it belongs to.

use super::class::Class;
use super::frontier::Frontier;
use super::grid;
use super::plan::{self, Limit, Scope};
use crate::policy::{Policy, Route};
use crate::sketch::KeyHash;
use crate::units::{Cost, OutOfRange, Rate, Timestamp};

/// Requests that get proposals of their own.
#[derive(Debug)]
pub struct Group {
    /// The first part of its limits' names.
    pub name: String,
    /// What it is, for people.
    pub told: String,
    /// In a proposed policy, whose limits count it.
    pub class: Class,
    /// What its clients would need.
    pub frontier: Frontier,
}

/// What was seen and not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uncounted {
    /// Static files.
    pub static_files: u64,
    /// Beside the chosen path or method, or on no route.
    pub elsewhere: u64,
    /// Without the header, cookie or parameter of the key.
    pub keyless: u64,
}

/// Requests of a log, told apart and counted.
#[derive(Debug)]
pub struct Study {
    groups: Vec<Group>,
    /// By route of the policy: positions in `groups`.
    of_route: Vec<Vec<usize>>,
    /// By route: whether it is that of static files.
    is_static: Vec<bool>,
    by_route: bool,
    seen: u64,
    uncounted: Uncounted,
    first: Timestamp,
    last: Timestamp,
}

impl Study {
    /// A study by classes of requests. `policy` is [`outline_policy`], loaded. At most so many clients of each class are
    /// followed at once.
    ///
    /// # Errors
    /// Never in practice: the grid would need a rate that no limit can have.
    pub fn by_class(scope: &Scope, policy: &Policy, most: usize) -> Result<Study, OutOfRange> {
        let whole = if scope.is_narrowed() { Class::Chosen } else { Class::All };
        let parts = scope.classes().iter().copied().filter(|class| scope.counts(*class) && *class != Class::Chosen);
        let classes: Vec<Class> = std::iter::once(whole).chain(parts).collect();
        let group = |class: &Class| {
            let frontier = Frontier::new(grid::rates(), most)?;
            Ok(Group { name: class.name().into(), told: class.told().into(), class: *class, frontier })
        };
        let groups = classes.iter().map(group).collect::<Result<Vec<_>, OutOfRange>>()?;
        let of_name = |name: &str| scope.classes().iter().copied().find(|class| class.name() == name);
        let routes: Vec<Option<Class>> = policy.routes.iter().map(|route| of_name(&route.name)).collect();
        let of_route = routes.iter().map(|class| {
            let Some(class) = class.filter(|class| scope.counts(*class)) else { return Vec::new() };
            let of = |(index, of): (usize, &Class)| (*of == Class::All || *of == class).then_some(index);
            classes.iter().enumerate().filter_map(of).collect()
        });
        let of_route = of_route.collect();
        let is_static = routes.iter().map(|class| *class == Some(Class::Static)).collect();
        Ok(Study::new(groups, of_route, is_static, false))
    }

    /// A study by the routes of an operator's own policy.
    ///
    /// # Errors
    /// The same.
    pub fn by_route(policy: &Policy, most: usize) -> Result<Study, OutOfRange> {
        let group = |route: &Route| {
            let frontier = Frontier::new(grid::rates(), most)?;
            let told = format!("the route `{}`", route.name);
            Ok(Group { name: route.name.clone(), told, class: Class::All, frontier })
        };
        let groups = policy.routes.iter().map(group).collect::<Result<Vec<_>, OutOfRange>>()?;
        let of_route = (0..groups.len()).map(|index| vec![index]).collect();
        let is_static = vec![false; groups.len()];
        Ok(Study::new(groups, of_route, is_static, true))
    }

    fn new(groups: Vec<Group>, of_route: Vec<Vec<usize>>, is_static: Vec<bool>, by_route: bool) -> Study {
        Study {
            groups,
            of_route,
            is_static,
            by_route,
            seen: 0,
            uncounted: Uncounted::default(),
            first: Timestamp::ZERO,
            last: Timestamp::ZERO,
        }
    }

    /// The groups that requests of a route belong to, by their places in [`Study::groups`]; why they are none otherwise.
    ///
    /// # Errors
    /// None counts them.
    pub fn sort(&self, route: Option<usize>) -> Result<&[usize], Nowhere> {
        let Some(groups) = route.and_then(|route| self.of_route.get(route)) else { return Err(Nowhere::Elsewhere) };
        if groups.is_empty() {
            let is_static = route.is_some_and(|route| self.is_static.get(route) == Some(&true));
            return Err(if is_static { Nowhere::Static } else { Nowhere::Elsewhere });
        }
        Ok(groups)
    }

    /// Counts a request, as the engine judged it by the study's policy: its route, and what it is counted by.
    pub fn observe(&mut self, route: Option<usize>, key: Option<KeyHash>, now: Timestamp) {
        if self.seen == 0 {
            self.first = now;
        }
        self.last = self.last.max(now);
        self.seen += 1;
        let of_route = route.and_then(|route| self.of_route.get(route)).map(Vec::as_slice).unwrap_or_default();
        let nowhere = match (of_route, key) {
            ([], _) => self.sort(route).err().unwrap_or(Nowhere::Elsewhere),
            (_, None) => Nowhere::Keyless,
            (groups, Some(key)) => {
                for index in groups {
                    if let Some(group) = self.groups.get_mut(*index) {
                        group.frontier.observe(key, now, Cost::ONE);
                    }
                }
                return;
            }
        };
        let count = &mut self.uncounted;
        *match nowhere {
            Nowhere::Static => &mut count.static_files,
            Nowhere::Elsewhere => &mut count.elsewhere,
            Nowhere::Keyless => &mut count.keyless,
        } += 1;
    }

    /// All groups, those without requests too; the first holds all that is counted, unless they are routes.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether groups are the routes of an operator's own policy, not classes of requests.
    pub fn is_by_route(&self) -> bool {
        self.by_route
    }

    /// Requests seen, counted or not.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// What was not counted.
    pub fn uncounted(&self) -> Uncounted {
        self.uncounted
    }

    /// Seconds from the first request to the last.
    pub fn span_seconds(&self) -> f64 {
        self.last.since(self.first).as_secs_f64()
    }
}

/// Why a request is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nowhere {
    /// It asks for a static file.
    Static,
    /// It is beside the chosen path or method, or on no route.
    Elsewhere,
    /// It lacks the key.
    Keyless,
}

/// Limits for [`plan::policy`] before there are any numbers.
pub fn outline() -> Vec<Limit> {
    let rate = Rate::new(1, std::time::Duration::from_secs(1)).ok();
    let limit =
        |rate| Limit { name: "outline".into(), class: Class::All, rate, burst: 1, memory: None, remarks: Vec::new() };
    rate.map(limit).into_iter().collect()
}

/// The text that tells requests apart; see [`Study::by_class`].
pub fn outline_policy(scope: &Scope) -> String {
    plan::policy(scope, &outline(), &[])
}
