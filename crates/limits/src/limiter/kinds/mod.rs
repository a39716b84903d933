//! The kinds of limit, one per file, named after the word in `type:`.
//!
//! To add a kind, write its file, and add a line to the list below.

mod distinct;
mod fair_share;
pub mod form;
mod inflight;
mod quota;
mod rate;
mod recent_average;

pub use distinct::Distinct;
pub use fair_share::FairShare;
pub use form::{Allowance, Counts, Form, Levels, LimitKind, Part, Shareable, Value};
pub use inflight::Inflight;
pub use quota::Quota;
pub use rate::Rate;
pub use recent_average::RecentAverage;

/// Makes [`Kind`] and [`FORMS`] from the list of the kinds.
macro_rules! kinds {
    ($($kind:ident,)*) => {
        /// What a limit promises: its kind, with numbers. It answers what [`LimitKind`] asks.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Kind {
            $(
                #[doc = concat!("See [`", stringify!($kind), "`].")]
                $kind($kind),
            )*
        }

        /// Every kind before it has numbers, in the order in which texts name them.
        pub const FORMS: &[&Form] = &[$(&$kind::FORM,)*];

        $(
            impl From<$kind> for Kind {
                fn from(kind: $kind) -> Kind {
                    Kind::$kind(kind)
                }
            }
        )*

        impl std::ops::Deref for Kind {
            type Target = dyn LimitKind;

            fn deref(&self) -> &dyn LimitKind {
                match self {
                    $(Kind::$kind(kind) => kind,)*
                }
            }
        }

        impl std::ops::DerefMut for Kind {
            fn deref_mut(&mut self) -> &mut dyn LimitKind {
                match self {
                    $(Kind::$kind(kind) => kind,)*
                }
            }
        }
    };
}

kinds! { Rate, Quota, RecentAverage, Distinct, FairShare, Inflight, }
