//! What `fair_share` promises, and what its source gets wrong, in a virtual world. The source's own scenarios and tables stand
//! in `tests/sources`.

mod against_the_source;
#[allow(dead_code, reason = "another folder rolls it in another way")]
#[path = "../sketch/dice.rs"]
mod dice;
mod floods;
mod ground;
mod interleavings;
#[allow(dead_code, reason = "its vectors are held by another folder")]
#[path = "../sources/rakelimit/reference.rs"]
mod reference;
mod rekeying;
mod shares;
mod simulation;
