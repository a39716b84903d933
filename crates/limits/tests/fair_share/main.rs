//! What `fair_share` promises, and what its source gets wrong, in a virtual world. The source's own scenarios and tables stand
//! in `tests/sources`.

mod against_the_source;
mod floods;
mod ground;
mod named;
mod reference;
mod rekeying;
mod shares;
mod simulation;
