//! The kinds of limit, one per file, named after the word in `type:`.
//!
//! To add a kind, write its file, and add a line to the list below. The words that several kinds read stand here too.

pub mod form;
pub mod words;

use std::time::Duration;

pub use form::{Allowance, Bound, Counts, Form, FromWords, Levels, LimitKind, Part, Shareable};
pub use inflight::by_key::{InflightByKey, KeyPermit};
pub use words::{Takes, Value, Word, Words};

/// Makes the modules, [`Kind`] and [`FORMS`] from the list of the kinds.
macro_rules! kinds {
    ($($file:ident: $kind:ident,)*) => {
        $(
            pub mod $file;
            pub use $file::$kind;
        )*

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

kinds! {
    rate: Rate,
    quota: Quota,
    recent_average: RecentAverage,
    distinct: Distinct,
    fair_share: FairShare,
    inflight: Inflight,
}

const RATE: Word = Word {
    in_tier: Some("How fast, for `rate` and `recent_average`, in requests or bytes like the limit's own."),
    ..Word::new(
        "rate",
        Takes::Rate,
        "How fast: `10/s`, `5/m`, `1000/h`, `100/10s`. For `rate` and `recent_average`; must be given. For `rate` it may be of bytes \
         (`20MiB/s`, `512KiB/m`): then the bodies of requests and answers are charged as they pass. For `quota`, `5000/h` and up to \
         `100000/31d` are short for `max` and `window`; for a month say `max` and `per: month`.",
    )
};

const MAX: Word = Word {
    in_tier: Some("How many, for `quota`, `distinct` and `inflight`."),
    ..Word::new(
        "max",
        // an aligned window counts in half of a level, with one number to spare
        Takes::Number(1..=u32::MAX - 1),
        "How many. For `quota` per window, for `distinct` different values per window, for `inflight` at once; must be given (for \
         `quota`, or a `rate`).",
    )
};

const WINDOW: Word = Word::new(
    "window",
    // shorter windows are a rate; longer ones outlive the process that keeps them
    Takes::Duration(Duration::from_secs(1)..=MONTH),
    "In what time: {range}. For `quota` beside `max`, and for `distinct`, where it must be given. Windows follow the clock: those of a \
     whole fraction of a day begin at midnight UTC. For days, weeks and months of a calendar say `per`.",
);

const SLIDING: Word = Word::new(
    "sliding",
    Takes::Flag,
    "Whether windows move along instead of following the clock (default `false`); not with `per`. For `quota` the window before then \
     counts in part; for `distinct`, with windows of up to a day, used-up values come back one by one.",
);

const MAX_PENALTY: Word = Word::new(
    "max_penalty",
    Takes::Duration(Duration::from_secs(1)..=MONTH),
    "How long a key stays out at most after its last request, when refused requests count: {range}. Default: six half-lives; for \
     `distinct` a `window`. For `recent_average` and `distinct` with `count: all`.",
);

const MONTH: Duration = Duration::from_secs(31 * 86_400);
